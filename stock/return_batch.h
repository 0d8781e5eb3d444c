/* Orders of one sale that end together: one transaction, under the locks of their segments. */
#ifndef STOCK_RETURN_BATCH_H
#define STOCK_RETURN_BATCH_H

#include "sql/ledger_lookup.h"
#include "sql/ledger_return.h"
#include "sql/ledger_segment.h"
#include "sql/ledger_status.h"
#include "stock/stock_core.h"

/* Orders of one sale and round, whose segments are locked by the stock's holds. */
struct return_batch {
    struct sale *sale;
    struct sale_snapshot snapshot;
    struct ledger_return returned;
    uint64_t ids[LEDGER_RETURNS_MAX];
    struct ledger_segment segments[LEDGER_SEGMENTS_MAX];
};

/* Begins an empty batch. False when the ledger cannot be asked for the sale. */
bool return_batch_begin(struct stock *stock, struct return_batch *batch, const char *sku,
                        uint32_t round, enum ledger_status to);

/* Units of an older round are nobody's any more. Rounds only grow, so what is old stays it. */
bool return_batch_is_old(const struct return_batch *batch);

/* Asks for the lock of a segment, to be sent by return_batch_lock. */
void return_batch_post_lock(struct stock *stock, const struct return_batch *batch,
                            uint32_t segment);

/* Sends the locks and keeps the holds of those that were free. False when Redis is lost. */
bool return_batch_lock(struct stock *stock);

/* Waits a moment before segments that were busy are tried again. */
void return_batch_pause(struct stock *stock);

/* Releases what is held. */
void return_batch_release(struct stock *stock);

/* Ends the orders that the batch lists, returns their units and releases its segments; `moved` of it
 * says how many, as far as that is certain. LEDGER_NO: not so; look at the orders. */
enum ledger_result return_batch_return(struct stock *stock, struct return_batch *batch);

/* The order's state, when it is `to` or cannot become it; BUSY when it can. */
enum stock_state_result order_fetch(struct stock *stock, uint64_t order_id, enum ledger_status to,
                                    struct ledger_record *record_out);

/* Looks at an order and, if it may become `to`, tries once to end it with a batch of its own.
 * BUSY: perhaps it has; look again. */
enum stock_state_result order_try(struct stock *stock, struct return_batch *batch,
                                  uint64_t order_id, enum ledger_status to,
                                  struct ledger_record *record_out);

#endif
