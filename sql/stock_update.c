/* Stock updates, which move segments along their fences, as SQL.
 *
 * why_affected_rows: a guard is a condition of its UPDATE, so a refused update is one that changed
 * no row, as is one whose row is missing. The rows are counted before the commit. Making the guard
 * an error instead, so that the whole transaction could be sent as one packet up to its COMMIT, was
 * measured and gained nothing: the orders must then come first, and a connection lost anywhere in
 * the packet leaves an unknown commit. */
#include "sql/stock_update.h"

/* One statement costs the server about 20 us. The joint statement costs 30 us and 8 us per row. */
enum { UPDATES_ALONE_MAX = 3 };

/* The joint statement reads the updates from one JSON text, the only list of rows that MariaDB and
 * MySQL 8 write alike. The updates come first in the join and the segments by their key, so that no
 * other row is read or locked. */
#define UPDATES_AS_ROWS                                                                            \
    "','$[*]' COLUMNS(i FOR ORDINALITY,"                                                           \
    "sku VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]',"                           \
    "segment INT UNSIGNED PATH '$[1]',round INT UNSIGNED PATH '$[2]',"                             \
    "settings_version INT UNSIGNED PATH '$[3]',units INT UNSIGNED PATH '$[4]',"                    \
    "settled BIGINT UNSIGNED PATH '$[5]',fence BIGINT UNSIGNED PATH '$[6]'))u "

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
    sql_printf(sql, " WHERE sku=");
    sql_identifier(sql, update->sku);
    sql_printf(sql, " AND segment=%u AND round=%u AND settings_version=%u", update->segment,
               update->round, update->settings_version);
    if (update->guard == LEDGER_CHAIN || update->guard == LEDGER_EPOCH)
        sql_printf(sql, " AND fence=%llu", (unsigned long long)update->settled);
    if (stock_update_fenced(update))
        sql_printf(sql, " AND fence<%llu", (unsigned long long)update->fence);
    sql_printf(sql, " AND sold+%u<=capacity;", update->units);
}

static void text_rows(struct sql_text *sql, const struct ledger_stock_update *updates, size_t count)
{
    sql_printf(sql, "JSON_TABLE('[");
    for (size_t i = 0; i < count; i++) {
        sql_printf(sql, i == 0 ? "[\"" : ",[\"");
        sql_bare_identifier(sql, updates[i].sku);
        sql_printf(sql, "\",%u,%u,%u,%u,%llu,%llu]", updates[i].segment, updates[i].round,
                   updates[i].settings_version, updates[i].units,
                   (unsigned long long)updates[i].settled, (unsigned long long)updates[i].fence);
    }
    sql_printf(sql, "]" UPDATES_AS_ROWS);
}

static void text_joint(struct sql_text *sql, const struct ledger_stock_update *updates,
                       size_t count)
{
    sql_printf(sql, "UPDATE ");
    text_rows(sql, updates, count);
    sql_printf(sql, "STRAIGHT_JOIN stock_segment g FORCE INDEX(PRIMARY)"
                    "ON g.sku=u.sku AND g.segment=u.segment "
                    "SET g.sold=g.sold+u.units,g.fence=u.fence "
                    "WHERE g.round=u.round AND g.settings_version=u.settings_version AND "
                    "g.fence=u.settled AND g.fence<u.fence AND g.sold+u.units<=g.capacity;");
}

/* True when one statement makes the updates together, which pays for many of them. */
static bool is_joint(const struct ledger_stock_update *updates, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (updates[i].guard != LEDGER_CHAIN)
            return false;
    return count > UPDATES_ALONE_MAX;
}

void stock_update_text(struct sql_text *sql, const struct ledger_stock_update *updates,
                       size_t count)
{
    if (is_joint(updates, count)) {
        text_joint(sql, updates, count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        text_alone(sql, &updates[i]);
}

/* A joint statement does not tell which of its updates were refused, so all of them count as: then
 * their segments are recovered, which is rare and costs less than asking one by one. */
enum db_result stock_update_check(const struct db *db, struct ledger_stock_update *updates,
                                  size_t count)
{
    bool joint = is_joint(updates, count);
    enum db_result result = DB_OK;
    for (size_t i = 0; i < count; i++) {
        updates[i].refused = joint ? db_affected(db, 0) != count : db_affected(db, i) != 1;
        if (updates[i].refused)
            result = DB_NO;
    }
    return result;
}
