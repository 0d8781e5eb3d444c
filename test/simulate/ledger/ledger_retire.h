/* The rounds of a sale that have ended, for the parts of the simulated ledger that end them. */
#ifndef SIMULATE_LEDGER_RETIRE_H
#define SIMULATE_LEDGER_RETIRE_H

#include "sql/db/db.h"
#include "test/simulate/ledger/ledger_table.h"

/* The last round of a sku that has ended, or the last in which it was retired; NULL: there is
 * none. */
const struct version *ended_last(const char *sku, bool retired_only, const struct txn *txn);

/* Notes within a transaction that a round has ended; `last_id` is filled in. Twice is as good as
 * once. */
enum db_result ended_note(struct ledger *ledger, const char *sku, const struct sale_round_row *end);

#endif
