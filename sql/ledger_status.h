/* The statuses of an order: which transitions exist, and payment. */
#ifndef SQL_LEDGER_STATUS_H
#define SQL_LEDGER_STATUS_H

#include "sql/ledger.h"

enum ledger_status { LEDGER_RESERVED, LEDGER_PAID, LEDGER_CANCELLED, LEDGER_EXPIRED };

/* The word for a status, in the ledger and in answers. */
const char *ledger_status_name(enum ledger_status status);

/* True when an order whose status is named `from` may go to `to`, apart from conditions on the
 * time. */
bool ledger_status_may(const char *from, enum ledger_status to);

/* Pays an order. LEDGER_NO: there is no such order, or it is not reserved (any more), or its time
 * to pay is over by the ledger's clock, whether it has been expired yet or not. LEDGER_UNKNOWN:
 * repeat it; a repeat waits for the first try to end. */
enum ledger_result ledger_pay(struct ledger *ledger, uint64_t order_id);

/* ---- for sql/ only ---- */

struct sql_text;

/* Appends the condition under which the row `o` of orders may go to `to`. */
void ledger_status_text(struct sql_text *sql, enum ledger_status to);

#endif
