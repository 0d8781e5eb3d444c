/* Private to sql/: the rounds of a sale that have ended, as SQL. */
#ifndef SQL_LEDGER_ROUND_H
#define SQL_LEDGER_ROUND_H

#include <stdbool.h>
#include <stdint.h>

#include "sql/db/sql_text.h"

/* Greater than the id of every order. */
#define LEDGER_ID_END "9223372036854775807"

/* Appends a statement that notes the end of a round, or of the time before round 1. It belongs in
 * the transaction that ends the round, after all segments of the sale were changed: from then on no
 * order of the round can be committed, so the greatest id in the ledger bounds theirs. `retired`:
 * the sale ends, with no order reserved. May be repeated. */
void ledger_round_end_text(struct sql_text *sql, const char *sku, uint32_t round, uint32_t segments,
                           bool retired);

/* An expression, for the sku and the round as %s and %u of sql_printf: a guess at an id that all
 * orders of the round exceed. A clock that went wrong may have given an order a smaller id. So a
 * reader that begins there checks the orders found against the units that the segments have sold.
 *
 * The guess is the end of the round before. Ids begin with the ms since 2025: the smaller of the
 * last id and the ledger's time of the end is taken, so neither an id that a clock made too great
 * nor a ledger's clock that was ahead moves the guess alone. A minute is more than the ids of
 * working daemons differ by. */
#define LEDGER_ROUND_FIRST                                                                         \
    "COALESCE((SELECT GREATEST(LEAST(CAST(MAX(b.last_id)>>22 AS SIGNED),"                          \
    "TIMESTAMPDIFF(MICROSECOND,'2025-01-01',MAX(b.ended_at))DIV 1000)-60000,0)<<22 "               \
    "FROM sale_round b WHERE b.sku=%s AND b.round<%u),0)"

/* Begins a text that counts the orders of a round that hold units, with its subquery of orders up
 * to its conditions; "... LIMIT n)o" completes it. Its row: the number of orders of any sale that
 * were read, their least and greatest id; the reserved and the paid ones, and their units. */
void ledger_held_text(struct sql_text *sql, const char *sku, uint32_t round);

#endif
