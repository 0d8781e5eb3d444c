/* Orders of any sales that end together, and their units, which can be sold again; for stock/
 * alone. */
#ifndef STOCK_RETURNS_RETURNS_H
#define STOCK_RETURNS_RETURNS_H

#include "sql/orders/ledger_return.h"
#include "stock/types.h"

/* One order that is to end, as its row said when it was read. */
struct return_order {
    uint64_t order_id;
    char sku[IDENTIFIER_SIZE];
    uint32_t round;
    uint32_t segment; /* the first one that its units were taken from */
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
