/* What the threads of the daemon share. */
#include "service/service.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "service/admin_actions.h"
#include "service/live_page.h"
#include "service/stock_snapshot.h"

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

static void open_shard(struct service *service, unsigned number)
{
    struct shard *shard = &service->shards[number];
    *shard = (struct shard){
        .service = service,
        .config = &service->config,
        .sale_cache = service->sale_cache,
        .number = number,
        .stock = service->stock,
    };
    shard->stock.mysql_url = service->ledgers.urls[number];
    shard->stock.shard = number;
    shard_open(shard);
}

void service_open(struct service *service)
{
    const struct config *config = &service->config;
    char why[URL_ERROR_SIZE];
    bool parsed = ledgers_parse(config->mysql_url, &service->ledgers, why);
    assert(parsed); /* config_load has checked it with the same function */
    service->shard_count = (unsigned)service->ledgers.count;
    service->stock = (struct stock_options){
        .strategy = config->strategy,
        .lock = config->lock,
        .lock_servers = config->lock_servers,
        .redis_url = config->redis_url,
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
    for (unsigned i = 0; i < service->shard_count; i++)
        open_shard(service, i);
}

void service_close(struct service *service)
{
    for (unsigned i = 0; i < service->shard_count; i++)
        shard_close(&service->shards[i]);
    admin_actions_close(&service->admin_actions);
    live_page_close(&service->live_page);
    stock_snapshots_close(&service->stock_snapshots);
    sale_cache_close(&service->sale_cache);
    tokens_close(&service->tokens);
    free_proxies(service);
}

bool service_prepared_all(const struct service *service)
{
    for (unsigned i = 0; i < service->shard_count; i++)
        if (!atomic_load(&service->shards[i].prepared))
            return false;
    return true;
}

bool service_prepared(const struct service *service)
{
    for (unsigned i = 0; i < service->shard_count; i++)
        if (atomic_load(&service->shards[i].prepared))
            return true;
    return false;
}

bool service_begun(const struct service *service, int64_t now_ns)
{
    for (unsigned i = 0; i < service->shard_count; i++) {
        const struct shard *shard = &service->shards[i];
        if (!atomic_load(&shard->prepared) && now_ns < atomic_load(&shard->settle_ns))
            return false;
    }
    return service_prepared(service);
}

size_t service_queue_depth(const struct service *service)
{
    size_t sum = 0;
    for (unsigned i = 0; i < service->shard_count; i++)
        sum += queue_depth(service->shards[i].orders);
    return sum;
}

size_t service_queue_capacity(const struct service *service)
{
    return service->shard_count * queue_capacity(service->shards[0].orders);
}

int service_shard_of_sku(const struct service *service, const char *sku)
{
    unsigned section = sale_cache_enter(service->sale_cache);
    const struct sale *sale = sale_cache_find(service->sale_cache, sku);
    int shard = sale ? (int)sale_shard(sale) : -1;
    sale_cache_leave(service->sale_cache, section);
    return shard;
}

int64_t service_sale_ms(const struct service *service, const char *sku)
{
    int shard = service_shard_of_sku(service, sku);
    return shard_clock_ms(&service->shards[shard < 0 ? 0 : shard].clock);
}
