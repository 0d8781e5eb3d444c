/* What only a running round needs, deleted when the round has long been over.
 *
 *   keys ─► users ─► index ─► done
 *
 * The row of sale_round says which of these steps is due and how far it has come. Each piece is a
 * transaction that begins with that row, so processes take turns.
 *
 * why_together: orders have no index by sale, so their keys are found by reading the orders of the
 * round's time, which are mostly those of other sales; and so are their entries in the index by
 * user. So all rounds that are due share one reading of either, which each order passes once, and
 * rounds fall due once a day. */
#include "sql/sales/ledger_purge.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql/orders/ledger_index.h"
#include "sql/ledger_query.h"
#include "sql/sales/ledger_round.h"
#include "sql/ledger_time.h"

enum { BUCKETS_MAX = 64 }; /* that have no entries of the round's time, in one piece */

struct piece {
    struct ledger *ledger;
    unsigned rows;
    char ended_before[LEDGER_TIME_SIZE]; /* then the round is due */
    char step[8];
    uint64_t first_id, last_id; /* between which the orders of the round, or of several, are */
    uint64_t purged_to;
    unsigned bucket; /* of the index, at work, */
    uint64_t run;    /* and its row */
    struct ledger_purged *purged;
};

static void text_round(struct piece *piece, const char *and)
{
    struct sql_text *sql = &piece->ledger->sql;
    sql_printf(sql, "sku=");
    sql_identifier(sql, piece->purged->sku);
    sql_printf(sql, " AND round=%u%s", piece->purged->round, and);
}

/* The keys first: of all due rounds the one that is furthest behind. */
static enum ledger_result find_round(struct piece *piece, unsigned days)
{
    struct sql_text *sql = &piece->ledger->sql;
    sql_clear(sql);
    sql_printf(sql,
               "SELECT sku,round,UTC_DATE()-INTERVAL %u DAY FROM sale_round WHERE "
               "step IN('keys','users','index')AND ended_at<UTC_DATE()-INTERVAL %u DAY "
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
    sql_clear(sql);
    sql_printf(sql, "SELECT step,purged_to,last_id,");
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
               "k.idempotency_key=o.idempotency_key AND k.order_id=o.order_id "
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
    sql_clear(sql);
    sql_printf(sql,
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
    sql_clear(sql);
    sql_printf(sql, "DELETE FROM user_quota WHERE ");
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
    text_progress(piece, "index", 0);
    return ledger_query(piece->ledger);
}

static enum db_result locked_body(struct db *db, void *context)
{
    struct piece *piece = context;
    enum db_result result = lock_round(piece, db);
    if (result != DB_OK || strcmp(piece->step, "index") == 0)
        return result;
    return strcmp(piece->step, "keys") == 0 ? purge_keys(piece, db) : purge_users(piece, db);
}

/* ---- index ---- */

/* The due rounds that have come no further than this one. */
static void text_index_due(struct piece *piece)
{
    sql_printf(&piece->ledger->sql, "r.step='index' AND r.ended_at<'%s' AND r.purged_to<=%llu",
               piece->ended_before, (unsigned long long)piece->purged_to);
}

/* Finds between which ids the orders of these rounds are. */
static bool find_ids(struct piece *piece)
{
    struct sql_text *sql = &piece->ledger->sql;
    sql_clear(sql);
    sql_printf(sql, "SELECT MIN(");
    ledger_round_first_of_row_text(sql);
    sql_printf(sql, "),MAX(r.last_id)FROM sale_round r WHERE ");
    text_index_due(piece);
    char **row = ledger_read(piece->ledger) == DB_OK ? db_row(piece->ledger->db) : NULL;
    piece->first_id = row ? ledger_u64(row[0]) : 0;
    piece->last_id = row ? ledger_u64(row[1]) : 0;
    return row != NULL;
}

/* The ids of a row's entries as a list for SQL; false when it has none. */
static bool text_ids(struct sql_text *sql, const char *entries)
{
    bool any = false;
    for (const char *at = entries; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const char *id = strchr(at, ':');
        if (!id)
            break;
        sql_append(sql, ",", any);
        sql_number(sql, strtoull(id + 1, NULL, 10));
        any = true;
    }
    return any;
}

static bool among(const uint64_t *ids, size_t count, uint64_t id)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && ids[low] == id;
}

/* Takes the entries of these orders, whose ids are sorted, out of the text. */
static void drop_entries(char *entries, const uint64_t *ids, size_t count)
{
    char *to = entries;
    for (char *at = entries, *next; *at; at = next) {
        size_t length = strcspn(at, ",");
        const char *id = memchr(at, ':', length);
        next = at + length + (at[length] == ',');
        if (id && among(ids, count, strtoull(id + 1, NULL, 10)))
            continue;
        if (to > entries)
            *to++ = ',';
        memmove(to, at, length);
        to += length;
    }
    *to = '\0';
}

/* Reads the ids of the rounds' orders among the entries. */
static enum db_result find_entries(struct piece *piece, struct db *db, const char *entries,
                                   uint64_t **ids_out, size_t *count_out)
{
    struct sql_text *sql = &piece->ledger->sql;
    size_t room = 0;
    *count_out = 0;
    sql_clear(sql);
    sql_printf(sql, "SELECT o.order_id FROM orders o STRAIGHT_JOIN sale_round r "
                    "FORCE INDEX(PRIMARY)ON r.sku=o.sku AND r.round=o.round AND ");
    text_index_due(piece);
    sql_printf(sql, " WHERE o.order_id IN(");
    if (!text_ids(sql, entries))
        return DB_OK;
    sql_printf(sql, ")ORDER BY o.order_id");
    enum db_result result = ledger_query(piece->ledger);
    for (char **row = result == DB_OK ? db_row(db) : NULL; row; row = db_row(db)) {
        if (*count_out == room) {
            room = room ? 2 * room : 256;
            *ids_out = realloc(*ids_out, room * sizeof **ids_out);
            if (!*ids_out)
                abort();
        }
        (*ids_out)[(*count_out)++] = ledger_u64(row[0]);
    }
    return result;
}

static void text_row(struct sql_text *sql, const struct piece *piece)
{
    sql_printf(sql, " WHERE bucket=%u AND run=%llu", piece->bucket, (unsigned long long)piece->run);
}

static enum db_result rewrite(struct piece *piece, struct db *db, char *entries)
{
    struct sql_text *sql = &piece->ledger->sql;
    uint64_t *ids = NULL;
    size_t count = 0;
    enum db_result result = find_entries(piece, db, entries, &ids, &count);
    if (result == DB_OK && count > 0) {
        drop_entries(entries, ids, count);
        sql_clear(sql);
        if (entries[0] == '\0')
            sql_printf(sql, "DELETE FROM order_index");
        else
            sql_printf(sql, "UPDATE order_index SET orders='");
        sql_append(sql, entries, strlen(entries)); /* digits, colons and commas */
        sql_append(sql, "'", entries[0] != '\0');
        text_row(sql, piece);
        result = ledger_query(piece->ledger);
    }
    piece->purged->entries += result == DB_OK ? count : 0;
    free(ids);
    return result;
}

/* A row that has been merged with another since is left as it is: nobody misses what is deleted,
 * and nobody minds what is not. */
static enum db_result row_body(struct db *db, void *context)
{
    struct piece *piece = context;
    struct sql_text *sql = &piece->ledger->sql;
    sql_clear(sql);
    sql_printf(sql, "SELECT orders FROM order_index");
    text_row(sql, piece);
    sql_printf(sql, " FOR UPDATE");
    enum db_result result = ledger_query(piece->ledger);
    char **row = result == DB_OK ? db_row(db) : NULL;
    if (!row || !row[0] || row[0][strspn(row[0], "0123456789:,")] != '\0')
        return result; /* gone, or not in our format */
    char *entries = strdup(row[0]);
    if (!entries)
        abort();
    result = rewrite(piece, db, entries);
    free(entries);
    return result;
}

/* Purges the rows of one bucket that have entries of the rounds' time, each by itself. */
static enum ledger_result purge_bucket(struct piece *piece, size_t *rows_out)
{
    struct ledger *ledger = piece->ledger;
    enum { MAX = 4096 };
    uint64_t *runs = calloc(MAX, sizeof *runs);
    enum ledger_result result = LEDGER_OK;
    if (!runs)
        abort();
    *rows_out = 0;
    sql_clear(&ledger->sql);
    sql_printf(&ledger->sql,
               "SELECT run FROM order_index WHERE bucket=%u AND run<=%llu AND last_id>%llu LIMIT "
               "%d",
               piece->bucket, (unsigned long long)piece->last_id,
               (unsigned long long)piece->first_id, MAX);
    if (ledger_read(ledger) != DB_OK)
        result = LEDGER_FAILED;
    for (char **row = result == LEDGER_OK ? db_row(ledger->db) : NULL; row && *rows_out < MAX;
         row = db_row(ledger->db))
        runs[(*rows_out)++] = ledger_u64(row[0]);
    for (size_t i = 0; i < *rows_out && result == LEDGER_OK; i++) {
        piece->run = runs[i];
        result = ledger_from_db(db_run(ledger->db, row_body, piece));
    }
    free(runs);
    return result;
}

/* Purges the next bucket that has such rows, and notes how far all these rounds have come. */
static enum ledger_result purge_buckets(struct piece *piece)
{
    struct sql_text *sql = &piece->ledger->sql;
    enum ledger_result result = find_ids(piece) ? LEDGER_OK : LEDGER_FAILED;
    size_t rows = 0;
    for (int i = 0; i < BUCKETS_MAX && rows == 0 && result == LEDGER_OK &&
                    piece->bucket < LEDGER_INDEX_BUCKETS;
         i++) {
        result = purge_bucket(piece, &rows);
        piece->bucket++;
    }
    if (result != LEDGER_OK)
        return result;
    sql_clear(sql);
    sql_printf(sql, "UPDATE sale_round r SET r.purged_to=%u WHERE ", piece->bucket);
    text_index_due(piece);
    return ledger_read(piece->ledger) == DB_OK ? LEDGER_OK : LEDGER_FAILED;
}

/* A round that has all buckets behind it is done. */
static enum ledger_result purge_index(struct piece *piece)
{
    if (piece->purged_to < LEDGER_INDEX_BUCKETS) {
        piece->bucket = (unsigned)piece->purged_to;
        return purge_buckets(piece);
    }
    sql_clear(&piece->ledger->sql);
    text_progress(piece, "done", piece->purged_to);
    piece->purged->done = ledger_read(piece->ledger) == DB_OK;
    return piece->purged->done ? LEDGER_OK : LEDGER_FAILED;
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
    if (result == LEDGER_OK && strcmp(piece.step, "index") == 0)
        result = purge_index(&piece);
    if (result != LEDGER_OK)
        purged_out->keys = purged_out->users = 0;
    return result;
}
