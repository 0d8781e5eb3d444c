/* The configuration: every option's value, read from its sources and checked. */
#include "service/config/config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "service/config/help.h"
#include "service/config/sources.h"
#include "service/config/text.h"
#include "service/config/value.h"
#include "service/log.h"

enum { LOG_TEXT_MAX = 2048 }; /* of all options; log_event would cut a longer text anyhow */

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

static bool refuse_two_tokens(const struct sources *sources)
{
    sources_complain(sources, OPTION_admin_token_file);
    fprintf(sources->err, "admin_token is set as well (from ");
    sources_print_origin(sources, OPTION_admin_token);
    fprintf(sources->err, "); give one of them\n");
    return false;
}

static bool read_token_file(const struct sources *sources, struct config *config)
{
    const struct option *token = &config_options[OPTION_admin_token];
    if (config->admin_token_file[0] == '\0')
        return true;
    if (config->admin_token[0] != '\0')
        return refuse_two_tokens(sources);
    const char *reason;
    char *text = text_read_file(config->admin_token_file, &reason);
    if (!text) {
        sources_complain(sources, OPTION_admin_token_file);
        fprintf(sources->err, "cannot read the file: %s\n", reason);
        return false;
    }
    char why[URL_ERROR_SIZE];
    const char *secret = text_trim(text);
    /* An empty file must not mean "no token": then /admin/ would refuse its administrator. */
    bool good = secret[0] != '\0' && value_set(config, token, secret, why);
    if (!good) {
        sources_complain(sources, OPTION_admin_token_file);
        fprintf(sources->err, "the file must hold one line, ");
        value_print_allowed(sources->err, token);
        fprintf(sources->err, "\n");
    }
    free(text);
    return good;
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
    for (unsigned i = 0; i < OPTION_COUNT; i++)
        if (!apply(sources, i, config))
            return CONFIG_BAD;
    /* Not logged here: the log is set up later, by one of these options. */
    memcpy(config->old_name_used, sources->old_name_used, sizeof config->old_name_used);
    return read_token_file(sources, config) ? CONFIG_OK : CONFIG_BAD;
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

void config_log(const struct config *config)
{
    char text[LOG_TEXT_MAX];
    config_print(config, text, sizeof text);
    log_event(LOG_INFO, "starting", "%s", text);
    for (size_t i = 0; i < OPTION_OLD_COUNT; i++)
        if (config->old_name_used[i])
            log_event(LOG_WARN, "option_renamed", "old=%s new=%s", config_option_names[i].name,
                      config_options[config_option_names[i].option].name);
}

void config_free(struct config *config)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        value_clear(config, &config_options[i]);
    memset(config, 0, sizeof *config);
}
