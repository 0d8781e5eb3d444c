/* The statuses of an order: which transitions exist. */
#ifndef SQL_LEDGER_STATUS_H
#define SQL_LEDGER_STATUS_H

#include <stdbool.h>

enum ledger_status {
    LEDGER_RESERVED,
    LEDGER_PAID,
    LEDGER_CANCELLED,
    LEDGER_EXPIRED,
    LEDGER_STATUSES
};

/* The word for a status, in the ledger and in answers. */
const char *ledger_status_name(enum ledger_status status);

/* True when an order whose status is named `from` may go to `to`, apart from conditions on the
 * time. */
bool ledger_status_may(const char *from, enum ledger_status to);

/* True for the name of a status. */
bool ledger_status_known(const char *status);

/* True for the name of a status that an order never leaves. */
bool ledger_status_final(const char *status);

/* ---- for sql/ only ---- */

struct sql_text;

/* Appends the condition under which the row `o` of orders may go to `to`. */
void ledger_status_text(struct sql_text *sql, enum ledger_status to);

/* The same for a statement that locks the order, to pay it: what the condition reads of the sale
 * stays so until the transaction ends. An order whose sale somebody else is changing does not meet
 * it, and may meet it again in the next statement. */
void ledger_status_text_locking(struct sql_text *sql, enum ledger_status to);

#endif
