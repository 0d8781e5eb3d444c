/* Reserved orders whose time is over: found in the ledger, and ended many at a time. */
#include "stock/returns/expired.h"

#include <stdlib.h>
#include <string.h>

#include "stock/returns/returns.h"
#include "stock/stock_core.h"

static struct return_order order_of(const struct ledger_due *due)
{
    struct return_order order = {
        .order_id = due->order_id, .round = due->round, .segment = due->segment, .qty = due->qty};
    memcpy(order.sku, due->sku, sizeof order.sku);
    return order;
}

/* Keeps the orders that are to be tried again. `failed_out`: a server has failed. */
static size_t keep_busy(struct return_order *orders, size_t count, bool *failed_out)
{
    size_t kept = 0;
    *failed_out = false;
    for (size_t i = 0; i < count; i++) {
        *failed_out |= orders[i].result == STOCK_STATE_FAILED;
        if (orders[i].result == STOCK_STATE_BUSY)
            orders[kept++] = orders[i];
    }
    return kept;
}

/* Ends orders until no more can be ended. A server that failed ends the pass; but the orders of
 * other sales do not wait for those whose rows somebody holds. */
static enum ledger_result expire_all(struct stock *stock, struct return_order *orders, size_t count,
                                     struct stock_expired *expired)
{
    unsigned held = stock->held_row.count;
    struct returns returns = {.moved = 1};
    bool failed = false;
    while (count > 0 && returns.moved > 0 && !failed) {
        returns = returns_end(stock, orders, count, LEDGER_EXPIRED);
        expired->count += returns.moved;
        expired->awaited += returns.awaited;
        count = keep_busy(orders, count, &failed);
    }
    return failed && stock->held_row.count == held ? LEDGER_FAILED : LEDGER_OK;
}

enum ledger_result stock_expire(struct stock *stock, struct ledger_due_cursor *cursor,
                                struct stock_expired *expired_out)
{
    struct ledger_due *due = malloc(LEDGER_RETURNS_MAX * sizeof *due);
    struct return_order *orders = malloc(LEDGER_RETURNS_MAX * sizeof *orders);
    size_t count = 0;
    if (!due || !orders)
        abort();
    *expired_out = (struct stock_expired){0};
    enum ledger_result result =
        ledger_due_list(stock->ledger, cursor, LEDGER_RETURNS_MAX, due, &count);
    for (size_t i = 0; i < count; i++)
        orders[i] = order_of(&due[i]);
    if (count > 0)
        result = expire_all(stock, orders, count, expired_out);
    free(due);
    free(orders);
    return result;
}
