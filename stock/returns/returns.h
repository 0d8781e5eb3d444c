/* Orders that are paid, cancelled or expired; the units of cancelled and expired ones can be sold
 * again at once. */
#ifndef STOCK_RETURNS_RETURNS_H
#define STOCK_RETURNS_RETURNS_H

#include <stdbool.h>
#include <stddef.h>

#include "sql/orders/orders.h"
#include "stock/stock.h"

enum { STOCK_CHANGES_MAX = LEDGER_ORDERS_MAX }; /* orders of one call */

/* One order whose status is to change. */
struct stock_status_change {
    /* In: order_id. Out with OK and REFUSED: the order as it is now. */
    struct ledger_record record;
    enum stock_state_result result;
    bool moved; /* out: this call has changed the order's status */
    bool doubt; /* for stock/ alone: a try of this call may have changed it */
};

/* Pay or cancel orders, of whatever sales and an order perhaps more than once, blocking for as long
 * as Redis and the ledger take. They try for up to `wait_ms`, at least once, until one of the
 * orders is decided, and return the others as BUSY: an order whose segments, or whose row, somebody
 * else has locked does not keep the others waiting. OK and REFUSED: what the record says is on the
 * disk, unless it may still change. A repeat is harmless. */
void stock_pay(struct stock *stock, struct stock_status_change *changes, size_t count, int wait_ms);
void stock_cancel(struct stock *stock, struct stock_status_change *changes, size_t count,
                  int wait_ms);

struct stock_expired {
    size_t count;   /* of orders */
    size_t awaited; /* of these, orders whose units buyers may wait for */
};

/* Expires reserved orders whose time is over: some hundreds after `cursor`, which moves on
 * and says whether there are more; then call again at once. Orders are left out while somebody else
 * keeps their rows, or all of their sale's segments; they come again once the cursor starts over,
 * all zero. LEDGER_OK or LEDGER_FAILED. Safe to run in several processes, but pointless. */
enum ledger_result stock_expire(struct stock *stock, struct ledger_due_cursor *cursor,
                                struct stock_expired *expired_out);

/* ---- returns.c: for stock/ alone ---- */

/* One order that is to end, as its row said when it was read. */
struct return_order {
    uint64_t order_id;
    char sku[IDENTIFIER_SIZE];
    uint32_t round;
    uint32_t qty;
    void *owner; /* the caller's */
    bool moved;  /* out: this call has ended it; once for an id that comes more than once */
    /* Out. OK: this call has ended it. BUSY: it has not, read the order again. IN_DOUBT: it may
     * have. FAILED and DAMAGED: it has not. */
    enum stock_state_result result;
};

struct returns {
    size_t moved;   /* orders that this call has ended */
    size_t awaited; /* of these, orders whose units buyers may wait for */
    bool committed; /* something was written, and with it all that was read before */
};

/* Ends as many of the orders, 1..LEDGER_RETURNS_MAX, as it can in one transaction; `to` is
 * LEDGER_CANCELLED or LEDGER_EXPIRED. Sorts them. An id may come more than once. It waits for
 * segments for some hundredths of a second at most, and for no order. */
struct returns returns_end(struct stock *stock, struct return_order *orders, size_t count,
                           enum ledger_status to);

/* Waits a random moment before orders that were busy are tried again. */
void returns_pause(struct stock *stock);

#endif
