/* What time it is at the ledger. */
#include "sql/server/server.h"

#include "sql/ledger/ledger_query.h"

enum ledger_result ledger_clock_ask(struct ledger *ledger, int64_t *us_out)
{
    *us_out = 0;
    sql_clear(&ledger->sql);
    sql_printf(&ledger->sql, "SELECT TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))");
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    char **row = db_row(ledger->db);
    if (!row || !row[0])
        return LEDGER_FAILED;
    *us_out = (int64_t)ledger_u64(row[0]);
    return LEDGER_OK;
}
