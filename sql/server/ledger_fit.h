/* Whether the ledger's server does what the tables and the statements rely on. */
#ifndef SQL_LEDGER_FIT_H
#define SQL_LEDGER_FIT_H

#include "sql/ledger.h"

enum { LEDGER_UNFIT_SIZE = 160 };

/* Tries on the tables themselves, in a transaction that is rolled back, that a CHECK refuses what
 * it forbids and that changed rows are counted as the guards count them. Needs the tables and the
 * right to serve. LEDGER_OK; LEDGER_NO with what is wrong in `why_out`: then an order could be
 * accepted that must not be. LEDGER_FAILED: not known.
 *
 * why_at_each_start: servers that speak MySQL's protocol have parsed CHECK and ignored it for
 * years, and a restore or a hand can drop a constraint. */
enum ledger_result ledger_fit(struct ledger *ledger, char why_out[LEDGER_UNFIT_SIZE]);

#endif
