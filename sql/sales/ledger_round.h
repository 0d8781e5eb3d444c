/* Private to sql/: the rounds of a sale that have ended, as SQL. */
#ifndef SQL_LEDGER_ROUND_H
#define SQL_LEDGER_ROUND_H

#include <stdbool.h>
#include <stdint.h>

#include "sql/db/sql_text.h"

/* Greater than the id of every order. */
#define LEDGER_ID_END "9223372036854775807"

/* Appends a statement that notes that a round, or the time before round 1, has ended. It belongs
 * into the transaction that ends the round, after all segments of the sale were changed: then no
 * order of the round can be committed any more, and none has a greater id than the greatest there
 * is. `retired`: the sale ends, and none of its orders is reserved. Twice is as good as once. */
void ledger_round_end_text(struct sql_text *sql, const char *sku, uint32_t round, uint32_t segments,
                           bool retired);

/* An expression, for the sku and the round as %s and %u of sql_printf: a guess at an id that all
 * orders of the round exceed. A clock that went wrong may have given an order a smaller id. So
 * whoever begins there checks the orders that it finds against the units that the segments have
 * sold.
 *
 * The round before ended when this one began. An id begins with the ms since 2025; so neither the
 * id of an order that a clock has made too great, nor a clock of the ledger that was ahead, moves
 * the guess alone. A minute is more than the ids of working daemons differ by. */
#define LEDGER_ROUND_FIRST                                                                         \
    "COALESCE((SELECT GREATEST(LEAST(CAST(MAX(b.last_id)>>22 AS SIGNED),"                          \
    "TIMESTAMPDIFF(MICROSECOND,'2025-01-01',MAX(b.ended_at))DIV 1000)-60000,0)<<22 "               \
    "FROM sale_round b WHERE b.sku=%s AND b.round<%u),0)"

/* Begins a text that counts the orders of a round that hold units, with its subquery of orders up
 * to its conditions; "... LIMIT n)o" completes it. Its row: how many orders of whatever sales were
 * looked at, their least and greatest id; the reserved and the paid ones, and their units. */
void ledger_held_text(struct sql_text *sql, const char *sku, uint32_t round);

#endif
