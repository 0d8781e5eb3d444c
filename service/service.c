/* What the threads of the daemon share. */
#include "service/service.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "service/live/admin_actions.h"
#include "service/live/live_page.h"
#include "service/request/stock_snapshot.h"

enum {
    REMEMBER_LEFT_MS = 1000, /* "sold out" is asked again after this, should a message be lost */
};

static void set_proxies(struct service *service, const char *text)
{
    struct proxies *proxies = calloc(1, sizeof *proxies);
    if (!proxies)
        abort();
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

void service_apply(struct service *service, const struct config *config)
{
    atomic_store(&service->rates.user_per_min, config->rate_user_per_min);
    atomic_store(&service->rates.user_burst, config->rate_user_burst);
    atomic_store(&service->rates.address_per_min, config->rate_address_per_min);
    atomic_store(&service->rates.address_burst, config->rate_address_burst);
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
        .remember_left_ms = REMEMBER_LEFT_MS,
        .rates = &service->rates,
    };
    service->connections_max = config->connections_max;
    service->operators_max = OPERATORS_MAX;
    service_apply(service, config);
    service->tokens = tokens_open(config);
    drain_open(&service->drain, &service->phase);
    service->sale_cache = sale_cache_open();
    service->stock_snapshots = stock_snapshots_open();
    service->live_page = live_page_open();
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
    live_page_close(&service->live_page);
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
