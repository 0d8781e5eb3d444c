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

/* A batch of one type, for orders that are locked; `count` is 0 at first. */
struct event_list {
    struct ledger *ledger;
    enum ledger_event_type type;
    bool by_name; /* with the payment that each order has taken */
    size_t count;
};

/* Append to ledger->sql the statement that writes the batch, unless none is to be written: call the
 * first for each order, with the payment's name if the events are of payments, and then the second,
 * with nothing appended in between. The rows are read as the statements before have left them. */
void event_list_add(struct event_list *list, uint64_t order_id, const char *payment_ref);
void event_list_end(const struct event_list *list);

/* Appends a sale's line. */
void event_text_sale(struct sql_text *sql, const struct ledger_event *event);

#endif
