/* Orders that are paid, cancelled or expire; the units of the latter can be sold again at once. */
#ifndef STOCK_RETURN_ORDER_H
#define STOCK_RETURN_ORDER_H

#include "sql/ledger_status.h"
#include "stock/stock.h"

enum stock_state_result {
    STOCK_STATE_OK,       /* the order is in the state asked for, since this call or before */
    STOCK_STATE_NO_ORDER, /* there is none with that id */
    STOCK_STATE_REFUSED,  /* it does not go there from where it is */
    STOCK_STATE_BUSY,     /* its segments could not be locked in time: nothing is done */
    STOCK_STATE_FAILED,   /* Redis or the ledger cannot be reached: nothing is done */
    STOCK_STATE_IN_DOUBT, /* a commit was not answered and the ledger cannot be asked */
};

/* Pays or cancels an order, blocking for as long as Redis and the ledger take. With OK and REFUSED
 * `record_out` is the order as it is now. `moved_out` tells that this call has moved it. A cancel
 * tries for `wait_ms` to lock the order's segments, at least once. */
enum stock_state_result stock_pay(struct stock *stock, uint64_t order_id,
                                  struct ledger_record *record_out, bool *moved_out);
enum stock_state_result stock_cancel(struct stock *stock, uint64_t order_id, int wait_ms,
                                     struct ledger_record *record_out, bool *moved_out);

struct stock_expired {
    size_t count;   /* of orders */
    size_t awaited; /* of these, whose units came back to segments that had next to none */
};

/* Expires reserved orders whose time is over: the next few thousand behind `place`, which moves on
 * and says whether there are more, to be called for at once. Those whose segments somebody else
 * goes on holding are left out; they come when it begins anew, at a place of all zero. LEDGER_OK or
 * LEDGER_FAILED. Several processes may do so at once, to no purpose. */
enum ledger_result stock_expire(struct stock *stock, struct ledger_due_place *place,
                                struct stock_expired *expired_out);

#endif
