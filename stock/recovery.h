/* Segments set again from the ledger, under their locks. */
#ifndef STOCK_RECOVERY_H
#define STOCK_RECOVERY_H

#include "sql/ledger_segment.h"
#include "stock/segment.h"

/* Recovers dirty holds of one sale: raises the ledger's fences to theirs, posts the segments'
 * contents as the ledger says them, and posts their release; they can be locked again in the same
 * pipeline. (Each fence serves for one move only, so units cannot be taken under this one.) Sets
 * their hints. Returns false when the ledger cannot be asked; the holds are then released as dirty
 * as they were. `stale_out` tells that the ledger's round is another than the holds'. */
bool recovery_run(struct stock *stock, struct segment_hold *const *dirty, size_t count,
                  bool *stale_out);

/* The second half of it, for one hold, when its row was read in a transaction that has set the
 * ledger's fence to the hold's. */
void recovery_load(struct stock *stock, struct segment_hold *hold,
                   const struct ledger_segment *row);

#endif
