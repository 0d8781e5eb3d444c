/* The end of a sale: its row and its segments go, its orders stay. */
#ifndef SQL_LEDGER_RETIRE_H
#define SQL_LEDGER_RETIRE_H

#include "sql/sales/ledger_sale.h"

enum { LEDGER_HELD_ROWS = 50000 }; /* orders of whatever sales that one call looks at */

/* The orders of a sale's round that hold units, counted in pieces. */
struct ledger_held {
    char sku[IDENTIFIER_SIZE];
    uint32_t round;
    uint64_t reserved, paid; /* orders */
    uint64_t units;          /* in these orders */
    uint64_t fences, sold;   /* sums of the segments' before the count: any order changes one */
    uint64_t first_id;       /* where the count began: a guess */
    uint64_t counted_to;     /* orders from first_id, or from 0, up to this id are looked at */
    bool from_zero;          /* the orders before first_id are looked at, too */
    bool begun, done;
};

/* Begins to count the orders of the sale's round, or counts on, past at most LEDGER_HELD_ROWS
 * orders. Done: the orders found hold as many units as the segments had sold, or all orders that
 * there are have been looked at. `held` is zero at first. LEDGER_OK. LEDGER_NO: orders of an
 * earlier round may still be reserved, as long as ledger_round_end_find tells of that round.
 * LEDGER_FAILED. */
enum ledger_result ledger_held_count(struct ledger *ledger, const struct ledger_sale *sale,
                                     struct ledger_held *held);

/* Ends a sale whose orders were counted: none is reserved. Deletes its row and its segments, and
 * notes its round, from which a later sale of the sku counts on. LEDGER_NO: nothing is done, as
 * there is no such sale, or it has another round or changed segments by now: count again.
 * LEDGER_UNKNOWN: the sale may be gone; calling again waits until the first try has ended. */
enum ledger_result ledger_retire(struct ledger *ledger, const struct ledger_sale *sale,
                                 const struct ledger_held *held);

/* How many segments the last sale of a sku had that was retired. LEDGER_NO: none was. */
enum ledger_result ledger_retired_find(struct ledger *ledger, const char *sku,
                                       uint32_t *segments_out);

#endif
