/* What others have committed made certain: on the disk, not only visible. */
#include "sql/ledger_confirm.h"

#include "sql/ledger_query.h"

/* A row that is gone again when the transaction ends: nobody sees it, and connections do not meet
 * in it. No order has the id 0. */
void ledger_confirm_text(struct sql_text *sql)
{
    sql_printf(sql, "INSERT INTO order_allocation(order_id,segment,qty)"
                    "VALUES(0,CONNECTION_ID()%%4294967296,0);"
                    "DELETE FROM order_allocation WHERE order_id=0 AND "
                    "segment=CONNECTION_ID()%%4294967296");
}

static enum db_result confirm_body(struct db *db, void *context)
{
    struct ledger *ledger = context;
    (void)db;
    sql_clear(&ledger->sql);
    ledger_confirm_text(&ledger->sql);
    return ledger_query(ledger);
}

enum ledger_result ledger_confirm(struct ledger *ledger, uint64_t connection)
{
    enum ledger_result result = ledger_from_db(db_run(ledger->db, confirm_body, ledger));
    bool same = ledger_connection(ledger) == connection;
    return result == LEDGER_OK && !same ? LEDGER_FAILED : result;
}
