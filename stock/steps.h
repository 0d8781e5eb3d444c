/* The steps that strategies have in common: planning, writing, asking in doubt, concluding. */
#ifndef STOCK_STEPS_H
#define STOCK_STEPS_H

#include "stock/batch.h"

/* Begins a hold of up to `wanted` units of a segment, in whatever way a strategy has. */
typedef void steps_post(struct stock *stock, struct segment_hold *hold, struct sale *sale,
                        uint32_t segment, uint32_t round, uint32_t wanted);

/* Begins holds of as many more segments as the group's open orders seem to need, by the hints. */
void steps_plan(struct stock *stock, struct group *group, steps_post *post);

/* Sets the group's dirty holds from `first_hold` on again from the ledger, and puts their segments
 * up for another try. */
void steps_recover(struct stock *stock, struct group *group, size_t first_hold);

/* Writes the filled orders and their moves, guarded as the strategy says, in one transaction. As
 * ledger_commit; LEDGER_NO also when no order is filled. */
enum ledger_result steps_write(struct stock *stock, struct batch *batch);

/* Commits the filled orders by `write`, without those whose keys others have written meanwhile;
 * what becomes of a commit that was not answered is asked for up to resolve_ms. LEDGER_UNKNOWN: it
 * could not be found out. */
enum ledger_result steps_commit(struct stock *stock, struct batch *batch,
                                enum ledger_result (*write)(struct stock *stock,
                                                            struct batch *batch));

/* Decides the filled orders by what became of their commit. */
void steps_decide(struct stock *stock, struct batch *batch, enum ledger_result result);

/* Reads the group's segments from the ledger; room for LEDGER_SEGMENTS_MAX. False, and its open
 * orders are decided, when it cannot be asked or is in another round. */
bool steps_look(struct stock *stock, struct group *group, struct ledger_segment *rows_out,
                size_t *count_out);

/* Decides the group's open orders by what the ledger has left: sold out, or to be tried again where
 * this process saw none. */
void steps_conclude(struct stock *stock, struct group *group);

#endif
