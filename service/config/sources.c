/* The sources of values: the command line, the environment, the configuration file.
 *
 * why_flags_first: only the flags tell which file to read and whether help is wanted; then each
 * weaker source fills in what the stronger ones left. */
#include "service/config/sources.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/config_file.h"
#include "service/config/value.h"
#include "service/log/log.h"

/* Notes a value; within one origin the later one wins. */
static void offer(struct sources *sources, size_t option, enum origin origin, const char *value)
{
    assert(option < OPTION_COUNT && value);
    struct setting *setting = &sources->settings[option];
    if (origin >= setting->origin) {
        setting->origin = origin;
        setting->value = value;
    }
}

/* ---- complaints ---- */

void sources_print_origin(const struct sources *sources, unsigned option)
{
    const struct setting *setting = &sources->settings[option];
    char name[OPTION_NAME_SIZE];
    switch (setting->origin) {
    case ORIGIN_DEFAULT:
        fprintf(sources->err, "the default");
        break;
    case ORIGIN_FILE:
        fprintf(sources->err, "%s:%u", sources->path, setting->line);
        break;
    case ORIGIN_ENVIRONMENT:
        option_write_variable(config_options[option].name, name);
        fprintf(sources->err, "the environment variable %s", name);
        break;
    case ORIGIN_FLAG:
        option_write_flag(config_options[option].name, name);
        fprintf(sources->err, "the flag --%s", name);
        break;
    }
}

void sources_complain(const struct sources *sources, unsigned option)
{
    char masked[CONFIG_VALUE_MAX];
    value_mask(&config_options[option], sources->settings[option].value, masked, sizeof masked);
    fprintf(sources->err, SECKILL_PROGRAM ": %s = %s (from ", config_options[option].name,
            LOG_QUOTE(masked));
    sources_print_origin(sources, option);
    fprintf(sources->err, "): ");
}

/* Prints what is wrong with the sources themselves; false. */
static bool __attribute__((format(printf, 2, 3)))
refuse(const struct sources *sources, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs(SECKILL_PROGRAM ": ", sources->err);
    vfprintf(sources->err, format, arguments);
    fputc('\n', sources->err);
    va_end(arguments);
    return false;
}

/* ---- the file ---- */

/* The number of the option; OPTION_COUNT for an unknown one. */
static size_t find_option(const char *name)
{
    size_t i = 0;
    while (i < OPTION_COUNT && strcmp(config_options[i].name, name) != 0)
        i++;
    return i;
}

static bool read_line(struct sources *sources, unsigned number, char *line)
{
    line = text_trim(line);
    if (line[0] == '\0' || line[0] == '#')
        return true;
    char *equals = strchr(line, '=');
    if (!equals)
        return refuse(sources, "%s:%u: expected: option = value", sources->path, number);
    *equals = '\0';
    const char *word = text_trim(line);
    size_t option = find_option(word);
    if (option == OPTION_COUNT)
        return refuse(sources, "%s:%u: unknown option %s; --help lists all", sources->path, number,
                      LOG_QUOTE(word));
    struct setting *setting = &sources->settings[option];
    /* One of two lines is a leftover, and nobody can tell which. */
    if (setting->line != 0)
        return refuse(sources, "%s:%u: %s was already set in line %u", sources->path, number,
                      config_options[option].name, setting->line);
    setting->line = number;
    offer(sources, option, ORIGIN_FILE, text_trim(equals + 1));
    return true;
}

static bool read_file(struct sources *sources)
{
    if (!sources->path)
        return true;
    const char *reason;
    sources->file = text_read_file(sources->path, &reason);
    if (!sources->file)
        return refuse(sources, "cannot read the configuration file %s (from %s): %s",
                      LOG_QUOTE(sources->path),
                      sources->path_origin == ORIGIN_FLAG
                          ? "the flag --config"
                          : "the environment variable SECKILL_CONFIG",
                      reason);
    bool good = true;
    unsigned number = 1;
    for (char *rest = sources->file; rest; number++) /* reports all mistakes at once */
        good = read_line(sources, number, strsep(&rest, "\n")) && good;
    return good;
}

/* ---- the environment ---- */

static const char *find_variable(char **envp, const char *name)
{
    size_t length = strlen(name);
    for (; *envp; envp++)
        if (strncmp(*envp, name, length) == 0 && (*envp)[length] == '=')
            return *envp + length + 1;
    return NULL;
}

/* Ignores unknown variables, even with our prefix: they may be for another program, or another
 * version of this one. */
static void read_environment(struct sources *sources, char **envp)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char variable[OPTION_NAME_SIZE];
        option_write_variable(config_options[i].name, variable);
        const char *value = find_variable(envp, variable);
        if (value)
            offer(sources, i, ORIGIN_ENVIRONMENT, value);
    }
    const char *path = find_variable(envp, "SECKILL_CONFIG");
    if (path && sources->path_origin < ORIGIN_ENVIRONMENT) {
        sources->path = path;
        sources->path_origin = ORIGIN_ENVIRONMENT;
    }
}

/* ---- flags ---- */

/* Flags without a value: the modes by their numbers, then the printed texts. */
static const char *const plain_flags[] = {[CONFIG_CHECK] = "check-config",
                                          [CONFIG_MIGRATE] = "migrate",
                                          [CONFIG_PRINT_GRANTS] = "print-grants",
                                          "help",
                                          "help-config",
                                          "version"};
enum { PLAIN_FLAGS = sizeof plain_flags / sizeof *plain_flags };

static bool read_plain_flag(struct sources *sources, enum config_mode flag)
{
    if (flag > CONFIG_PRINT_GRANTS) {
        sources->help = plain_flags[flag];
        return true;
    }
    if (sources->mode != CONFIG_SERVE && sources->mode != flag)
        return refuse(sources, "--%s and --%s exclude each other", plain_flags[sources->mode],
                      plain_flags[flag]);
    sources->mode = flag;
    return true;
}

/* A flag is an option's name with dashes for underscores. `value`: NULL when none was given. */
static bool read_flag(struct sources *sources, const char *name, const char *value)
{
    char word[2 * OPTION_NAME_SIZE];
    size_t length = 0;
    for (; name[length]; length++)
        word[length] = name[length] == '-' ? '_' : name[length];
    word[length] = '\0';
    size_t option = strchr(name, '_') ? OPTION_COUNT : find_option(word);
    bool config = strcmp(name, "config") == 0; /* no option: a file cannot name the file to read */
    if (option == OPTION_COUNT && !config)
        return refuse(sources, "unknown flag --%s; --help lists all", name);
    if (!value)
        return refuse(sources, "the flag --%s needs a value", name);
    if (!config) {
        offer(sources, option, ORIGIN_FLAG, value);
        return true;
    }
    sources->path = value;
    sources->path_origin = ORIGIN_FLAG;
    return true;
}

/* Reads the flag in argv[*i] and, if its value is separate, the next argument. */
static bool read_argument(struct sources *sources, char **argv, int *i)
{
    const char *argument = argv[*i], *value = NULL;
    if (strncmp(argument, "--", 2) != 0 || argument[2] == '\0' || argument[2] == '=')
        return refuse(sources, "unexpected argument %s; --help lists the flags",
                      LOG_QUOTE(argument));
    char name[2 * OPTION_NAME_SIZE]; /* a longer one is cut, and unknown anyway */
    size_t length = 2 + strcspn(argument + 2, "=");
    snprintf(name, sizeof name, "%.*s", (int)length - 2, argument + 2);
    if (argument[length] == '=')
        value = argument + length + 1;
    for (size_t flag = CONFIG_CHECK; flag < PLAIN_FLAGS; flag++) {
        if (strcmp(name, plain_flags[flag]) != 0)
            continue;
        if (!value)
            return read_plain_flag(sources, (enum config_mode)flag);
        return refuse(sources, "the flag --%s takes no value", name);
    }
    /* A value may begin with one dash, like -1, but never with two. */
    if (!value && argv[*i + 1] && strncmp(argv[*i + 1], "--", 2) != 0)
        value = argv[++*i];
    return read_flag(sources, name, value);
}

/* ---- the whole ---- */

bool sources_read(struct sources *sources, char **argv, char **envp)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        sources->settings[i].value = config_options[i].initial;
    for (int i = 1; argv[i] && !sources->help; i++)
        if (!read_argument(sources, argv, &i))
            return false;
    if (sources->help)
        return true;
    read_environment(sources, envp);
    return read_file(sources);
}

void sources_free(struct sources *sources)
{
    free(sources->file);
    sources->file = NULL;
}
