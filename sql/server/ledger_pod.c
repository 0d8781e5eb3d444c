/* Which pod a ledger is. The table has the name of an earlier version, ledger_shard. */
#include "sql/server/server.h"

#include "sql/ledger/ledger_query.h"

static enum ledger_result find_number(struct ledger *ledger, unsigned *number_out)
{
    sql_clear(&ledger->sql);
    sql_printf(&ledger->sql, "SELECT number FROM ledger_shard");
    return ledger_read_number(ledger, number_out);
}

/* Daemons that start together may insert at once: then the first one's row stays. */
static enum ledger_result give_number(struct ledger *ledger, unsigned number, unsigned *found_out)
{
    sql_clear(&ledger->sql);
    sql_printf(&ledger->sql,
               "INSERT IGNORE INTO ledger_shard(number)VALUES(IF(EXISTS(SELECT 1 FROM sale)OR "
               "EXISTS(SELECT 1 FROM sale_round),0,%u));SELECT number FROM ledger_shard",
               number);
    enum ledger_result result = ledger_read_number(ledger, found_out);
    return result == LEDGER_NO ? LEDGER_FAILED : result;
}

enum ledger_result ledger_pod_claim(struct ledger *ledger, unsigned number, unsigned *found_out)
{
    enum ledger_result result = find_number(ledger, found_out);
    if (result == LEDGER_NO)
        result = give_number(ledger, number, found_out);
    return result == LEDGER_OK && *found_out != number ? LEDGER_NO : result;
}
