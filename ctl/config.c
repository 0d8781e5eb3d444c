/* Reads the daemons' addresses and tokens from the file, then from the environment.
 *
 * why_private: a token in a file that others can read is not secret, so such a file is refused. */
#include "ctl/config.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config_file.h"
#include "base/memory.h"
#include "ctl/output/say.h"

#define DEFAULT_ADDRESS "http://127.0.0.1:8080"
enum { PATH_SIZE = 4096 };

#define CTL_SETTING_ROW(id, name, variable, help) {name, variable, help},
const struct setting_row setting_rows[SETTING_COUNT] = {CTL_SETTINGS(CTL_SETTING_ROW)};
#undef CTL_SETTING_ROW

struct value {
    const char *text;   /* within the file or the environment */
    const char *origin; /* the file or the variable, for messages; NULL: not set */
};

/* ---- addresses ---- */

/* Accepts the part after the scheme without a user or a path: the program adds token and path. */
static bool is_host(const char *text)
{
    return *text != '\0' && !strpbrk(text, "/@?#");
}

bool address_parse(const char *text, struct address *address_out)
{
    *address_out = (struct address){.shown = ""};
    size_t length = strlen(text);
    if (length == 0 || !text_visible(text) || length + sizeof "http://" > ADDRESS_SIZE)
        return false;
    memcpy(address_out->shown, text, length + 1);
    const char *path = strncmp(text, "unix:", 5) == 0 ? text + 5 : text;
    if (*path == '/') {
        strcpy(address_out->socket, path);
        strcpy(address_out->base, "http://localhost");
        return true;
    }
    const char *scheme = strstr(text, "://");
    bool known = !scheme || strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0;
    sprintf(address_out->base, "%s%s", scheme ? "" : "http://", text);
    char *host = strstr(address_out->base, "://") + 3;
    size_t host_length = strlen(host);
    if (host_length > 0 && host[host_length - 1] == '/') /* as copied from a browser */
        host[host_length - 1] = '\0';
    return known && path == text && is_host(host);
}

void config_use_pod(struct config *config, size_t pod)
{
    assert(pod < config->pod_count);
    config->pod = pod;
    config->admin = config->pods[pod].admin;
    config->admin_count = config->pods[pod].admin_count;
    config->shop = config->proxy.shown[0] ? &config->proxy : config->admin;
}

static bool refuse_address(const struct value *value, const char *name)
{
    return REFUSE(false, "%s: %s: an address is http://host:port, host:port or unix:/path",
                  value->origin, name);
}

/* Reads the addresses of one pod. `text` is overwritten. */
static bool read_pod(struct pod *pod, char *text, const struct value *value)
{
    char *rest = NULL;
    pod->admin_count = 0;
    for (char *word = strtok_r(text, ", \t", &rest); word; word = strtok_r(NULL, ", \t", &rest)) {
        if (pod->admin_count == DAEMONS_MAX)
            return REFUSE(false, "%s: admin: more than %d addresses of one pod", value->origin,
                          DAEMONS_MAX);
        if (!address_parse(word, &pod->admin[pod->admin_count++]))
            return refuse_address(value, "admin");
    }
    if (pod->admin_count == 0)
        say("%s: admin: a pod has no address", value->origin);
    return pod->admin_count > 0;
}

static bool read_pods(struct config *config, const struct value *value)
{
    char *text = memory_must(strdup(value->text)), *rest = text;
    bool good = true;
    for (config->pod_count = 0; good && rest; config->pod_count++) {
        char *pod = strsep(&rest, ";");
        good = config->pod_count < PODS_MAX;
        if (!good)
            say("%s: admin: more than %d pods", value->origin, PODS_MAX);
        good = good && read_pod(&config->pods[config->pod_count], pod, value);
    }
    free(text);
    return good;
}

static bool read_addresses(struct config *config, const struct value *values)
{
    static const struct value usual = {.text = DEFAULT_ADDRESS, .origin = DEFAULT_ADDRESS};
    const struct value *admin = &values[SETTING_ADMIN], *shop = &values[SETTING_SHOP];
    if (!read_pods(config, admin->origin ? admin : &usual))
        return false;
    if (shop->origin && !address_parse(shop->text, &config->proxy))
        return refuse_address(shop, "shop");
    config_use_pod(config, 0);
    return true;
}

/* ---- tokens ---- */

static bool take_token(const char *text, const char *origin, char token_out[TOKEN_SIZE])
{
    if (*text == '\0' || !text_visible(text) || strchr(text, ',') || strlen(text) >= TOKEN_SIZE)
        return REFUSE(false,
                      "%s: a token has 1 to %d visible ASCII characters, no blank and no comma",
                      origin, TOKEN_SIZE - 1);
    strcpy(token_out, text);
    return true;
}

static bool is_private(const char *path)
{
    struct stat status;
    if (stat(path, &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & S_IROTH) != 0)
        return REFUSE(false, "%s: everybody can read this file with a token: chmod o= it", path);
    return true;
}

static void forget(char *text)
{
    if (text)
        explicit_bzero(text, CONFIG_FILE_MAX + 1);
    free(text);
}

static bool read_token_file(const char *path, char token_out[TOKEN_SIZE])
{
    const char *reason, *token = "";
    char *text = text_read_file(path, &reason), *rest = text;
    if (!text)
        return REFUSE(false, "%s: %s", path, reason);
    while (*token == '\0' && rest)
        token = text_trim(strsep(&rest, "\n"));
    bool good = is_private(path) && take_token(token, path, token_out);
    forget(text);
    return good;
}

static bool read_token(const struct value *token, const struct value *file,
                       char token_out[TOKEN_SIZE])
{
    if (token->origin && file->origin)
        return REFUSE(false, "%s: both a token and a file with a token", token->origin);
    if (token->origin)
        return take_token(token->text, token->origin, token_out);
    return !file->origin || read_token_file(file->text, token_out);
}

/* ---- the file and the environment ---- */

static bool set_value(struct value *values, const char *name, const char *text, const char *origin)
{
    for (int i = 0; i < SETTING_COUNT; i++) {
        if (strcmp(setting_rows[i].name, name) != 0)
            continue;
        values[i] = (struct value){text, origin};
        return true;
    }
    return false;
}

/* Reads one line "name = value", blank, or a comment. */
static bool read_line(struct value *values, char *line, const char *path, unsigned number)
{
    char *name = text_trim(line);
    if (*name == '\0' || *name == '#')
        return true;
    char *equals = strchr(name, '=');
    if (equals) {
        *equals = '\0';
        if (set_value(values, text_trim(name), text_trim(equals + 1), path))
            return true;
    }
    return REFUSE(false, "%s:%u: not a line \"name = value\" with a known name", path, number);
}

/* The caller forgets `text_out` when the values are no longer needed. */
static bool read_file(struct value *values, const char *path, char **text_out)
{
    const char *reason;
    unsigned number = 1;
    char *rest = *text_out = text_read_file(path, &reason);
    bool good = true;
    if (!rest)
        return REFUSE(false, "%s: %s", path, reason);
    for (; good && rest; number++)
        good = read_line(values, strsep(&rest, "\n"), path, number);
    if (values[SETTING_ADMIN_TOKEN].origin || values[SETTING_SHOP_TOKEN].origin)
        good = good && is_private(path);
    return good;
}

/* False if the environment names no home. */
static bool usual_path(char path_out[PATH_SIZE])
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (config && *config == '/')
        return snprintf(path_out, PATH_SIZE, "%s/seckillctl", config) < PATH_SIZE;
    return home && *home &&
           snprintf(path_out, PATH_SIZE, "%s/.config/seckillctl", home) < PATH_SIZE;
}

/* A variable with a token replaces the file's token file, and the other way round. */
static void read_environment(struct value *values)
{
    static const enum setting other[SETTING_COUNT] = {
        [SETTING_ADMIN_TOKEN] = SETTING_ADMIN_TOKEN_FILE,
        [SETTING_ADMIN_TOKEN_FILE] = SETTING_ADMIN_TOKEN,
        [SETTING_SHOP_TOKEN] = SETTING_SHOP_TOKEN_FILE,
        [SETTING_SHOP_TOKEN_FILE] = SETTING_SHOP_TOKEN,
    };
    for (int i = SETTING_ADMIN_TOKEN; i < SETTING_COUNT; i++)
        if (getenv(setting_rows[i].variable) && !getenv(setting_rows[other[i]].variable))
            values[other[i]].origin = NULL;
    for (int i = 0; i < SETTING_COUNT; i++) {
        const char *text = getenv(setting_rows[i].variable);
        if (text && *text)
            set_value(values, setting_rows[i].name, text, setting_rows[i].variable);
    }
}

static bool read_values(struct config *config, const struct value *values)
{
    return read_addresses(config, values) &&
           read_token(&values[SETTING_ADMIN_TOKEN], &values[SETTING_ADMIN_TOKEN_FILE],
                      config->admin_token) &&
           read_token(&values[SETTING_SHOP_TOKEN], &values[SETTING_SHOP_TOKEN_FILE],
                      config->shop_token);
}

bool config_load(struct config *config_out, const char *path)
{
    char usual[PATH_SIZE], *text = NULL;
    struct value values[SETTING_COUNT] = {{.text = NULL}};
    *config_out = (struct config){.pod_count = 0};
    if (!path && usual_path(usual) && (access(usual, F_OK) == 0 || errno != ENOENT))
        path = usual;
    bool good = !path || read_file(values, path, &text);
    read_environment(values);
    good = good && read_values(config_out, values);
    forget(text);
    return good;
}
