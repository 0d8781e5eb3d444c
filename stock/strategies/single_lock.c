/* The strategy of one lock for the whole product, an order at a time: lock, check, write, release.
 *
 * The obviously right one, which the others are compared with. It checks and writes the ledger, and
 * asks Redis for nothing but the lock. The ledger refuses a holder that outlives its lease, by its
 * fence. */
#include "stock/orders/orders.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* No segment has this name: theirs end in a number. */
static void lock_name_of(const char *sku, char name_out[SECLOCK_NAME_MAX])
{
    snprintf(name_out, SECLOCK_NAME_MAX, "%s:sale", sku);
}

/* Raises the lock's fence in Redis where the ledger is ahead of it. True when it was ahead: the
 * lock must be taken again, for a greater fence. */
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

/* Sells the batch's one order under the lock. The rows are read under the lock as well, so the
 * units that they have left are there for this order. */
static void sell_locked(struct stock *stock, struct batch *batch,
                        const struct seclock_handle *handle)
{
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    struct group *group = &batch->groups[0];
    size_t count = 0;
    if (!strategy_fetch(stock, group, rows, &count))
        return;
    if (catch_up(stock, handle, rows, count)) {
        group_decide(group, STOCK_AGAIN, UINT32_MAX);
        return;
    }
    uint32_t left = strategy_hint(group->sale, rows, count);
    strategy_fill(stock, batch);
    assert(batch->group_count == 1 && batch->order_count == 1);
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
    if (batch->group_count == 0)
        return;
    lock_name_of(order->sku, name);
    struct seclock_request request =
        SECLOCK_REQUEST(.name = name, .kind = SECLOCK_KIND_SIMPLE,
                        .wait_ms = stock->options.lease_ms, .fixed_lease = true);
    enum seclock_result result = seclock_acquire(stock_locks(stock), &request, &handle);
    if (result == SECLOCK_OK)
        sell_locked(stock, batch, handle);
    else if (result == SECLOCK_TIMEOUT)
        group_decide(&batch->groups[0], STOCK_AGAIN, UINT32_MAX);
    else
        batch_lost(stock, batch);
    if (handle)
        seclock_release(handle);
    seclock_free(&handle);
}

static void sell(struct stock *stock, struct stock_order *const *orders, size_t count)
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
    .sell = sell,
};
