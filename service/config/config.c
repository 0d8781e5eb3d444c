/* Loads the options: defaults, file, environment and flags become one checked struct. */
#include "service/config/config_private.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "service/log.h"

static void offer(struct loader *loader, const struct option *option, enum origin origin,
                  const char *value)
{
    struct setting *setting = &loader->settings[option - config_options];
    if (origin >= setting->origin) {
        setting->origin = origin;
        setting->value = value;
    }
}

/* ---- files ---- */

/* The whole file, ended by NUL, for the caller to free; NULL with the reason in *reason_out. */
static char *read_file(const char *path, const char **reason_out)
{
    *reason_out = NULL;
    FILE *stream = fopen(path, "re");
    if (!stream) {
        *reason_out = strerror(errno);
        return NULL;
    }
    char *text = malloc(CONFIG_FILE_MAX + 1);
    if (!text)
        abort();
    size_t length = fread(text, 1, CONFIG_FILE_MAX + 1, stream);
    if (ferror(stream))
        *reason_out = strerror(errno);
    else if (length > CONFIG_FILE_MAX)
        *reason_out = "the file is too large";
    else if (memchr(text, '\0', length))
        *reason_out = "the file holds a NUL byte";
    else
        text[length] = '\0';
    fclose(stream);
    if (*reason_out) {
        free(text);
        return NULL;
    }
    return text;
}

/* The text without white space at both ends, which is overwritten at its end. */
static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    text[length] = '\0';
    return text;
}

static const struct option *find_option(const char *name)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (strcmp(config_options[i].name, name) == 0)
            return &config_options[i];
    return NULL;
}

static bool refuse_name(const struct loader *loader, unsigned line, const char *name)
{
    struct suggestion suggestion = {.wanted = name, .distance = SIZE_MAX};
    for (size_t i = 0; i < OPTION_COUNT; i++)
        config_suggest(&suggestion, config_options[i].name);
    fprintf(loader->err, PROGRAM ": %s:%u: unknown option %s", loader->path, line, LOG_QUOTE(name));
    if (suggestion.name[0])
        fprintf(loader->err, "; did you mean %s?", suggestion.name);
    fprintf(loader->err, "\n");
    return false;
}

static bool read_line(struct loader *loader, unsigned number, char *line)
{
    line = trim(line);
    if (line[0] == '\0' || line[0] == '#')
        return true;
    char *equals = strchr(line, '=');
    if (!equals) {
        fprintf(loader->err, PROGRAM ": %s:%u: expected: option = value\n", loader->path, number);
        return false;
    }
    *equals = '\0';
    const char *name = trim(line);
    const struct option *option = find_option(name);
    if (!option)
        return refuse_name(loader, number, name);
    struct setting *setting = &loader->settings[option - config_options];
    if (setting->line != 0) {
        fprintf(loader->err, PROGRAM ": %s:%u: %s was already set in line %u\n", loader->path,
                number, name, setting->line);
        return false;
    }
    setting->line = number;
    offer(loader, option, ORIGIN_FILE, trim(equals + 1));
    return true;
}

static bool read_configuration(struct loader *loader)
{
    if (!loader->path)
        return true;
    const char *reason;
    loader->file = read_file(loader->path, &reason);
    if (!loader->file) {
        fprintf(loader->err, PROGRAM ": cannot read the configuration file %s (from %s): %s\n",
                LOG_QUOTE(loader->path),
                loader->path_origin == ORIGIN_FLAG ? "the flag --config"
                                                   : "the environment variable SECKILL_CONFIG",
                reason);
        return false;
    }
    unsigned number = 1;
    for (char *line = loader->file, *next; line; line = next, number++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (!read_line(loader, number, line))
            return false;
    }
    return true;
}

/* ---- environment ---- */

static const char *find_variable(char **envp, const char *name)
{
    size_t length = strlen(name);
    for (; *envp; envp++)
        if (strncmp(*envp, name, length) == 0 && (*envp)[length] == '=')
            return *envp + length + 1;
    return NULL;
}

/* Other variables of that prefix may mean something to other programs: they are not looked at. */
static void read_environment(struct loader *loader, char **envp)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char name[NAME_MAX_LENGTH];
        config_write_variable(&config_options[i], name);
        const char *value = find_variable(envp, name);
        if (value)
            offer(loader, &config_options[i], ORIGIN_ENVIRONMENT, value);
    }
    const char *path = find_variable(envp, "SECKILL_CONFIG");
    if (path && loader->path_origin < ORIGIN_ENVIRONMENT) {
        loader->path = path;
        loader->path_origin = ORIGIN_ENVIRONMENT;
    }
}

/* ---- flags ---- */

static enum config_result refuse_flag(const struct loader *loader, const char *name)
{
    static const char *const others[] = {"config", "help", "help-config", "version"};
    struct suggestion suggestion = {.wanted = name, .distance = SIZE_MAX};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        config_suggest(&suggestion, others[i]);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char flag[NAME_MAX_LENGTH];
        config_write_flag(&config_options[i], flag);
        config_suggest(&suggestion, flag);
    }
    if (suggestion.distance == 0)
        fprintf(loader->err, PROGRAM ": the flag --%s takes no value\n", name);
    else if (suggestion.name[0])
        fprintf(loader->err, PROGRAM ": unknown flag --%s; did you mean --%s?\n", name,
                suggestion.name);
    else
        fprintf(loader->err, PROGRAM ": unknown flag --%s; --help lists all\n", name);
    return CONFIG_BAD;
}

static enum config_result read_flag(struct loader *loader, const char *name, const char *value)
{
    if (strcmp(name, "config") == 0) {
        loader->path = value;
        loader->path_origin = ORIGIN_FLAG;
        return CONFIG_OK;
    }
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char flag[NAME_MAX_LENGTH];
        config_write_flag(&config_options[i], flag);
        if (strcmp(name, flag) == 0) {
            offer(loader, &config_options[i], ORIGIN_FLAG, value ? value : "");
            return CONFIG_OK;
        }
    }
    return refuse_flag(loader, name);
}

/* The flag in argv[*i] and, if it stands apart, its value in the next argument. */
static enum config_result read_argument(struct loader *loader, char **argv, int *i)
{
    const char *argument = argv[*i];
    if (strncmp(argument, "--", 2) != 0 || argument[2] == '\0' || argument[2] == '=') {
        fprintf(loader->err, PROGRAM ": unexpected argument %s; --help lists the flags\n",
                LOG_QUOTE(argument));
        return CONFIG_BAD;
    }
    enum config_result printed = config_print_help(loader->out, argument);
    if (printed != CONFIG_OK)
        return printed;
    char name[2 * NAME_MAX_LENGTH];
    size_t length = strcspn(argument + 2, "=");
    snprintf(name, sizeof name, "%.*s", (int)length, argument + 2);
    if (argument[2 + length] == '=')
        return read_flag(loader, name, argument + 2 + length + 1);

    const char *next = argv[*i + 1];
    bool has_value = next && strncmp(next, "--", 2) != 0;
    enum config_result known = read_flag(loader, name, has_value ? next : NULL);
    if (known == CONFIG_OK && !has_value) {
        fprintf(loader->err, PROGRAM ": the flag --%s needs a value\n", name);
        return CONFIG_BAD;
    }
    *i += has_value;
    return known;
}

static enum config_result read_flags(struct loader *loader, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        enum config_result result = read_argument(loader, argv, &i);
        if (result != CONFIG_OK)
            return result;
    }
    return CONFIG_OK;
}

/* ---- the whole ---- */

static bool read_token_file(const struct loader *loader, struct config *config)
{
    const struct option *option = find_option("admin_token_file");
    const struct option *token = find_option("admin_token");
    if (config->admin_token_file[0] == '\0')
        return true;
    if (config->admin_token[0] != '\0') {
        config_print_complaint(loader, option);
        fprintf(loader->err, "admin_token is set as well (from ");
        config_print_origin(loader, token);
        fprintf(loader->err, "); give one of them\n");
        return false;
    }
    const char *reason;
    char *text = read_file(config->admin_token_file, &reason);
    if (!text) {
        config_print_complaint(loader, option);
        fprintf(loader->err, "cannot read the file: %s\n", reason);
        return false;
    }
    const char *secret = trim(text);
    bool good = secret[0] != '\0' && config_set(config, token, secret);
    if (!good) {
        config_print_complaint(loader, option);
        fprintf(loader->err, "the file must hold one line, ");
        config_print_allowed(loader->err, token);
        fprintf(loader->err, "\n");
    }
    free(text);
    return good;
}

static enum config_result load(struct loader *loader, struct config *config, int argc, char **argv,
                               char **envp)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        loader->settings[i].value = config_options[i].initial;
    enum config_result result = read_flags(loader, argc, argv);
    if (result != CONFIG_OK)
        return result;
    read_environment(loader, envp);
    if (!read_configuration(loader))
        return CONFIG_BAD;
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (!config_apply(loader, &config_options[i], config))
            return CONFIG_BAD;
    return read_token_file(loader, config) ? CONFIG_OK : CONFIG_BAD;
}

enum config_result config_load(struct config *config, int argc, char **argv, char **envp, FILE *out,
                               FILE *err)
{
    struct loader loader = {.out = out, .err = err};
    memset(config, 0, sizeof *config);
    enum config_result result = load(&loader, config, argc, argv, envp);
    free(loader.file);
    if (result != CONFIG_OK)
        config_free(config);
    return result;
}
