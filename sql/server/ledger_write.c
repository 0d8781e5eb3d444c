/* Whether the ledger's server takes writes now.
 *
 * why_no_variable: @@read_only says nothing about a user who may write all the same, and there are
 * several such variables (super_read_only, innodb_read_only, innodb_force_recovery). The server
 * refuses the statement for each of them, whether it finds a row or not. */
#include "sql/server/server.h"

#include <mysqld_error.h>
#include <stdlib.h>

#include "sql/ledger/ledger_query.h"

/* No migration has an empty name. Rolled back, because a server with a binary log of statements
 * would write a lone DELETE to it, rows or none, with an fsync. */
static const char write_nothing[] =
    "START TRANSACTION;DELETE FROM schema_version WHERE name='';ROLLBACK";

/* An error's text begins with its number. */
static enum ledger_write refusal(const char *error)
{
    switch (strtoul(error, NULL, 10)) {
    case ER_OPTION_PREVENTS_STATEMENT:             /* read_only, super_read_only */
    case ER_OPEN_AS_READONLY:                      /* innodb_read_only, innodb_force_recovery */
    case ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION: /* transaction_read_only */
    case ER_READ_ONLY_MODE:
        return LEDGER_WRITE_READ_ONLY;
    case ER_NO_SUCH_TABLE:
        return LEDGER_WRITE_NO_TABLES;
    default:
        return LEDGER_WRITE_FAILED;
    }
}

enum ledger_write ledger_try_write(struct ledger *ledger)
{
    enum db_result result = db_query(ledger->db, write_nothing, sizeof write_nothing - 1);
    return result == DB_OK ? LEDGER_WRITE_OK : refusal(db_error(ledger->db));
}
