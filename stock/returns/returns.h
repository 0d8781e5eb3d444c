/* Pays, cancels and expires orders; units of the latter two can be sold again at once. */
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

/* Pay or cancel orders of any sales, each perhaps more than once, blocking as long as Redis and the
 * ledger take. They try for up to `wait_ms`, at least once, until an order is decided, and return
 * the others as BUSY: an order whose segments or row another holder has locked does not keep the
 * others waiting. OK and REFUSED: what the record says is on disk, unless it may still change. A
 * repeat is harmless. */
void stock_pay(struct stock *stock, struct stock_status_change *changes, size_t count, int wait_ms);
void stock_cancel(struct stock *stock, struct stock_status_change *changes, size_t count,
                  int wait_ms);

struct stock_expired {
    size_t count;   /* expired orders */
    size_t awaited; /* of these, orders whose units buyers may wait for */
};

/* Expires some hundreds of the reserved orders whose time is over, from `cursor` on, which moves on
 * and says whether there are more; then call again at once. Skips orders while others hold their
 * rows or all of their sale's segments; they come again once the cursor starts over, all zero.
 * LEDGER_OK or LEDGER_FAILED. Safe to run in several processes, but pointless. */
enum ledger_result stock_expire(struct stock *stock, struct ledger_due_cursor *cursor,
                                struct stock_expired *expired_out);

/* ---- returns.c: for stock/ alone ---- */

/* One order to be ended, as its row was read. */
struct return_order {
    uint64_t order_id;
    char sku[IDENTIFIER_SIZE];
    uint32_t round;
    uint32_t qty;
    void *owner; /* the caller's */
    bool moved;  /* out: this call has ended it; set once per id */
    /* Out. OK: this call has ended it. BUSY: it has not, read the order again. IN_DOUBT: it may
     * have. FAILED and DAMAGED: it has not. */
    enum stock_state_result result;
};

struct returns {
    size_t moved;   /* orders that this call has ended */
    size_t awaited; /* of these, orders whose units buyers may wait for */
    bool committed; /* a commit was made, and confirms all that was read before */
};

/* Ends as many of the orders, 1..LEDGER_RETURNS_MAX, as it can in one transaction; `to` is
 * LEDGER_CANCELLED or LEDGER_EXPIRED. Sorts them; an id may come more than once. Waits for segments
 * for some hundredths of a second at most, and for no order. */
struct returns returns_end(struct stock *stock, struct return_order *orders, size_t count,
                           enum ledger_status to);

/* Waits a random moment before busy orders are tried again. */
void returns_pause(struct stock *stock);

#endif
