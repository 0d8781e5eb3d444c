/* Opens and closes a thread's stock, and decides orders: checks before and after a strategy.
 *
 *   settings: is the sale open? ─► limit: may the user have more?
 *      ─► keys, but only while repeats are expected: was it accepted before?
 *      ─► is its time over?
 *      ─► the strategy asks for the rate limits, takes units and commits
 *      ─► the keys of all refused orders ─► make durable what repeats found
 *
 * why_keys_last: an order with a key is refused only if the key was looked up after the reason for
 * the refusal was found. Otherwise its first try, under way in another batch or process, could be
 * accepted between the two, and its repeat would be refused. A reason must also stop the first try:
 * the ledger's answers do, and the settings do by their version; but an end comes by itself, so the
 * ledger is told of it first (settings_fence_ended). Whatever the reason for a refusal, the first
 * try stops at the end of its time: see replay_find. */
#include "stock/stock.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "lua/cluster/cluster.h"
#include "sql/events/events.h"
#include "stock/orders/orders.h"

/* The wait of a batch for a cluster's slot that is being moved. Short, because it can sell from
 * other segments. */
enum { MOVE_MS = 20 };

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

struct stock *stock_open(const struct stock_options *options, struct sale_cache *cache,
                         char *error_out, size_t error_size)
{
    assert(options->strategy && options->redis_url && cache);
    struct stock *stock = memory_must(calloc(1, sizeof *stock));
    stock->options = *options;
    stock->sale_cache = cache;
    stock->strategy = strategy_find(options->strategy);
    stock->random = (unsigned)clock_now_ns() ^ (unsigned)(uintptr_t)stock;
    stock->calls = memory_must(calloc(STOCK_CALLS_MAX, sizeof *stock->calls));
    stock->holds = memory_must(calloc(STOCK_HOLDS_MAX, sizeof *stock->holds));
    stock->batch = memory_must(calloc(1, sizeof *stock->batch));
    if (!stock->strategy)
        snprintf(error_out, error_size, "no strategy \"%s\"", options->strategy);
    else
        stock->redis =
            redis_open(options->redis_url, options->redis_timeout_ms, error_out, error_size);
    struct cluster *cluster = stock->redis ? redis_cluster(stock->redis) : NULL;
    if (cluster)
        cluster_set_patience(cluster, MOVE_MS);
    stock->rate = rate_open(options->rates, cluster);
    stock->read_rates = stock->rate ? rate_read : NULL;
    if (stock->redis)
        stock->ledger =
            ledger_open(options->mysql_url, options->mysql_timeout_ms, error_out, error_size);
    if (stock->ledger)
        ledger_events_write(stock->ledger, options->events);
    if (!stock->ledger || !guard_lock_open(stock, error_out, error_size))
        stock_close(&stock);
    return stock;
}

void stock_close(struct stock **stock)
{
    struct stock *old = *stock;
    if (old) {
        stock_flush(old); /* settles the last batch's segments before their leases end */
        seclock_close(&old->locks);
        guard_lock_close(old);
        ledger_close(&old->ledger);
        redis_close(&old->redis);
        rate_close(&old->rate);
        free(old->batch);
        free(old->returning);
        free(old->holds);
        free(old->calls);
    }
    free(old);
    *stock = NULL;
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

/* ---- selling ---- */

/* Time left without which an order is not begun. An order whose time ends amid its batch sends the
 * batch back; in a crowd that waits as long as it may, each batch would have such orders. */
enum { BEGIN_MS = 20 };

/* Fails refused orders when the ledger cannot be asked: an order may have been accepted before
 * under its key, so it must not be refused either. */
static void fail_refused(struct stock_order *const *orders, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (orders[i]->key[0] != '\0' && stock_outcome_refused(orders[i]->outcome))
            orders[i]->outcome = STOCK_UNAVAILABLE;
}

/* Fails the orders before anything has been tried. */
static void fail(struct stock_order *const *orders, size_t count)
{
    fail_refused(orders, count);
    for (size_t i = 0; i < count; i++)
        if (orders[i]->outcome == STOCK_OPEN ||
            (orders[i]->deferred && orders[i]->outcome == STOCK_AGAIN))
            orders[i]->outcome = STOCK_UNAVAILABLE;
}

/* Lists the open orders, except those whose client was told that its time is over, or will be told
 * so before the order can be committed. */
static size_t list_open(struct stock_order *const *orders, size_t count, struct stock_order **out)
{
    int64_t soon_ns = clock_now_ns() + BEGIN_MS * CLOCK_NS_PER_MS;
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        if (orders[i]->outcome != STOCK_OPEN)
            continue;
        if (stock_order_late(orders[i], soon_ns))
            orders[i]->outcome = STOCK_AGAIN;
        else
            out[found++] = orders[i];
    }
    return found;
}

static void decide(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    struct stock_order *open[STOCK_BATCH_MAX];
    settings_begin(stock, orders, count);
    replay_defer(orders, count);
    if (!limit_find(stock, orders, count, false) || !replay_find_expected(stock, orders, count)) {
        fail(orders, count);
        return;
    }
    size_t found = list_open(orders, count, open);
    assert(found <= count);
    rate_post(stock, open, found);
    if (stock->strategy->asks_rates_first)
        rate_finish(stock, open, found);
    stock->strategy->sell(stock, open, found);
    rate_finish(stock, open, found);
    settings_fence_ended(stock, orders, count);
    /* Looks up the keys of all orders refused by now (why_keys_last), and of the orders that waited
     * for an earlier one in the batch. */
    if (!replay_find(stock, orders, count))
        fail_refused(orders, count);
}

size_t stock_batch_max(const struct stock *stock)
{
    return stock->strategy->batch_max;
}

void stock_sell(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    assert(count <= STOCK_BATCH_MAX);
    for (size_t i = 0; i < count; i++) {
        orders[i]->outcome = STOCK_OPEN;
        orders[i]->deferred = false;
        orders[i]->history = NULL;
        orders[i]->ordered = 0;
    }
    uint64_t trips = stock->stats.redis_calls;
    decide(stock, orders, count);
    replay_confirm(stock, orders, count);
    /* The last batch's settles wait for a trip of this one. If it makes no trip, perhaps the next
     * makes none either, and their segments would stay locked for a lease. */
    if (stock->stats.redis_calls == trips)
        stock_flush(stock);
    for (size_t i = 0; i < count; i++)
        assert(orders[i]->outcome != STOCK_OPEN);
}
