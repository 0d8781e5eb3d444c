/* Private to sql/: the rounds of a sale that have ended, as SQL. */
#ifndef SQL_LEDGER_ROUND_H
#define SQL_LEDGER_ROUND_H

#include <stdbool.h>
#include <stdint.h>

#include "sql/db/sql_text.h"

/* Greater than the id of every order. */
#define LEDGER_ID_END "9223372036854775807"

/* Appends a statement that makes sure that a sale has a row, which locks it. A new row has the last
 * round of an earlier sale of the sku, or 0, so that rounds count on. */
void ledger_round_row_text(struct sql_text *sql, const char *sku);

/* Appends a statement that notes that a round, or the time before round 1, has ended. It belongs
 * into the transaction that ends the round, after all segments of the sale were changed: then no
 * order of the round can be committed any more, and none has a greater id than the greatest there
 * is. `retired`: the sale ends, and none of its orders is reserved. Twice is as good as once. */
void ledger_round_end_text(struct sql_text *sql, const char *sku, uint32_t round, uint32_t segments,
                           bool retired);

/* Appends an expression: a guess at an id that all orders of the round exceed. A clock that went
 * wrong may have given an order a smaller id. So whoever begins there checks the orders that it
 * finds against the units that the segments have sold. */
void ledger_round_first_text(struct sql_text *sql, const char *sku, uint32_t round);

/* Begins a text that counts the orders of a round that hold units, with its subquery of orders up
 * to its conditions; "... LIMIT n)o" completes it. Its row: how many orders of whatever sales were
 * looked at, their least and greatest id; the reserved and the paid ones, and their units. */
void ledger_held_text(struct sql_text *sql, const char *sku, uint32_t round);

#endif
