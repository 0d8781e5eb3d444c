/* Orders of many sales that end at the same time, sorted into batches. */
#include "stock/return_group.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "stock/return_batch.h"
#include "stock/segment.h"

enum { TURN_MS = 40 }; /* a batch that begins later than this is left for the next turn */

static int compare_changes(const void *a, const void *b)
{
    const struct ledger_record *one = &(*(struct stock_status_change *const *)a)->record;
    const struct ledger_record *other = &(*(struct stock_status_change *const *)b)->record;
    int by_sku = strcmp(one->sku, other->sku);
    if (by_sku != 0)
        return by_sku;
    if (one->round != other->round)
        return one->round < other->round ? -1 : 1;
    if (one->segment != other->segment) /* those of several segments come first: they are rare */
        return one->segment < other->segment ? -1 : 1;
    return one->order_id < other->order_id ? -1 : one->order_id > other->order_id;
}

static bool same_sale(const struct stock_status_change *a, const struct stock_status_change *b)
{
    return a->record.round == b->record.round && strcmp(a->record.sku, b->record.sku) == 0;
}

static void set_all(struct stock_status_change *const *changes, size_t count,
                    enum stock_state_result result)
{
    for (size_t i = 0; i < count; i++)
        changes[i]->result = result;
}

/* ---- the segments of an order ---- */

static size_t segment_count(const struct ledger_record *record)
{
    return record->allocation_count > 0 ? record->allocation_count : 1;
}

static uint32_t segment_at(const struct ledger_record *record, size_t i)
{
    return record->allocation_count > 0 ? record->allocations[i].segment
                                        : (uint32_t)record->segment;
}

/* True when the stock holds the segment, or has posted its lock. */
static bool is_held(const struct stock *stock, uint32_t segment)
{
    for (size_t i = stock->hold_count; i-- > 0;) /* the last first, as the orders are sorted */
        if (stock->holds[i].segment == segment)
            return true;
    return false;
}

/* How many of the order's segments the stock does not hold. */
static size_t missing_count(const struct stock *stock, const struct ledger_record *record)
{
    size_t missing = 0;
    for (size_t i = 0; i < segment_count(record); i++)
        missing += !is_held(stock, segment_at(record, i));
    return missing;
}

/* False when the sale does not have all of the order's segments. */
static bool has_segments(struct stock *stock, const struct return_batch *batch,
                         const struct ledger_record *record)
{
    for (size_t i = 0; i < segment_count(record); i++)
        if (!return_batch_has(stock, batch, record->order_id, segment_at(record, i)))
            return false;
    return true;
}

/* Posts the locks of the first orders' segments, of as many orders as may be held at once; returns
 * how many these are. */
static size_t post_locks(struct stock *stock, const struct return_batch *batch,
                         struct stock_status_change *const *changes, size_t count)
{
    assert(stock->hold_count == 0);
    size_t max = return_batch_holds_max(batch);
    for (size_t i = 0; i < count; i++) {
        const struct ledger_record *record = &changes[i]->record;
        size_t missing = missing_count(stock, record);
        if (i > 0 && (stock->hold_count + missing > max || !has_segments(stock, batch, record)))
            return i;
        for (size_t s = 0; s < segment_count(record) && missing > 0; s++)
            if (!is_held(stock, segment_at(record, s)))
                return_batch_post_lock(stock, batch, segment_at(record, s));
    }
    return count;
}

/* ---- one batch ---- */

static int compare_ids(const void *a, const void *b)
{
    const uint64_t *one = a, *other = b;
    return *one < *other ? -1 : *one > *other;
}

/* The ledger says which of the orders it has ended. */
static void read_moved(struct return_batch *batch, struct stock_status_change *const *changes,
                       size_t count)
{
    struct ledger_return *returned = &batch->returned;
    qsort(returned->moved_ids, returned->moved, sizeof *returned->moved_ids, compare_ids);
    for (size_t i = 0; i < count; i++) {
        struct ledger_record *record = &changes[i]->record;
        if (!bsearch(&record->order_id, returned->moved_ids, returned->moved,
                     sizeof record->order_id, compare_ids))
            continue;
        snprintf(record->status, sizeof record->status, "%s", ledger_status_name(returned->to));
        record->payable = false;
        changes[i]->result = STOCK_STATE_OK;
        /* An order that comes twice is moved once; its changes stand side by side. */
        changes[i]->moved = i == 0 || changes[i - 1]->record.order_id != record->order_id;
    }
}

/* Ends those of the orders whose segments are held. */
static void return_held(struct stock *stock, struct return_batch *batch,
                        struct stock_status_change *const *changes, size_t count)
{
    struct stock_status_change *held[STOCK_CHANGES_MAX];
    bool old = return_batch_is_old(batch);
    for (size_t i = 0; i < count; i++) {
        const struct ledger_record *record = &changes[i]->record;
        if (!old && missing_count(stock, record) > 0)
            continue;
        held[batch->returned.order_count] = changes[i];
        batch->ids[batch->returned.order_count++] = record->order_id;
    }
    size_t held_count = batch->returned.order_count;
    if (held_count == 0) {
        return_batch_release(stock);
        return;
    }
    set_all(held, held_count, return_batch_state(return_batch_return(stock, batch)));
    read_moved(batch, held, held_count);
}

/* Tries to end the first of `count` orders of one sale and round; returns with how many it is
 * done. */
static size_t return_some(struct stock *stock, struct return_batch *batch,
                          struct stock_status_change *const *changes, size_t count,
                          enum ledger_status to)
{
    const struct ledger_record *first = &changes[0]->record;
    size_t done = count;
    enum ledger_result begun = return_batch_begin(stock, batch, first->sku, first->round, to);
    if (begun == LEDGER_OK && !has_segments(stock, batch, first)) {
        changes[0]->result = STOCK_STATE_DAMAGED;
        return 1;
    }
    if (begun == LEDGER_OK && !return_batch_is_old(batch)) {
        done = post_locks(stock, batch, changes, count);
        begun = return_batch_lock(stock) ? LEDGER_OK : LEDGER_FAILED;
    }
    if (begun == LEDGER_OK)
        return_held(stock, batch, changes, done);
    else
        set_all(changes, done, return_batch_state(begun));
    return done;
}

/* ---- all of them ---- */

/* Deals with sorted orders until the time is over. True when something was committed. */
static bool return_sorted(struct stock *stock, struct return_batch *batch,
                          struct stock_status_change *const *changes, size_t count,
                          enum ledger_status to, int64_t until_ns)
{
    bool committed = false;
    for (size_t i = 0, same; i < count && clock_now_ns() < until_ns; i += same) {
        for (same = 1; i + same < count && same_sale(changes[i], changes[i + same]);)
            same++;
        batch->returned.moved = 0;
        same = return_some(stock, batch, changes + i, same, to);
        committed |= batch->returned.moved > 0;
    }
    return committed;
}

/* Copies the sorted orders to `out`, beginning anywhere, so that no sale is left over in every
 * turn; but not amid the orders of one segment, which are to share a batch. */
static void rotate(struct stock *stock, struct stock_status_change *const *changes, size_t count,
                   struct stock_status_change **out)
{
    size_t from = stock_random(stock, (uint32_t)count);
    while (from > 0 && same_sale(changes[from - 1], changes[from]) &&
           changes[from - 1]->record.segment == changes[from]->record.segment)
        from--;
    memcpy(out, changes + from, (count - from) * sizeof *out);
    memcpy(out + count - from, changes, from * sizeof *out);
}

/* Keeps the orders that could not be ended, in their order; returns how many. */
static size_t keep_busy(struct stock_status_change **changes, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (changes[i]->result == STOCK_STATE_BUSY)
            changes[kept++] = changes[i];
    return kept;
}

/* A segment that was busy is mostly free again when the others are done: it is tried once more,
 * because a turn is long. */
bool return_group(struct stock *stock, struct stock_status_change **changes, size_t count,
                  enum ledger_status to)
{
    struct stock_status_change *turn[STOCK_CHANGES_MAX];
    int64_t until_ns = clock_now_ns() + TURN_MS * CLOCK_NS_PER_MS;
    assert(count <= STOCK_CHANGES_MAX);
    if (count == 0)
        return false;
    struct return_batch *batch = calloc(1, sizeof *batch);
    if (!batch)
        abort();
    set_all(changes, count, STOCK_STATE_BUSY);
    qsort(changes, count, sizeof *changes, compare_changes);
    rotate(stock, changes, count, turn);
    bool committed = return_sorted(stock, batch, turn, count, to, until_ns);
    count = committed ? keep_busy(turn, count) : 0;
    committed |= return_sorted(stock, batch, turn, count, to, until_ns);
    return_batch_end(stock, batch);
    free(batch);
    return committed;
}
