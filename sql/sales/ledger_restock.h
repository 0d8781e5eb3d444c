/* Units added to a running sale. */
#ifndef SQL_LEDGER_RESTOCK_H
#define SQL_LEDGER_RESTOCK_H

#include "sql/sales/ledger_sale.h"
#include "sql/ledger_segment.h"

struct ledger_restock {
    const char *sku;
    const char *key; /* idempotency key; "" for none */
    uint32_t units;
    uint32_t total_max;     /* units that the sale may have with these */
    const uint64_t *fences; /* of the locks of all segments */
    size_t fence_count;
    bool too_many; /* out: with LEDGER_NO, the total would exceed total_max */
};

/* One transaction: adds the units and levels the segments, so that all have the same left, give or
 * take one unit: where they were uneven some gain and others lose. It counts as a change of the
 * settings: their version goes up. On LEDGER_OK `sale_out` and `segments_out` (room for
 * `fence_count`) are as they are now. LEDGER_NO: there is no such sale, or it has another number of
 * segments by now, or it would exceed `total_max`. LEDGER_DUPLICATE: the key has been used.
 * LEDGER_UNKNOWN: with a key the call may be repeated; the repeat waits for the first try to
 * end. */
enum ledger_result ledger_restock(struct ledger *ledger, struct ledger_restock *restock,
                                  struct ledger_sale *sale_out,
                                  struct ledger_segment *segments_out);

/* How many units were added under a key, and in which round. LEDGER_NO: none. */
enum ledger_result ledger_restock_find(struct ledger *ledger, const char *sku, const char *key,
                                       uint32_t *units_out, uint32_t *round_out);

#endif
