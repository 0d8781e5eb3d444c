/* Leases node numbers. A taker locks the rows that it reads, so takers run one after the other,
 * which is cheap: there are 1024 rows, and daemons seldom start. */
#include "sql/server/server.h"

#include <assert.h>

#include "sql/ledger/ledger_query.h"
#include "sql/ledger/ledger.h"

/* The greatest ids_before that leaves room for the ids of a lease. */
static uint64_t ids_before_max(const struct ledger_node *node)
{
    return node->last_ms - (uint64_t)node->lease_ms;
}

static void text_lease(struct sql_text *sql, const struct ledger_node *node)
{
    assert(node->number >= 0 && node->number < LEDGER_NODES && node->lease_ms > 0);
    sql_printf(sql,
               "leased_until=UTC_TIMESTAMP(6)+INTERVAL %ju MICROSECOND,"
               "ids_before=GREATEST(ids_before,%ju)WHERE number=%d",
               (uint64_t)node->lease_ms * 1000, node->ids_to_ms, node->number);
}

/* Locks a free number. One that the operator has set is free, too, if a daemon of the former
 * version has it. DB_NO: no number is free. */
static enum db_result lock_free(struct ledger *ledger, const struct ledger_node *node,
                                char ***row_out)
{
    struct sql_text *sql = &ledger->sql;
    sql_begin(sql,
              "SELECT number,ids_before FROM node_lease WHERE(holder=%s"
              " OR leased_until<=UTC_TIMESTAMP(6)",
              node->holder);
    if (node->number >= 0)
        sql_printf(sql, " OR holder='former-version')AND number=%d", node->number);
    else
        sql_append(sql, ")", 1);
    sql_printf(sql,
               " AND ids_before<=%ju ORDER BY holder<=>%s DESC,leased_until,number "
               "LIMIT 1 FOR UPDATE",
               ids_before_max(node), node->holder);
    enum db_result result = ledger_query(ledger);
    *row_out = result == DB_OK ? db_row(ledger->db) : NULL;
    return result == DB_OK && !*row_out ? DB_NO : result;
}

/* The holder of a number that is not free. */
struct other {
    char *holder, *until;
    bool used_up; /* the number has no ids left */
};

static enum db_result find_other(struct ledger *ledger, const struct ledger_node *node,
                                 struct other *other)
{
    char **row;
    if (node->number < 0)
        return DB_NO;
    enum db_result result = ledger_do_row(
        ledger, &row, "SELECT holder,leased_until,ids_before>%ju FROM node_lease WHERE number=%d",
        ids_before_max(node), node->number);
    if (result != DB_OK)
        return result;
    ledger_identifier(other->holder, row[0]);
    ledger_time_read(other->until, row[1]);
    other->used_up = ledger_u32(row[2]) != 0;
    return DB_NO;
}

static enum db_result take(struct ledger *ledger, const struct ledger_node *node,
                           struct ledger_node *taken, struct other *other)
{
    char **row;
    struct sql_text *sql = &ledger->sql;
    enum db_result result = lock_free(ledger, node, &row);
    if (result != DB_OK)
        return result == DB_NO ? find_other(ledger, node, other) : result;
    *taken = *node;
    taken->number = (int)ledger_u32(row[0]);
    uint64_t ids_before = ledger_u64(row[1]);
    if (taken->number < 0 || taken->number >= LEDGER_NODES || ids_before > ids_before_max(node))
        return DB_FAILED; /* the table has a row that no daemon has made */
    taken->ids_from_ms = ids_before > node->next_ms ? ids_before : node->next_ms;
    taken->ids_to_ms = taken->ids_from_ms + (uint64_t)node->lease_ms;
    sql_begin(sql, "UPDATE node_lease SET holder=%s,", node->holder);
    text_lease(sql, taken);
    return ledger_query(ledger);
}

enum ledger_result ledger_node_take(struct ledger *ledger, struct ledger_node *node,
                                    char other_out[IDENTIFIER_SIZE],
                                    char until_out[LEDGER_TIME_SIZE])
{
    other_out[0] = until_out[0] = '\0';
    struct ledger_node taken = *node;
    struct other other = {other_out, until_out, false};
    struct db_run run = {0};
    while (db_run(ledger->db, &run))
        run.result = take(ledger, node, &taken, &other);
    if (run.result == DB_OK)
        *node = taken;
    if (run.result != DB_NO || !other.used_up)
        return ledger_from_db(run.result);
    ledger_note_damage(ledger, "node_lease: number %d, ids_before too late for any id",
                       node->number);
    return LEDGER_DAMAGED;
}

/* Runs ledger->sql. LEDGER_NO: somebody else has the number. */
static enum ledger_result change(struct ledger *ledger)
{
    struct db_run run = {0};
    while (db_run(ledger->db, &run)) {
        run.result = ledger_query(ledger);
        if (run.result == DB_OK && db_affected(ledger->db, 0) == 0)
            run.result = DB_NO;
    }
    return ledger_from_db(run.result);
}

enum ledger_result ledger_node_renew(struct ledger *ledger, struct ledger_node *node)
{
    struct ledger_node renewed = *node;
    renewed.ids_to_ms = node->next_ms + (uint64_t)node->lease_ms;
    sql_begin(&ledger->sql, "UPDATE node_lease SET ");
    text_lease(&ledger->sql, &renewed);
    sql_printf(&ledger->sql, " AND holder=%s", node->holder);
    enum ledger_result result = change(ledger);
    if (result == LEDGER_OK)
        *node = renewed;
    return result;
}

enum ledger_result ledger_node_release(struct ledger *ledger, const struct ledger_node *node)
{
    sql_begin(&ledger->sql,
              "UPDATE node_lease SET leased_until=UTC_TIMESTAMP(6),ids_before=%ju,holder=NULL "
              "WHERE number=%d AND holder=%s",
              node->next_ms, node->number, node->holder);
    enum ledger_result result = change(ledger);
    return result == LEDGER_NO ? LEDGER_OK : result;
}
