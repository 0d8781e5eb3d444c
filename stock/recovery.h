/* Segments set again from the ledger, under their locks. */
#ifndef STOCK_RECOVERY_H
#define STOCK_RECOVERY_H

#include "sql/ledger_segment.h"
#include "stock/segment.h"

/* Recovers dirty holds of one sale: raises the ledger's fences to those of the holds, posts the
 * segments' contents as the ledger has them, and posts their release; they can be locked again in
 * the same pipeline. (Each fence serves for one update only, so no units can be taken under this
 * one.) Sets their hints. False when the ledger cannot be asked; the holds are then released as
 * dirty as they were. `stale_out` tells that the ledger's round is not that of the holds. */
bool recovery_run(struct stock *stock, struct segment_hold *const *dirty, size_t count,
                  bool *stale_out);

/* The second half of a recovery, for one hold: loads the segment from its row, which was read in a
 * transaction that raised the ledger's fence to that of the hold. */
void recovery_load(struct stock *stock, struct segment_hold *hold,
                   const struct ledger_segment *row);

#endif
