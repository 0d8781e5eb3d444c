/* Orders of one sale that end together: one transaction, under the locks of their segments.
 *
 *   lock the segments (fence F) ─► ledger, one transaction: statuses · sold -= n, fence = F
 *     ─► set the segments in Redis again from the ledger, and release ─► tell every process
 *
 * why_like_recovery: the ledger's fence moves to F, so whatever Redis said of the segment before is
 * refused from then on. Setting it from the ledger is therefore not what makes the return right, it
 * only spares the next holder a recovery; dying anywhere on the way loses nothing. */
#include "stock/return_batch.h"

#include <string.h>
#include <time.h>

#include "stock/recovery.h"
#include "stock/segment.h"

enum {
    PAUSE_US_MIN = 500, /* before a segment that was busy is tried again */
    PAUSE_US_MAX = 3000,
};

void lot_pause(struct stock *stock)
{
    long us = PAUSE_US_MIN + stock_random(stock, PAUSE_US_MAX - PAUSE_US_MIN);
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

bool lot_begin(struct stock *stock, struct lot *lot, const char *sku, uint32_t round,
               enum ledger_status to)
{
    enum ledger_result found = stock_sale(stock, sku, &lot->sale);
    if (found == LEDGER_OK && sale_snapshot(lot->sale).round < round)
        found = stock_sale_reload(stock, sku, &lot->sale);
    if (found != LEDGER_OK)
        return false;
    lot->snapshot = sale_snapshot(lot->sale);
    lot->returned = (struct ledger_return){
        .sku = sale_sku(lot->sale),
        .round = round,
        .to = to,
        .order_ids = lot->ids,
        .segments = lot->segments,
    };
    stock->hold_count = 0;
    return true;
}

bool lot_is_old(const struct lot *lot)
{
    return lot->returned.round < lot->snapshot.round;
}

void lot_post_lock(struct stock *stock, const struct lot *lot, uint32_t segment)
{
    segment_post_lock(stock, &stock->holds[stock->hold_count++], lot->sale, &lot->snapshot,
                      segment);
}

void lot_release(struct stock *stock)
{
    for (size_t i = 0; i < stock->hold_count; i++)
        if (stock->holds[i].state == SEGMENT_DIRTY || stock->holds[i].state == SEGMENT_DOUBT)
            segment_post_release(stock, &stock->holds[i]);
    stock_flush(stock);
    stock->hold_count = 0;
}

bool lot_lock(struct stock *stock)
{
    size_t kept = 0;
    bool alive = stock_run_calls(stock);
    for (size_t i = 0; i < stock->hold_count; i++)
        segment_read_lock(stock, &stock->holds[i]);
    if (!alive) {
        lot_release(stock);
        return false;
    }
    for (size_t i = 0; i < stock->hold_count; i++)
        if (stock->holds[i].state == SEGMENT_DIRTY)
            stock->holds[kept++] = stock->holds[i];
    stock->hold_count = kept;
    return true;
}

/* Raises the ledger's fences to those of the locks, which waits for a transaction that is still
 * under way or forbids it, and sets the segments again from what it says then. */
static void recover_all(struct stock *stock, const struct lot *lot)
{
    struct segment_hold *dirty[LEDGER_SEGMENTS_MAX];
    struct sale *sale = NULL;
    bool stale = false;
    for (size_t i = 0; i < stock->hold_count; i++)
        dirty[i] = &stock->holds[i];
    if (stock->hold_count > 0)
        recovery_run(stock, dirty, stock->hold_count, &stale);
    if (stale)
        stock_sale_reload(stock, lot->returned.sku, &sale);
}

/* Those in which nothing came back after all are left as they were. */
static void load_all(struct stock *stock, const struct lot *lot)
{
    for (size_t i = 0; i < stock->hold_count; i++)
        if (lot->segments[i].fence == stock->holds[i].lock.fence)
            recovery_load(stock, &stock->holds[i], &lot->segments[i]);
}

static void announce(struct stock *stock, const struct lot *lot)
{
    sale_invalidate(lot->sale);
    redis_publish(stock->redis, STOCK_CHANNEL, lot->returned.sku);
}

enum ledger_result lot_return(struct stock *stock, struct lot *lot)
{
    struct ledger_return *returned = &lot->returned;
    returned->segment_count = stock->hold_count;
    for (size_t i = 0; i < stock->hold_count; i++) {
        lot->segments[i].segment = stock->holds[i].segment;
        lot->segments[i].fence = stock->holds[i].lock.fence;
    }
    enum ledger_result result = ledger_return(stock->ledger, returned);
    if (result != LEDGER_OK) /* it says how many could have moved */
        returned->moved = 0;
    if (returned->moved > 0)
        load_all(stock, lot);
    else if (result == LEDGER_NO || result == LEDGER_UNKNOWN)
        recover_all(stock, lot);
    bool back = (returned->moved > 0 || result == LEDGER_UNKNOWN) && stock->hold_count > 0;
    lot_release(stock);
    if (back)
        announce(stock, lot);
    return result;
}

/* ---- one order ---- */

/* Tries once to return an order's units. BUSY: look at the order again. */
static enum stock_state_result order_return(struct stock *stock, struct lot *lot,
                                            const struct ledger_record *record,
                                            enum ledger_status to)
{
    if (!lot_begin(stock, lot, record->sku, record->round, to))
        return STOCK_STATE_FAILED;
    lot->ids[lot->returned.order_count++] = record->order_id;
    bool several = record->allocation_count > 0;
    size_t wanted = lot_is_old(lot) ? 0 : several ? record->allocation_count : 1;
    for (size_t i = 0; i < wanted; i++)
        lot_post_lock(stock, lot,
                      several ? record->allocations[i].segment : (uint32_t)record->segment);
    if (wanted > 0 && !lot_lock(stock))
        return STOCK_STATE_FAILED;
    if (stock->hold_count < wanted) {
        lot_release(stock);
        return STOCK_STATE_BUSY;
    }
    switch (lot_return(stock, lot)) {
    case LEDGER_OK:
    case LEDGER_NO:
        return STOCK_STATE_BUSY;
    case LEDGER_UNKNOWN:
        return STOCK_STATE_IN_DOUBT;
    default:
        return STOCK_STATE_FAILED;
    }
}

enum stock_state_result order_look(struct stock *stock, uint64_t order_id, enum ledger_status to,
                                   struct ledger_record *record_out)
{
    enum ledger_result found = ledger_order_find(stock->ledger, order_id, record_out);
    if (found != LEDGER_OK)
        return found == LEDGER_NO ? STOCK_STATE_NO_ORDER : STOCK_STATE_FAILED;
    if (strcmp(record_out->status, ledger_status_name(to)) == 0)
        return STOCK_STATE_OK;
    return ledger_status_may(record_out->status, to) ? STOCK_STATE_BUSY : STOCK_STATE_REFUSED;
}

enum stock_state_result order_try(struct stock *stock, struct lot *lot, uint64_t order_id,
                                  enum ledger_status to, struct ledger_record *record_out)
{
    lot->returned.moved = 0;
    enum stock_state_result result = order_look(stock, order_id, to, record_out);
    return result == STOCK_STATE_BUSY ? order_return(stock, lot, record_out, to) : result;
}
