/* The steps that strategies have in common: planning, writing, asking in doubt, concluding. */
#ifndef STOCK_STRATEGY_COMMON_H
#define STOCK_STRATEGY_COMMON_H

#include "stock/batch.h"

/* Begins a hold of up to `wanted` units of a segment, in whatever way a strategy has. */
typedef void steps_post(struct stock *stock, struct segment_hold *hold, struct sale *sale,
                        const struct sale_snapshot *snapshot, uint32_t segment, uint32_t wanted);

/* Begins holds of as many more segments as the group's open orders seem to need, by the hints. */
void steps_plan(struct stock *stock, struct group *group, steps_post *post);

/* Plans without reserving anything and fills the orders: the ledger's guards will say whether the
 * units are there. */
void steps_fill(struct stock *stock, struct batch *batch);

/* Sets the group's dirty holds from `first_hold` on again from the ledger, and puts their segments
 * up for another try. */
void steps_recover(struct stock *stock, struct group *group, size_t first_hold);

/* Writes down the filled orders and their moves for the ledger, guarded as the strategy says. */
void steps_prepare(struct stock *stock, struct batch *batch);

/* Writes the filled orders and their moves, guarded as the strategy says, in one transaction. As
 * ledger_commit; LEDGER_NO also when no order is filled. */
enum ledger_result steps_write(struct stock *stock, struct batch *batch);

/* Commits the filled orders by `write`, without those whose keys others have written meanwhile, or
 * whose users have enough by now; what becomes of a commit that was not answered is asked for up to
 * resolve_ms. LEDGER_UNKNOWN: it could not be found out. */
enum ledger_result steps_commit(struct stock *stock, struct batch *batch,
                                enum ledger_result (*write)(struct stock *stock,
                                                            struct batch *batch));

/* Decides the filled orders by what became of their commit. */
void steps_decide(struct stock *stock, struct batch *batch, enum ledger_result result);

/* Reads the group's segments from the ledger; room for LEDGER_SEGMENTS_MAX. False, and its open
 * orders are decided, when it cannot be asked or is in another round. */
bool steps_look(struct stock *stock, struct group *group, struct ledger_segment *rows_out,
                size_t *count_out);

/* Sets the sale's hints to what the rows have left, and returns the sum. */
uint32_t steps_hint(struct sale *sale, const struct ledger_segment *rows, size_t count);

/* Remembers that the ledger has `left` units, and decides the group's open orders by that: sold out
 * or to be tried again. */
void steps_left(struct stock *stock, struct group *group, uint32_t left);

/* Decides the group's open orders by what the ledger has left: sold out, or to be tried again where
 * this process saw none. */
void steps_conclude(struct stock *stock, struct group *group);

#endif
