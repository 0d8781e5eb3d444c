/* SIGHUP: takes over what the sources of the configuration say now. */
#include "service/reload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/config/value.h"
#include "service/log/log.h"

static bool is_live(unsigned option)
{
    switch (option) {
    case OPTION_rate_user_per_min:
    case OPTION_rate_user_burst:
    case OPTION_rate_address_per_min:
    case OPTION_rate_address_burst:
    case OPTION_trusted_proxies:
    case OPTION_log_level:
    case OPTION_log_format:
    case OPTION_log_priority:
        return true;
    default:
        return false;
    }
}

/* Whether the option holds what a file of tokens said: tokens_reload reads that file. */
static bool is_from_token_file(const struct config *config, unsigned option)
{
    return (option == OPTION_admin_token && config->admin_token_file[0] != '\0') ||
           (option == OPTION_shop_token && config->shop_token_file[0] != '\0');
}

/* Takes one option over, or says that it needs a restart. Only this thread reads the fields of the
 * live options once the daemon runs. */
static void take_over(struct config *present, struct config *fresh, unsigned option)
{
    const struct option *row = &config_options[option];
    char text[CONFIG_VALUE_MAX];
    if (value_equal(present, fresh, row) || is_from_token_file(present, option))
        return;
    value_show(fresh, row, text);
    if (is_live(option)) {
        value_swap(present, fresh, row);
        log_event(LOG_INFO, "option_changed", "%s=%s", row->name, LOG_QUOTE(text));
    } else {
        log_event(LOG_WARN, "option_needs_restart", "%s=%s", row->name, LOG_QUOTE(text));
    }
}

static void apply(struct service *service, struct config *fresh)
{
    struct config *config = &service->config;
    tokens_reload(service->tokens);
    for (unsigned i = 0; i < OPTION_COUNT; i++)
        take_over(config, fresh, i);
    config_setup_log(config);
    service_apply(service, config);
    log_event(LOG_INFO, "reloaded", NULL);
}

void reload_config(struct service *service, char **argv, char **envp)
{
    struct config fresh;
    char *why = NULL;
    size_t size = 0;
    FILE *err = open_memstream(&why, &size);
    if (!err)
        abort();
    enum config_result loaded = config_load(&fresh, argv, envp, err, err);
    fclose(err);
    if (loaded == CONFIG_OK)
        apply(service, &fresh);
    else
        log_event(LOG_ERROR, "not_reloaded", "error=%s effect=%s", LOG_QUOTE(why),
                  LOG_QUOTE("the daemon goes on with its present configuration"));
    if (loaded == CONFIG_OK)
        config_free(&fresh);
    free(why);
}
