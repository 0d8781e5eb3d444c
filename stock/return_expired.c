/* Reserved orders whose time is over: found in the ledger, and ended many at a time. */
#include "stock/return_expired.h"

#include <stdlib.h>
#include <string.h>

#include "stock/returns.h"
#include "stock/stock_core.h"

enum { DUE_MAX = 4 * LEDGER_RETURNS_MAX }; /* orders that one stock_expire looks at */

static int compare_sales(const void *a, const void *b)
{
    const struct return_order *one = a, *other = b;
    int by_sku = strcmp(one->sku, other->sku);
    return by_sku != 0 ? by_sku
                       : (one->order_id > other->order_id) - (one->order_id < other->order_id);
}

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
static bool expire_part(struct stock *stock, struct return_order *orders, size_t count,
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
    return !failed || stock->held_row.count > held;
}

/* By sale, so that few transactions meet in one. */
static enum ledger_result expire_all(struct stock *stock, struct return_order *orders, size_t count,
                                     struct stock_expired *expired)
{
    bool done = true;
    qsort(orders, count, sizeof *orders, compare_sales);
    for (size_t i = 0, part; i < count && done; i += part) {
        part = count - i < LEDGER_RETURNS_MAX ? count - i : LEDGER_RETURNS_MAX;
        done = expire_part(stock, orders + i, part, expired);
    }
    return done ? LEDGER_OK : LEDGER_FAILED;
}

enum ledger_result stock_expire(struct stock *stock, struct ledger_due_cursor *cursor,
                                struct stock_expired *expired_out)
{
    struct ledger_due *due = malloc(DUE_MAX * sizeof *due);
    struct return_order *orders = malloc(DUE_MAX * sizeof *orders);
    size_t count = 0;
    if (!due || !orders)
        abort();
    *expired_out = (struct stock_expired){0};
    enum ledger_result result = ledger_due_list(stock->ledger, cursor, DUE_MAX, due, &count);
    for (size_t i = 0; i < count; i++)
        orders[i] = order_of(&due[i]);
    if (count > 0)
        result = expire_all(stock, orders, count, expired_out);
    free(due);
    free(orders);
    return result;
}
