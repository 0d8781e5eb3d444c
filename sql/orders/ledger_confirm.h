/* What others have committed made certain: on the disk, not only visible. */
#ifndef SQL_LEDGER_CONFIRM_H
#define SQL_LEDGER_CONFIRM_H

#include "sql/ledger.h"

/* Makes sure that all is on the disk that this ledger has read on a connection, by its number
 * (ledger_connection, asked after the reading).
 *
 * why_a_write: InnoDB shows a commit to others before it is on the disk, and a server that dies in
 * between forgets it. A commit of one's own, of whatever it is, returns only after everything that
 * was committed before it is on the disk as well.
 *
 * why_one_connection: a server that died after the reading may have forgotten what was read; its
 * successor's commit says nothing of it. LEDGER_OK, LEDGER_FAILED (also when another connection is
 * in use by now: read again) or LEDGER_UNKNOWN. */
enum ledger_result ledger_confirm(struct ledger *ledger, uint64_t connection);

/* ---- for sql/ only ---- */

struct sql_text;

/* Appends statements that make the commit of the present transaction such a one. */
void ledger_confirm_text(struct sql_text *sql);

#endif
