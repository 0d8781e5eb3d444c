/* Reserved orders whose time is over: found in the ledger, sorted, and ended many at a time. */
#include "stock/return_expired.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sql/ledger_lookup.h"
#include "sql/ledger_return.h"
#include "stock/return_batch.h"
#include "stock/segment.h"

enum {
    DUE_MAX = 3600,  /* orders that one stock_expire looks at */
    PAUSES_MAX = 64, /* waits for busy segments of one stock_expire: about a tenth of a second */
};

static int compare_due(const void *a, const void *b)
{
    const struct ledger_due *one = a, *other = b;
    int by_sku = strcmp(one->sku, other->sku);
    if (by_sku != 0)
        return by_sku;
    if (one->round != other->round)
        return one->round < other->round ? -1 : 1;
    if (one->segment != other->segment)
        return one->segment < other->segment ? -1 : 1;
    return one->order_id < other->order_id ? -1 : one->order_id > other->order_id;
}

/* How many of the next orders can share a transaction: of one sale and round, and filled by one
 * segment each. */
static size_t alike(const struct ledger_due *due, size_t count)
{
    size_t same = 0;
    while (same < count && same < LEDGER_RETURNS_MAX && due[same].round == due[0].round &&
           due[same].segment != LEDGER_SEGMENT_SEVERAL && strcmp(due[same].sku, due[0].sku) == 0)
        same++;
    return same;
}

/* Posts the locks of the orders' first segments, as many as may be held; returns how many of the
 * orders these segments have. The orders are sorted by segment. */
static size_t post_locks(struct stock *stock, const struct return_batch *batch,
                         const struct ledger_due *due, size_t count)
{
    assert(stock->hold_count == 0);
    size_t max = return_batch_holds_max(batch);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && due[i].segment == due[i - 1].segment)
            continue;
        if (stock->hold_count == max)
            return i;
        return_batch_post_lock(stock, batch, (uint32_t)due[i].segment);
    }
    return count;
}

static bool is_held(const struct stock *stock, const struct ledger_due *due)
{
    for (size_t i = 0; i < stock->hold_count; i++)
        if (stock->holds[i].segment == (uint32_t)due->segment)
            return true;
    return false;
}

static bool may_pause(struct stock *stock, int *pauses)
{
    if (*pauses == 0)
        return false;
    --*pauses;
    return_batch_pause(stock);
    return true;
}

/* Locks those segments of the first orders, `done_out` of them, that are free. While none is free
 * it tries again: a segment from which much is sold is hardly ever free. False when Redis is
 * lost. */
static bool lock_some(struct stock *stock, const struct return_batch *batch,
                      const struct ledger_due *due, size_t count, int *pauses, size_t *done_out)
{
    do {
        *done_out = post_locks(stock, batch, due, count);
        if (!return_batch_lock(stock))
            return false;
    } while (stock->hold_count == 0 && may_pause(stock, pauses));
    return true;
}

/* Expires the first of `count` orders that are alike, in one transaction. `done_out` says how many
 * it has dealt with; orders whose segments were busy are among them, and wait for the next pass. */
static enum ledger_result expire_alike(struct stock *stock, struct return_batch *batch,
                                       const struct ledger_due *due, size_t count, int *pauses,
                                       size_t *done_out)
{
    assert(count > 0 && count <= LEDGER_RETURNS_MAX);
    *done_out = count;
    enum ledger_result begun =
        return_batch_begin(stock, batch, due->sku, due->round, LEDGER_EXPIRED);
    if (begun != LEDGER_OK)
        return begun;
    bool old = return_batch_is_old(batch);
    size_t damaged = 0; /* they come last, as the orders are sorted by segment */
    while (damaged < count && !return_batch_has(stock, batch, due[count - damaged - 1].order_id,
                                                (uint32_t)due[count - damaged - 1].segment))
        damaged++;
    if (damaged == count)
        return LEDGER_NO;
    if (!old && !lock_some(stock, batch, due, count - damaged, pauses, done_out))
        return LEDGER_FAILED;
    for (size_t i = 0; i < *done_out; i++)
        if (old || is_held(stock, &due[i]))
            batch->ids[batch->returned.order_count++] = due[i].order_id;
    *done_out += *done_out == count - damaged ? damaged : 0;
    return batch->returned.order_count > 0 ? return_batch_return(stock, batch) : LEDGER_NO;
}

/* Expires an order that several segments filled: it needs all of their locks at once. */
static enum ledger_result expire_several(struct stock *stock, struct return_batch *batch,
                                         uint64_t order_id, int *pauses)
{
    struct ledger_record record;
    enum stock_state_result result = STOCK_STATE_BUSY;
    do
        result = return_batch_try_order(stock, batch, order_id, LEDGER_EXPIRED, &record);
    while (result == STOCK_STATE_BUSY && batch->returned.moved == 0 && may_pause(stock, pauses));
    return result == STOCK_STATE_FAILED ? LEDGER_FAILED : LEDGER_OK;
}

/* True when the returned units are most of what their segments have left: buyers may wait for
 * them. */
static bool is_awaited(const struct return_batch *batch)
{
    uint64_t left = 0;
    for (size_t i = 0; i < batch->returned.segment_count; i++)
        left += batch->segments[i].capacity - batch->segments[i].sold;
    return batch->returned.segment_count > 0 && left < 2 * batch->returned.moved;
}

static enum ledger_result expire_all(struct stock *stock, const struct ledger_due *due,
                                     size_t count, struct stock_expired *expired)
{
    struct return_batch *batch = calloc(1, sizeof *batch);
    enum ledger_result result = LEDGER_OK;
    int pauses = PAUSES_MAX;
    if (!batch)
        abort();
    for (size_t i = 0, done = 1; i < count && result != LEDGER_FAILED; i += done) {
        size_t same = alike(due + i, count - i);
        unsigned held = stock->held_row.count;
        batch->returned.moved = 0;
        done = 1;
        result = same > 0 ? expire_alike(stock, batch, due + i, same, &pauses, &done)
                          : expire_several(stock, batch, due[i].order_id, &pauses);
        expired->count += batch->returned.moved;
        if (result == LEDGER_FAILED && stock->held_row.count > held)
            result = LEDGER_NO; /* the orders of other sales do not wait for this one's */
        if (batch->returned.moved > 0 && is_awaited(batch))
            expired->awaited += batch->returned.moved;
    }
    return_batch_end(stock, batch);
    free(batch);
    return result == LEDGER_FAILED ? LEDGER_FAILED : LEDGER_OK;
}

enum ledger_result stock_expire(struct stock *stock, struct ledger_due_cursor *cursor,
                                struct stock_expired *expired_out)
{
    struct ledger_due *due = malloc(DUE_MAX * sizeof *due);
    size_t count = 0;
    if (!due)
        abort();
    /* By sale, round and segment, for as few transactions and locks as possible. */
    *expired_out = (struct stock_expired){0};
    enum ledger_result result = ledger_due_list(stock->ledger, cursor, DUE_MAX, due, &count);
    if (count > 0) {
        qsort(due, count, sizeof *due, compare_due);
        result = expire_all(stock, due, count, expired_out);
    }
    free(due);
    return result;
}
