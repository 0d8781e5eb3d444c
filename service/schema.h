/* The ledger's tables at a start: checked, made, upgraded, and what the log says of it. */
#ifndef SECKILL_SERVICE_SCHEMA_H
#define SECKILL_SERVICE_SCHEMA_H

#include <stdbool.h>

#include "base/worker.h"
#include "sql/server/server.h"

/* Makes or upgrades the tables until `worker`, whose thread calls it, is told to stop, and logs
 * every 5 s what takes long; NULL: until SIGTERM or SIGINT is pending. LEDGER_OK or LEDGER_FAILED;
 * then ledger_error says why. */
enum ledger_result schema_update(struct ledger *ledger, const struct worker *worker);

/* The same with `update`; without, only checks that the tables are up to date. False after a line
 * in the log. */
bool schema_prepare(struct ledger *ledger, bool update, const struct worker *worker);

/* Whether the server does what the tables rely on (ledger_fit). False after a line in the log;
 * where `unfit_out` is not empty then, no order may be accepted on it. */
bool schema_fits(struct ledger *ledger, char unfit_out[LEDGER_UNFIT_SIZE]);

/* Logs what failed since the last call, as the reason why orders are refused. */
void schema_log_failure(struct ledger *ledger);

#endif
