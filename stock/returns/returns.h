/* Pays, extends, cancels, refunds, unpays and expires orders; units that come back can be sold
 * again at once. */
#ifndef STOCK_RETURNS_RETURNS_H
#define STOCK_RETURNS_RETURNS_H

#include <stdbool.h>
#include <stddef.h>

#include "sql/payments/payments.h"
#include "stock/stock.h"

enum { STOCK_CHANGES_MAX = LEDGER_ORDERS_MAX }; /* orders of one call */

/* One order that is to change. The payment's `ref` must be set for each call, if only to NULL. */
struct stock_status_change {
    /* In: order_id. Out with OK, REFUSED and HOLD_LIMIT: the order as it is now. */
    struct ledger_record record;
    struct ledger_payment payment;     /* that pays it, is refunded, or has failed */
    struct ledger_extension extension; /* of stock_extend */
    uint32_t keep;  /* in, of stock_cancel and stock_refund: units to keep; 0: the order ends */
    bool restock;   /* in, of stock_refund: its units can be sold again */
    int64_t now_ms; /* in, of stock_pay: UTC, since 1970, as an order's created_ms */
    enum stock_state_result result;
    bool moved; /* out: this call has changed the order */
    bool told;  /* out: this call has written the payment, or refunded it */
    bool doubt; /* for stock/ alone: a try of this call may have changed it */
};

/* Each changes orders of any sales, an order perhaps more than once, blocking as long as Redis and
 * the ledger take. They try for up to `wait_ms`, at least once, until an order is decided, and
 * return the others as BUSY: an order whose segments or row another holder has locked does not keep
 * the others waiting. OK and REFUSED: what the record and the payment say is on disk, unless it may
 * still change. A repeat is harmless. An extension, or a change that keeps a part, is not REFUSED
 * once a try of it was in doubt: it is IN_DOUBT. */

/* Pays by payments with or without a name, which ledger_pay decides. With a name, REFUSED says that
 * the payment is due back, or has been refunded. An undecided payment's `late` is for the next call
 * with it; EXPIRED: stock_pay_late. */
void stock_pay(struct stock *stock, struct stock_status_change *changes, size_t count, int wait_ms);

/* The same, but an order that has expired gets its units again if it can, which needs Redis. */
void stock_pay_late(struct stock *stock, struct stock_status_change *changes, size_t count,
                    int wait_ms);

/* Lets a reserved order expire later, as ledger_extend does. */
void stock_extend(struct stock *stock, struct stock_status_change *changes, size_t count,
                  int wait_ms);

/* Cancels reserved orders, or all but `keep` of their units; or expired ones for good. */
void stock_cancel(struct stock *stock, struct stock_status_change *changes, size_t count,
                  int wait_ms);

/* Notes that the shop has paid a payment back. The order that it has paid becomes refunded, or
 * keeps `keep` units and the payment; its units are sold again only with `restock`. An order that
 * another payment of it can pay, which is due, stays paid by that. */
void stock_refund(struct stock *stock, struct stock_status_change *changes, size_t count,
                  int wait_ms);

/* Notes that payments which have paid their orders have failed: each order is reserved again with
 * its units, for its sale's time to pay, unless another payment pays it as with a refund. REFUSED
 * in another round than the sale's present one. */
void stock_unpay(struct stock *stock, struct stock_status_change *changes, size_t count,
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
    uint32_t qty;            /* units that come back */
    uint32_t keep;           /* as in struct ledger_return_order */
    bool unreturned;         /* likewise */
    const char *payment_ref; /* likewise */
    void *owner;             /* the caller's */
    bool moved;              /* out: this call has ended it; set once per id */
    bool stays_paid;         /* out, with OK: by another payment */
    /* Out. OK: this call has ended it. BUSY: it has not, read the order again. IN_DOUBT: it may
     * have. FAILED and DAMAGED: it has not. REFUSED: nor can it be reserved again, in its round. */
    enum stock_state_result result;
};

struct returns {
    size_t moved;   /* orders that this call has ended */
    size_t awaited; /* of these, orders whose units buyers may wait for */
    bool committed; /* a commit was made, and confirms all that was read before */
};

/* Ends as many of the orders, 1..LEDGER_RETURNS_MAX, as it can in one transaction; `to` as in
 * struct ledger_return. Sorts them; an id may come more than once. Waits for segments for some
 * hundredths of a second at most, and for no order. */
struct returns returns_end(struct stock *stock, struct return_order *orders, size_t count,
                           enum ledger_status to);

/* Waits a random moment before busy orders are tried again. */
void returns_pause(struct stock *stock);

#endif
