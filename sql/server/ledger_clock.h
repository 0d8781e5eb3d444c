/* What time it is at the ledger. */
#ifndef SQL_LEDGER_CLOCK_H
#define SQL_LEDGER_CLOCK_H

#include <stdint.h>

#include "sql/ledger.h"

/* Asks the ledger's server for its time: us since 1970 (UTC), at some moment between the call and
 * its return. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_clock_ask(struct ledger *ledger, int64_t *us_out);

#endif
