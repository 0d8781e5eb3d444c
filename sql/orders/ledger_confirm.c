/* What others have committed made certain: on the disk, not only visible. */
#include "sql/orders/orders.h"

#include "sql/ledger/ledger_query.h"

/* A row that is gone again when the transaction ends: nobody sees it, and connections do not meet
 * in it, as its key is a text, by which the server finds it alone. No user has an empty id. */
#define KEY "CONVERT(CONNECTION_ID()USING ascii)"

void ledger_confirm_text(struct sql_text *sql)
{
    sql_printf(sql, "INSERT INTO order_key(user_id,idempotency_key,order_id)"
                    "VALUES(''," KEY
                    ",0);DELETE FROM order_key WHERE user_id='' AND idempotency_key=" KEY);
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
