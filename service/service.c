/* The state that all threads of the daemon share, and reloading its configuration. */
#include "service/service.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "service/config/value.h"
#include "service/live/admin_actions.h"
#include "service/log/log.h"
#include "service/request/stock_snapshot.h"

enum {
    REMEMBER_LEFT_MS = 1000, /* "sold out" is checked again after this: a message may be lost */
};

static void set_proxies(struct service *service, const char *text)
{
    struct proxies *proxies = memory_must(calloc(1, sizeof *proxies));
    bool parsed = networks_parse(text, &proxies->networks);
    assert(parsed); /* config_load has checked it with the same function */
    const struct proxies *present = atomic_load(&service->proxies);
    if (present && memcmp(&present->networks, &proxies->networks, sizeof proxies->networks) == 0) {
        free(proxies);
        return;
    }
    proxies->older = present;
    atomic_store(&service->proxies, proxies);
}

/* Takes over what other threads read of the checked configuration: later requests and batches see
 * it. */
static void take_reloadable(struct service *service, const struct config *config)
{
    atomic_store(&service->rates.user_per_min, config->rate_user_per_min);
    atomic_store(&service->rates.user_burst, config->rate_user_burst);
    atomic_store(&service->rates.address_per_min, config->rate_address_per_min);
    atomic_store(&service->rates.address_burst, config->rate_address_burst);
    atomic_store(&service->access_log, config->access_log);
    set_proxies(service, config->trusted_proxies);
}

static void free_proxies(struct service *service)
{
    const struct proxies *proxies = atomic_load(&service->proxies);
    atomic_store(&service->proxies, NULL);
    while (proxies) {
        const struct proxies *older = proxies->older;
        free((void *)(uintptr_t)proxies);
        proxies = older;
    }
}

static uint64_t clock_of_ids(void *clock)
{
    return (uint64_t)synced_clock_ms(clock);
}

static void open_queues(struct service *service)
{
    const struct config *config = &service->config;
    service->orders = queue_open(config->queue_max);
    for (int kind = 0; kind < CALL_KINDS; kind++)
        service->calls[kind] =
            queue_open(call_kinds[kind].places < config->call_queue_max ? call_kinds[kind].places
                                                                        : config->call_queue_max);
}

void service_open(struct service *service)
{
    const struct config *config = &service->config;
    service->stock = (struct stock_options){
        .strategy = config->strategy,
        .lock = config->lock,
        .lock_servers = config->lock_servers,
        .redis_url = config->redis_url,
        .mysql_url = config->mysql_url,
        .lease_ms = (int)config->lease_ms,
        .redis_timeout_ms = (int)config->redis_timeout_ms,
        .mysql_timeout_ms = (int)config->mysql_timeout_ms,
        .resolve_ms = (int)config->deadline_ms,
        .events = config->events_retention_h > 0,
        .remember_left_ms = REMEMBER_LEFT_MS,
        .rates = &service->rates,
    };
    service->connections_max = config->connections_max;
    service->operators_max = OPERATORS_MAX;
    take_reloadable(service, config);
    service->tokens = tokens_open(config);
    drain_open(&service->drain, &service->phase);
    service->sale_cache = sale_cache_open();
    service->stock_snapshots = stock_snapshots_open();
    service->admin_actions = admin_actions_open();
    synced_clock_init(&service->clock);
    order_ids_init(&service->ids, clock_of_ids, &service->clock, config->pod);
    node_init(&service->node, (int)config->node_id);
    open_queues(service);
}

void service_close(struct service *service)
{
    for (int kind = 0; kind < CALL_KINDS; kind++)
        queue_close(&service->calls[kind]);
    queue_close(&service->orders);
    admin_actions_close(&service->admin_actions);
    stock_snapshots_close(&service->stock_snapshots);
    sale_cache_close(&service->sale_cache);
    tokens_close(&service->tokens);
    free_proxies(service);
}

void service_stop_queues(struct service *service)
{
    for (int kind = 0; kind < CALL_KINDS; kind++)
        queue_stop(service->calls[kind]);
    queue_stop(service->orders);
}

/* ---- reloading the configuration ---- */

/* The options that can change while the daemon runs. */
static const bool is_live[OPTION_COUNT] = {
    [OPTION_rate_user_per_min] = true,    [OPTION_rate_user_burst] = true,
    [OPTION_rate_address_per_min] = true, [OPTION_rate_address_burst] = true,
    [OPTION_trusted_proxies] = true,      [OPTION_log_level] = true,
    [OPTION_log_format] = true,           [OPTION_log_priority] = true,
    [OPTION_access_log] = true,
};

/* True when the option's value comes from a file of tokens, which tokens_reload reads. */
static bool is_from_token_file(const struct config *config, unsigned option)
{
    return (option == OPTION_admin_token && config->admin_token_file[0] != '\0') ||
           (option == OPTION_shop_token && config->shop_token_file[0] != '\0');
}

/* Takes one option over, or logs that it needs a restart. Once the daemon runs, only this thread
 * reads the fields of live options. */
static void take_over(struct config *present, struct config *fresh, unsigned option)
{
    const struct option *row = &config_options[option];
    char text[CONFIG_VALUE_MAX];
    if (value_equal(present, fresh, row) || is_from_token_file(present, option))
        return;
    value_show(fresh, row, text);
    if (is_live[option]) {
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
    take_reloadable(service, config);
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
