/* The stock as one thread sees it: its connections, its pipeline, and the list of strategies. */
#include "stock/stock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stock/batch.h"
#include "stock/outer.h"
#include "stock/rate.h"
#include "stock/stock_private.h"
#include "stock/terms.h"

/* Batches hold a segment for a moment and wake nobody when they release it. */
enum { LOCK_POLL_MS = 5 };

static const struct stock_strategy *const strategies[] = {
    &stock_segment_lock, &stock_single_lock, &stock_atomic,
    &stock_optimistic,   &stock_database,    &stock_database_for_update,
};

static const struct stock_strategy *strategy_find(const char *name)
{
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++)
        if (strcmp(strategies[i]->name, name) == 0)
            return strategies[i];
    return NULL;
}

bool stock_strategy_known(const char *name)
{
    return strategy_find(name) != NULL;
}

int64_t stock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

uint32_t stock_random(struct stock *stock, uint32_t bound)
{
    assert(bound > 0);
    return (uint32_t)rand_r(&stock->random) % bound;
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory)
        abort();
    return memory;
}

struct stock *stock_open(const struct stock_options *options, struct sale_catalog *catalog,
                         char *error_out, size_t error_size)
{
    struct stock *stock = allocate(1, sizeof *stock);
    stock->options = *options;
    stock->catalog = catalog;
    stock->strategy = strategy_find(options->strategy);
    stock->random = (unsigned)stock_now_ns() ^ (unsigned)(uintptr_t)stock;
    stock->calls = allocate(STOCK_CALLS_MAX, sizeof *stock->calls);
    stock->holds = allocate(STOCK_HOLDS_MAX, sizeof *stock->holds);
    stock->batch = allocate(1, sizeof *stock->batch);
    stock->terms = terms_book_open();
    stock->rate = rate_open(&options->rates);
    if (!stock->strategy)
        snprintf(error_out, error_size, "no strategy \"%s\"", options->strategy);
    else
        stock->redis =
            redis_open(options->redis_url, options->redis_timeout_ms, error_out, error_size);
    if (stock->redis)
        stock->ledger =
            ledger_open(options->mysql_url, options->mysql_timeout_ms, error_out, error_size);
    if (!stock->ledger || !outer_open(stock, error_out, error_size))
        stock_close(&stock);
    return stock;
}

void stock_close(struct stock **stock)
{
    struct stock *old = *stock;
    if (old) {
        stock_flush(old);
        seclock_close(&old->locks);
        outer_close(old);
        ledger_close(&old->ledger);
        redis_close(&old->redis);
        terms_book_close(&old->terms);
        rate_close(&old->rate);
        free(old->batch);
        free(old->holds);
        free(old->calls);
    }
    free(old);
    *stock = NULL;
}

struct seclock_client *stock_locks(struct stock *stock)
{
    const char *const servers[] = {stock->options.redis_url, NULL};
    struct seclock_options options =
        SECLOCK_OPTIONS(.servers = servers, .prefix = STOCK_PREFIX,
                        .lease_ms = stock->options.lease_ms,
                        .timeout_ms = stock->options.redis_timeout_ms, .poll_ms = LOCK_POLL_MS);
    if (!stock->locks)
        seclock_open(&options, &stock->locks);
    assert(stock->locks); /* the same url was good enough for stock_open */
    return stock->locks;
}

struct script_call *stock_call(struct stock *stock)
{
    assert(stock->call_count < STOCK_CALLS_MAX);
    return &stock->calls[stock->call_count++];
}

bool stock_run_calls(struct stock *stock)
{
    int64_t start_ns = stock_now_ns();
    script_run(stock->redis, stock->calls, stock->call_count);
    stock->stats.redis_calls++;
    stock->stats.redis_calls_ns += (uint64_t)(stock_now_ns() - start_ns);
    stock->call_count = 0;
    if (rate_posted(stock))
        rate_read(stock);
    return redis_connected(stock->redis);
}

void stock_flush(struct stock *stock)
{
    if (stock->call_count > 0 && stock->redis)
        stock_run_calls(stock);
}

size_t stock_batch_max(const struct stock *stock)
{
    return stock->strategy->batch_max;
}

void stock_order_clear(struct stock_order *order)
{
    free(order->allocations);
    free(order->had);
    order->allocations = NULL;
    order->allocation_count = 0;
    order->had = NULL;
}

bool stock_ping_redis(struct stock *stock)
{
    return redis_ping(stock->redis) == REDIS_ANSWERED;
}

bool stock_ping_ledger(struct stock *stock)
{
    return ledger_ping(stock->ledger) == LEDGER_OK;
}

struct ledger *stock_ledger(struct stock *stock)
{
    return stock->ledger;
}

struct stock_stats stock_stats(const struct stock *stock)
{
    return stock->stats;
}

const char *stock_redis_error(const struct stock *stock)
{
    const char *error = outer_error(stock);
    return error ? error : redis_error(stock->redis);
}

uint64_t stock_redis_connects(const struct stock *stock)
{
    return redis_stats(stock->redis).connects;
}

enum ledger_result stock_sale_reload(struct stock *stock, const char *sku, struct sale **sale_out)
{
    struct ledger_sale row;
    struct sale *known = catalog_find(stock->catalog, sku);
    uint32_t epoch = known ? sale_view(known).epoch : 0;
    int64_t asked_ns = stock_now_ns();
    enum ledger_result result = ledger_sale_find(stock->ledger, sku, &row);
    if (result != LEDGER_OK)
        return result;
    *sale_out = catalog_put(stock->catalog, &row);
    if (!*sale_out)
        return LEDGER_FAILED;
    sale_confirm(*sale_out, epoch, asked_ns, stock->options.remember_left_ms);
    return LEDGER_OK;
}

enum ledger_result stock_sale(struct stock *stock, const char *sku, struct sale **sale_out)
{
    *sale_out = catalog_find(stock->catalog, sku);
    return *sale_out ? LEDGER_OK : stock_sale_reload(stock, sku, sale_out);
}
