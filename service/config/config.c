/* The configuration: every option's value, read from its sources and checked. */
#include "service/config/config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/config/help.h"
#include "service/config/secrets.h"
#include "service/config/sources.h"
#include "service/config/text.h"
#include "service/config/value.h"
#include "service/log/log.h"
#include "service/log/log_sink.h"

enum { LOG_TEXT_MAX = 3072 }; /* of all options; log_event would cut a longer text anyhow */

/* Checks the value of one option and sets its field. False after a complaint. */
static bool apply(const struct sources *sources, unsigned option, struct config *config)
{
    const struct option *row = &config_options[option];
    char why[URL_ERROR_SIZE];
    if (value_set(config, row, sources->settings[option].value, why))
        return true;
    sources_complain(sources, option);
    /* For one URL the reason says the form already; of a list it speaks of one URL. */
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

/* Sets the option `token` to what the file of the option `file` holds, if there is one. An empty
 * file must not mean "no token": then /admin/ would refuse its administrator, and shop calls would
 * be open to all. */
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
    /* Only now, when the strongest origin is known: an overridden value may be wrong. */
    bool good = true;
    for (unsigned i = 0; i < OPTION_COUNT; i++)
        good = apply(sources, i, config) && good; /* all mistakes are told at once */
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
        config_free(config); /* nobody may use half a configuration */
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
        bool full = length >= size; /* then only the length goes on */
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
