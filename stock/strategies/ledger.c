/* Sells by the ledger, without a counter in Redis: the strategies `database` and `single_lock`.
 *
 * `database` is a conditional UPDATE and nothing else. why_hints_suffice: the hints, what this
 * process last saw of the segments, say where an UPDATE is worth trying; its condition says whether
 * the units are there. When it refuses, or the hints show no more units, the segments are read.
 * Each change increments the segment's fence, so that a strategy which sells by the counters in
 * Redis afterwards finds them out of date and recovers them.
 *
 * `single_lock` is one lock for the whole product, an order at a time: lock, check, write, release.
 * It is the reference that the others are compared with, because it is obviously right. It checks
 * and writes the ledger, and asks Redis for nothing but the lock. The ledger refuses a holder that
 * outlives its lease, by its fence. */
#include "stock/orders/orders.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Begins a hold without a lock or a take: the update's condition tells if the units are there. */
static void begin_planned(struct stock *stock, struct segment_hold *hold, struct sale *sale,
                          const struct sale_snapshot *snapshot, uint32_t segment, uint32_t wanted)
{
    (void)stock;
    segment_begin(hold, sale, snapshot, segment);
    hold->state = SEGMENT_TAKEN;
    hold->taken = wanted;
}

/* Plans without reserving anything and fills the orders: the ledger's guards tell whether the units
 * are there. */
static void fill_planned(struct stock *stock, struct batch *batch)
{
    for (size_t i = 0; i < batch->group_count; i++) {
        size_t first_hold = stock->hold_count;
        assert(batch->groups[i].leftover == 0);
        group_plan(stock, &batch->groups[i], begin_planned);
        for (size_t j = first_hold; j < stock->hold_count; j++)
            batch->groups[i].leftover += stock->holds[j].taken;
        group_fill(&batch->groups[i]);
    }
}

/* Sets the sale's hints to the units left in its rows. Returns the sum. */
static uint32_t set_hints(struct sale *sale, const struct ledger_segment *rows, size_t count)
{
    uint32_t left = 0;
    for (size_t i = 0; i < count; i++) {
        sale_hint_set(sale, rows[i].segment, rows[i].capacity - rows[i].sold);
        left += rows[i].capacity - rows[i].sold;
    }
    return left;
}

/* ---- database ---- */

/* Reads the group's segments: the units left decide its open orders, and are the next hints. */
static void fetch(struct stock *stock, struct group *group)
{
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    size_t count = 0;
    if (strategy_fetch(stock, group, rows, &count))
        strategy_remember_left(stock, group, set_hints(group->sale, rows, count));
}

/* Lowers the hints by what this process has sold; a refused UPDATE shows what others have sold. */
static void lower_hints(struct stock *stock)
{
    for (size_t i = 0; i < stock->hold_count; i++) {
        const struct segment_hold *hold = &stock->holds[i];
        uint32_t hint = sale_hint(hold->sale, hold->segment);
        sale_hint_set(hold->sale, hold->segment, hint > hold->used ? hint - hold->used : 0);
    }
}

static void sell_by_update(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    struct batch *batch = batch_begin(stock, orders, count);
    fill_planned(stock, batch);
    enum ledger_result result = strategy_commit(stock, batch);
    if (result == LEDGER_OK)
        lower_hints(stock);
    for (size_t i = 0; i < batch->group_count; i++)
        if (batch->groups[i].first && (result == LEDGER_NO || group_open(&batch->groups[i])))
            fetch(stock, &batch->groups[i]);
}

const struct stock_strategy strategy_database = {
    .name = "database",
    .guard = LEDGER_UNFENCED,
    .batch_max = STOCK_BATCH_MAX,
    .asks_rates_first = true,
    .sell = sell_by_update,
};

/* ---- single_lock ---- */

/* Raises the lock's fence in Redis if the ledger is ahead of it. True when it was ahead: the lock
 * must be taken again, for a greater fence. */
static bool catch_up(struct stock *stock, const struct seclock_handle *handle,
                     const struct ledger_segment *rows, size_t count)
{
    uint64_t last = 0;
    for (size_t i = 0; i < count; i++)
        last = rows[i].fence > last ? rows[i].fence : last;
    if (last < seclock_fence(handle))
        return false;
    struct lock_hold lock = {.state = SECLOCK_STATE_RELEASED};
    strcpy(lock.name, seclock_name(handle));
    segment_post_fence(stock, &lock, last);
    stock_flush(stock);
    return true;
}

/* Sells the batch's one order under the lock. Reads the rows under the lock, too, so their units
 * left are there for this order. */
static void sell_locked(struct stock *stock, struct batch *batch,
                        const struct seclock_handle *handle)
{
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    struct group *group = batch->orders[0].order->group;
    size_t count = 0;
    if (!strategy_fetch(stock, group, rows, &count))
        return;
    if (catch_up(stock, handle, rows, count)) {
        group_decide(group, STOCK_AGAIN, UINT32_MAX);
        return;
    }
    uint32_t left = set_hints(group->sale, rows, count);
    fill_planned(stock, batch);
    assert(batch->order_count == 1);
    for (size_t i = 0; i < stock->hold_count; i++)
        stock->holds[i].lock.fence = seclock_fence(handle);
    if (batch_filled(batch, NULL) > 0)
        strategy_commit(stock, batch);
    else
        strategy_remember_left(stock, group, left);
}

static void sell_one(struct stock *stock, struct stock_order *order)
{
    char name[SECLOCK_NAME_MAX];
    struct seclock_handle *handle;
    struct batch *batch = batch_begin(stock, &order, 1);
    snprintf(name, sizeof name, "%s:sale", order->sku); /* segments' names end in a number */
    struct seclock_request request =
        SECLOCK_REQUEST(.name = name, .kind = SECLOCK_KIND_SIMPLE,
                        .wait_ms = stock->options.lease_ms, .fixed_lease = true);
    enum seclock_result result = seclock_acquire(stock_locks(stock), &request, &handle);
    if (result == SECLOCK_OK)
        sell_locked(stock, batch, handle);
    else if (result == SECLOCK_TIMEOUT)
        group_decide(order->group, STOCK_AGAIN, UINT32_MAX);
    else
        batch_lost(stock, batch);
    if (handle)
        seclock_release(handle);
    seclock_free(&handle);
}

static void sell_one_by_one(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (orders[i]->outcome == STOCK_OPEN)
            sell_one(stock, orders[i]);
}

const struct stock_strategy strategy_single_lock = {
    .name = "single_lock",
    .guard = LEDGER_FENCED,
    .batch_max = 1,
    .asks_rates_first = true,
    .sell = sell_one_by_one,
};
