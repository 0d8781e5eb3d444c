/* What only a running round needs, deleted when the round has long been over.
 *
 *   keys ─► users ─► done
 *
 * The row of sale_round says which of these steps is due and how far it has come. Each piece is a
 * transaction that begins with that row, so processes take turns.
 *
 * why_together: orders have no index by sale, so their keys are found by reading the orders of the
 * round's time, most of which belong to other sales. So all rounds that are due share one reading,
 * which each order passes once, and rounds fall due once a day. */
#include "sql/sales/sales.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql/ledger/ledger_query.h"
#include "sql/sales/ledger_round.h"
#include "sql/ledger/ledger.h"

struct piece {
    struct ledger *ledger;
    unsigned rows;
    char ended_before[LEDGER_TIME_SIZE]; /* then the round is due */
    char step[8];
    uint64_t first_id, last_id; /* between which the orders of the round, or of several, are */
    uint64_t purged_to;
    struct ledger_purged *purged;
};

static void text_round(struct piece *piece, const char *and)
{
    struct sql_text *sql = &piece->ledger->sql;
    sql_text_identifier(sql, "sku=", piece->purged->sku);
    sql_printf(sql, " AND round=%u%s", piece->purged->round, and);
}

/* The keys first: of all due rounds the one that is furthest behind. */
static enum ledger_result find_round(struct piece *piece, unsigned days)
{
    struct sql_text *sql = &piece->ledger->sql;
    sql_begin(sql,
              "SELECT sku,round,UTC_DATE()-INTERVAL %u DAY FROM sale_round WHERE "
              "step IN('keys','users')AND ended_at<UTC_DATE()-INTERVAL %u DAY "
              "ORDER BY step,purged_to,ended_at,sku,round LIMIT %d",
              days, days, LEDGER_DAMAGED_MAX);
    if (ledger_read(piece->ledger) != DB_OK)
        return LEDGER_FAILED;
    char **row = ledger_round_row(piece->ledger, "sale_round");
    if (!row)
        return LEDGER_NO;
    ledger_identifier(piece->purged->sku, row[0]);
    piece->purged->round = ledger_u32(row[1]);
    snprintf(piece->ended_before, sizeof piece->ended_before, "%s", row[2]);
    return LEDGER_OK;
}

/* A guess is good enough: what is missed stays, and nobody minds. */
static enum db_result lock_round(struct piece *piece, struct db *db)
{
    struct sql_text *sql = &piece->ledger->sql;
    sql_begin(sql, "SELECT step,purged_to,last_id,");
    ledger_round_first_text(sql, piece->purged->sku, piece->purged->round);
    sql_printf(sql, " FROM sale_round WHERE ");
    text_round(piece, " AND step<>'done' FOR UPDATE");
    enum db_result result = ledger_query(piece->ledger);
    char **row = result == DB_OK ? db_row(db) : NULL;
    if (!row)
        return result == DB_OK ? DB_NO : result;
    snprintf(piece->step, sizeof piece->step, "%s", row[0]);
    piece->purged_to = ledger_u64(row[1]);
    piece->last_id = ledger_u64(row[2]);
    piece->first_id = ledger_u64(row[3]);
    return DB_OK;
}

/* Appends that the round is at this step, and how far it has come. */
static void text_progress(struct piece *piece, const char *step, uint64_t purged_to)
{
    struct sql_text *sql = &piece->ledger->sql;
    sql_printf(sql, "UPDATE sale_round SET step='%s',purged_to=%llu WHERE ", step,
               (unsigned long long)purged_to);
    text_round(piece, "");
}

/* ---- keys ---- */

/* Rounds that have not begun come first, so the others are all at this round's place or behind. */
static enum db_result begin_keys(struct piece *piece)
{
    struct sql_text *sql = &piece->ledger->sql;
    sql_clear(sql);
    text_progress(piece, "keys", piece->first_id > 0 ? piece->first_id : 1);
    return ledger_query(piece->ledger);
}

static void text_due(struct piece *piece, const char *table)
{
    sql_printf(&piece->ledger->sql, "%sstep='keys' AND %sended_at<'%s'", table, table,
               piece->ended_before);
}

/* Deletes the keys of orders up to `end` of all rounds that are due, and takes these as far. */
static void text_keys(struct piece *piece, uint64_t end)
{
    struct sql_text *sql = &piece->ledger->sql;
    sql_printf(sql, "DELETE k FROM orders o STRAIGHT_JOIN sale_round r FORCE INDEX(PRIMARY)"
                    " ON r.sku=o.sku AND r.round=o.round AND ");
    text_due(piece, "r.");
    sql_printf(sql,
               " STRAIGHT_JOIN order_key k ON k.user_id=o.user_id AND "
               "k.idempotency_key=" LEDGER_KEY_OF_ORDER " AND k.order_id=o.order_id "
               "WHERE o.order_id>%llu AND o.order_id<=%llu;"
               "UPDATE sale_round SET step=IF(last_id<=%llu,'users','keys'),"
               "purged_to=IF(last_id<=%llu,0,%llu)WHERE(purged_to<%llu OR last_id<=%llu)AND ",
               (unsigned long long)piece->purged_to, (unsigned long long)end,
               (unsigned long long)end, (unsigned long long)end, (unsigned long long)end,
               (unsigned long long)end, (unsigned long long)end);
    text_due(piece, "");
}

static enum db_result purge_keys(struct piece *piece, struct db *db)
{
    struct sql_text *sql = &piece->ledger->sql;
    if (piece->purged_to == 0)
        return begin_keys(piece);
    sql_begin(sql,
              "SELECT COUNT(*),MAX(order_id)FROM(SELECT order_id FROM orders WHERE order_id>%llu "
              "AND order_id<=%llu ORDER BY order_id LIMIT %u)o",
              (unsigned long long)piece->purged_to, (unsigned long long)piece->last_id,
              piece->rows);
    enum db_result result = ledger_query(piece->ledger);
    char **row = result == DB_OK ? db_row(db) : NULL;
    if (!row)
        return result == DB_OK ? DB_FAILED : result;
    bool last = ledger_u32(row[0]) < piece->rows;
    uint64_t end = last ? piece->last_id : ledger_u64(row[1]);
    sql_clear(sql);
    text_keys(piece, end);
    result = ledger_query(piece->ledger);
    piece->purged->keys = result == DB_OK ? db_affected(db, 0) : 0;
    return result;
}

/* ---- users ---- */

static enum db_result purge_users(struct piece *piece, struct db *db)
{
    struct sql_text *sql = &piece->ledger->sql;
    sql_begin(sql, "DELETE FROM user_quota WHERE ");
    text_round(piece, "");
    sql_printf(sql, " LIMIT %u;DELETE FROM restock WHERE ", piece->rows);
    text_round(piece, ";DELETE FROM sale_reset WHERE ");
    text_round(piece, "");
    enum db_result result = ledger_query(piece->ledger);
    if (result != DB_OK)
        return result;
    piece->purged->users = db_affected(db, 0);
    if (piece->purged->users == piece->rows)
        return DB_OK;
    sql_clear(sql);
    text_progress(piece, "done", 0);
    result = ledger_query(piece->ledger);
    piece->purged->done = result == DB_OK;
    return result;
}

static enum db_result locked_body(struct db *db, void *context)
{
    struct piece *piece = context;
    enum db_result result = lock_round(piece, db);
    if (result != DB_OK)
        return result;
    return strcmp(piece->step, "keys") == 0 ? purge_keys(piece, db) : purge_users(piece, db);
}

enum ledger_result ledger_purge(struct ledger *ledger, unsigned days, unsigned rows,
                                struct ledger_purged *purged_out)
{
    struct piece piece = {.ledger = ledger, .rows = rows, .purged = purged_out};
    assert(rows > 0);
    *purged_out = (struct ledger_purged){.round = 0};
    enum ledger_result result = find_round(&piece, days);
    if (result != LEDGER_OK)
        return result;
    result = ledger_from_db(db_run(ledger->db, locked_body, &piece));
    if (result == LEDGER_NO) /* somebody else has finished it */
        return LEDGER_OK;
    if (result != LEDGER_OK) {
        purged_out->keys = purged_out->users = 0;
        purged_out->done = false;
    }
    return result;
}
