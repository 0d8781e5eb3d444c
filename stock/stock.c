/* The stock as one thread sees it: its connections, opened and closed, and the list of
 * strategies. */
#include "stock/stock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lua/cluster/cluster.h"
#include "stock/orders/batch.h"
#include "stock/orders/check_rate.h"
#include "stock/orders/check_settings.h"
#include "stock/orders/guard_lock.h"
#include "stock/strategies/atomic.h"
#include "stock/strategies/database.h"
#include "stock/strategies/optimistic.h"
#include "stock/orders/segment_lock.h"
#include "stock/strategies/single_lock.h"

/* How long a batch waits for a slot of a cluster that is being moved. Short, because other segments
 * are there to sell from. */
enum { MOVE_MS = 20 };

/* A new strategy is a pair strategy_NAME.h, strategy_NAME.c and a line here. */
static const struct stock_strategy *const strategies[] = {
    &strategy_segment_lock, &strategy_single_lock, &strategy_atomic,
    &strategy_optimistic,   &strategy_database,
};

static const struct stock_strategy *strategy_find(const char *name)
{
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++)
        if (strcmp(strategies[i]->name, name) == 0)
            return strategies[i];
    return NULL;
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory)
        abort();
    return memory;
}

struct stock *stock_open(const struct stock_options *options, struct sale_cache *cache,
                         char *error_out, size_t error_size)
{
    assert(options->strategy && options->redis_url && cache);
    struct stock *stock = allocate(1, sizeof *stock);
    stock->options = *options;
    stock->sale_cache = cache;
    stock->strategy = strategy_find(options->strategy);
    stock->random = (unsigned)clock_now_ns() ^ (unsigned)(uintptr_t)stock;
    stock->calls = allocate(STOCK_CALLS_MAX, sizeof *stock->calls);
    stock->holds = allocate(STOCK_HOLDS_MAX, sizeof *stock->holds);
    stock->batch = allocate(1, sizeof *stock->batch);
    stock->settings = settings_book_open();
    if (!stock->strategy)
        snprintf(error_out, error_size, "no strategy \"%s\"", options->strategy);
    else
        stock->redis =
            redis_open(options->redis_url, options->redis_timeout_ms, error_out, error_size);
    struct cluster *cluster = stock->redis ? redis_cluster(stock->redis) : NULL;
    if (cluster)
        cluster_set_patience(cluster, MOVE_MS);
    stock->rate = rate_open(options->rates, cluster);
    if (stock->redis)
        stock->ledger =
            ledger_open(options->mysql_url, options->mysql_timeout_ms, error_out, error_size);
    if (!stock->ledger || !guard_lock_open(stock, error_out, error_size))
        stock_close(&stock);
    return stock;
}

void stock_close(struct stock **stock)
{
    struct stock *old = *stock;
    if (old) {
        stock_run_posted(old); /* the last batch's segments are settled, not left to their leases */
        seclock_close(&old->locks);
        guard_lock_close(old);
        ledger_close(&old->ledger);
        redis_close(&old->redis);
        settings_book_close(&old->settings);
        rate_close(&old->rate);
        free(old->batch);
        free(old->returning);
        free(old->holds);
        free(old->calls);
    }
    free(old);
    *stock = NULL;
}

void stock_flush(struct stock *stock)
{
    stock_run_posted(stock);
}

bool stock_ping_redis(struct stock *stock)
{
    return redis_ping(stock->redis) == REDIS_ANSWERED;
}

bool stock_ping_ledger(struct stock *stock)
{
    return ledger_ping(stock->ledger) == LEDGER_OK;
}

struct redis *stock_redis(struct stock *stock)
{
    return stock->redis;
}

struct ledger *stock_ledger(struct stock *stock)
{
    return stock->ledger;
}

struct stock_stats stock_stats(const struct stock *stock)
{
    return stock->stats;
}

struct fault *stock_fault(struct stock *stock, enum stock_server server)
{
    return server == STOCK_REDIS    ? redis_fault(stock->redis)
           : server == STOCK_LEDGER ? ledger_fault(stock->ledger)
                                    : &stock->lock_fault;
}

struct stock_held *stock_held(struct stock *stock)
{
    return &stock->held_row;
}

const char *stock_place(const struct stock *stock, enum stock_server server)
{
    return server == STOCK_REDIS    ? redis_place(stock->redis)
           : server == STOCK_LEDGER ? ledger_place(stock->ledger)
                                    : "";
}

uint64_t stock_redis_connects(const struct stock *stock)
{
    return redis_stats(stock->redis).connects;
}
