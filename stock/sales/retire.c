/* Ends a sale.
 *
 *   count the round's orders that hold units ─► lock all segments ─► ledger, one transaction: the
 *     sale and its segments go, if nothing was sold since ─► the segments' keys go ─► publish
 *
 * A process that dies after the commit leaves keys in Redis, of a sale that no process finds in the
 * ledger; another call for the sku, or an order that comes to them, deletes them.
 *
 * why_in_parts: the table of orders may be long, and the thread serves other calls. So one call
 * counts for a moment only; the thread keeps its count, and the next call for the sale goes on
 * there. The holder of the locks checks that nothing was sold or returned meanwhile. */
#include "stock/sales/sales.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "sql/orders/orders.h"
#include "stock/sales/lock.h"

enum { COUNT_MS = 500 }; /* one call's time for counting orders */

struct retiring {
    struct sale_change change;
    int64_t until_ns; /* until then orders are counted */
    bool refunds_elsewhere;
    bool doubt; /* a commit of this call was not answered */
};

static void drop_locked(struct stock *stock, struct sale_lock *locked)
{
    assert(locked->count > 0 && locked->count <= LEDGER_SEGMENTS_MAX);
    for (size_t i = 0; i < locked->count; i++)
        segment_post_retire(stock, &locked->holds[i].lock);
    sale_lock_release(stock, locked);
}

/* The ledger has nothing left of the sale. After a commit in doubt this call's client may take that
 * as its own doing. */
static enum stock_admin_result end_gone(struct stock *stock, const struct retiring *retiring,
                                        struct sale_lock *locked)
{
    const struct sale_change *change = &retiring->change;
    uint32_t segments = 0;
    enum ledger_result found = ledger_retired_find(stock->ledger, change->sku, &segments);
    uint64_t connection = ledger_connection(stock->ledger);
    if (found != LEDGER_OK)
        return found == LEDGER_NO ? STOCK_ADMIN_NO_SALE : STOCK_ADMIN_FAILED;
    if (sale_lock_acquire_first(stock, change->sku, segments, change->wait_ms, locked) ==
        STOCK_ADMIN_OK)
        drop_locked(stock, locked);
    if (!retiring->doubt)
        return STOCK_ADMIN_NO_SALE;
    if (ledger_confirm(stock->ledger, connection) != LEDGER_OK)
        return STOCK_ADMIN_IN_DOUBT;
    sale_publish_retired(stock, change->sku, change->sale->round);
    return STOCK_ADMIN_OK;
}

/* Counts the orders that hold units, on from an earlier call. OK: no order is reserved. */
static enum stock_admin_result count_held(struct stock *stock, const struct retiring *retiring)
{
    struct ledger_held *held = &stock->held;
    enum ledger_result result = LEDGER_OK;
    do {
        result = ledger_held_count(stock->ledger, retiring->change.sale, held);
        if (result == LEDGER_FAILED)
            return STOCK_ADMIN_FAILED;
    } while (result == LEDGER_OK && !held->done && clock_now_ns() < retiring->until_ns);
    if (held->reserved > 0)
        return STOCK_ADMIN_IN_USE;
    return result == LEDGER_OK && held->done ? STOCK_ADMIN_OK : STOCK_ADMIN_COUNTING;
}

static enum stock_admin_result retire_locked(struct stock *stock, struct retiring *retiring,
                                             struct sale_lock *locked)
{
    struct sale_change *change = &retiring->change;
    enum ledger_result result = LEDGER_NO;
    if (locked->count == change->sale->segments)
        result =
            ledger_retire(stock->ledger, change->sale, &stock->held, retiring->refunds_elsewhere);
    if (result == LEDGER_OK) {
        drop_locked(stock, locked);
        sale_publish_retired(stock, change->sku, change->sale->round);
    } else {
        stock->held.begun = false; /* the next try counts again */
        sale_lock_release(stock, locked);
    }
    if (result == LEDGER_NO && stock->held.refunds_due > 0)
        return STOCK_ADMIN_REFUNDS_DUE;
    enum stock_admin_result told = sale_change_result(change, result);
    retiring->doubt |= result == LEDGER_UNKNOWN;
    change->again |= result == LEDGER_UNKNOWN; /* the sale itself tells */
    return told;
}

static enum stock_admin_result try_once(struct stock *stock, struct sale_change *change,
                                        struct sale_lock *locked)
{
    struct retiring *retiring = (struct retiring *)change;
    struct ledger_sale present;
    enum ledger_result found = ledger_sale_find(stock->ledger, change->sku, &present);
    if (found == LEDGER_NO)
        return end_gone(stock, retiring, locked);
    if (found != LEDGER_OK)
        return STOCK_ADMIN_FAILED;
    *change->sale = present;
    enum stock_admin_result result = count_held(stock, retiring);
    if (result == STOCK_ADMIN_OK)
        result = sale_lock_acquire(stock, change->sku, change->wait_ms, locked);
    if (result == STOCK_ADMIN_OK)
        return retire_locked(stock, retiring, locked);
    change->again = result == STOCK_ADMIN_BUSY || result == STOCK_ADMIN_NO_SALE;
    return result == STOCK_ADMIN_NO_SALE ? STOCK_ADMIN_BUSY : result;
}

enum stock_admin_result stock_retire(struct stock *stock, const char *sku, bool refunds_elsewhere,
                                     int wait_ms, struct ledger_sale *sale_out,
                                     struct ledger_held *held_out)
{
    struct retiring retiring = {.change = {sku, NULL, wait_ms, sale_out, try_once, false},
                                .refunds_elsewhere = refunds_elsewhere,
                                .until_ns = clock_now_ns() + COUNT_MS * CLOCK_NS_PER_MS};
    if (!stock->held.begun || strcmp(stock->held.sku, sku) != 0)
        stock->held = (struct ledger_held){.begun = false};
    enum stock_admin_result result = sale_change_run(stock, &retiring.change);
    *held_out = stock->held;
    stock->held.begun &= result == STOCK_ADMIN_COUNTING || result == STOCK_ADMIN_BUSY;
    return result;
}
