/* Stock updates, which move segments along their fences, as SQL.
 *
 * why_affected_rows: a guard is a condition of its UPDATE, so a refused update is one that changed
 * no row, as is one whose row is missing. The rows are counted before the commit. Making the guard
 * an error instead, so that the whole transaction could be sent as one packet up to its COMMIT, was
 * measured and gained nothing: the orders must then come first, and a connection lost anywhere in
 * the packet leaves an unknown commit. */
#include "sql/orders/stock_update.h"

#include <assert.h>

/* One statement costs the server about 20 us, more than a row of the joint one. */
enum { UPDATES_ALONE_MAX = 3 };

bool stock_update_fenced(const struct ledger_stock_update *update)
{
    return update->guard == LEDGER_CHAIN || update->guard == LEDGER_FENCED;
}

static void text_alone(struct sql_text *sql, const struct ledger_stock_update *update)
{
    sql_printf(sql, "UPDATE stock_segment SET sold=sold+%u", update->units);
    if (stock_update_fenced(update))
        sql_printf(sql, ",fence=%llu", (unsigned long long)update->fence);
    else if (update->guard == LEDGER_UNFENCED)
        sql_printf(sql, ",fence=fence+1");
    sql_text_identifier(sql, " WHERE sku=", update->sku);
    sql_printf(sql, " AND segment=%u AND round=%u AND settings_version=%u", update->segment,
               update->round, update->settings_version);
    if (update->guard == LEDGER_CHAIN || update->guard == LEDGER_EPOCH)
        sql_printf(sql, " AND fence=%llu", (unsigned long long)update->settled);
    if (stock_update_fenced(update))
        sql_printf(sql, " AND fence<%llu", (unsigned long long)update->fence);
    sql_printf(sql, " AND sold+%u<=capacity;", update->units);
}

bool stock_update_joint(const struct ledger_stock_update *updates, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (updates[i].guard != LEDGER_CHAIN)
            return false;
    return count > UPDATES_ALONE_MAX;
}

void stock_update_text(struct sql_text *sql, const struct ledger_stock_update *updates,
                       size_t count)
{
    for (size_t i = 0; i < count; i++)
        text_alone(sql, &updates[i]);
}

enum db_result stock_update_check(const struct db *db, struct ledger_stock_update *updates,
                                  size_t count)
{
    enum db_result result = DB_OK;
    assert(count <= DB_STATEMENTS_MAX);
    for (size_t i = 0; i < count; i++) {
        updates[i].refused = db_affected(db, i) != 1;
        if (updates[i].refused)
            result = DB_NO;
    }
    return result;
}
