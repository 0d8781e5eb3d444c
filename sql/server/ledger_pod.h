/* Which pod a ledger is: a pod is one ledger with its daemons, and pods share nothing. */
#ifndef SQL_LEDGER_POD_H
#define SQL_LEDGER_POD_H

#include "sql/ledger.h"

/* Compares the number that the ledger has with the one that the caller takes it for; a ledger that
 * has none is given it, unless it has sales: then it is pod 0. LEDGER_OK: it has this number.
 * LEDGER_NO: `found_out` is its number. LEDGER_FAILED: not known. */
enum ledger_result ledger_pod_claim(struct ledger *ledger, unsigned number, unsigned *found_out);

#endif
