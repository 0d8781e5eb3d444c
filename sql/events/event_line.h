/* Private to sql/: how events are written. A batch's body has a line for each, without an end of
 * line behind the last:
 *
 *   = SKU ROUND EXPIRES                                    of the accepted orders behind it
 *   a STEP QTY USER                                        an accepted order
 *   p ORDER VERSION QTY EXPIRES USER SKU ROUND [PAYMENT]   of an order, or one of its payments
 *   s SKU ROUND TOTAL LEFT SETTINGS PAUSED                 of a sale
 *
 * with blanks between, which none of these has. The letter is the type's; EXPIRES is in ms since
 * 1970 or 0; STEP is the order's id less that of the order before, or of 0.
 *
 * why_short: every accepted order is written here, and its bytes are most of what it costs. The
 * orders of a batch share all but the user, and their ids follow each other closely. */
#ifndef SQL_EVENT_LINE_H
#define SQL_EVENT_LINE_H

#include "sql/events/events.h"

struct sql_text;

/* Appends the statement that writes the batch of new orders, unless none is to be written. */
void event_text_accepted(struct ledger *ledger, struct sql_text *sql,
                         const struct ledger_order *const *orders, size_t count);

/* Appends the two parts of a statement that writes a batch of one type: call the first, append the
 * ids of `count` locked orders with commas between, and call the second. The rows are read as the
 * statements before have left them. `by_name`: with the payment that each has taken. Only if
 * event_on. */
void event_text_orders(struct sql_text *sql, enum ledger_event_type type, bool by_name);
void event_text_orders_end(struct sql_text *sql, size_t count);

/* True when batches are to be written. */
bool event_on(const struct ledger *ledger);

/* Appends a sale's line. */
void event_text_sale(struct sql_text *sql, const struct ledger_event *event);

#endif
