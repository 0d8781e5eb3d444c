/* The configuration: every option's value, read from its sources and checked. */
#include "service/config/config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/config/tokens.h"
#include "service/config/sources.h"
#include "base/config_file.h"
#include "service/config/value.h"
#include "service/log/log.h"
#include "service/log/log_sink.h"

enum { LOG_TEXT_MAX = 3072 }; /* of all options; log_event would cut a longer text anyway */

/* ---- what the program prints ---- */

#define TEXT_WIDTH 96

/* Prints words in lines of at most TEXT_WIDTH, each starting with prefix. Lines break at spaces. */
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

static void print_option_help(FILE *out, const struct option *option)
{
    char flag[OPTION_NAME_SIZE];
    option_write_flag(option->name, flag);
    fprintf(out, "  --%s VALUE\n", flag);
    print_wrapped(out, "      ", option->doc);
    fprintf(out, "      Allowed: ");
    value_print_allowed(out, option);
    fprintf(out, ".\n      Default: %s\n", option->initial[0] ? option->initial : "none");
}

static void print_help(FILE *out)
{
    fprintf(
        out,
        "Usage: " SECKILL_PROGRAM " [--config FILE] [--OPTION VALUE]...\n"
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
        "      Print this text, a commented configuration file, the version.\n"
        "  --check-config\n"
        "      Read the configuration, files of tokens included, say all that is wrong with it,\n"
        "      and end with status 0 or 2. Connects nowhere.\n"
        "  --migrate\n"
        "      Create or upgrade the tables of the ledger, and end: 0, or 1 when that failed.\n"
        "  --print-grants\n"
        "      Print the SQL that gives the accounts for this and for serving their rights,\n"
        "      and in a comment what Redis must allow.\n");
    for (size_t i = 0; i < OPTION_COUNT; i++)
        print_option_help(out, &config_options[i]);
}

/* Comments every default out, so that the unchanged file sets nothing, and a default that changes
 * with a new version takes effect. */
static void print_reference(FILE *out)
{
    fprintf(
        out,
        "# Reference configuration of " SECKILL_PROGRAM ", printed by " SECKILL_PROGRAM
        " --help-config.\n"
        "# Every option stands here with its default; to change one, remove its # and edit it.\n"
        "# A flag (--max-batch 64) wins over the environment (SECKILL_MAX_BATCH=64), which wins\n"
        "# over this file. Comments have lines of their own; values stand without quotes.\n");
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &config_options[i];
        fprintf(out, "\n");
        print_wrapped(out, "# ", option->doc);
        fprintf(out, "# Allowed: ");
        value_print_allowed(out, option);
        fprintf(out, ".\n#%s =%s%s\n", option->name, option->initial[0] ? " " : "",
                option->initial);
    }
}

/* Prints the text of the flag "help", "help-config" or "version". */
static void help_print(FILE *out, const char *flag)
{
    if (strcmp(flag, "help") == 0)
        print_help(out);
    else if (strcmp(flag, "help-config") == 0)
        print_reference(out);
    else if (strcmp(flag, "version") == 0)
        fprintf(out, SECKILL_PROGRAM " " SECKILL_VERSION "\n");
    else
        assert(!"a flag that sources.c takes for help");
}

/* Checks the value of one option and sets its field. False after a complaint. */
static bool apply(const struct sources *sources, unsigned option, struct config *config)
{
    const struct option *row = &config_options[option];
    char why[URL_ERROR_SIZE];
    if (value_set(config, row, sources->settings[option].value, why))
        return true;
    sources_complain(sources, option);
    /* For a single URL the reason tells the form already; for a list it concerns one URL. */
    if (row->type != URL || why[0] == '\0') {
        fprintf(sources->err, "must be ");
        value_print_allowed(sources->err, row);
        if (why[0] != '\0')
            fprintf(sources->err, "; one is ");
    }
    fprintf(sources->err, "%s\n", why);
    return false;
}

static bool refuse_two_sources(const struct sources *sources, unsigned token, unsigned file)
{
    sources_complain(sources, file);
    fprintf(sources->err, "%s is set as well (from ", config_options[token].name);
    sources_print_origin(sources, token);
    fprintf(sources->err, "); give one of them\n");
    return false;
}

/* Sets the option `token` to the content of the file in option `file`, if any. An empty file must
 * not mean "no token": then /admin/ would refuse its administrator, and shop calls would be open to
 * all. */
static bool read_token_file(const struct sources *sources, unsigned token, unsigned file,
                            struct config *config)
{
    char text[SECRETS_TEXT_SIZE], why[URL_ERROR_SIZE];
    const char *reason = NULL, *path = sources->settings[file].value;
    if (path[0] == '\0')
        return true;
    if (sources->settings[token].value[0] != '\0')
        return refuse_two_sources(sources, token, file);
    if (!secrets_read_file(path, text, &reason)) {
        sources_complain(sources, file);
        fprintf(sources->err, "cannot read the file: %s\n", reason);
        return false;
    }
    bool set = value_set(config, &config_options[token], text, why);
    assert(set); /* secrets_read_file has checked it */
    return true;
}

static enum config_result load(struct sources *sources, struct config *config, char **argv,
                               char **envp, FILE *out)
{
    if (!sources_read(sources, argv, envp))
        return CONFIG_BAD;
    if (sources->help) {
        help_print(out, sources->help);
        return CONFIG_EXIT;
    }
    /* Checks only now, when the strongest origin is known: an overridden value may be wrong. */
    bool good = true;
    for (unsigned i = 0; i < OPTION_COUNT; i++)
        good = apply(sources, i, config) && good; /* reports all mistakes at once */
    config->mode = sources->mode;
    good = read_token_file(sources, OPTION_admin_token, OPTION_admin_token_file, config) && good;
    good = read_token_file(sources, OPTION_shop_token, OPTION_shop_token_file, config) && good;
    return good ? CONFIG_OK : CONFIG_BAD;
}

enum config_result config_load(struct config *config, char **argv, char **envp, FILE *out,
                               FILE *err)
{
    struct sources sources = {.err = err};
    memset(config, 0, sizeof *config);
    enum config_result result = load(&sources, config, argv, envp, out);
    sources_free(&sources);
    if (result != CONFIG_OK)
        config_free(config); /* nobody may use a partial configuration */
    return result;
}

size_t config_print(const struct config *config, char *buffer, size_t size)
{
    size_t length = 0;
    if (size > 0)
        buffer[0] = '\0';
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char value[CONFIG_VALUE_MAX];
        value_show(config, &config_options[i], value);
        bool full = length >= size; /* then only counts the length */
        int written = snprintf(full ? NULL : buffer + length, full ? 0 : size - length, "%s%s=%s",
                               i > 0 ? " " : "", config_options[i].name, LOG_QUOTE(value));
        assert(written >= 0);
        length += (size_t)written;
    }
    return length;
}

void config_setup_log(const struct config *config)
{
    enum log_level level = LOG_INFO;
    log_level_parse(config->log_level, &level);
    bool priorities =
        strcmp(config->log_priority, "on") == 0 ||
        (strcmp(config->log_priority, "auto") == 0 && log_sink_is_journal(STDERR_FILENO));
    log_style(strcmp(config->log_format, "json") == 0 ? LOG_JSON : LOG_LOGFMT, priorities);
    log_setup(level, STDERR_FILENO);
}

void config_log(const struct config *config)
{
    char text[LOG_TEXT_MAX];
    config_print(config, text, sizeof text);
    log_event(LOG_INFO, "starting", "%s", text);
}

void config_free(struct config *config)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        value_clear(config, &config_options[i]);
    memset(config, 0, sizeof *config);
}
