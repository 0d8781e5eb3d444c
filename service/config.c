/* The options of the service: defaults, file, environment and flags become one checked struct. */
#include "service/config.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "service/log.h"

#define PROGRAM "seckilld"
#define NAME_MAX_LENGTH 32
#define SECRET_MAX 256
#define DISTANCE_MAX 2 /* typing errors up to which a name is suggested */
#define TEXT_WIDTH 96

enum type { ADDRESS, URL, SECRET, PATH, UNSIGNED, INTEGER, CHOICE };

struct option {
    enum type type;
    const char *name;
    const char *initial;
    const char *detail;
    long min, max;
    const char *doc;
    size_t offset;
};

static const struct option options[] = {
#define OPTION(type, name, initial, detail, min, max, doc)                                         \
    {type, #name, initial, detail, min, max, doc, offsetof(struct config, name)},
    CONFIG_OPTIONS(OPTION)
#undef OPTION
};

#define OPTION_COUNT (sizeof options / sizeof *options)

/* The weaker first. */
enum origin { ORIGIN_DEFAULT, ORIGIN_FILE, ORIGIN_ENVIRONMENT, ORIGIN_FLAG };

/* What one option was given; the strongest origin wins. */
struct setting {
    const char *value;
    enum origin origin;
    unsigned line; /* where the file sets it, 0: nowhere */
};

struct loader {
    struct setting settings[OPTION_COUNT];
    const char *path; /* of the file; NULL: none */
    enum origin path_origin;
    char *file; /* its text: the settings point into it */
    FILE *out;
    FILE *err;
};

/* ---- names ---- */

static void write_flag(const struct option *option, char name_out[NAME_MAX_LENGTH])
{
    size_t i = 0;
    for (; option->name[i]; i++)
        name_out[i] = option->name[i] == '_' ? '-' : option->name[i];
    assert(i < NAME_MAX_LENGTH);
    name_out[i] = '\0';
}

static void write_variable(const struct option *option, char name_out[NAME_MAX_LENGTH])
{
    static const char prefix[] = "SECKILL_";
    size_t length = sizeof prefix - 1;
    memcpy(name_out, prefix, length);
    for (const char *at = option->name; *at; at++)
        name_out[length++] = (char)toupper((unsigned char)*at);
    assert(length < NAME_MAX_LENGTH);
    name_out[length] = '\0';
}

/*
 * Levenshtein's distance, row by row; far more than DISTANCE_MAX for what is too long to be a name.
 */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[NAME_MAX_LENGTH + 1];
    size_t width = strlen(b);
    if (strlen(a) > NAME_MAX_LENGTH || width > NAME_MAX_LENGTH)
        return SIZE_MAX;
    for (size_t j = 0; j <= width; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < width; j++) {
            size_t best = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (diagonal + 1 < best)
                best = diagonal + 1;
            row[j + 1] = best;
        }
    }
    return row[width];
}

/* The best of the names offered one after the other. */
struct suggestion {
    const char *wanted;
    char name[NAME_MAX_LENGTH];
    size_t distance;
};

static void suggest(struct suggestion *suggestion, const char *name)
{
    size_t distance = edit_distance(suggestion->wanted, name);
    if (distance <= DISTANCE_MAX && distance < suggestion->distance) {
        suggestion->distance = distance;
        snprintf(suggestion->name, sizeof suggestion->name, "%s", name);
    }
}

/* ---- values as they may be shown ---- */

/*
 * Writes the URL with *** for its password. Also for what is no URL: a secret may stand in it all
 * the same.
 */
static void mask_url(const char *url, char *masked_out, size_t size)
{
    const char *scheme_end =
        url + strspn(url, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    const char *user = strncmp(scheme_end, "://", 3) == 0 ? scheme_end + 3 : url;
    const char *at = strrchr(user, '@');
    const char *colon = at ? memchr(user, ':', (size_t)(at - user)) : NULL;
    /* Alone before the @ stands a user for most, but a password for some who write Redis URLs. */
    bool lone_secret = at && !colon && strncasecmp(url, "redis", 5) == 0;
    if (colon || lone_secret)
        snprintf(masked_out, size, "%.*s***%s", (int)((colon ? colon + 1 : user) - url), url, at);
    else
        snprintf(masked_out, size, "%s", url);
}

static void mask_value(const struct option *option, const char *value, char *masked_out,
                       size_t size)
{
    if (option->type == URL)
        mask_url(value, masked_out, size);
    else
        snprintf(masked_out, size, "%s", option->type == SECRET && *value ? "***" : value);
}

/* Says what the option may be, as the end of a sentence. */
static void print_allowed(FILE *stream, const struct option *option)
{
    switch (option->type) {
    case ADDRESS:
        fprintf(stream, "host:port with a port from 0 to 65535");
        break;
    case URL:
        fprintf(stream, "%s://[user:password@]host[:port][/name]", option->detail);
        break;
    case SECRET:
        fprintf(stream, "up to %d visible ASCII characters without spaces", SECRET_MAX);
        break;
    case PATH:
        fprintf(stream, "the name of a file");
        break;
    case UNSIGNED:
    case INTEGER:
        fprintf(stream, "an integer from %ld to %ld", option->min, option->max);
        if (option->detail[0])
            fprintf(stream, " (%s)", option->detail);
        break;
    case CHOICE:
        fprintf(stream, "one of: %s", option->detail);
        break;
    }
}

static void print_origin(const struct loader *loader, const struct option *option)
{
    const struct setting *setting = &loader->settings[option - options];
    char name[NAME_MAX_LENGTH];
    switch (setting->origin) {
    case ORIGIN_DEFAULT:
        fprintf(loader->err, "the default");
        break;
    case ORIGIN_FILE:
        fprintf(loader->err, "%s:%u", loader->path, setting->line);
        break;
    case ORIGIN_ENVIRONMENT:
        write_variable(option, name);
        fprintf(loader->err, "the environment variable %s", name);
        break;
    case ORIGIN_FLAG:
        write_flag(option, name);
        fprintf(loader->err, "the flag --%s", name);
        break;
    }
}

/* Begins a message about what the option was given; the caller ends it. */
static void print_complaint(const struct loader *loader, const struct option *option)
{
    char masked[CONFIG_VALUE_MAX];
    mask_value(option, loader->settings[option - options].value, masked, sizeof masked);
    fprintf(loader->err, PROGRAM ": %s = %s (from ", option->name, LOG_QUOTE(masked));
    print_origin(loader, option);
    fprintf(loader->err, "): ");
}

/* ---- checks ---- */

/* Visible ASCII from `from` up to `to`. */
static bool is_visible(const char *from, const char *to)
{
    for (; from < to; from++)
        if (*from <= ' ' || *from >= 0x7f)
            return false;
    return true;
}

static bool parse_integer(const char *text, long min, long max, long *value_out)
{
    *value_out = 0;
    const char *digits = text[0] == '-' ? text + 1 : text;
    size_t length = strlen(digits);
    if (length == 0 || strspn(digits, "0123456789") != length)
        return false;
    *value_out = strtol(text, NULL, 10); /* far too large: LONG_MAX, which no option allows */
    return *value_out >= min && *value_out <= max;
}

/* host:port or [host]:port from `from` up to `to`. */
static bool check_address(const char *from, const char *to, bool port_needed)
{
    const char *host_end = memchr(from, *from == '[' ? ']' : ':', (size_t)(to - from));
    if (!host_end)
        return !port_needed && *from != '[' && to > from && is_visible(from, to);
    const char *colon = *from == '[' ? host_end + 1 : host_end;
    if (host_end == from || (*from == '[' && host_end == from + 1) || !is_visible(from, to))
        return false;
    if (colon == to)
        return !port_needed;
    char port[8];
    long number;
    size_t length = (size_t)(to - colon) - 1;
    if (*colon != ':' || length >= sizeof port)
        return false;
    memcpy(port, colon + 1, length);
    port[length] = '\0';
    return parse_integer(port, 0, 65535, &number) && port[0] != '-';
}

/*
 * Scheme and place; what the user, the password and the path mean is for the client that will use
 * them.
 */
static bool check_url(const char *url, const char *scheme)
{
    size_t length = strlen(scheme);
    if (strncasecmp(url, scheme, length) != 0 || strncmp(url + length, "://", 3) != 0)
        return false;
    const char *from = url + length + 3;
    const char *to = from + strcspn(from, "/?");
    const char *query = to + strcspn(to, "?");
    /* An @ in the path: a password with a slash, which must be written %2F there. */
    if (!is_visible(from, query + strlen(query)) || memchr(to, '@', (size_t)(query - to)))
        return false;
    for (const char *at = from; at < to; at++)
        if (*at == '@')
            from = at + 1;
    return check_address(from, to, false) || (from == to && strstr(query, "socket=/"));
}

static bool check_choice(const char *word, const char *choices)
{
    size_t length = strlen(word);
    for (const char *at = choices; *at;) {
        size_t choice = strcspn(at, " ");
        if (choice == length && strncmp(at, word, length) == 0)
            return true;
        at += choice + (at[choice] == ' ');
    }
    return false;
}

/* Whether the value is of the option's kind; its number, if it is one. */
static bool check_value(const struct option *option, const char *value, long *number_out)
{
    const char *end = value + strlen(value);
    *number_out = 0;
    if (end - value >= CONFIG_VALUE_MAX)
        return false;
    switch (option->type) {
    case ADDRESS:
        return check_address(value, end, true);
    case URL:
        return check_url(value, option->detail);
    case SECRET:
        return end - value <= SECRET_MAX && is_visible(value, end);
    case PATH:
        return true;
    case UNSIGNED:
    case INTEGER:
        return parse_integer(value, option->min, option->max, number_out);
    case CHOICE:
        return check_choice(value, option->detail);
    }
    return false;
}

/* ---- the struct ---- */

static void *field_of(const struct config *config, const struct option *option)
{
    return (char *)config + option->offset;
}

static bool is_text(const struct option *option)
{
    return option->type != UNSIGNED && option->type != INTEGER;
}

static void set_text(char **field, const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        abort(); /* at start, with nothing to lose */
    free(*field);
    *field = copy;
}

static bool apply(const struct loader *loader, const struct option *option, struct config *config)
{
    const char *value = loader->settings[option - options].value;
    long number;
    if (!check_value(option, value, &number)) {
        print_complaint(loader, option);
        fprintf(loader->err, "must be ");
        print_allowed(loader->err, option);
        fprintf(loader->err, "\n");
        return false;
    }
    if (is_text(option))
        set_text(field_of(config, option), value);
    else if (option->type == UNSIGNED)
        *(unsigned *)field_of(config, option) = (unsigned)number;
    else
        *(int *)field_of(config, option) = (int)number;
    return true;
}

static void offer(struct loader *loader, const struct option *option, enum origin origin,
                  const char *value)
{
    struct setting *setting = &loader->settings[option - options];
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
        if (strcmp(options[i].name, name) == 0)
            return &options[i];
    return NULL;
}

static bool refuse_name(const struct loader *loader, unsigned line, const char *name)
{
    struct suggestion suggestion = {.wanted = name, .distance = SIZE_MAX};
    for (size_t i = 0; i < OPTION_COUNT; i++)
        suggest(&suggestion, options[i].name);
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
    struct setting *setting = &loader->settings[option - options];
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
        write_variable(&options[i], name);
        const char *value = find_variable(envp, name);
        if (value)
            offer(loader, &options[i], ORIGIN_ENVIRONMENT, value);
    }
    const char *path = find_variable(envp, "SECKILL_CONFIG");
    if (path && loader->path_origin < ORIGIN_ENVIRONMENT) {
        loader->path = path;
        loader->path_origin = ORIGIN_ENVIRONMENT;
    }
}

/* ---- help ---- */

/* Prints words in lines of at most TEXT_WIDTH, each begun by prefix. */
static void print_wrapped(FILE *out, const char *prefix, const char *text)
{
    while (*text) {
        size_t room = TEXT_WIDTH - strlen(prefix);
        size_t length = strlen(text);
        if (length > room) {
            length = room;
            while (length > 0 && text[length] != ' ')
                length--;
            if (length == 0) /* a word longer than the line */
                length = strcspn(text, " ");
        }
        fprintf(out, "%s%.*s\n", prefix, (int)length, text);
        text += length;
        text += strspn(text, " ");
    }
}

static void print_help(FILE *out)
{
    fprintf(out,
            "Usage: " PROGRAM " [--config FILE] [--OPTION VALUE]...\n"
            "\n"
            "Sells the units of flash sales over HTTP, never one too many.\n"
            "\n"
            "Each option is a flag (--max-batch 64 or --max-batch=64), an environment variable\n"
            "(SECKILL_MAX_BATCH=64) or a line of the configuration file (max_batch = 64).\n"
            "Flags win over the environment, the environment wins over the file.\n"
            "\n"
            "  --config FILE\n"
            "      Read this configuration file (also SECKILL_CONFIG).\n"
            "  --help, --help-config, --version\n"
            "      Print this text, a commented configuration file, the version.\n");
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &options[i];
        char flag[NAME_MAX_LENGTH];
        write_flag(option, flag);
        fprintf(out, "  --%s VALUE\n", flag);
        print_wrapped(out, "      ", option->doc);
        fprintf(out, "      Allowed: ");
        print_allowed(out, option);
        fprintf(out, ".\n      Default: %s\n", option->initial[0] ? option->initial : "none");
    }
}

static void print_reference(FILE *out)
{
    fprintf(
        out,
        "# Reference configuration of " PROGRAM ", printed by " PROGRAM " --help-config.\n"
        "# Every option stands here with its default; to change one, remove its # and edit it.\n"
        "# A flag (--max-batch 64) wins over the environment (SECKILL_MAX_BATCH=64), which wins\n"
        "# over this file. Comments have lines of their own; values stand without quotes.\n");
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &options[i];
        fprintf(out, "\n");
        print_wrapped(out, "# ", option->doc);
        fprintf(out, "# Allowed: ");
        print_allowed(out, option);
        fprintf(out, ".\n#%s =%s%s\n", option->name, option->initial[0] ? " " : "",
                option->initial);
    }
}

/* ---- flags ---- */

static enum config_result refuse_flag(const struct loader *loader, const char *name)
{
    static const char *const others[] = {"config", "help", "help-config", "version"};
    struct suggestion suggestion = {.wanted = name, .distance = SIZE_MAX};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        suggest(&suggestion, others[i]);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char flag[NAME_MAX_LENGTH];
        write_flag(&options[i], flag);
        suggest(&suggestion, flag);
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

/* --help and its like; CONFIG_OK when the flag is none of them. */
static enum config_result print_and_exit(const struct loader *loader, const char *argument)
{
    if (strcmp(argument, "--help") == 0)
        print_help(loader->out);
    else if (strcmp(argument, "--help-config") == 0)
        print_reference(loader->out);
    else if (strcmp(argument, "--version") == 0)
        fprintf(loader->out, PROGRAM " " SECKILL_VERSION "\n");
    else
        return CONFIG_OK;
    return CONFIG_EXIT;
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
        write_flag(&options[i], flag);
        if (strcmp(name, flag) == 0) {
            offer(loader, &options[i], ORIGIN_FLAG, value ? value : "");
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
    enum config_result printed = print_and_exit(loader, argument);
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
        print_complaint(loader, option);
        fprintf(loader->err, "admin_token is set as well (from ");
        print_origin(loader, token);
        fprintf(loader->err, "); give one of them\n");
        return false;
    }
    const char *reason;
    char *text = read_file(config->admin_token_file, &reason);
    if (!text) {
        print_complaint(loader, option);
        fprintf(loader->err, "cannot read the file: %s\n", reason);
        return false;
    }
    long number;
    const char *secret = trim(text);
    bool good = secret[0] != '\0' && check_value(token, secret, &number);
    if (good) {
        set_text(&config->admin_token, secret);
    } else {
        print_complaint(loader, option);
        fprintf(loader->err, "the file must hold one line, ");
        print_allowed(loader->err, token);
        fprintf(loader->err, "\n");
    }
    free(text);
    return good;
}

static enum config_result load(struct loader *loader, struct config *config, int argc, char **argv,
                               char **envp)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        loader->settings[i].value = options[i].initial;
    enum config_result result = read_flags(loader, argc, argv);
    if (result != CONFIG_OK)
        return result;
    read_environment(loader, envp);
    if (!read_configuration(loader))
        return CONFIG_BAD;
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (!apply(loader, &options[i], config))
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

size_t config_print(const struct config *config, char *buffer, size_t size)
{
    size_t length = 0;
    if (size > 0)
        buffer[0] = '\0';
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &options[i];
        const void *field = field_of(config, option);
        char value[CONFIG_VALUE_MAX];
        if (is_text(option))
            mask_value(option, *(char *const *)field, value, sizeof value);
        else if (option->type == UNSIGNED)
            snprintf(value, sizeof value, "%u", *(const unsigned *)field);
        else
            snprintf(value, sizeof value, "%d", *(const int *)field);
        bool full = length >= size;
        int written = snprintf(full ? NULL : buffer + length, full ? 0 : size - length, "%s%s=%s",
                               i > 0 ? " " : "", option->name, LOG_QUOTE(value));
        assert(written >= 0);
        length += (size_t)written;
    }
    return length;
}

void config_free(struct config *config)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (is_text(&options[i]))
            free(*(char **)field_of(config, &options[i]));
    memset(config, 0, sizeof *config);
}
