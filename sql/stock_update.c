/* The moves of segments along their fences, as SQL. */
#include "sql/stock_update.h"

#include <string.h>

/* A statement costs the server about 20 us, a row of the joint one 8 us and the statement 30 us. */
enum { MOVES_ALONE_MAX = 3 };

/* The joint statement reads the moves from one JSON text, the only list of rows that MariaDB and
 * MySQL 8 write alike. The moves come first in the join and the segments by their key: no other row
 * is looked at, and none locked. */
#define MOVES_AS_ROWS                                                                              \
    "','$[*]' COLUMNS(i FOR ORDINALITY,"                                                           \
    "sku VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$[0]',"                           \
    "segment INT UNSIGNED PATH '$[1]',round INT UNSIGNED PATH '$[2]',"                             \
    "settings_version INT UNSIGNED PATH '$[3]',units INT UNSIGNED PATH '$[4]',"                    \
    "settled BIGINT UNSIGNED PATH '$[5]',fence BIGINT UNSIGNED PATH '$[6]'))m "

bool stock_update_fenced(const struct ledger_stock_update *move)
{
    return move->guard == LEDGER_CHAIN || move->guard == LEDGER_FENCED;
}

static void text_alone(struct sql_text *sql, const struct ledger_stock_update *move)
{
    sql_printf(sql, "UPDATE stock_segment SET sold=sold+%u", move->units);
    if (stock_update_fenced(move))
        sql_printf(sql, ",fence=%llu", (unsigned long long)move->fence);
    else if (move->guard == LEDGER_UNFENCED)
        sql_printf(sql, ",fence=fence+1");
    sql_printf(sql, " WHERE sku=");
    sql_word(sql, move->sku);
    sql_printf(sql, " AND segment=%u AND round=%u AND settings_version=%u", move->segment,
               move->round, move->settings_version);
    if (move->guard == LEDGER_CHAIN || move->guard == LEDGER_EPOCH)
        sql_printf(sql, " AND fence=%llu", (unsigned long long)move->settled);
    if (stock_update_fenced(move))
        sql_printf(sql, " AND fence<%llu", (unsigned long long)move->fence);
    sql_printf(sql, " AND sold+%u<=capacity;", move->units);
}

static void text_rows(struct sql_text *sql, const struct ledger_stock_update *moves, size_t count)
{
    sql_printf(sql, "JSON_TABLE('[");
    for (size_t i = 0; i < count; i++) {
        sql_printf(sql, i == 0 ? "[\"" : ",[\"");
        sql_bare_word(sql, moves[i].sku);
        sql_printf(sql, "\",%u,%u,%u,%u,%llu,%llu]", moves[i].segment, moves[i].round,
                   moves[i].settings_version, moves[i].units, (unsigned long long)moves[i].settled,
                   (unsigned long long)moves[i].fence);
    }
    sql_printf(sql, "]" MOVES_AS_ROWS);
}

void stock_update_text(struct sql_text *sql, bool joint, const struct ledger_stock_update *moves,
                       size_t count)
{
    if (!joint) {
        for (size_t i = 0; i < count; i++)
            text_alone(sql, &moves[i]);
        return;
    }
    sql_printf(sql, "UPDATE ");
    text_rows(sql, moves, count);
    sql_printf(
        sql,
        "STRAIGHT_JOIN stock_segment g FORCE INDEX(PRIMARY)"
        "ON g.sku=m.sku AND g.segment=m.segment "
        "SET g.sold=g.sold+m.units,g.fence=m.fence "
        "WHERE g.round=m.round AND g.settings_version=m.settings_version AND g.fence=m.settled "
        "AND g.fence<m.fence AND g.sold+m.units<=g.capacity;");
}

bool stock_update_joint(const struct ledger_stock_update *moves, size_t count)
{
    bool chained = true;
    for (size_t i = 0; i < count; i++)
        chained = chained && moves[i].guard == LEDGER_CHAIN;
    return chained && count > MOVES_ALONE_MAX;
}

enum db_result stock_update_check(const struct db *db, bool joint,
                                  struct ledger_stock_update *moves, size_t count)
{
    enum db_result result = DB_OK;
    bool all = joint && db_affected(db, 0) != count;
    for (size_t i = 0; i < count; i++) {
        moves[i].refused = joint ? all : db_affected(db, i) != 1;
        if (moves[i].refused)
            result = DB_NO;
    }
    return result;
}
