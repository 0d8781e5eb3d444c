/* Orders that end in the simulated ledger: sql/orders/orders.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sql/orders/orders.h"
#include "test/simulate/ledger/ledger_events.h"
#include "test/simulate/ledger/ledger_pay.h"
#include "test/simulate/ledger/ledger_session.h"
#include "test/simulate/ledger/ledger_text.h"
#include "test/simulate/story.h"

struct returning {
    struct ledger_return *returned;
    struct row *locked[LEDGER_RETURNS_MAX]; /* orders that may change, by user */
    size_t locked_count;
    struct moved {
        struct row *row;
        const struct ledger_return_order *order;
        uint32_t units;          /* that come back */
        bool stays;              /* keeps its status */
    } moved[LEDGER_RETURNS_MAX]; /* which change */
    size_t moved_count;
};

/* ---- what is locked ---- */

static void lock_segments(struct ledger *ledger, struct ledger_return *returned)
{
    for (size_t i = 0; i < returned->segment_count; i++) {
        struct ledger_return_segment *segment = &returned->segments[i];
        struct row *row = row_of_segment(segment->sku, segment->segment);
        segment->row = (struct ledger_segment){0};
        segment->returned = 0;
        if (row && txn_take(ledger->txn, row) && row->now.there)
            segment_of_version(&segment->row, &row->now);
    }
}

static int compare_users(const void *a, const void *b)
{
    const struct version *one = &(*(struct row *const *)a)->now;
    const struct version *other = &(*(struct row *const *)b)->now;
    int order = strcmp(one->user_id, other->user_id);
    if (order == 0)
        order = strcmp(one->sku, other->sku);
    return order != 0 ? order : one->order.order_id < other->order.order_id ? -1 : 1;
}

static bool is_of_payments(const struct ledger_return *returned)
{
    return returned->to == LEDGER_REFUNDED || returned->to == LEDGER_RESERVED;
}

/* An order that becomes reserved again keeps its sale from changing. */
static bool may_change(struct ledger *ledger, const struct version *order, enum ledger_status to)
{
    struct row *sale = row_of_sale(order->sku);
    if (to == LEDGER_RESERVED && order->order.status == LEDGER_PAID &&
        (!sale || !txn_take(ledger->txn, sale)))
        return false;
    return version_may(order, to, ledger->txn);
}

static void lock_orders(struct ledger *ledger, struct returning *returning)
{
    const struct ledger_return *returned = returning->returned;
    returning->locked_count = 0;
    for (size_t i = 0; i < returned->order_count; i++) {
        struct row *row = row_of_order(returned->orders[i].order_id);
        bool mine = row && row->owner == ledger->txn;
        if (!row || !txn_take(ledger->txn, row))
            continue;
        if (row->now.there && may_change(ledger, &row->now, returned->to))
            returning->locked[returning->locked_count++] = row;
        else if (!mine)
            txn_give(ledger->txn, row);
    }
    qsort(returning->locked, returning->locked_count, sizeof returning->locked[0], compare_users);
}

/* ---- what comes back ---- */

static bool is_usable(const struct ledger_return_segment *segment, const struct version *order)
{
    return strcmp(segment->sku, order->sku) == 0 && segment->row.round == order->order.round &&
           segment->row.fence < segment->fence;
}

static bool take_off(struct ledger_return *returned, const struct version *order, uint32_t units,
                     bool *damaged_out)
{
    uint32_t left_sold = 0, sold = 0, valid = 0, segments = 0;
    for (size_t i = 0; i < returned->segment_count; i++) {
        const struct ledger_return_segment *segment = &returned->segments[i];
        if (!is_usable(segment, order))
            continue;
        valid++;
        segments = segment->segments;
        left_sold += segment->row.sold;
        sold += segment->row.sold + segment->returned;
    }
    *damaged_out = valid > 0 && valid == segments && units > sold;
    if (units > left_sold)
        return false;
    for (size_t i = 0; i < returned->segment_count; i++) {
        struct ledger_return_segment *segment = &returned->segments[i];
        uint32_t part = !is_usable(segment, order)  ? 0
                        : units < segment->row.sold ? units
                                                    : segment->row.sold;
        segment->row.sold -= part;
        segment->returned += part;
        units -= part;
    }
    return true;
}

static bool is_given(const struct ledger_return *returned, const char *sku)
{
    for (size_t i = 0; i < returned->segment_count; i++)
        if (strcmp(returned->segments[i].sku, sku) == 0)
            return true;
    return false;
}

static struct ledger_return_order *order_in(struct ledger_return *returned, uint64_t order_id)
{
    for (size_t i = 0; i < returned->order_count; i++)
        if (returned->orders[i].order_id == order_id)
            return &returned->orders[i];
    abort();
}

static void share_out(struct ledger *ledger, struct returning *returning)
{
    struct ledger_return *returned = returning->returned;
    returning->moved_count = 0;
    for (size_t i = 0; i < returned->order_count; i++) {
        returned->orders[i].moved = returned->orders[i].unmet = returned->orders[i].damaged = false;
        returned->orders[i].next_ref[0] = '\0';
    }
    for (size_t i = 0; i < returning->locked_count; i++) {
        struct row *row = returning->locked[i];
        struct ledger_return_order *order = order_in(returned, row->now.order.order_id);
        uint32_t qty = row->now.order.qty;
        bool expired = row->now.order.status == LEDGER_EXPIRED;
        struct row *next =
            is_of_payments(returned) ? payment_next(ledger, row->now.order.order_id) : NULL;
        if (order->keep >= qty || (expired && order->keep > 0))
            continue;
        if (next && order->keep == 0)
            strcpy(order->next_ref, next->now.key);
        bool none = order->unreturned || expired || order->next_ref[0] != '\0' ||
                    returned->to == LEDGER_RESERVED;
        uint32_t units = none ? 0 : qty - order->keep;
        order->moved = order->round_over || take_off(returned, &row->now, units, &order->damaged);
        order->unmet = !order->moved && is_given(returned, row->now.sku);
        if (order->moved)
            returning->moved[returning->moved_count++] =
                (struct moved){row, order, order->round_over ? 0 : units,
                               order->keep > 0 || order->next_ref[0] != '\0'};
    }
}

/* ---- what changes ---- */

static void change_order(struct ledger *ledger, const struct moved *moved, enum ledger_status to)
{
    struct order_row *change = &txn_change(ledger->txn, moved->row)->order;
    uint32_t keep = moved->order->keep;
    if (moved->stays && keep == 0) {
        order_becomes(ledger->txn, moved->row, change->status);
        return;
    }
    if (moved->order->unreturned)
        change->unreturned += change->qty - keep;
    if (keep == 0) {
        order_becomes(ledger->txn, moved->row, to);
        return;
    }
    order_becomes(ledger->txn, moved->row, change->status);
    change->ordered = change->ordered > 0 ? change->ordered : change->qty;
    change->qty = keep;
}

static enum db_result move_payments(struct ledger *ledger, const struct returning *returning)
{
    enum ledger_payment_state end = returning->returned->to == LEDGER_RESERVED
                                        ? LEDGER_PAYMENT_FAILED
                                        : LEDGER_PAYMENT_REFUNDED;
    enum db_result result = DB_OK;
    for (size_t i = 0; i < returning->moved_count && result == DB_OK; i++) {
        const struct ledger_return_order *order = returning->moved[i].order;
        if (!is_of_payments(returning->returned) || order->keep > 0)
            continue;
        result =
            payment_move(ledger, order->order_id, order->payment_ref, LEDGER_PAYMENT_TAKEN, end);
        if (result == DB_OK && order->next_ref[0] != '\0')
            result = payment_move(ledger, order->order_id, order->next_ref, LEDGER_PAYMENT_DUE,
                                  LEDGER_PAYMENT_TAKEN);
    }
    return result;
}

/* Orders that are reserved again have the time to pay of their sale. */
static enum db_result give_time(struct ledger *ledger, const struct returning *returning)
{
    enum db_result result = DB_OK;
    for (size_t i = 0; i < returning->moved_count && result == DB_OK; i++) {
        const struct moved *moved = &returning->moved[i];
        if (returning->returned->to != LEDGER_RESERVED || moved->stays)
            continue;
        struct sale_row *sale = &txn_change(ledger->txn, row_of_sale(moved->row->now.sku))->sale;
        uint32_t pay_within_s = sale->settings.pay_within_s;
        sale->unpaid++;
        struct order_row *order = &txn_change(ledger->txn, moved->row)->order;
        order->expires_ms =
            pay_within_s > 0 ? ledger_server_ms() + (int64_t)pay_within_s * 1000 : 0;
        if (order->expires_ms != 0)
            result = expiry_write(ledger, &moved->row->now);
    }
    return result;
}

static void change_rows(struct ledger *ledger, struct returning *returning)
{
    struct ledger_return *returned = returning->returned;
    for (size_t i = 0; i < returned->segment_count; i++) {
        struct ledger_return_segment *segment = &returned->segments[i];
        if (segment->returned == 0)
            continue;
        struct row *row = row_of_segment(segment->sku, segment->segment);
        struct segment_row *change = &txn_change(ledger->txn, row)->segment;
        change->sold -= segment->returned;
        change->fence = segment->row.fence = segment->fence;
    }
    for (size_t i = 0; i < returning->moved_count; i++)
        change_order(ledger, &returning->moved[i], returned->to);
}

/* The orders that end come before those that keep a part of their units. */
static void write_events(struct ledger *ledger, const struct returning *returning)
{
    static const enum ledger_event_type ends[LEDGER_STATUSES] = {
        [LEDGER_RESERVED] = LEDGER_EVENT_UNPAID,
        [LEDGER_CANCELLED] = LEDGER_EVENT_CANCELLED,
        [LEDGER_EXPIRED] = LEDGER_EVENT_EXPIRED,
        [LEDGER_REFUNDED] = LEDGER_EVENT_REFUNDED,
    };
    struct event_lines ended = {.type = ends[returning->returned->to]};
    struct event_lines changed = {.type = LEDGER_EVENT_CHANGED};
    for (size_t i = 0; i < returning->moved_count; i++) {
        const struct moved *moved = &returning->moved[i];
        const char *failed = ended.type == LEDGER_EVENT_UNPAID ? moved->order->payment_ref : NULL;
        event_add(moved->stays ? &changed : &ended, &moved->row->now,
                  moved->stays ? payment_taken(ledger, moved->order->order_id) : failed);
    }
    event_write(ledger, &ended);
    event_write(ledger, &changed);
}

static enum db_result hold_counts(struct ledger *ledger, const struct returning *returning)
{
    enum db_result result = DB_OK;
    for (size_t i = 0; i < returning->moved_count && result == DB_OK; i++) {
        const struct version *order = &returning->moved[i].row->now;
        struct row *row = returning->moved[i].units > 0 ? row_of_count(order->sku) : NULL;
        const struct version *seen = row ? row_seen(row, ledger->txn) : NULL;
        bool there = row && (row->now.there || seen->there);
        if (there && row->now.count.round == order->order.round)
            result = session_lock(ledger, row);
    }
    return result;
}

/* Up to which id the orders of the order's sale are counted; 0: none is. */
static uint64_t counted_to(const struct ledger *ledger, const struct version *order)
{
    const struct row *row;
    const struct version *count = count_seen(order->sku, order->order.round, ledger->txn);
    if (count)
        return count->count.cleared ? count->count.counted_to : 0;
    for (size_t i = 0; (row = table_row(TABLE_QUOTA, i)); i++) {
        const struct version *seen = row_seen(row, ledger->txn);
        if (seen->there && seen->quota.round == order->order.round &&
            strcmp(seen->sku, order->sku) == 0)
            return UINT64_MAX;
    }
    return 0;
}

/* An order that keeps units stays in its user's list; no order has the id 0. */
static enum db_result return_to_quota(struct ledger *ledger, const struct moved *moved)
{
    const struct version *order = &moved->row->now;
    uint64_t order_id = moved->order->keep > 0 ? 0 : order->order.order_id;
    uint32_t round = order->order.round;
    const struct row_key key = {.sku = order->sku, .round = round, .user_id = order->user_id};
    struct row *row;
    enum db_result result = session_lock_key(ledger, TABLE_QUOTA, &key, &row);
    if (result != DB_OK)
        return result;
    struct version *version = txn_change(ledger->txn, row);
    struct quota_row *quota = &version->quota;
    uint32_t qty = moved->units;
    if (version->there) {
        quota->units = quota->units > qty ? quota->units - qty : 0;
        quota_id_remove(quota, order_id);
        return DB_OK;
    }
    version->there = true;
    text_copy(version->sku, order->sku);
    text_copy(version->user_id, order->user_id);
    *quota = (struct quota_row){.round = round, .allowed = qty};
    quota_id_add(quota, order_id);
    return DB_OK;
}

static enum db_result return_to_quotas(struct ledger *ledger, const struct returning *returning)
{
    const struct moved *counted[LEDGER_RETURNS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < returning->moved_count; i++) {
        const struct moved *moved = &returning->moved[i];
        const struct version *order = &moved->row->now;
        if (moved->units > 0 && order->order.order_id <= counted_to(ledger, order))
            counted[count++] = moved;
    }
    if (count == 0)
        return DB_OK;
    enum db_result result = session_send(ledger, true);
    if (result != DB_OK)
        return result;
    for (size_t i = 0; i < count && result == DB_OK; i++)
        result = return_to_quota(ledger, counted[i]);
    return session_answer(ledger, result);
}

/* ---- the transaction ---- */

static enum db_result lock_all(struct ledger *ledger, struct returning *returning)
{
    enum db_result result = DB_OK;
    if (returning->returned->segment_count > 0) {
        result = session_send(ledger, true);
        if (result == DB_OK) {
            lock_segments(ledger, returning->returned);
            result = session_answer(ledger, DB_OK);
        }
    }
    if (result == DB_OK)
        result = session_send(ledger, true);
    if (result != DB_OK)
        return result;
    lock_orders(ledger, returning);
    return session_answer(ledger, DB_OK);
}

static enum db_result return_body(struct ledger *ledger, void *context)
{
    struct returning *returning = context;
    enum db_result result = lock_all(ledger, returning);
    if (result != DB_OK)
        return result;
    share_out(ledger, returning);
    if (returning->moved_count == 0)
        return DB_OK;
    result = session_send(ledger, true);
    if (result != DB_OK)
        return result;
    change_rows(ledger, returning);
    result = move_payments(ledger, returning);
    if (result == DB_OK)
        result = give_time(ledger, returning);
    if (result == DB_OK)
        write_events(ledger, returning);
    if (result == DB_OK)
        result = hold_counts(ledger, returning);
    result = session_answer(ledger, result);
    return result == DB_OK ? return_to_quotas(ledger, returning) : result;
}

enum ledger_result ledger_return(struct ledger *ledger, struct ledger_return *returned)
{
    struct returning *returning = calloc(1, sizeof *returning);
    returning->returned = returned;
    enum ledger_result result = session_result(session_run(ledger, return_body, returning));
    for (size_t i = 0; i < returned->order_count; i++) {
        struct ledger_return_order *order = &returned->orders[i];
        if (result != LEDGER_OK)
            order->moved = false;
        if (order->moved && story_told)
            story("    ledger: order %llu %s %s%s", (unsigned long long)order->order_id,
                  order->keep > 0 ? "keeps a part; what it gives is" : "becomes",
                  ledger_status_name(returned->to), order->unreturned ? ", not restocked" : "");
    }
    story("    ledger: return: %s", result == LEDGER_OK        ? "done"
                                    : result == LEDGER_NO      ? "refused"
                                    : result == LEDGER_UNKNOWN ? "unknown"
                                                               : "failed");
    free(returning);
    return result;
}
