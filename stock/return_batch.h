/* Orders of one sale that end together: one transaction, under the locks of their segments. */
#ifndef STOCK_RETURN_BATCH_H
#define STOCK_RETURN_BATCH_H

#include "stock/return_order.h"
#include "stock/stock_private.h"

/* Orders of one sale and round, whose segments are locked by the stock's holds. */
struct lot {
    struct sale *sale;
    struct sale_snapshot snapshot;
    struct ledger_return returned;
    uint64_t ids[LEDGER_RETURNS_MAX];
    struct ledger_segment segments[LEDGER_SEGMENTS_MAX];
};

/* Begins an empty lot. False when the ledger cannot be asked for the sale. */
bool lot_begin(struct stock *stock, struct lot *lot, const char *sku, uint32_t round,
               enum ledger_status to);

/* Units of an older round are nobody's any more. Rounds only grow, so what is old stays it. */
bool lot_is_old(const struct lot *lot);

/* Asks for the lock of a segment, to be sent by lot_lock. */
void lot_post_lock(struct stock *stock, const struct lot *lot, uint32_t segment);

/* Sends the locks and keeps the holds of those that were free. False when Redis is lost. */
bool lot_lock(struct stock *stock);

/* Waits a moment before segments that were busy are tried again. */
void lot_pause(struct stock *stock);

/* Releases what is held. */
void lot_release(struct stock *stock);

/* Ends the orders that the lot lists, returns their units and releases its segments; `moved` of it
 * says how many, as far as that is certain. LEDGER_NO: not so; look at the orders. */
enum ledger_result lot_return(struct stock *stock, struct lot *lot);

/* The order's state, when it is `to` or cannot become it; BUSY when it can. */
enum stock_state_result order_look(struct stock *stock, uint64_t order_id, enum ledger_status to,
                                   struct ledger_record *record_out);

/* Looks at an order and, if it may become `to`, tries once to end it with a lot of its own.
 * BUSY: perhaps it has; look again. */
enum stock_state_result order_try(struct stock *stock, struct lot *lot, uint64_t order_id,
                                  enum ledger_status to, struct ledger_record *record_out);

#endif
