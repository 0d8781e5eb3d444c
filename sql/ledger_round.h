/* Private to sql/: the rounds of a sale that have ended, as SQL. */
#ifndef SQL_LEDGER_ROUND_H
#define SQL_LEDGER_ROUND_H

#include <stdbool.h>
#include <stdint.h>

#include "sql/sql_text.h"

/* Ids of orders that were made at one moment by daemons whose clocks differ by an hour, which is
 * more than any that work together, differ by less. */
#define LEDGER_ID_SKEW (UINT64_C(3600000) << 22)

/* Appends a statement that makes sure that a sale has a row, which locks it. A new row has the last
 * round of an earlier sale of the sku, or 0, so that rounds count on. */
void ledger_round_row_text(struct sql_text *sql, const char *sku);

/* Appends a statement that notes that a round, or the time before round 1, has ended. It belongs
 * into the transaction that ends the round, after all segments of the sale were changed: then no
 * order of the round can be committed any more, and none has a greater id than the greatest there
 * is. `retired`: the sale ends, and none of its orders is reserved. Twice is as good as once. */
void ledger_round_end_text(struct sql_text *sql, const char *sku, uint32_t round, uint32_t segments,
                           bool retired);

#endif
