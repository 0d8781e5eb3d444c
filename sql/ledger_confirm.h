/* What others have committed made certain: on the disk, not only visible. */
#ifndef SQL_LEDGER_CONFIRM_H
#define SQL_LEDGER_CONFIRM_H

#include "sql/ledger.h"

/* Makes sure that all that this ledger has read so far is on the disk.
 *
 * why_a_write: InnoDB shows a commit to others before it is on the disk, and a server that dies in
 * between forgets it. A commit of one's own, of whatever it is, returns only after everything that
 * was committed before it is on the disk as well. LEDGER_OK, LEDGER_FAILED or LEDGER_UNKNOWN. */
enum ledger_result ledger_confirm(struct ledger *ledger);

/* ---- for sql/ only ---- */

struct sql_text;

/* Appends statements that make the commit of the present transaction such a one. */
void ledger_confirm_text(struct sql_text *sql);

#endif
