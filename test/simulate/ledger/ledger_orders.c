/* The simulated ledger's orders: commit, recovery and confirming writes of sql/orders/orders.h. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sql/orders/orders.h"
#include "test/simulate/ledger/ledger_events.h"
#include "test/simulate/ledger/ledger_pay.h"
#include "test/simulate/ledger/ledger_session.h"
#include "test/simulate/ledger/ledger_text.h"
#include "test/simulate/story.h"
#include "test/simulate/tally.h"

enum { UPDATES_ALONE_MAX = 3 /* as sql/orders/stock_update.c: more of them are one statement */ };

/* ---- ledger_commit ---- */

struct commit {
    struct ledger_stock_update *updates;
    size_t update_count;
    const struct ledger_order *orders;
    size_t order_count;
    bool late;
    bool retaken; /* each order to pay was expired */
};

static bool is_joint(const struct commit *commit)
{
    for (size_t i = 0; i < commit->update_count; i++)
        if (commit->updates[i].guard != LEDGER_CHAIN)
            return false;
    return commit->update_count > UPDATES_ALONE_MAX;
}

static bool is_fenced(const struct ledger_stock_update *update)
{
    return update->guard == LEDGER_CHAIN || update->guard == LEDGER_FENCED;
}

static bool guard_allows(const struct ledger_stock_update *update, const struct segment_row *row)
{
    bool exact = update->guard == LEDGER_CHAIN || update->guard == LEDGER_EPOCH;
    return row->round == update->round && row->settings_version == update->settings_version &&
           (!exact || row->fence == update->settled) &&
           (!is_fenced(update) || row->fence < update->fence) &&
           row->sold + update->units <= row->capacity;
}

/* Makes one stock update, if its guard allows it. */
static enum db_result update_stock(struct ledger *ledger, struct ledger_stock_update *update)
{
    struct row *row = row_of_segment(update->sku, update->segment);
    update->refused = true;
    if (!row)
        return DB_OK;
    enum db_result result = session_lock(ledger, row);
    if (result != DB_OK || !row->now.there || !guard_allows(update, &row->now.segment))
        return result;
    struct segment_row *segment = &txn_change(ledger->txn, row)->segment;
    segment->sold += update->units;
    segment->fence = is_fenced(update)                  ? update->fence
                     : update->guard == LEDGER_UNFENCED ? segment->fence + 1
                                                        : segment->fence;
    update->refused = false;
    return DB_OK;
}

static enum db_result update_all(struct ledger *ledger, struct commit *commit)
{
    enum db_result result = DB_OK;
    for (size_t i = 0; i < commit->update_count && result == DB_OK; i++)
        result = update_stock(ledger, &commit->updates[i]);
    return result;
}

static enum db_result check_updates(struct commit *commit)
{
    bool refused = false;
    for (size_t i = 0; i < commit->update_count; i++)
        refused |= commit->updates[i].refused;
    for (size_t i = 0; i < commit->update_count && refused && is_joint(commit); i++)
        commit->updates[i].refused = true;
    return refused ? DB_NO : DB_OK;
}

static int64_t due_ms(const struct ledger_order *order)
{
    return order->expires_ms == 0 ? 0 : order->expires_ms + (int64_t)order->grace_s * 1000;
}

/* The place of the next new order, from `i` on. */
static size_t next_listed(const struct commit *commit, size_t i)
{
    while (i < commit->order_count && commit->orders[i].payment_ref)
        i++;
    return i;
}

static void insert_expiries(struct ledger *ledger, const struct commit *commit)
{
    const struct ledger_order *orders = commit->orders;
    for (size_t i = next_listed(commit, 0), next; i < commit->order_count; i = next) {
        uint64_t first_id = orders[i].order_id, last_id = first_id;
        for (next = next_listed(commit, i + 1);
             next < commit->order_count && due_ms(&orders[next]) == due_ms(&orders[i]);
             next = next_listed(commit, next + 1)) {
            first_id = orders[next].order_id < first_id ? orders[next].order_id : first_id;
            last_id = orders[next].order_id > last_id ? orders[next].order_id : last_id;
        }
        if (orders[i].expires_ms == 0)
            continue;
        struct row *row = row_make(TABLE_EXPIRY);
        txn_take(ledger->txn, row);
        struct version *version = txn_change(ledger->txn, row);
        version->there = true;
        version->expiry = (struct expiry_row){due_ms(&orders[i]), first_id, last_id};
    }
}

/* Pays the expired orders whose late payments have taken units. */
static enum db_result pay_retaken(struct ledger *ledger, struct commit *commit)
{
    enum db_result result = DB_OK;
    commit->retaken = true;
    for (size_t i = 0; i < commit->order_count && result == DB_OK; i++) {
        const struct ledger_order *order = &commit->orders[i];
        struct row *row = order->payment_ref ? row_of_order(order->order_id) : NULL;
        result = row ? session_lock(ledger, row) : DB_OK;
        if (result != DB_OK || !order->payment_ref)
            continue;
        bool expired = row && row->now.there && row->now.order.status == LEDGER_EXPIRED;
        if (expired)
            order_becomes(ledger->txn, row, LEDGER_PAID);
        commit->retaken &= expired;
    }
    return result;
}

static bool has_key(const struct ledger_order *order)
{
    return order->key && order->key[0] != '\0';
}

/* An order without a key has a row under '#' and its id. */
static enum db_result insert_key(struct ledger *ledger, const struct ledger_order *order)
{
    char own[NAME_MAX_SIZE];
    snprintf(own, sizeof own, "#%llu", (unsigned long long)order->order_id);
    const struct row_key key = {.user_id = order->user_id,
                                .key = has_key(order) ? order->key : own};
    struct row *row;
    enum db_result result = session_lock_key(ledger, TABLE_KEY, &key, &row);
    if (result != DB_OK || row->now.there)
        return result != DB_OK ? result : DB_DUPLICATE;
    struct version *version = txn_change(ledger->txn, row);
    version->there = true;
    text_copy(version->user_id, order->user_id);
    text_copy(version->key, key.key);
    version->key_order_id = order->order_id;
    return DB_OK;
}

static struct version version_of(const struct ledger_order *order)
{
    struct version version = {.there = true};
    text_copy(version.sku, order->sku);
    text_copy(version.user_id, order->user_id);
    text_copy(version.key, order->key ? order->key : "");
    version.order = (struct order_row){.order_id = order->order_id,
                                       .version = 1,
                                       .round = order->round,
                                       .qty = order->qty,
                                       .segment = order->segment,
                                       .status = LEDGER_RESERVED,
                                       .created_ms = order->created_ms,
                                       .expires_ms = order->expires_ms,
                                       .grace_s = order->grace_s};
    return version;
}

/* Comes before the orders' rows, which only this transaction sees. */
static void write_accepted(struct ledger *ledger, const struct commit *commit)
{
    struct event_lines lines = {.type = LEDGER_EVENT_ACCEPTED};
    for (size_t i = next_listed(commit, 0); i < commit->order_count;
         i = next_listed(commit, i + 1)) {
        const struct version order = version_of(&commit->orders[i]);
        event_add(&lines, &order, NULL);
    }
    event_write(ledger, &lines);
}

static bool any_retaken(const struct commit *commit)
{
    for (size_t i = 0; i < commit->order_count; i++)
        if (commit->orders[i].payment_ref)
            return true;
    return false;
}

/* Notes the payments of the orders that are paid again, and their events. */
static enum db_result write_retaken(struct ledger *ledger, const struct commit *commit)
{
    struct event_lines lines = {.type = LEDGER_EVENT_RETAKEN};
    struct ledger_payment payment = {.state = LEDGER_PAYMENT_TAKEN, .outcome = LEDGER_RETAKEN};
    if (!any_retaken(commit))
        return DB_OK;
    enum db_result result = session_send(ledger, true);
    if (result != DB_OK)
        return result;
    for (size_t i = 0; i < commit->order_count && result == DB_OK; i++) {
        payment.ref = commit->orders[i].payment_ref;
        if (!payment.ref)
            continue;
        result = payment_insert(ledger, commit->orders[i].order_id, &payment);
        event_add(&lines, &row_of_order(commit->orders[i].order_id)->now, payment.ref);
    }
    if (result == DB_OK)
        event_write(ledger, &lines);
    sql_free(&lines.text);
    return session_answer(ledger, result);
}

static enum db_result insert_order(struct ledger *ledger, const struct ledger_order *order)
{
    const struct row_key key = {.order_id = order->order_id};
    struct row *row;
    enum db_result result = session_lock_key(ledger, TABLE_ORDER, &key, &row);
    if (result != DB_OK || row->now.there)
        return result != DB_OK ? result : DB_DUPLICATE;
    *txn_change(ledger->txn, row) = version_of(order);
    return DB_OK;
}

static enum db_result add_quota(struct ledger *ledger, const struct ledger_order *order)
{
    const struct row_key key = {
        .sku = order->sku, .round = order->round, .user_id = order->user_id};
    struct row *row;
    enum db_result result = session_lock_key(ledger, TABLE_QUOTA, &key, &row);
    if (result != DB_OK)
        return result;
    struct version *version = txn_change(ledger->txn, row);
    struct quota_row *quota = &version->quota;
    if (!version->there) {
        text_copy(version->sku, order->sku);
        text_copy(version->user_id, order->user_id);
        *quota = (struct quota_row){.round = order->round};
    }
    version->there = true;
    quota->units += order->qty;
    quota->allowed = order->limit;
    quota_id_add(quota, order->order_id);
    return quota->units > quota->allowed ? DB_CHECK : DB_OK;
}

/* One statement for all orders of which it holds. */
static enum db_result for_orders(struct ledger *ledger, const struct commit *commit,
                                 bool (*holds)(const struct ledger_order *order),
                                 enum db_result (*insert)(struct ledger *,
                                                          const struct ledger_order *))
{
    enum db_result result = DB_OK;
    size_t count = 0;
    for (size_t i = 0; i < commit->order_count; i++)
        count += holds(&commit->orders[i]);
    if (count == 0)
        return DB_OK;
    result = session_send(ledger, true);
    if (result != DB_OK)
        return result;
    for (size_t i = 0; i < commit->order_count && result == DB_OK; i++)
        if (holds(&commit->orders[i]))
            result = insert(ledger, &commit->orders[i]);
    return session_answer(ledger, result);
}

static bool has_limit(const struct ledger_order *order)
{
    return order->limit > 0;
}

static bool is_new(const struct ledger_order *order)
{
    return !order->payment_ref;
}

static bool is_late(const struct commit *commit)
{
    int64_t now_ns = clock_now_ns();
    for (size_t i = 0; i < commit->order_count; i++)
        if (commit->orders[i].until_ns != 0 && now_ns >= commit->orders[i].until_ns)
            return true;
    return false;
}

static enum db_result commit_body(struct ledger *ledger, void *context)
{
    struct commit *commit = context;
    bool joint = is_joint(commit);
    enum db_result result = session_send(ledger, true);
    if (result == DB_OK) {
        result = joint ? DB_OK : update_all(ledger, commit);
        if (result == DB_OK)
            result = pay_retaken(ledger, commit);
        if (result == DB_OK)
            insert_expiries(ledger, commit);
        if (result == DB_OK)
            write_accepted(ledger, commit);
        result = session_answer(ledger, result);
        for (size_t i = 0; i < commit->update_count && result != DB_OK; i++)
            commit->updates[i].refused = false; /* the rows that changed are not counted */
    }
    if (result == DB_OK && joint) {
        result = session_send(ledger, true);
        if (result == DB_OK)
            result = session_answer(ledger, update_all(ledger, commit));
    }
    if (result == DB_OK)
        result = check_updates(commit);
    if (result == DB_OK && !commit->retaken)
        result = DB_DUPLICATE;
    if (result == DB_OK)
        result = write_retaken(ledger, commit);
    if (result == DB_OK)
        result = for_orders(ledger, commit, is_new, insert_key);
    if (result == DB_OK)
        result = for_orders(ledger, commit, is_new, insert_order);
    if (result == DB_OK)
        result = for_orders(ledger, commit, has_limit, add_quota);
    commit->late = result == DB_OK && is_late(commit);
    return commit->late ? DB_NO : result;
}

static void tell_commit(const struct commit *commit, enum ledger_result result)
{
    static const char *const names[] = {
        "done", "refused by a guard", "a key is used", "a limit", "late", "failed", "unknown"};
    if (!story_told)
        return;
    for (size_t i = 0; i < commit->update_count; i++) {
        const struct ledger_stock_update *update = &commit->updates[i];
        story("    ledger: segment %u sold += %u, fence %llu -> %llu%s", update->segment,
              update->units, (unsigned long long)update->settled, (unsigned long long)update->fence,
              update->refused ? " (refused)" : "");
    }
    for (size_t i = 0; i < commit->order_count; i++)
        story("    ledger: order %llu of %s for %u%s%s%s%s",
              (unsigned long long)commit->orders[i].order_id, commit->orders[i].user_id,
              commit->orders[i].qty, has_key(&commit->orders[i]) ? ", key " : "",
              has_key(&commit->orders[i]) ? commit->orders[i].key : "",
              commit->orders[i].payment_ref ? ", again for payment " : "",
              commit->orders[i].payment_ref ? commit->orders[i].payment_ref : "");
    story("    ledger: commit: %s", names[result]);
}

enum ledger_result ledger_commit(struct ledger *ledger, struct ledger_stock_update *updates,
                                 size_t update_count, const struct ledger_order *orders,
                                 size_t order_count)
{
    struct commit commit = {updates, update_count, orders, order_count, .late = false};
    enum ledger_result result = session_result(session_run(ledger, commit_body, &commit));
    if (commit.late)
        result = LEDGER_LATE;
    tell_commit(&commit, result);
    return result;
}

/* ---- ledger_resolve, ledger_recover ---- */

static enum db_result raise_fence(struct ledger *ledger, const char *sku, uint32_t segment,
                                  uint64_t fence)
{
    struct row *row = row_of_segment(sku, segment);
    enum db_result result = row ? session_lock(ledger, row) : DB_OK;
    if (row && result == DB_OK && row->now.there && row->now.segment.fence < fence)
        txn_change(ledger->txn, row)->segment.fence = fence;
    return result;
}

/* For an update that has no fence of its own. */
static enum db_result move_fence(struct ledger *ledger, const char *sku, uint32_t segment)
{
    struct row *row = row_of_segment(sku, segment);
    enum db_result result = row ? session_lock(ledger, row) : DB_OK;
    if (row && result == DB_OK && row->now.there)
        txn_change(ledger->txn, row)->segment.fence++;
    return result;
}

struct question {
    const struct ledger_stock_update *update;
    const struct ledger_order *order;
    bool found;
};

/* The row of an order that was to be paid does not tell whose commit has paid it. */
static bool is_same(const struct version *row, const struct ledger_order *order)
{
    return row->there && !order->payment_ref && strcmp(row->sku, order->sku) == 0 &&
           row->order.round == order->round && strcmp(row->user_id, order->user_id) == 0 &&
           strcmp(row->key, order->key ? order->key : "") == 0;
}

static enum db_result resolve_statement(struct ledger *ledger, void *context)
{
    struct question *question = context;
    const struct ledger_stock_update *update = question->update;
    enum db_result result = is_fenced(update)
                                ? raise_fence(ledger, update->sku, update->segment, update->fence)
                                : move_fence(ledger, update->sku, update->segment);
    const struct row *row = row_of_order(question->order->order_id);
    question->found = row && is_same(row_seen(row, ledger->txn), question->order);
    return result;
}

enum ledger_result ledger_resolve(struct ledger *ledger, const struct ledger_stock_update *update,
                                  const struct ledger_order *order)
{
    struct question question = {.update = update, .order = order};
    if (session_read(ledger, resolve_statement, &question, true) != LEDGER_OK)
        return LEDGER_FAILED;
    tally(question.found ? "unknown commit done" : "unknown commit not done");
    story("    ledger: the unknown commit of order %llu was %s",
          (unsigned long long)order->order_id, question.found ? "done" : "not done");
    if (!question.found)
        return LEDGER_NO;
    uint64_t connection = ledger_connection(ledger);
    return ledger_confirm(ledger, connection) == LEDGER_OK ? LEDGER_OK : LEDGER_FAILED;
}

struct recovery {
    const char *sku;
    struct ledger_segment *segments;
    size_t count;
};

static enum db_result recover_body(struct ledger *ledger, void *context)
{
    struct recovery *recovery = context;
    uint64_t fences[LEDGER_SEGMENTS_MAX];
    enum db_result result = session_send(ledger, true);
    if (result != DB_OK)
        return result;
    for (size_t i = 0; i < recovery->count && result == DB_OK; i++) {
        fences[i] = recovery->segments[i].fence;
        result = raise_fence(ledger, recovery->sku, recovery->segments[i].segment, fences[i]);
    }
    result = session_answer(ledger, result);
    for (size_t i = 0; i < recovery->count && result == DB_OK; i++) {
        struct ledger_segment *segment = &recovery->segments[i];
        const struct row *row = row_of_segment(recovery->sku, segment->segment);
        const struct version *seen = row ? row_seen(row, ledger->txn) : NULL;
        segment->round = 0;
        if (seen && seen->there)
            segment_of_version(segment, seen);
    }
    return result;
}

enum ledger_result ledger_recover(struct ledger *ledger, const char *sku,
                                  struct ledger_segment *segments, size_t count)
{
    struct recovery recovery = {sku, segments, count};
    enum ledger_result result = session_result(session_run(ledger, recover_body, &recovery));
    for (size_t i = 0; i < count && result == LEDGER_OK; i++) {
        if (segments[i].round == 0) {
            story("    ledger: segment %u does not exist", segments[i].segment);
            continue;
        }
        story("    ledger: segment %u is recovered: sold %u of %u, fence %llu", segments[i].segment,
              segments[i].sold, segments[i].capacity, (unsigned long long)segments[i].fence);
    }
    return result;
}

/* ---- ledger_confirm ---- */

static enum db_result confirm_body(struct ledger *ledger, void *context)
{
    (void)context;
    return session_confirm(ledger);
}

enum ledger_result ledger_confirm(struct ledger *ledger, uint64_t connection)
{
    enum ledger_result result = session_result(session_run(ledger, confirm_body, NULL));
    bool same = ledger_connection(ledger) == connection;
    return result == LEDGER_OK && !same ? LEDGER_FAILED : result;
}
