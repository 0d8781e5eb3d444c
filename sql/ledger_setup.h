/* What a daemon asks of the ledger's server when it starts. */
#ifndef SQL_LEDGER_SETUP_H
#define SQL_LEDGER_SETUP_H

#include "sql/ledger.h"

/* Creates or upgrades the tables, one daemon at a time under a server-side lock, for which it waits
 * up to 60 s. Harmless when the tables are there. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_migrate(struct ledger *ledger);

/* Asks whether the server answers a commit only when it is on disk, and in the log that replicas
 * read. LEDGER_NO: it is set not to, and `why_out` names the setting; then a crash of its machine
 * can lose what was committed. LEDGER_FAILED: the server cannot be asked. */
enum ledger_result ledger_durable(struct ledger *ledger, char *why_out, size_t size);

#endif
