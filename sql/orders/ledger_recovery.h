/* What became of an unknown commit, and the rows that a segment is counted again from. */
#ifndef SQL_LEDGER_RECOVERY_H
#define SQL_LEDGER_RECOVERY_H

#include "sql/orders/ledger_commit.h"
#include "sql/ledger_segment.h"

/* Settles an unknown commit: locks the row of one of its segments, which waits for the old
 * transaction to end, then looks for one of its orders, by id, sale, round, user and key: another
 * process may have written the id for another order. Where the update has a fence, the row's is
 * raised to it, so that a transaction that has not begun yet is refused. LEDGER_OK: it was
 * committed, and is on the disk. LEDGER_NO: it was not and never will be. LEDGER_FAILED: the ledger
 * cannot be asked now. */
enum ledger_result ledger_resolve(struct ledger *ledger, const struct ledger_stock_update *update,
                                  const struct ledger_order *order);

/* Raises the fences of the segments to the given ones where they are smaller, and reads the rows.
 * `segments` in: segment and fence; out: the row as it is now (its fence may be greater than the
 * one given; round 0: there is no such row, or it makes no sense). Can always be repeated. */
enum ledger_result ledger_recover(struct ledger *ledger, const char *sku,
                                  struct ledger_segment *segments, size_t count);

#endif
