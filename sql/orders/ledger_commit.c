/* Writes accepted orders to the ledger: the hot path. An expired order whose late payment has got
 * its units again is a row already, which becomes paid.
 *
 * why_affected_rows: a guard is a condition of its UPDATE, so an update that changes no row was
 * refused, or its row is missing. The rows are counted before the commit. Making the guard an error
 * instead, so that the whole transaction goes as one packet up to its COMMIT, was measured and
 * gained nothing: the orders must then come first, and a connection lost anywhere in the packet
 * leaves an unknown commit. */
#include "sql/orders/orders.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sql/events/event_line.h"
#include "sql/ledger/ledger_query.h"
#include "sql/orders/commit_rows.h"

/* One statement costs the server about 20 us, more than a row of the joint statement. */
enum { UPDATES_ALONE_MAX = 3 };

struct commit {
    struct ledger *ledger;
    struct ledger_stock_update *updates;
    size_t update_count;
    const struct ledger_order *orders;
    size_t order_count;
    const struct ledger_order *listed[LEDGER_ORDERS_MAX];  /* new ones, in the order given */
    const struct ledger_order *by_key[LEDGER_ORDERS_MAX];  /* the same by user and key */
    const struct ledger_order *limited[LEDGER_ORDERS_MAX]; /* by user and sku: those with a limit */
    size_t listed_count, limited_count;
    enum commit_rows_kind kind; /* of the rows of the new ones */
    bool joint;                 /* one statement makes the stock updates */
    bool late;                  /* the time of an order was over */
};

/* Orders without a key come first: their rows begin with '#', less than any letter of a key. */
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

/* Lists the orders for the rows of keys and of quotas, sorted: batches of several processes that
 * carry the same users meet there, and one order prevents deadlocks. */
static void list_orders(struct commit *commit)
{
    for (size_t i = 0; i < commit->order_count; i++) {
        const struct ledger_order *order = &commit->orders[i];
        if (order->limit > 0)
            commit->limited[commit->limited_count++] = order;
        if (order->payment_ref)
            continue;
        commit->by_key[commit->listed_count] = order;
        commit->listed[commit->listed_count++] = order;
        if (order->expires_ms != 0 && commit->kind == COMMIT_LASTING)
            commit->kind = COMMIT_EXPIRING;
        if (order->grace_s != 0)
            commit->kind = COMMIT_GRACE;
    }
    qsort(commit->by_key, commit->listed_count, sizeof commit->by_key[0], compare_keys);
    qsort(commit->limited, commit->limited_count, sizeof commit->limited[0], compare_limited);
}

/* True when one statement should make the updates together, if the server has bulk bindings. */
static bool are_joint(const struct ledger_stock_update *updates, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (updates[i].guard != LEDGER_CHAIN)
            return false;
    return count > UPDATES_ALONE_MAX;
}

static void text_update(struct sql_text *sql, const struct ledger_stock_update *update)
{
    sql_printf(sql, "UPDATE stock_segment SET sold=sold+%u", update->units);
    if (ledger_update_fenced(update))
        sql_printf(sql, ",fence=%ju", update->fence);
    else if (update->guard == LEDGER_UNFENCED)
        sql_printf(sql, ",fence=fence+1");
    sql_printf(sql, " WHERE sku=%s AND segment=%u AND round=%u AND settings_version=%u",
               update->sku, update->segment, update->round, update->settings_version);
    if (update->guard == LEDGER_CHAIN || update->guard == LEDGER_EPOCH)
        sql_printf(sql, " AND fence=%ju", update->settled);
    if (ledger_update_fenced(update))
        sql_printf(sql, " AND fence<%ju", update->fence);
    sql_printf(sql, " AND sold+%u<=capacity;", update->units);
}

/* Returns when the order may expire; 0: never. */
static int64_t due_ms(const struct ledger_order *order)
{
    return order->expires_ms == 0 ? 0 : order->expires_ms + (int64_t)order->grace_s * 1000;
}

/* Orders that expire at the same moment were taken together, so one row stands for all of them. */
static void text_expiries(struct sql_text *sql, const struct commit *commit)
{
    const char *lead = "INSERT INTO order_expiry(expires_at,first_id,last_id)VALUES(";
    const struct ledger_order *const *orders = commit->listed;
    for (size_t i = 0, next; i < commit->listed_count; i = next) {
        int64_t moment_ms = due_ms(orders[i]);
        uint64_t first_id = orders[i]->order_id, last_id = first_id;
        for (next = i + 1; next < commit->listed_count && due_ms(orders[next]) == moment_ms;
             next++) {
            first_id = orders[next]->order_id < first_id ? orders[next]->order_id : first_id;
            last_id = orders[next]->order_id > last_id ? orders[next]->order_id : last_id;
        }
        if (moment_ms == 0)
            continue;
        sql_printf(sql, "%-s", lead);
        ledger_time_text(sql, moment_ms);
        sql_printf(sql, ",%ju,%ju)", first_id, last_id);
        lead = ",(";
    }
    if (lead[0] == ',')
        sql_append(sql, ";", 1);
}

/* Only an expired order is paid so: whoever paid it meanwhile leaves one row fewer. */
static void text_retaken(struct sql_text *sql, const struct commit *commit)
{
    size_t count = 0;
    for (size_t i = 0; i < commit->order_count; i++)
        if (commit->orders[i].payment_ref)
            sql_printf(
                sql,
                count++ == 0
                    ? "UPDATE orders FORCE INDEX(PRIMARY)SET status='paid'," LEDGER_VERSION_NEXT
                      " WHERE status='expired'AND order_id IN(%ju"
                    : ",%ju",
                commit->orders[i].order_id);
    if (count > 0)
        sql_append(sql, ");", 2);
}

/* Puts first what is counted by its place. */
static void text_commit(struct commit *commit)
{
    struct sql_text *sql = &commit->ledger->sql;
    sql_clear(sql);
    for (size_t i = 0; i < commit->update_count && !commit->joint; i++)
        text_update(sql, &commit->updates[i]);
    text_retaken(sql, commit);
    text_expiries(sql, commit);
    event_text_accepted(commit->ledger, sql, commit->listed, commit->listed_count);
    if (sql->length == 0)
        sql_printf(sql, "DO 0"); /* a query must begin the transaction */
}

/* The joint statement does not tell which of its updates were refused, so all of them count as
 * refused: recovering their segments is rare and cheaper than asking for each. */
static enum db_result update_stock(struct commit *commit)
{
    struct db *db = commit->ledger->db;
    enum db_result result = DB_OK;
    bool made = true, any_refused = false;
    if (commit->joint)
        result = commit_rows_stock(commit->ledger, commit->updates, commit->update_count, &made);
    for (size_t i = 0; i < commit->update_count; i++) {
        bool refused = commit->joint ? !made : db_affected(db, i) != 1;
        commit->updates[i].refused = result == DB_OK && refused;
        any_refused |= commit->updates[i].refused;
    }
    return any_refused ? DB_NO : result;
}

/* Checks, before another query, that each of the orders to pay was expired. */
static bool all_retaken(const struct commit *commit)
{
    size_t count = commit->order_count - commit->listed_count;
    size_t place = commit->joint ? 0 : commit->update_count;
    return count == 0 || db_affected(commit->ledger->db, place) == count;
}

static enum db_result write_payments(const struct commit *commit)
{
    struct commit_payment taken[LEDGER_ORDERS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < commit->order_count; i++)
        if (commit->orders[i].payment_ref)
            taken[count++] =
                (struct commit_payment){commit->orders[i].order_id, commit->orders[i].payment_ref,
                                        LEDGER_PAYMENT_TAKEN, LEDGER_RETAKEN};
    return commit_rows_payments(commit->ledger, taken, count);
}

/* Comes behind the payments, which the events name. */
static enum db_result write_retaken(const struct commit *commit)
{
    struct event_list events = {commit->ledger, LEDGER_EVENT_RETAKEN, true, 0};
    sql_clear(&commit->ledger->sql);
    for (size_t i = 0; i < commit->order_count; i++)
        if (commit->orders[i].payment_ref)
            event_list_add(&events, commit->orders[i].order_id, NULL);
    event_list_end(&events);
    return events.count > 0 ? ledger_query(commit->ledger) : DB_OK;
}

static bool is_late(const struct commit *commit)
{
    int64_t now_ns = clock_now_ns();
    for (size_t i = 0; i < commit->order_count; i++)
        if (commit->orders[i].until_ns != 0 && now_ns >= commit->orders[i].until_ns)
            return true;
    return false;
}

/* Sends the text and the keys first, so that a refused segment or a known key costs no order. */
static enum db_result write_all(struct commit *commit)
{
    struct ledger *ledger = commit->ledger;
    commit->joint = commit_rows_bulk(ledger) && are_joint(commit->updates, commit->update_count);
    text_commit(commit);
    enum db_result result = ledger_query(ledger);
    bool retaken = result == DB_OK && all_retaken(commit);
    if (result == DB_OK)
        result = update_stock(commit);
    if (result == DB_OK && !retaken)
        result = DB_DUPLICATE;
    if (result == DB_OK)
        result = write_payments(commit);
    if (result == DB_OK)
        result = write_retaken(commit);
    if (result == DB_OK)
        result = commit_rows_insert(ledger, COMMIT_KEYS, commit->by_key, commit->listed_count);
    if (result == DB_OK)
        result = commit_rows_insert(ledger, commit->kind, commit->listed, commit->listed_count);
    if (result == DB_OK)
        result = commit_rows_insert(ledger, COMMIT_QUOTAS, commit->limited, commit->limited_count);
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
    static_assert(LEDGER_SEGMENTS_MAX <= (int)DB_STATEMENTS_MAX, "each has its count of rows");
    assert(update_count > 0 && update_count <= LEDGER_SEGMENTS_MAX);
    assert(are_sorted(updates, update_count));
    assert(order_count > 0 && order_count <= LEDGER_ORDERS_MAX);
    struct commit commit;
    commit.ledger = ledger;
    commit.updates = updates;
    commit.update_count = update_count;
    commit.orders = orders;
    commit.order_count = order_count;
    commit.listed_count = commit.limited_count = 0; /* the lists stay unset: they are large */
    commit.kind = COMMIT_LASTING;
    commit.joint = commit.late = false;
    list_orders(&commit);
    struct db_run run = {0};
    while (db_run(ledger->db, &run))
        run.result = write_all(&commit);
    return commit.late ? LEDGER_LATE : ledger_from_db(run.result);
}
