/* Deletes the rows that only a running round needs, long after the round is over.
 *
 *   keys ─► users ─► done
 *
 * The row of sale_round says which of these steps is due and how far it has come. Each piece is a
 * transaction that begins with that row, so processes take turns.
 *
 * why_together: orders have no index by sale, so their keys are found by reading the orders of the
 * round's time, most of which belong to other sales. So all due rounds share one reading, which
 * passes each order once, and rounds fall due once a day. */
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
    char ended_before[LEDGER_TIME_SIZE]; /* rounds that ended earlier are due */
    char step[8];
    uint64_t first_id, last_id; /* the range of the orders of one or more rounds */
    uint64_t purged_to;
    struct ledger_purged *purged;
};

/* Finds the due round whose keys are furthest behind; when no keys are left, one with users. */
static enum ledger_result find_round(struct piece *piece, unsigned days)
{
    char **row;
    sql_begin(&piece->ledger->sql,
              "SELECT sku,round,UTC_DATE()-INTERVAL %u DAY FROM sale_round WHERE "
              "step IN('keys','users')AND ended_at<UTC_DATE()-INTERVAL %u DAY "
              "ORDER BY step,purged_to,ended_at,sku,round LIMIT %d",
              days, days, LEDGER_DAMAGED_MAX);
    enum ledger_result result = ledger_find_round(piece->ledger, "sale_round", &row);
    if (result != LEDGER_OK)
        return result;
    ledger_identifier(piece->purged->sku, row[0]);
    piece->purged->round = ledger_u32(row[1]);
    snprintf(piece->ended_before, sizeof piece->ended_before, "%s", row[2]);
    return LEDGER_OK;
}

/* first_id may be a guess: the rows that it misses stay, which does no harm. */
static enum db_result lock_round(struct piece *piece)
{
    char **row;
    const struct ledger_purged *purged = piece->purged;
    enum db_result result =
        ledger_do_row(piece->ledger, &row,
                      "SELECT step,purged_to,last_id," LEDGER_ROUND_FIRST
                      " FROM sale_round WHERE sku=%s AND round=%u AND step<>'done' FOR UPDATE",
                      purged->sku, purged->round, purged->sku, purged->round);
    if (result != DB_OK)
        return result;
    snprintf(piece->step, sizeof piece->step, "%s", row[0]);
    piece->purged_to = ledger_u64(row[1]);
    piece->last_id = ledger_u64(row[2]);
    piece->first_id = ledger_u64(row[3]);
    return DB_OK;
}

/* Notes the round's step and its progress. */
static enum db_result note_progress(const struct piece *piece, const char *step, uint64_t purged_to)
{
    return ledger_do(piece->ledger,
                     "UPDATE sale_round SET step=%s,purged_to=%ju WHERE sku=%s AND round=%u", step,
                     purged_to, piece->purged->sku, piece->purged->round);
}

/* ---- keys ---- */

/* Deletes the keys of orders up to `end` of all due rounds, and notes the progress in each. */
static enum db_result delete_keys(const struct piece *piece, uint64_t end)
{
    return ledger_do(piece->ledger,
                     "DELETE k FROM orders o STRAIGHT_JOIN sale_round r FORCE INDEX(PRIMARY)"
                     " ON r.sku=o.sku AND r.round=o.round AND r.step='keys' AND r.ended_at<'%-s'"
                     " STRAIGHT_JOIN order_key k ON k.user_id=o.user_id AND "
                     "k.idempotency_key=" LEDGER_KEY_OF_ORDER " AND k.order_id=o.order_id "
                     "WHERE o.order_id>%ju AND o.order_id<=%ju;"
                     "UPDATE sale_round SET step=IF(last_id<=%ju,'users','keys'),"
                     "purged_to=IF(last_id<=%ju,0,%ju)WHERE(purged_to<%ju OR last_id<=%ju)"
                     "AND step='keys' AND ended_at<'%-s'",
                     piece->ended_before, piece->purged_to, end, end, end, end, end, end,
                     piece->ended_before);
}

/* Rounds not begun come first, so all other due rounds are at least as far as this one. */
static enum db_result purge_keys(struct piece *piece)
{
    uint64_t end = 0;
    if (piece->purged_to == 0)
        return note_progress(piece, "keys", piece->first_id > 0 ? piece->first_id : 1);
    enum db_result result =
        ledger_piece_end(piece->ledger, ledger_query, piece->purged_to, piece->rows, &end);
    if (result == DB_OK)
        result = delete_keys(piece, end < piece->last_id ? end : piece->last_id);
    piece->purged->keys = result == DB_OK ? db_affected(piece->ledger->db, 0) : 0;
    return result;
}

/* ---- users ---- */

static enum db_result purge_users(struct piece *piece)
{
    struct ledger_purged *purged = piece->purged;
    enum db_result result = ledger_do(piece->ledger,
                                      "DELETE FROM user_quota WHERE sku=%s AND round=%u LIMIT %u;"
                                      "DELETE FROM restock WHERE sku=%s AND round=%u;"
                                      "DELETE FROM sale_reset WHERE sku=%s AND round=%u",
                                      purged->sku, purged->round, piece->rows, purged->sku,
                                      purged->round, purged->sku, purged->round);
    if (result != DB_OK)
        return result;
    purged->users = db_affected(piece->ledger->db, 0);
    if (purged->users == piece->rows)
        return DB_OK;
    result = note_progress(piece, "done", 0);
    purged->done = result == DB_OK;
    return result;
}

static enum db_result purge(struct piece *piece)
{
    enum db_result result = lock_round(piece);
    if (result != DB_OK)
        return result;
    return strcmp(piece->step, "keys") == 0 ? purge_keys(piece) : purge_users(piece);
}

enum ledger_result ledger_purge(struct ledger *ledger, unsigned days, unsigned rows,
                                struct ledger_purged *purged_out)
{
    struct piece piece = {.ledger = ledger, .rows = rows, .purged = purged_out};
    struct db_run run = {0};
    assert(rows > 0);
    *purged_out = (struct ledger_purged){.round = 0};
    enum ledger_result result = find_round(&piece, days);
    if (result != LEDGER_OK)
        return result;
    while (db_run(ledger->db, &run))
        run.result = purge(&piece);
    if (run.result == DB_NO) /* somebody else has finished it */
        return LEDGER_OK;
    if (run.result != DB_OK) {
        purged_out->keys = purged_out->users = 0;
        purged_out->done = false;
    }
    return ledger_from_db(run.result);
}
