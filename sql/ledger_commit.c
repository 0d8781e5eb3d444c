/* One transaction of orders and the moves of their segments: the hot path of the ledger. */
#include "sql/ledger_commit.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sql/ledger_index.h"
#include "sql/ledger_query.h"
#include "sql/ledger_time.h"
#include "sql/order_insert.h"
#include "sql/stock_update.h"
#include "sql/user_quota.h"

struct commit {
    struct ledger *ledger;
    struct ledger_stock_update *moves;
    size_t move_count;
    const struct ledger_order *orders;
    size_t order_count;
    size_t
        as_text; /* of these, the first, in the packet of the moves; the rest by a prepared one */
    bool joint;  /* all moves in one statement */
    const struct ledger_order *sorted[LEDGER_ORDERS_MAX];  /* by user, when that matters */
    const struct ledger_order *limited[LEDGER_ORDERS_MAX]; /* of these, the ones with a limit */
    size_t limited_count;
    size_t limited_as_text; /* the first of them, as above */
};

static bool has_key(const struct ledger_order *order)
{
    return order->key && order->key[0] != '\0';
}

static void text_order(struct sql_text *sql, const struct ledger_order *order, const char *time)
{
    sql_append(sql, "(", 1);
    sql_number(sql, order->order_id);
    sql_append(sql, ",", 1);
    sql_word(sql, order->sku);
    sql_append(sql, ",", 1);
    sql_number(sql, order->round);
    sql_append(sql, ",", 1);
    sql_word(sql, order->user_id);
    sql_append(sql, ",", 1);
    sql_number(sql, order->qty);
    sql_append(sql, ",", 1);
    if (order->segment == LEDGER_SEGMENT_SEVERAL)
        sql_append(sql, "NULL", 4);
    else
        sql_number(sql, (uint64_t)order->segment);
    sql_append(sql, ",", 1);
    if (has_key(order))
        sql_word(sql, order->key);
    else
        sql_append(sql, "NULL", 4);
    sql_append(sql, ",'", 2);
    sql_append(sql, time, LEDGER_TIME_SIZE - 2); /* without the Z, which MySQL does not take */
    sql_append(sql, "',", 2);
    ledger_time_text(sql, order->expires_ms);
    sql_append(sql, ")", 1);
}

static void text_orders(struct sql_text *sql, const struct commit *commit)
{
    static const char insert[] = "INSERT INTO orders(order_id,sku,round,user_id,qty,segment,"
                                 "idempotency_key,created_at,expires_at)VALUES";
    char time[LEDGER_TIME_SIZE];
    int64_t time_ms = -1;
    if (commit->as_text == 0)
        return;
    sql_append(sql, insert, sizeof insert - 1);
    for (size_t i = 0; i < commit->as_text; i++) {
        if (commit->orders[i].created_ms != time_ms) {
            time_ms = commit->orders[i].created_ms;
            ledger_time_format(time_ms, time);
        }
        if (i > 0)
            sql_append(sql, ",", 1);
        text_order(sql, &commit->orders[i], time);
    }
    sql_append(sql, ";", 1);
}

static int compare_orders(const void *left, const void *right)
{
    const struct ledger_order *a = *(const struct ledger_order *const *)left;
    const struct ledger_order *b = *(const struct ledger_order *const *)right;
    int order = strcmp(a->user_id, b->user_id);
    if (order == 0)
        order = strcmp(a->sku, b->sku);
    if (order == 0 && has_key(a) && has_key(b))
        order = strcmp(a->key, b->key);
    return order;
}

/* Batches that carry the same users at the same time meet in the rows of keys and of quotas: in one
 * order for all of them, so that they wait for each other there and do not deadlock. */
static void sort_orders(struct commit *commit)
{
    bool matters = false;
    for (size_t i = 0; i < commit->order_count; i++) {
        commit->sorted[i] = &commit->orders[i];
        matters |= has_key(&commit->orders[i]) || commit->orders[i].limit > 0;
    }
    if (matters)
        qsort(commit->sorted, commit->order_count, sizeof *commit->sorted, compare_orders);
    commit->limited_count = 0;
    for (size_t i = 0; i < commit->order_count; i++)
        if (commit->sorted[i]->limit > 0)
            commit->limited[commit->limited_count++] = commit->sorted[i];
    commit->limited_as_text = commit->limited_count - order_insert_share(commit->limited_count);
}

static void text_keys(struct sql_text *sql, const struct commit *commit)
{
    const char *lead = "INSERT INTO order_key(user_id,idempotency_key,order_id)VALUES(";
    for (size_t i = 0; i < commit->order_count; i++) {
        const struct ledger_order *order = commit->sorted[i];
        if (!has_key(order))
            continue;
        sql_append(sql, lead, strlen(lead));
        sql_word(sql, order->user_id);
        sql_append(sql, ",", 1);
        sql_word(sql, order->key);
        sql_append(sql, ",", 1);
        sql_number(sql, order->order_id);
        sql_append(sql, ")", 1);
        lead = ",(";
    }
    if (lead[0] == ',')
        sql_append(sql, ";", 1);
}

/* One row for all orders that expire at the same moment: they were taken together. */
static void text_expiries(struct sql_text *sql, const struct commit *commit)
{
    const char *lead = "INSERT INTO order_expiry(expires_at,first_id,last_id)VALUES(";
    const struct ledger_order *orders = commit->orders;
    for (size_t i = 0, next; i < commit->order_count; i = next) {
        uint64_t first_id = orders[i].order_id, last_id = first_id;
        for (next = i + 1;
             next < commit->order_count && orders[next].expires_ms == orders[i].expires_ms;
             next++) {
            first_id = orders[next].order_id < first_id ? orders[next].order_id : first_id;
            last_id = orders[next].order_id > last_id ? orders[next].order_id : last_id;
        }
        if (orders[i].expires_ms == 0)
            continue;
        sql_append(sql, lead, strlen(lead));
        ledger_time_text(sql, orders[i].expires_ms);
        sql_append(sql, ",", 1);
        sql_number(sql, first_id);
        sql_append(sql, ",", 1);
        sql_number(sql, last_id);
        sql_append(sql, ")", 1);
        lead = ",(";
    }
    if (lead[0] == ',')
        sql_append(sql, ";", 1);
}

static void text_allocations(struct sql_text *sql, const struct commit *commit)
{
    const char *lead = "INSERT INTO order_allocation(order_id,segment,qty)VALUES";
    for (size_t i = 0; i < commit->order_count; i++) {
        const struct ledger_order *order = &commit->orders[i];
        for (size_t a = 0; a < order->allocation_count; a++) {
            sql_printf(sql, "%s(%llu,%u,%u)", lead, (unsigned long long)order->order_id,
                       order->allocations[a].segment, order->allocations[a].qty);
            lead = ",";
        }
    }
}

static enum db_result commit_body(struct db *db, void *context)
{
    struct commit *commit = context;
    enum db_result result = ledger_query(commit->ledger);
    if (result != DB_OK)
        return result;
    result = stock_update_check(db, commit->joint, commit->moves, commit->move_count);
    size_t rest = commit->order_count - commit->as_text;
    if (result == DB_OK && rest > 0)
        result =
            order_insert_run(commit->ledger->insert, db, commit->orders + commit->as_text, rest);
    rest = commit->limited_count - commit->limited_as_text;
    if (result == DB_OK && rest > 0)
        result = order_insert_quotas(commit->ledger->insert, db,
                                     commit->limited + commit->limited_as_text, rest);
    return result;
}

static void commit_text(struct commit *commit)
{
    struct sql_text *sql = &commit->ledger->sql;
    sort_orders(commit);
    sql_clear(sql);
    stock_update_text(sql, commit->joint, commit->moves, commit->move_count);
    ledger_index_text(sql, commit->orders, commit->order_count);
    text_orders(sql, commit);
    text_keys(sql, commit);
    user_quota_text_count(sql, commit->limited, commit->limited_as_text);
    text_expiries(sql, commit);
    text_allocations(sql, commit);
}

enum ledger_result ledger_commit(struct ledger *ledger, struct ledger_stock_update *moves,
                                 size_t move_count, const struct ledger_order *orders,
                                 size_t order_count)
{
    assert(move_count > 0 && move_count <= LEDGER_SEGMENTS_MAX);
    assert(order_count > 0 && order_count <= LEDGER_ORDERS_MAX);
    struct commit commit = {
        .ledger = ledger,
        .moves = moves,
        .move_count = move_count,
        .orders = orders,
        .order_count = order_count,
        .as_text = order_count - order_insert_share(order_count),
        .joint = stock_update_joint(moves, move_count),
    };
    commit_text(&commit);
    return ledger_from_db(db_run(ledger->db, commit_body, &commit));
}
