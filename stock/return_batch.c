/* Orders of one sale that end together: one transaction, under the locks of their segments.
 *
 *   lock the segments (fence F) and mark them open
 *     ─► ledger, one transaction: statuses · sold -= n, fence = F
 *     ─► load the segments in Redis from the ledger, and release ─► publish to every process
 *
 * why_like_recovery: with this transaction the ledger's fence becomes F, so it refuses from then on
 * whatever Redis said of the segment before. Loading the segment in Redis is therefore not what
 * makes the return right, it only spares the next holder a recovery.
 *
 * why_the_mark: without it, dying between the commit and the load would leave a segment that looks
 * settled and knows too few units; with it the segment is dirty. */
#include "stock/return_batch.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "stock/held_rows.h"
#include "stock/recovery.h"
#include "stock/segment.h"

enum {
    PAUSE_US_MIN = 500, /* before a segment that was busy is tried again */
    PAUSE_US_MAX = 3000,
    HOLDS_PART = 2, /* one in so many of a sale's segments is held at once */
};

void return_batch_pause(struct stock *stock)
{
    stock_run_posted(stock); /* what is to be released is not kept locked meanwhile */
    long us = PAUSE_US_MIN + stock_random(stock, PAUSE_US_MAX - PAUSE_US_MIN);
    clock_sleep_ns(us * 1000);
}

static void publish(struct stock *stock, struct return_batch *batch)
{
    if (!batch->unpublished)
        return;
    batch->unpublished = false;
    sale_invalidate(batch->sale);
    redis_publish(stock->redis, STOCK_CHANNEL, sale_sku(batch->sale));
}

void return_batch_end(struct stock *stock, struct return_batch *batch)
{
    stock_run_posted(stock);
    publish(stock, batch);
}

enum ledger_result return_batch_begin(struct stock *stock, struct return_batch *batch,
                                      const char *sku, uint32_t round, enum ledger_status to)
{
    assert(to == LEDGER_CANCELLED || to == LEDGER_EXPIRED);
    if (batch->unpublished && strcmp(sale_sku(batch->sale), sku) != 0)
        return_batch_end(stock, batch);
    struct sale *sale = NULL;
    enum ledger_result found = stock_sale(stock, sku, &sale);
    /* An order of a later round than the cached one: this process has missed a reset. */
    if (found == LEDGER_OK && sale_snapshot(sale).round < round)
        found = stock_sale_reload(stock, sku, &sale);
    if (found != LEDGER_OK) /* what came back before is published all the same */
        return found;
    batch->sale = sale;
    batch->snapshot = sale_snapshot(batch->sale);
    batch->returned = (struct ledger_return){
        .sku = sale_sku(batch->sale),
        .round = round,
        .to = to,
        .order_ids = batch->ids,
        .segments = batch->segments,
    };
    stock->hold_count = 0;
    return LEDGER_OK;
}

bool return_batch_is_old(const struct return_batch *batch)
{
    return batch->returned.round < batch->snapshot.round;
}

bool return_batch_has(struct stock *stock, const struct return_batch *batch, uint64_t order_id,
                      uint32_t segment)
{
    char text[128];
    if (return_batch_is_old(batch) || segment < batch->snapshot.segments)
        return true;
    snprintf(text, sizeof text, "orders: order_id %llu, segment %u of a sale that has %u",
             (unsigned long long)order_id, segment, batch->snapshot.segments);
    fault_note_damage(ledger_fault(stock->ledger), text);
    return false;
}

size_t return_batch_holds_max(const struct return_batch *batch)
{
    return (batch->snapshot.segments + HOLDS_PART - 1) / HOLDS_PART;
}

void return_batch_post_lock(struct stock *stock, const struct return_batch *batch, uint32_t segment)
{
    assert(stock->hold_count < STOCK_HOLDS_MAX && !return_batch_is_old(batch));
    segment_post_open(stock, &stock->holds[stock->hold_count++], batch->sale, &batch->snapshot,
                      segment);
}

static bool is_locked(const struct segment_hold *hold)
{
    return hold->state == SEGMENT_TAKEN || hold->state == SEGMENT_DIRTY;
}

/* A segment may have been locked although its mark did not find the lock. */
static void end_unlocked(struct stock *stock, struct segment_hold *hold)
{
    bool lost = hold->state == SEGMENT_BUSY && hold->lock.state == SECLOCK_STATE_HELD;
    if (lost || hold->state == SEGMENT_DOUBT)
        segment_post_release(stock, hold);
}

/* Ends the holds, whose segments have certainly not changed: those that are not loaded yet. */
static void post_release(struct stock *stock)
{
    for (size_t i = 0; i < stock->hold_count; i++)
        if (is_locked(&stock->holds[i]))
            segment_give_back(stock, &stock->holds[i]);
        else
            end_unlocked(stock, &stock->holds[i]);
    stock->hold_count = 0;
}

void return_batch_release(struct stock *stock)
{
    post_release(stock);
    stock_run_posted(stock);
}

bool return_batch_lock(struct stock *stock)
{
    size_t kept = 0;
    bool alive = stock_run_calls(stock);
    for (size_t i = 0; i < stock->hold_count; i++)
        segment_read_open(stock, &stock->holds[i]);
    if (!alive) {
        return_batch_release(stock);
        return false;
    }
    for (size_t i = 0; i < stock->hold_count; i++)
        if (is_locked(&stock->holds[i]))
            stock->holds[kept++] = stock->holds[i];
        else
            end_unlocked(stock, &stock->holds[i]);
    stock->hold_count = kept;
    return true;
}

/* Raises the ledger's fences to those of the locks, which waits for a transaction that is still
 * under way or forbids it, and loads the segments from what the ledger says then. */
static void recover_all(struct stock *stock, const struct return_batch *batch)
{
    struct segment_hold *dirty[LEDGER_SEGMENTS_MAX];
    struct sale *sale = NULL;
    bool stale = false;
    for (size_t i = 0; i < stock->hold_count; i++) {
        dirty[i] = &stock->holds[i];
        dirty[i]->state = SEGMENT_DIRTY;
    }
    if (stock->hold_count > 0)
        recovery_run(stock, dirty, stock->hold_count, &stale);
    if (stale)
        stock_sale_reload(stock, batch->returned.sku, &sale);
}

/* Loads the segments that units came back to. The others keep their last fence in the ledger, so
 * what Redis says of them still counts. */
static void load_all(struct stock *stock, const struct return_batch *batch)
{
    for (size_t i = 0; i < stock->hold_count; i++)
        if (batch->segments[i].fence == stock->holds[i].lock.fence) {
            stock->holds[i].state = SEGMENT_DIRTY;
            recovery_load(stock, &stock->holds[i], &batch->segments[i]);
        }
}

enum ledger_result return_batch_return(struct stock *stock, struct return_batch *batch)
{
    struct ledger_return *returned = &batch->returned;
    assert(returned->order_count > 0 && returned->order_count <= LEDGER_RETURNS_MAX);
    assert(stock->hold_count > 0 || return_batch_is_old(batch));
    returned->segment_count = stock->hold_count;
    for (size_t i = 0; i < stock->hold_count; i++) {
        batch->segments[i].segment = stock->holds[i].segment;
        batch->segments[i].fence = stock->holds[i].lock.fence;
    }
    returned->hurried = held_rows_expected(stock);
    enum ledger_result result = ledger_return(stock->ledger, returned);
    if (result == LEDGER_FAILED)
        held_rows_met(stock, returned->sku);
    if (result != LEDGER_OK) /* nothing is certain: a transaction that failed may have counted */
        returned->moved = 0;
    if (returned->moved > 0)
        load_all(stock, batch);
    else if (result == LEDGER_NO || result == LEDGER_UNKNOWN)
        recover_all(stock, batch);
    /* After an unknown commit units may have come back as well: publishing is harmless. */
    batch->unpublished |=
        (returned->moved > 0 || result == LEDGER_UNKNOWN) && stock->hold_count > 0;
    post_release(stock);
    return result;
}

enum stock_state_result return_batch_state(enum ledger_result result)
{
    switch (result) {
    case LEDGER_OK:
    case LEDGER_NO:
        return STOCK_STATE_BUSY;
    case LEDGER_UNKNOWN:
        return STOCK_STATE_IN_DOUBT;
    case LEDGER_DAMAGED:
        return STOCK_STATE_DAMAGED;
    default:
        return STOCK_STATE_FAILED;
    }
}

/* ---- one order ---- */

static uint32_t segment_at(const struct ledger_record *record, size_t i)
{
    return record->allocation_count > 0 ? record->allocations[i].segment
                                        : (uint32_t)record->segment;
}

/* Tries once to return an order's units, under the locks of all its segments. BUSY: fetch the order
 * again. */
static enum stock_state_result order_return(struct stock *stock, struct return_batch *batch,
                                            const struct ledger_record *record,
                                            enum ledger_status to)
{
    enum ledger_result begun = return_batch_begin(stock, batch, record->sku, record->round, to);
    if (begun != LEDGER_OK)
        return return_batch_state(begun);
    batch->ids[batch->returned.order_count++] = record->order_id;
    bool several = record->allocation_count > 0;
    size_t wanted = return_batch_is_old(batch) ? 0 : several ? record->allocation_count : 1;
    for (size_t i = 0; i < wanted; i++)
        if (!return_batch_has(stock, batch, record->order_id, segment_at(record, i)))
            return STOCK_STATE_DAMAGED;
    for (size_t i = 0; i < wanted; i++)
        return_batch_post_lock(stock, batch, segment_at(record, i));
    if (wanted > 0 && !return_batch_lock(stock))
        return STOCK_STATE_FAILED;
    if (stock->hold_count < wanted) {
        return_batch_release(stock);
        return STOCK_STATE_BUSY;
    }
    return return_batch_state(return_batch_return(stock, batch));
}

enum stock_state_result return_batch_fetch_order(struct stock *stock, uint64_t order_id,
                                                 enum ledger_status to,
                                                 struct ledger_record *record_out)
{
    enum ledger_result found = ledger_order_find(stock->ledger, order_id, record_out);
    if (found != LEDGER_OK)
        return found == LEDGER_NO        ? STOCK_STATE_NO_ORDER
               : found == LEDGER_DAMAGED ? STOCK_STATE_DAMAGED
                                         : STOCK_STATE_FAILED;
    if (strcmp(record_out->status, ledger_status_name(to)) == 0)
        return STOCK_STATE_OK;
    return ledger_status_may(record_out->status, to) ? STOCK_STATE_BUSY : STOCK_STATE_REFUSED;
}

enum stock_state_result return_batch_try_order(struct stock *stock, struct return_batch *batch,
                                               uint64_t order_id, enum ledger_status to,
                                               struct ledger_record *record_out)
{
    batch->returned.moved = 0;
    enum stock_state_result result = return_batch_fetch_order(stock, order_id, to, record_out);
    return result == STOCK_STATE_BUSY ? order_return(stock, batch, record_out, to) : result;
}
