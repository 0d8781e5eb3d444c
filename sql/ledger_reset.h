/* The beginning of a sale's next round. */
#ifndef SQL_LEDGER_RESET_H
#define SQL_LEDGER_RESET_H

#include "sql/ledger_sale.h"
#include "sql/ledger_segment.h"

/* Begins the next round of a sale, or its first. `sale` in: sku, total, segments and settings (but
 * their version); out: the rest. Nothing is sold. `fences` are those of the segment locks that the
 * caller holds, one per segment of the old and of the new round. On LEDGER_OK `segments_out` (room
 * for `sale->segments`) has the new rows. LEDGER_UNKNOWN: the round may have begun. */
enum ledger_result ledger_reset(struct ledger *ledger, struct ledger_sale *sale,
                                const uint64_t *fences, struct ledger_segment *segments_out);

#endif
