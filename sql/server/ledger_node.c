/* Leases of node numbers. A taker locks the rows it looks at, so takers come one after the other;
 * they are 1024, and daemons seldom start. */
#include "sql/server/server.h"

#include <assert.h>

#include "sql/ledger/ledger_query.h"
#include "sql/ledger/ledger.h"

struct taking {
    struct ledger *ledger;
    const struct ledger_node *node; /* as it was: the body may be repeated */
    struct ledger_node *taken;
    char *other, *until;
    bool used_up; /* the number that is wanted */
};

/* The greatest ids_before that leaves the ids of a lease. */
static unsigned long long ids_before_max(const struct ledger_node *node)
{
    return node->last_ms - (uint64_t)node->lease_ms;
}

static void text_lease(struct sql_text *sql, const struct ledger_node *node)
{
    assert(node->number >= 0 && node->number < LEDGER_NODES && node->lease_ms > 0);
    sql_printf(sql, "leased_until=UTC_TIMESTAMP(6)+INTERVAL %lld MICROSECOND,",
               node->lease_ms * 1000LL);
    sql_printf(sql, "ids_before=GREATEST(ids_before,%llu)WHERE number=%d",
               (unsigned long long)node->ids_to_ms, node->number);
}

static void text_and_holder(struct sql_text *sql, const struct ledger_node *node)
{
    sql_text_identifier(sql, " AND holder=", node->holder);
}

/* A number that the operator has set is not kept for daemons of the former version. */
static enum db_result lock_free(struct taking *taking)
{
    struct sql_text *sql = &taking->ledger->sql;
    sql_begin(sql, "SELECT number,ids_before FROM node_lease WHERE(holder=");
    sql_identifier(sql, taking->node->holder);
    sql_printf(sql, " OR leased_until<=UTC_TIMESTAMP(6)");
    if (taking->node->number >= 0)
        sql_printf(sql, " OR holder='former-version')AND number=%d", taking->node->number);
    else
        sql_printf(sql, ")");
    sql_printf(sql, " AND ids_before<=%llu ORDER BY holder<=>", ids_before_max(taking->node));
    sql_identifier(sql, taking->node->holder);
    sql_printf(sql, " DESC,leased_until,number LIMIT 1 FOR UPDATE");
    return ledger_query(taking->ledger);
}

static enum db_result tell_other(struct taking *taking, struct db *db)
{
    struct sql_text *sql = &taking->ledger->sql;
    if (taking->node->number < 0)
        return DB_NO;
    sql_begin(sql, "SELECT holder,leased_until,ids_before>%llu FROM node_lease WHERE number=%d",
              ids_before_max(taking->node), taking->node->number);
    enum db_result result = ledger_query(taking->ledger);
    char **row = result == DB_OK ? db_row(db) : NULL;
    if (!row)
        return result == DB_OK ? DB_NO : result;
    ledger_identifier(taking->other, row[0]);
    ledger_time_read(taking->until, row[1]);
    taking->used_up = ledger_u32(row[2]) != 0;
    return DB_NO;
}

static enum db_result take_body(struct db *db, void *context)
{
    struct taking *taking = context;
    const struct ledger_node *node = taking->node;
    struct sql_text *sql = &taking->ledger->sql;
    enum db_result result = lock_free(taking);
    if (result != DB_OK)
        return result;
    char **row = db_row(db);
    if (!row)
        return tell_other(taking, db);
    struct ledger_node taken = *node;
    taken.number = (int)ledger_u32(row[0]);
    uint64_t ids_before = ledger_u64(row[1]);
    if (taken.number < 0 || taken.number >= LEDGER_NODES || ids_before > ids_before_max(node))
        return DB_FAILED; /* the table has a row that no daemon has made */
    taken.ids_from_ms = ids_before > node->next_ms ? ids_before : node->next_ms;
    taken.ids_to_ms = taken.ids_from_ms + (uint64_t)node->lease_ms;
    sql_begin(sql, "UPDATE node_lease SET holder=");
    sql_identifier(sql, node->holder);
    sql_printf(sql, ",");
    text_lease(sql, &taken);
    result = ledger_query(taking->ledger);
    if (result == DB_OK)
        *taking->taken = taken;
    return result;
}

enum ledger_result ledger_node_take(struct ledger *ledger, struct ledger_node *node,
                                    char other_out[IDENTIFIER_SIZE],
                                    char until_out[LEDGER_TIME_SIZE])
{
    other_out[0] = until_out[0] = '\0';
    struct ledger_node taken = *node;
    struct taking taking = {ledger, node, &taken, other_out, until_out, false};
    enum ledger_result result = ledger_from_db(db_run(ledger->db, take_body, &taking));
    if (result == LEDGER_OK)
        *node = taken;
    if (result != LEDGER_NO || !taking.used_up)
        return result;
    ledger_note_damage(ledger, "node_lease: number %d, ids_before too late for any id",
                       node->number);
    return LEDGER_DAMAGED;
}

static enum db_result change_body(struct db *db, void *context)
{
    struct ledger *ledger = context;
    enum db_result result = ledger_query(ledger);
    return result == DB_OK && db_affected(db, 0) == 0 ? DB_NO : result;
}

enum ledger_result ledger_node_renew(struct ledger *ledger, struct ledger_node *node)
{
    struct sql_text *sql = &ledger->sql;
    struct ledger_node renewed = *node;
    renewed.ids_to_ms = node->next_ms + (uint64_t)node->lease_ms;
    sql_begin(sql, "UPDATE node_lease SET ");
    text_lease(sql, &renewed);
    text_and_holder(sql, node);
    enum ledger_result result = ledger_from_db(db_run(ledger->db, change_body, ledger));
    if (result == LEDGER_OK)
        *node = renewed;
    return result;
}

enum ledger_result ledger_node_release(struct ledger *ledger, const struct ledger_node *node)
{
    struct sql_text *sql = &ledger->sql;
    sql_begin(sql,
              "UPDATE node_lease SET leased_until=UTC_TIMESTAMP(6),ids_before=%llu,holder=NULL "
              "WHERE number=%d",
              (unsigned long long)node->next_ms, node->number);
    text_and_holder(sql, node);
    enum ledger_result result = ledger_from_db(db_run(ledger->db, change_body, ledger));
    return result == LEDGER_NO ? LEDGER_OK : result;
}
