/* Orders of one sale that are cancelled or expire together: one transaction, under the locks of
 * their segments; for stock/ alone. */
#ifndef STOCK_RETURN_BATCH_H
#define STOCK_RETURN_BATCH_H

#include "sql/ledger_lookup.h"
#include "sql/ledger_return.h"
#include "sql/ledger_segment.h"
#include "sql/ledger_status.h"
#include "stock/stock_core.h"

/* Orders of one sale and round. The stock's holds are the locks of their segments. One batch, zero
 * at first, serves for many sales in turn; return_batch_end is due after the last. */
struct return_batch {
    struct sale *sale;
    bool unpublished; /* units of the sale came back, and the other processes do not know */
    struct sale_snapshot snapshot;
    struct ledger_return returned;
    uint64_t ids[LEDGER_RETURNS_MAX];
    struct ledger_segment segments[LEDGER_SEGMENTS_MAX]; /* one per hold, in their order */
};

/* Begins an empty batch of orders that become `to`, cancelled or expired. LEDGER_NO: there is no
 * such sale. A sale is retired only when none of its orders is reserved, so somebody else has ended
 * these: fetch them again. LEDGER_FAILED: the ledger cannot be asked for the sale. LEDGER_DAMAGED:
 * the sale's row makes no sense. */
enum ledger_result return_batch_begin(struct stock *stock, struct return_batch *batch,
                                      const char *sku, uint32_t round, enum ledger_status to);

/* True for orders of an earlier round, whose units no longer exist: no segment is to be locked.
 * Rounds only grow, so the answer stays true. */
bool return_batch_is_old(const struct return_batch *batch);

/* True when the batch's sale has the segment, or the batch is old. Else the order's row makes no
 * sense, which is noted: the segment must not be locked. */
bool return_batch_has(struct stock *stock, const struct return_batch *batch, uint64_t order_id,
                      uint32_t segment);

/* How many of the sale's segments one batch should hold at once, so that the others go on
 * selling. */
size_t return_batch_holds_max(const struct return_batch *batch);

/* Posts the lock of a segment, for return_batch_lock to send. */
void return_batch_post_lock(struct stock *stock, const struct return_batch *batch,
                            uint32_t segment);

/* Sends the locks, and keeps only the holds of segments that were free. False when Redis is lost;
 * then nothing is held. */
bool return_batch_lock(struct stock *stock);

/* Waits a random moment before busy segments are tried again. */
void return_batch_pause(struct stock *stock);

/* Sends what is posted, and releases what is still held. */
void return_batch_release(struct stock *stock);

/* Ends the orders that the batch lists, returns their units and posts the release of the segments,
 * which goes with the locks of the next batch or with return_batch_end. Its `returned.moved` says
 * how many orders that were, as far as it is certain. LEDGER_NO: a segment refused, and nothing is
 * done; fetch the orders again. LEDGER_DAMAGED: the rows of those that could be ended make no
 * sense. */
enum ledger_result return_batch_return(struct stock *stock, struct return_batch *batch);

/* What a result of return_batch_begin or return_batch_return says of the orders that were to end.
 * BUSY: fetch them again. */
enum stock_state_result return_batch_state(enum ledger_result result);

/* Sends what is posted, and publishes what has come back. */
void return_batch_end(struct stock *stock, struct return_batch *batch);

/* Reads an order. STOCK_STATE_OK when its status is `to`, REFUSED when it cannot become so, BUSY
 * when it can, DAMAGED when its rows make no sense. */
enum stock_state_result return_batch_fetch_order(struct stock *stock, uint64_t order_id,
                                                 enum ledger_status to,
                                                 struct ledger_record *record_out);

/* Reads an order and, if its status may become `to`, tries once to end it with a batch of its own.
 * BUSY: perhaps it has; read it again. */
enum stock_state_result return_batch_try_order(struct stock *stock, struct return_batch *batch,
                                               uint64_t order_id, enum ledger_status to,
                                               struct ledger_record *record_out);

#endif
