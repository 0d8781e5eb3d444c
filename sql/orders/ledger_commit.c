/* Accepted orders written to the ledger: the hot path. */
#include "sql/orders/orders.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sql/db/bulk.h"
#include "sql/ledger/ledger_query.h"
#include "sql/ledger/ledger.h"
#include "sql/orders/commit_rows.h"
#include "sql/orders/stock_update.h"
#include "sql/orders/user_quota.h"

struct commit {
    struct ledger *ledger;
    struct ledger_stock_update *updates;
    size_t update_count;
    const struct ledger_order *orders;
    size_t order_count;
    const struct ledger_order *listed[LEDGER_ORDERS_MAX];  /* in the order they were given */
    const struct ledger_order *by_key[LEDGER_ORDERS_MAX];  /* by user and key */
    const struct ledger_order *limited[LEDGER_ORDERS_MAX]; /* by user and sku: those with a limit */
    size_t limited_count;
    bool joint; /* one statement makes the stock updates */
    bool late;  /* the time of an order was over */
};

/* Orders without a key come first: '#', which their rows begin with, is less than any letter of a
 * key. */
static int compare_keys(const void *left, const void *right)
{
    const struct ledger_order *a = *(const struct ledger_order *const *)left;
    const struct ledger_order *b = *(const struct ledger_order *const *)right;
    int order = strcmp(a->user_id, b->user_id);
    if (order == 0)
        order = strcmp(a->key ? a->key : "", b->key ? b->key : "");
    return order != 0 ? order : (a->order_id > b->order_id) - (a->order_id < b->order_id);
}

static int compare_limited(const void *left, const void *right)
{
    const struct ledger_order *a = *(const struct ledger_order *const *)left;
    const struct ledger_order *b = *(const struct ledger_order *const *)right;
    int order = strcmp(a->user_id, b->user_id);
    return order != 0 ? order : strcmp(a->sku, b->sku);
}

/* Lists the orders for the rows of keys and of quotas, sorted: batches of several processes meet
 * there when they carry the same users, and in one order they wait for each other instead of
 * deadlocking. */
static void list_orders(struct commit *commit)
{
    for (size_t i = 0; i < commit->order_count; i++) {
        const struct ledger_order *order = &commit->orders[i];
        commit->listed[i] = commit->by_key[i] = order;
        if (order->limit > 0)
            commit->limited[commit->limited_count++] = order;
    }
    qsort(commit->by_key, commit->order_count, sizeof commit->by_key[0], compare_keys);
    qsort(commit->limited, commit->limited_count, sizeof commit->limited[0], compare_limited);
}

/* Orders that expire at the same moment were taken together, so one row stands for all of them. */
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

/* The stock updates come first, as stock_update_check counts their rows by their places. */
static void text_commit(struct commit *commit)
{
    struct sql_text *sql = &commit->ledger->sql;
    sql_clear(sql);
    if (!commit->joint)
        stock_update_text(sql, commit->updates, commit->update_count);
    text_expiries(sql, commit);
    if (sql->length == 0)
        sql_printf(sql, "DO 0"); /* a query must begin the transaction */
}

/* The joint statement does not tell which of its updates were refused, so all of them count as
 * refused: then their segments are recovered, which is rare and cheaper than asking for each. */
static enum db_result update_stock(struct commit *commit, struct db *db)
{
    bool made = false;
    if (!commit->joint)
        return stock_update_check(db, commit->updates, commit->update_count);
    enum db_result result =
        commit_rows_stock(commit->ledger->rows, db, commit->updates, commit->update_count, &made);
    for (size_t i = 0; i < commit->update_count; i++)
        commit->updates[i].refused = result == DB_OK && !made;
    return result == DB_OK && !made ? DB_NO : result;
}

static bool is_late(const struct commit *commit)
{
    int64_t now_ns = clock_now_ns();
    for (size_t i = 0; i < commit->order_count; i++)
        if (commit->orders[i].until_ns != 0 && now_ns >= commit->orders[i].until_ns)
            return true;
    return false;
}

/* The text and the keys go first, so that a refused segment or a known key costs no order. */
static enum db_result commit_body(struct db *db, void *context)
{
    struct commit *commit = context;
    struct commit_rows *rows = commit->ledger->rows;
    bool bulk = !commit->ledger->without_bulk && bulk_supported(db);
    commit->joint = bulk && stock_update_joint(commit->updates, commit->update_count);
    text_commit(commit);
    enum db_result result = ledger_query(commit->ledger);
    if (result == DB_OK)
        result = update_stock(commit, db);
    if (result == DB_OK)
        result =
            commit_rows_insert(rows, db, bulk, COMMIT_KEYS, commit->by_key, commit->order_count);
    if (result == DB_OK)
        result =
            commit_rows_insert(rows, db, bulk, COMMIT_ORDERS, commit->listed, commit->order_count);
    if (result == DB_OK)
        result = commit_rows_insert(rows, db, bulk, COMMIT_QUOTAS, commit->limited,
                                    commit->limited_count);
    commit->late = result == DB_OK && is_late(commit); /* why_last */
    return commit->late ? DB_NO : result;
}

static bool are_sorted(const struct ledger_stock_update *updates, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        int order =
            updates[i].sku == updates[i - 1].sku ? 0 : strcmp(updates[i - 1].sku, updates[i].sku);
        if (order > 0 || (order == 0 && updates[i].segment < updates[i - 1].segment))
            return false;
    }
    return true;
}

enum ledger_result ledger_commit(struct ledger *ledger, struct ledger_stock_update *updates,
                                 size_t update_count, const struct ledger_order *orders,
                                 size_t order_count)
{
    assert(update_count > 0 && update_count <= LEDGER_SEGMENTS_MAX);
    assert(are_sorted(updates, update_count));
    assert(order_count > 0 && order_count <= LEDGER_ORDERS_MAX);
    struct commit commit;
    if (!ledger->rows) {
        ledger->rows = commit_rows_open();
        ledger->rows_close = commit_rows_close;
    }
    commit.ledger = ledger;
    commit.updates = updates;
    commit.update_count = update_count;
    commit.orders = orders;
    commit.order_count = order_count;
    commit.limited_count = 0; /* the lists stay unset: they are large */
    commit.joint = commit.late = false;
    list_orders(&commit);
    enum db_result result = db_run(ledger->db, commit_body, &commit);
    return commit.late ? LEDGER_LATE : ledger_from_db(result);
}
