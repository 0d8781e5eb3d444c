/* Orders that end in the simulated ledger: sql/ledger_return.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sql/ledger_return.h"
#include "test/simulate/ledger_session.h"
#include "test/simulate/ledger_text.h"
#include "test/simulate/story.h"

struct returning {
    struct ledger_return *returned;
    struct row *orders[LEDGER_RETURNS_MAX]; /* whose status changes */
    uint32_t units[LEDGER_SEGMENTS_MAX];
    uint64_t fences[LEDGER_SEGMENTS_MAX]; /* the caller's; the answer overwrites those it gave */
};

static int compare_ids(const void *a, const void *b)
{
    const uint64_t *one = a, *other = b;
    return *one < *other ? -1 : *one > *other;
}

static bool add_units(struct returning *returning, uint32_t segment, uint32_t units)
{
    for (size_t i = 0; i < returning->returned->segment_count; i++)
        if (returning->returned->segments[i].segment == segment) {
            returning->units[i] += units;
            return true;
        }
    return returning->returned->segment_count == 0;
}

static bool add_order(struct returning *returning, const struct order_row *order)
{
    bool complete = true;
    for (size_t i = 0; i < order->allocation_count; i++)
        complete &= add_units(returning, order->allocations[i].segment, order->allocations[i].qty);
    if (order->allocation_count == 0)
        complete = add_units(returning, (uint32_t)order->segment, order->qty);
    return complete;
}

/* Locks the orders that can be returned. `complete_out`: the caller holds all of their segments. */
static enum db_result find_returnable(struct ledger *ledger, struct returning *returning,
                                      bool *complete_out)
{
    struct ledger_return *returned = returning->returned;
    uint64_t ids[LEDGER_RETURNS_MAX];
    memcpy(ids, returned->order_ids, returned->order_count * sizeof *ids);
    qsort(ids, returned->order_count, sizeof *ids, compare_ids);
    returned->moved = 0;
    *complete_out = true;
    memset(returning->units, 0, sizeof returning->units);
    for (size_t i = 0; i < returned->order_count; i++) {
        struct row *row = i > 0 && ids[i] == ids[i - 1] ? NULL : row_of_order(ids[i]);
        if (!row)
            continue;
        enum db_result result = session_lock(ledger, row);
        if (result != DB_OK)
            return result;
        if (!row->now.there || row->now.order.round != returned->round ||
            strcmp(row->now.sku, returned->sku) != 0 ||
            !version_may(&row->now, returned->to, ledger->txn)) {
            txn_give(ledger->txn, row);
            continue;
        }
        returning->orders[returned->moved] = row;
        returned->moved_ids[returned->moved++] = ids[i];
        *complete_out &= add_order(returning, &row->now.order);
    }
    return DB_OK;
}

/* False when a segment refuses. */
static enum db_result return_units(struct ledger *ledger, struct returning *returning,
                                   bool *refused_out)
{
    struct ledger_return *returned = returning->returned;
    *refused_out = false;
    for (size_t i = 0; i < returned->segment_count; i++) {
        if (returning->units[i] == 0)
            continue;
        struct row *row = row_of_segment(returned->sku, returned->segments[i].segment);
        enum db_result result = row ? session_lock(ledger, row) : DB_OK;
        if (result != DB_OK)
            return result;
        if (!row || !row->now.there || row->now.segment.round != returned->round ||
            row->now.segment.fence >= returning->fences[i] ||
            row->now.segment.sold < returning->units[i]) {
            *refused_out = true;
            continue;
        }
        struct segment_row *segment = &txn_change(ledger->txn, row)->segment;
        segment->sold -= returning->units[i];
        segment->fence = returning->fences[i];
    }
    return DB_OK;
}

static void change_statuses(struct ledger *ledger, struct returning *returning)
{
    for (size_t i = 0; i < returning->returned->moved; i++)
        txn_change(ledger->txn, returning->orders[i])->order.status = returning->returned->to;
}

static enum db_result hold_count(struct ledger *ledger, const struct ledger_return *returned)
{
    struct row *row = row_of_count(returned->sku);
    const struct version *seen = row ? row_seen(row, ledger->txn) : NULL;
    bool there = row && (row->now.there || seen->there);
    return there && row->now.count.round == returned->round ? session_lock(ledger, row) : DB_OK;
}

static bool counts_users(const struct ledger *ledger, const struct ledger_return *returned)
{
    const struct row *row;
    if (count_seen(returned->sku, returned->round, ledger->txn))
        return true;
    for (size_t i = 0; (row = table_row(TABLE_QUOTA, i)); i++) {
        const struct version *seen = row_seen(row, ledger->txn);
        if (seen->there && seen->quota.round == returned->round &&
            strcmp(seen->sku, returned->sku) == 0)
            return true;
    }
    return false;
}

static enum db_result return_to_quota(struct ledger *ledger, const struct ledger_return *returned,
                                      const struct version *order)
{
    const struct row_key key = {
        .sku = returned->sku, .round = returned->round, .user_id = order->user_id};
    struct row *row;
    enum db_result result = session_lock_key(ledger, TABLE_QUOTA, &key, &row);
    if (result != DB_OK)
        return result;
    struct version *version = txn_change(ledger->txn, row);
    struct quota_row *quota = &version->quota;
    uint32_t qty = order->order.qty;
    if (version->there) {
        quota->units = quota->units > qty ? quota->units - qty : 0;
        quota_id_remove(quota, order->order.order_id);
        return DB_OK;
    }
    version->there = true;
    text_copy(version->sku, returned->sku);
    text_copy(version->user_id, order->user_id);
    *quota = (struct quota_row){.round = returned->round, .allowed = qty};
    quota_id_add(quota, order->order.order_id);
    return DB_OK;
}

static enum db_result return_to_quotas(struct ledger *ledger, const struct returning *returning)
{
    const struct ledger_return *returned = returning->returned;
    const struct version *count = count_seen(returned->sku, returned->round, ledger->txn);
    uint64_t counted_to = !count ? UINT64_MAX : count->count.cleared ? count->count.counted_to : 0;
    enum db_result result = DB_OK;
    size_t any = 0;
    for (size_t i = 0; i < returned->moved; i++)
        any += returned->moved_ids[i] <= counted_to;
    if (any == 0)
        return DB_OK;
    result = session_send(ledger, true);
    if (result != DB_OK)
        return result;
    for (size_t i = 0; i < returned->moved && result == DB_OK; i++)
        if (returned->moved_ids[i] <= counted_to)
            result = return_to_quota(ledger, returned, &returning->orders[i]->now);
    return session_answer(ledger, result);
}

static void read_rows(struct ledger *ledger, struct ledger_return *returned)
{
    for (size_t i = 0; i < returned->segment_count; i++) {
        const struct row *row = row_of_segment(returned->sku, returned->segments[i].segment);
        const struct version *seen = row ? row_seen(row, ledger->txn) : NULL;
        if (seen && seen->there)
            segment_of_version(&returned->segments[i], seen);
    }
}

static enum db_result hold_segments(struct ledger *ledger, const struct ledger_return *returned)
{
    enum db_result result = DB_OK;
    for (size_t i = 0; i < returned->segment_count && result == DB_OK; i++) {
        struct row *row = row_of_segment(returned->sku, returned->segments[i].segment);
        result = row ? session_lock(ledger, row) : DB_OK;
    }
    return result;
}

static enum db_result return_body(struct ledger *ledger, void *context)
{
    struct returning *returning = context;
    struct ledger_return *returned = returning->returned;
    bool complete = true, refused = false, counted = false;
    enum db_result result = session_send(ledger, true);
    ledger->hurried = returned->hurried;
    if (result == DB_OK)
        result = returned->hurried ? hold_segments(ledger, returned) : DB_OK;
    if (result == DB_OK)
        result = find_returnable(ledger, returning, &complete);
    ledger->hurried = false;
    result = session_answer(ledger, result);
    if (result != DB_OK)
        return result;
    if (!complete || returned->moved == 0)
        return complete ? DB_OK : DB_NO;
    result = session_send(ledger, true);
    if (result != DB_OK)
        return result;
    result = return_units(ledger, returning, &refused);
    if (result == DB_OK) {
        change_statuses(ledger, returning);
        if (returned->segment_count > 0)
            result = hold_count(ledger, returned);
    }
    if (result == DB_OK && returned->segment_count > 0)
        counted = counts_users(ledger, returned);
    result = session_answer(ledger, result);
    if (result == DB_OK && refused)
        result = DB_NO;
    if (result == DB_OK && returned->segment_count > 0)
        read_rows(ledger, returned);
    return result == DB_OK && counted ? return_to_quotas(ledger, returning) : result;
}

enum ledger_result ledger_return(struct ledger *ledger, struct ledger_return *returned)
{
    struct returning *returning = calloc(1, sizeof *returning);
    returning->returned = returned;
    for (size_t i = 0; i < returned->segment_count; i++)
        returning->fences[i] = returned->segments[i].fence;
    enum ledger_result result = session_result(session_run(ledger, return_body, returning));
    for (size_t i = 0; i < returned->moved && story_told; i++)
        story("    ledger: order %llu becomes %s", (unsigned long long)returned->moved_ids[i],
              ledger_status_name(returned->to));
    story("    ledger: return: %s", result == LEDGER_OK        ? "done"
                                    : result == LEDGER_NO      ? "refused"
                                    : result == LEDGER_UNKNOWN ? "unknown"
                                                               : "failed");
    free(returning);
    return result;
}
