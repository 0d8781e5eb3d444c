/* Orders that are paid, cancelled or expire; the units of the latter can be sold again at once.
 *
 *   lock the segments (fence F) ─► ledger, one transaction: statuses · sold -= n, fence = F
 *     ─► set the segments in Redis again from the ledger, and release ─► tell every process
 *
 * why_like_recovery: the ledger's fence moves to F, so whatever Redis said of the segment before is
 * refused from then on. Setting it from the ledger is therefore not what makes the return right, it
 * only spares the next holder a recovery; dying anywhere on the way loses nothing. */
#include "stock/returns.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stock/recovery.h"
#include "stock/segment.h"

enum {
    PAUSE_US_MIN = 500, /* before a segment that was busy is tried again */
    PAUSE_US_MAX = 3000,
    DUE_MAX = 3600, /* orders that one stock_expire looks at */
    HOLDS_PART =
        4, /* expiry holds one in so many of a sale's segments, and sales go on elsewhere */
    FAILURES_MAX = 3, /* of Redis or the ledger that one call rides out */
};

static void pause_randomly(struct stock *stock)
{
    long us = PAUSE_US_MIN + stock_random(stock, PAUSE_US_MAX - PAUSE_US_MIN);
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* ---- one transaction ---- */

/* Orders of one sale and round, whose segments are locked by the stock's holds. */
struct lot {
    struct sale *sale;
    struct sale_view view;
    struct ledger_return returned;
    uint64_t ids[LEDGER_RETURNS_MAX];
    struct ledger_segment segments[LEDGER_SEGMENTS_MAX];
};

/* An empty lot. False when the ledger cannot be asked for the sale. */
static bool lot_begin(struct stock *stock, struct lot *lot, const char *sku, uint32_t round,
                      enum ledger_status to)
{
    enum ledger_result found = stock_sale(stock, sku, &lot->sale);
    if (found == LEDGER_OK && sale_view(lot->sale).round < round)
        found = stock_sale_reload(stock, sku, &lot->sale);
    if (found != LEDGER_OK)
        return false;
    lot->view = sale_view(lot->sale);
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

/* Units of an older round are nobody's any more. Rounds only grow, so what is old stays it. */
static bool lot_is_old(const struct lot *lot)
{
    return lot->returned.round < lot->view.round;
}

static void post_lock(struct stock *stock, const struct lot *lot, uint32_t segment)
{
    segment_post_lock(stock, &stock->holds[stock->hold_count++], lot->sale, &lot->view, segment);
}

static void release_all(struct stock *stock)
{
    for (size_t i = 0; i < stock->hold_count; i++)
        if (stock->holds[i].state == SEGMENT_DIRTY || stock->holds[i].state == SEGMENT_DOUBT)
            segment_post_release(stock, &stock->holds[i]);
    stock_flush(stock);
    stock->hold_count = 0;
}

/* Sends the locks and keeps the holds of those that were free. False when Redis is lost. */
static bool keep_locked(struct stock *stock)
{
    size_t kept = 0;
    bool alive = stock_run_calls(stock);
    for (size_t i = 0; i < stock->hold_count; i++)
        segment_read_lock(stock, &stock->holds[i]);
    if (!alive) {
        release_all(stock);
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
    sale_forget_left(lot->sale);
    redis_publish(stock->redis, STOCK_CHANNEL, lot->returned.sku);
}

/* Returns the lot's units and releases its segments. LEDGER_NO: not so; look at the orders. */
static enum ledger_result lot_return(struct stock *stock, struct lot *lot)
{
    struct ledger_return *returned = &lot->returned;
    returned->segment_count = stock->hold_count;
    for (size_t i = 0; i < stock->hold_count; i++) {
        lot->segments[i].segment = stock->holds[i].segment;
        lot->segments[i].fence = stock->holds[i].lock.fence;
    }
    enum ledger_result result = ledger_return(stock->ledger, returned);
    if (result == LEDGER_OK && returned->moved > 0)
        load_all(stock, lot);
    else if (result == LEDGER_NO || result == LEDGER_UNKNOWN)
        recover_all(stock, lot);
    bool back = result == LEDGER_OK && returned->moved > 0 && stock->hold_count > 0;
    release_all(stock);
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
        post_lock(stock, lot, several ? record->allocations[i].segment : (uint32_t)record->segment);
    if (wanted > 0 && !keep_locked(stock))
        return STOCK_STATE_FAILED;
    if (stock->hold_count < wanted) {
        release_all(stock);
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

/* The order's state, when it is that or cannot become it; BUSY when it can. */
static enum stock_state_result look(struct stock *stock, uint64_t order_id, enum ledger_status to,
                                    struct ledger_record *record_out)
{
    enum ledger_result found = ledger_order_find(stock->ledger, order_id, record_out);
    if (found != LEDGER_OK)
        return found == LEDGER_NO ? STOCK_STATE_NO_ORDER : STOCK_STATE_FAILED;
    if (strcmp(record_out->status, ledger_status_name(to)) == 0)
        return STOCK_STATE_OK;
    return ledger_status_may(record_out->status, to) ? STOCK_STATE_BUSY : STOCK_STATE_REFUSED;
}

/* Tries until the order's state is known, or the time is over, or nothing can be reached. */
struct trial {
    int64_t until_ns;
    int failures;
    bool doubt; /* something was done, or may have been */
};

static bool trial_goes_on(struct stock *stock, struct trial *trial, enum stock_state_result *result)
{
    if (*result != STOCK_STATE_BUSY && *result != STOCK_STATE_FAILED &&
        *result != STOCK_STATE_IN_DOUBT)
        return false;
    trial->doubt |= *result == STOCK_STATE_IN_DOUBT;
    trial->failures += *result == STOCK_STATE_FAILED;
    bool hopeless = trial->failures == FAILURES_MAX && !trial->doubt;
    if (hopeless || stock_now_ns() > trial->until_ns) {
        *result = trial->doubt ? STOCK_STATE_IN_DOUBT : *result;
        return false;
    }
    pause_randomly(stock);
    return true;
}

enum stock_state_result stock_cancel(struct stock *stock, uint64_t order_id, int wait_ms,
                                     struct ledger_record *record_out, bool *moved_out)
{
    struct trial trial = {.until_ns = stock_now_ns() + (int64_t)wait_ms * 1000000};
    enum stock_state_result result = STOCK_STATE_BUSY;
    struct lot *lot = malloc(sizeof *lot);
    if (!lot)
        abort();
    do {
        lot->returned.moved = 0;
        result = look(stock, order_id, LEDGER_CANCELLED, record_out);
        if (result == STOCK_STATE_BUSY)
            result = order_return(stock, lot, record_out, LEDGER_CANCELLED);
        trial.doubt |= lot->returned.moved > 0;
    } while (trial_goes_on(stock, &trial, &result));
    *moved_out = result == STOCK_STATE_OK && trial.doubt;
    free(lot);
    return result;
}

/* Reserved and yet not to be paid: its time is over, though nobody has expired it yet. */
static enum stock_state_result pay(struct stock *stock, uint64_t order_id,
                                   struct ledger_record *record_out, struct trial *trial)
{
    enum ledger_result paid = ledger_pay(stock->ledger, order_id);
    if (paid != LEDGER_OK && paid != LEDGER_NO)
        return paid == LEDGER_UNKNOWN ? STOCK_STATE_IN_DOUBT : STOCK_STATE_FAILED;
    trial->doubt |= paid == LEDGER_OK;
    enum stock_state_result result = look(stock, order_id, LEDGER_PAID, record_out);
    return result == STOCK_STATE_BUSY ? STOCK_STATE_REFUSED : result;
}

/* A payment that was not answered is repeated: the repeat waits for the first to end. */
enum stock_state_result stock_pay(struct stock *stock, uint64_t order_id,
                                  struct ledger_record *record_out, bool *moved_out)
{
    int64_t wait_ns = (int64_t)stock->options.resolve_ms * 1000000;
    struct trial trial = {.until_ns = stock_now_ns() + wait_ns};
    enum stock_state_result result = STOCK_STATE_BUSY;
    do
        result = pay(stock, order_id, record_out, &trial);
    while (trial_goes_on(stock, &trial, &result));
    *moved_out = result == STOCK_STATE_OK && trial.doubt;
    return result;
}

/* ---- what is due ---- */

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

/* How many of the next orders are of one sale and round and filled by one segment each. */
static size_t alike(const struct ledger_due *due, size_t count)
{
    size_t same = 0;
    while (same < count && same < LEDGER_RETURNS_MAX && due[same].round == due[0].round &&
           due[same].segment != LEDGER_SEGMENT_SEVERAL && strcmp(due[same].sku, due[0].sku) == 0)
        same++;
    return same;
}

/* Posts the locks of the first segments the orders are of; returns how many orders these have. */
static size_t post_locks(struct stock *stock, const struct lot *lot, const struct ledger_due *due,
                         size_t count)
{
    size_t max = (lot->view.segments + HOLDS_PART - 1) / HOLDS_PART;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && due[i].segment == due[i - 1].segment)
            continue;
        if (stock->hold_count == max)
            return i;
        post_lock(stock, lot, (uint32_t)due[i].segment);
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

/* Expires the first of `count` orders that are alike, as one transaction; `done_out` are those that
 * it was about, whether they could be locked or not. */
static enum ledger_result expire_alike(struct stock *stock, struct lot *lot,
                                       const struct ledger_due *due, size_t count, size_t *done_out)
{
    *done_out = count;
    if (!lot_begin(stock, lot, due->sku, due->round, LEDGER_EXPIRED))
        return LEDGER_FAILED;
    bool old = lot_is_old(lot);
    if (!old) {
        *done_out = post_locks(stock, lot, due, count);
        if (!keep_locked(stock))
            return LEDGER_FAILED;
    }
    for (size_t i = 0; i < *done_out; i++)
        if (old || is_held(stock, &due[i]))
            lot->ids[lot->returned.order_count++] = due[i].order_id;
    return lot->returned.order_count > 0 ? lot_return(stock, lot) : LEDGER_NO;
}

/* An order that several segments filled needs all of them. */
static enum ledger_result expire_several(struct stock *stock, struct lot *lot, uint64_t order_id)
{
    struct ledger_record record;
    switch (look(stock, order_id, LEDGER_EXPIRED, &record)) {
    case STOCK_STATE_BUSY:
        break;
    case STOCK_STATE_FAILED:
        return LEDGER_FAILED;
    default:
        return LEDGER_NO;
    }
    return order_return(stock, lot, &record, LEDGER_EXPIRED) == STOCK_STATE_FAILED ? LEDGER_FAILED
                                                                                   : LEDGER_OK;
}

static enum ledger_result expire_all(struct stock *stock, const struct ledger_due *due,
                                     size_t count, size_t *count_out)
{
    struct lot *lot = malloc(sizeof *lot);
    enum ledger_result result = LEDGER_OK;
    if (!lot)
        abort();
    for (size_t i = 0, done = 1; i < count && result != LEDGER_FAILED; i += done) {
        size_t same = alike(due + i, count - i);
        lot->returned.moved = 0;
        done = 1;
        result = same > 0 ? expire_alike(stock, lot, due + i, same, &done)
                          : expire_several(stock, lot, due[i].order_id);
        *count_out += lot->returned.moved;
    }
    free(lot);
    return result == LEDGER_FAILED ? LEDGER_FAILED : LEDGER_OK;
}

enum ledger_result stock_expire(struct stock *stock, struct ledger_due_place *place,
                                size_t *count_out)
{
    struct ledger_due *due = malloc(DUE_MAX * sizeof *due);
    size_t count = 0;
    if (!due)
        abort();
    *count_out = 0;
    enum ledger_result result = ledger_due_list(stock->ledger, place, DUE_MAX, due, &count);
    if (count > 0) {
        qsort(due, count, sizeof *due, compare_due);
        result = expire_all(stock, due, count, count_out);
    }
    free(due);
    return result;
}
