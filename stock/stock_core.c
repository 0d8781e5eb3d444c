/* Keeps the inside of a thread's stock: pipeline, clients, sales, and judgements of one order. */
#include "stock/stock_core.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "sql/orders/orders.h"
#include "sql/sales/sales.h"

/* Batches hold a segment for a moment and wake nobody when they release it. */
enum { LOCK_POLL_MS = 5 };

uint32_t stock_random(struct stock *stock, uint32_t bound)
{
    assert(bound > 0);
    return (uint32_t)rand_r(&stock->random) % bound;
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
    assert(stock->locks); /* stock_open parsed the same url */
    return stock->locks;
}

struct script_call *stock_call(struct stock *stock)
{
    assert(stock->call_count < STOCK_CALLS_MAX);
    return &stock->calls[stock->call_count++];
}

bool stock_run_calls(struct stock *stock)
{
    int64_t start_ns = clock_now_ns();
    script_run(stock->redis, stock->calls, stock->call_count);
    stock->stats.redis_calls++;
    stock->stats.redis_calls_ns += (uint64_t)(clock_now_ns() - start_ns);
    stock->call_count = 0;
    if (stock->read_rates)
        stock->read_rates(stock);
    return script_alive(stock->redis);
}

void stock_flush(struct stock *stock)
{
    if (stock->call_count > 0)
        stock_run_calls(stock);
}

void stock_revalidate(struct stock *stock)
{
    redis_ping(stock->redis);
    ledger_ping(stock->ledger);
}

/* True when the ledger's row is news to this process. */
static bool row_changed(struct sale *known, enum ledger_result result,
                        const struct ledger_sale *row)
{
    if (!known || result != LEDGER_OK)
        return known || result == LEDGER_OK;
    struct sale_snapshot snapshot = sale_snapshot(known);
    return row->round != snapshot.round || row->settings.version != snapshot.settings.version;
}

/* why_confirmed: a server that dies forgets what was visible but not on its disk, and the next
 * change of the sale then gets the same round or version. A cache that has learnt the lost one
 * would keep it. */
enum ledger_result stock_sale_reload(struct stock *stock, const char *sku, struct sale **sale_out)
{
    struct ledger_sale row;
    struct sale *known = sale_cache_find(stock->sale_cache, sku);
    /* Read before the question: if the sale is invalidated meanwhile, the answer may be older and
     * confirms nothing. */
    struct sale_snapshot before = {.round = 0};
    if (known)
        before = sale_snapshot(known);
    int64_t asked_ns = clock_now_ns();
    enum ledger_result result = ledger_sale_find(stock->ledger, sku, &row);
    if (result != LEDGER_OK && result != LEDGER_NO)
        return result;
    uint64_t connection = ledger_connection(stock->ledger);
    if (row_changed(known, result, &row) && ledger_confirm(stock->ledger, connection) != LEDGER_OK)
        return LEDGER_FAILED;
    if (result == LEDGER_NO && known)
        sale_cache_retire(stock->sale_cache, sku, before.round);
    if (result != LEDGER_OK)
        return result;
    *sale_out = sale_cache_put(stock->sale_cache, &row);
    if (!*sale_out)
        return LEDGER_FAILED;
    if (*sale_out == known) /* the epoch belongs to this sale */
        sale_confirm(known, before.epoch, asked_ns, stock->options.remember_left_ms);
    return LEDGER_OK;
}

/* ---- one order ---- */

void stock_order_clear(struct stock_order *order)
{
    free(order->history);
    order->history = NULL;
}

bool stock_order_late(const struct stock_order *order, int64_t now_ns)
{
    return order->until_ns != 0 && now_ns >= order->until_ns;
}

bool stock_outcome_refused(enum stock_outcome outcome)
{
    switch (outcome) {
    case STOCK_SOLD_OUT:
    case STOCK_NOT_STARTED:
    case STOCK_ENDED:
    case STOCK_PAUSED:
    case STOCK_COUNTING:
    case STOCK_LIMIT:
    case STOCK_RATE_LIMITED:
    case STOCK_UNKNOWN_SKU:
        return true;
    default:
        return false;
    }
}

enum stock_outcome stock_window_check(const struct ledger_settings *settings, int64_t now_ms,
                                      int64_t *at_ms_out)
{
    *at_ms_out = settings->ends_ms;
    if (settings->ends_ms != 0 && now_ms >= settings->ends_ms)
        return STOCK_ENDED;
    *at_ms_out = settings->starts_ms;
    if (now_ms < settings->starts_ms)
        return STOCK_NOT_STARTED;
    if (settings->paused)
        return STOCK_PAUSED;
    return settings->counting ? STOCK_COUNTING : STOCK_OPEN;
}
