/* Ends orders of any sales together and makes their units available again.
 *
 *   orders by sale ─► lock free segments of each sale (fence F) and mark them open
 *     ─► ledger, one transaction: statuses · sold -= n, fence = F
 *     ─► load the changed segments in Redis from the ledger, and release ─► publish
 *
 * why_any_segment: units belong to no segment. A worker that holds any segments of a sale may take
 * the returned units off what these have sold; see README.md, "Units that come back".
 *
 * why_like_recovery: with this transaction the ledger's fence becomes F, so the ledger refuses
 * whatever Redis said of the segment before. The load of the segment in Redis therefore does not
 * make the return right, it only spares the next holder a recovery.
 *
 * why_the_mark: without it, a process that dies between the commit and the load would leave a
 * segment that looks settled and knows too few units; with it the segment is dirty. */
#include "stock/returns/returns.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "stock/orders/orders.h"
#include "stock/segment.h"
#include "stock/stock.h"

enum {
    LOCK_TRIES_MAX = 16, /* while every segment that was tried is busy */
    PAUSE_US_MIN = 500,  /* before they are tried again */
    PAUSE_US_MAX = 3000,
    HOLDS_PART = 2, /* the part of a sale's segments held at once, if it suffices: 1/2 */
};

/* The orders of one sale. */
struct part {
    struct return_order *orders;
    size_t count;
    struct sale *sale; /* NULL: it was retired */
    struct sale_snapshot snapshot;
    bool awaited;      /* the sale has so few units left that it may have refused orders */
    uint32_t least;    /* least number of segments to lock */
    bool moved, unmet; /* an order was ended; one was not, as segments had sold too few */
};

/* One transaction; kept for the next. */
struct returns_work {
    struct part *parts;
    size_t part_count;
    struct ledger_return returned;
    struct ledger_return_order orders[LEDGER_RETURNS_MAX];      /* by id */
    struct ledger_return_segment segments[LEDGER_SEGMENTS_MAX]; /* by sku and number */
    struct segment_hold *holds[LEDGER_SEGMENTS_MAX];            /* at the same places */
};

void returns_pause(struct stock *stock)
{
    long us = PAUSE_US_MIN + stock_random(stock, PAUSE_US_MAX - PAUSE_US_MIN);
    clock_sleep_ns(us * 1000);
}

/* ---- the sales ---- */

static int compare_orders(const void *a, const void *b)
{
    const struct return_order *one = a, *other = b;
    int by_sku = strcmp(one->sku, other->sku);
    return by_sku != 0 ? by_sku
                       : (one->order_id > other->order_id) - (one->order_id < other->order_id);
}

/* A sale is retired only when it has no reserved order. So without the sale, somebody else has
 * ended these orders: read them again. */
static enum stock_state_result result_without_sale(enum ledger_result found)
{
    return found == LEDGER_NO        ? STOCK_STATE_BUSY
           : found == LEDGER_DAMAGED ? STOCK_STATE_DAMAGED
                                     : STOCK_STATE_FAILED;
}

static void set_all(struct part *part, enum stock_state_result result)
{
    for (size_t i = 0; i < part->count; i++)
        part->orders[i].result = result;
}

/* An order of a later round than the cached one shows that this process has missed a reset. Whether
 * a round is over for good, only the ledger can tell. */
static enum ledger_result find_sale(struct stock *stock, struct part *part, enum ledger_status to)
{
    uint32_t latest = 0;
    for (size_t i = 0; i < part->count; i++)
        latest = part->orders[i].round > latest ? part->orders[i].round : latest;
    enum ledger_result found = LEDGER_OK;
    part->sale = sale_cache_find(stock->sale_cache, part->orders[0].sku);
    if (!part->sale || sale_snapshot(part->sale).round < latest || to == LEDGER_RESERVED)
        found = stock_sale_reload(stock, part->orders[0].sku, &part->sale);
    if (found == LEDGER_OK)
        part->snapshot = sale_snapshot(part->sale);
    return found;
}

/* Paid and expired orders outlive their sale. Then they change as those of a round that is over. */
static bool goes_without_sale(struct part *part, enum ledger_result found, enum ledger_status to)
{
    if (found != LEDGER_NO || to == LEDGER_EXPIRED)
        return false;
    part->sale = NULL;
    part->snapshot = (struct sale_snapshot){.round = UINT32_MAX, .segments = 1};
    return true;
}

/* Returns the number of sales. */
static size_t list_parts(struct stock *stock, struct part *parts, struct return_order *orders,
                         size_t count, enum ledger_status to)
{
    size_t found_count = 0;
    qsort(orders, count, sizeof *orders, compare_orders);
    for (size_t i = 0, same; i < count; i += same) {
        struct part *part = &parts[found_count];
        for (same = 1; i + same < count && strcmp(orders[i].sku, orders[i + same].sku) == 0;)
            same++;
        *part = (struct part){.orders = &orders[i], .count = same, .least = 1};
        enum ledger_result found = find_sale(stock, part, to);
        bool goes_on = found == LEDGER_OK || goes_without_sale(part, found, to);
        set_all(part, goes_on ? STOCK_STATE_BUSY : result_without_sale(found));
        found_count += goes_on;
    }
    return found_count;
}

/* ---- their segments ---- */

/* Returns the units that the segment has sold, as far as this process knows. */
static uint32_t sold_guess(const struct part *part, uint32_t segment)
{
    uint32_t capacity = part->snapshot.total / part->snapshot.segments;
    uint32_t left = sale_hint(part->sale, segment);
    return left < capacity ? capacity - left : 0;
}

/* Posts the locks of enough segments for the orders of the present round: from a random one on,
 * first those that have sold units, as far as this process knows, then the others. At most one in
 * HOLDS_PART, so that the others go on selling, unless one order alone needs more. */
static void plan(struct stock *stock, const struct part *part)
{
    uint32_t segments = part->snapshot.segments;
    assert(segments > 0 && part->count > 0); /* a sale is cached only with segments */
    uint32_t start = stock_random(stock, segments);
    uint64_t units = 0, largest = 0, guessed = 0;
    size_t first_hold = stock->hold_count, most = (segments + HOLDS_PART - 1) / HOLDS_PART;
    for (size_t i = 0; i < part->count; i++) {
        const struct return_order *order = &part->orders[i];
        if (order->round != part->snapshot.round)
            continue;
        units += order->qty;
        largest = order->qty > largest ? order->qty : largest;
    }
    for (uint32_t i = 0; i < 2 * segments && units > 0 && stock->hold_count < STOCK_HOLDS_MAX;
         i++) {
        uint32_t segment = (start + i) % segments, guess = sold_guess(part, segment);
        size_t held = stock->hold_count - first_hold;
        bool enough = guessed >= units || (held >= most && guessed >= largest);
        if (enough && held >= part->least)
            break;
        if ((guess == 0) != (i >= segments)) /* tried in the other pass */
            continue;
        guessed += guess;
        segment_post_open(stock, &stock->holds[stock->hold_count++], part->sale, &part->snapshot,
                          segment);
    }
}

static bool is_locked(const struct segment_hold *hold)
{
    return hold->state == SEGMENT_TAKEN || hold->state == SEGMENT_DIRTY;
}

/* Posts the end of the holds whose segments have certainly not changed. */
static void end_unchanged(struct stock *stock)
{
    for (size_t i = 0; i < stock->hold_count; i++) {
        struct segment_hold *hold = &stock->holds[i];
        /* A segment may have been locked although its mark did not find the lock. */
        bool lost = hold->state == SEGMENT_BUSY && hold->lock.state == SECLOCK_STATE_HELD;
        if (is_locked(hold))
            segment_give_back(stock, hold);
        else if (lost || hold->state == SEGMENT_DOUBT)
            segment_post_release(stock, hold);
        assert(hold->state == SEGMENT_ENDED || hold->state == SEGMENT_BUSY); /* was given back */
    }
}

/* Tries to lock segments for all parts in one round trip. False when Redis is lost. */
static bool lock_once(struct stock *stock, struct returns_work *work, bool *any_out)
{
    stock->hold_count = 0;
    for (size_t i = 0; i < work->part_count; i++)
        plan(stock, &work->parts[i]);
    *any_out = stock->hold_count == 0; /* no segment is needed */
    bool alive = *any_out || stock_run_calls(stock);
    for (size_t i = 0; i < stock->hold_count; i++) {
        segment_read_open(stock, &stock->holds[i]);
        *any_out |= is_locked(&stock->holds[i]);
    }
    if (!alive || !*any_out)
        end_unchanged(stock);
    return alive;
}

/* Retries while all segments are busy: a segment from which much is sold is hardly ever free. */
static bool lock(struct stock *stock, struct returns_work *work)
{
    bool any = false;
    for (int tries = 0; tries < LOCK_TRIES_MAX; tries++) {
        if (tries > 0)
            returns_pause(stock);
        if (!lock_once(stock, work, &any))
            return false;
        if (any)
            return true;
    }
    stock->hold_count = 0;
    return true;
}

/* ---- the ledger ---- */

static void list_segments(struct stock *stock, struct returns_work *work)
{
    struct ledger_return *returned = &work->returned;
    returned->segments = work->segments;
    for (size_t i = 0; i < stock->hold_count; i++)
        if (is_locked(&stock->holds[i]))
            work->holds[returned->segment_count++] = &stock->holds[i];
    assert(returned->segment_count <= stock->hold_count);
    qsort(work->holds, returned->segment_count, sizeof work->holds[0], segment_compare);
    for (size_t i = 0; i < returned->segment_count; i++) {
        const struct segment_hold *hold = work->holds[i];
        work->segments[i] =
            (struct ledger_return_segment){.sku = sale_sku(hold->sale),
                                           .segment = hold->segment,
                                           .segments = sale_snapshot(hold->sale).segments,
                                           .fence = hold->lock.fence};
    }
}

/* Returns the first order in the part with the id of the j-th. They are sorted by id. */
static size_t first_of(const struct part *part, size_t j)
{
    while (j > 0 && part->orders[j - 1].order_id == part->orders[j].order_id)
        j--;
    return j;
}

/* Lists each order once, as the first of its changes wants it. */
static void list_orders(struct returns_work *work)
{
    struct ledger_return *returned = &work->returned;
    assert(returned->order_count == 0 && work->part_count <= LEDGER_RETURNS_MAX);
    returned->orders = work->orders;
    for (size_t i = 0; i < work->part_count; i++)
        for (size_t j = 0; j < work->parts[i].count; j++) {
            const struct return_order *order = &work->parts[i].orders[j];
            if (first_of(&work->parts[i], j) != j)
                continue;
            work->orders[returned->order_count++] = (struct ledger_return_order){
                .order_id = order->order_id,
                .payment_ref = order->payment_ref,
                .keep = order->keep,
                .unreturned = order->unreturned,
                .round_over = order->round < work->parts[i].snapshot.round};
        }
    qsort(work->orders, returned->order_count, sizeof work->orders[0], ledger_return_order_compare);
}

static enum stock_state_result result_of(enum ledger_result result, enum ledger_status to,
                                         const struct ledger_return_order *order)
{
    if (result == LEDGER_OK)
        return order->moved                                 ? STOCK_STATE_OK
               : order->damaged                             ? STOCK_STATE_DAMAGED
               : to == LEDGER_RESERVED && order->round_over ? STOCK_STATE_REFUSED
                                                            : STOCK_STATE_BUSY;
    return result == LEDGER_NO        ? STOCK_STATE_BUSY
           : result == LEDGER_UNKNOWN ? STOCK_STATE_IN_DOUBT
                                      : STOCK_STATE_FAILED;
}

static void read_results(struct returns_work *work, enum ledger_result result,
                         struct returns *returns)
{
    for (size_t i = 0; i < work->part_count; i++) {
        struct part *part = &work->parts[i];
        part->moved = part->unmet = false;
        for (size_t j = 0; j < part->count; j++) {
            struct return_order *order = &part->orders[j];
            struct ledger_return_order key = {.order_id = order->order_id};
            const struct ledger_return_order *ended =
                bsearch(&key, work->orders, work->returned.order_count, sizeof key,
                        ledger_return_order_compare);
            assert(ended); /* list_orders listed it */
            const struct return_order *first = &part->orders[first_of(part, j)];
            order->result = result_of(result, work->returned.to, ended);
            order->moved = order->result == STOCK_STATE_OK && first == order;
            order->stays_paid = ended->next_ref[0] != '\0';
            if (order->keep != first->keep || order->unreturned != first->unreturned)
                order->result = STOCK_STATE_BUSY; /* the next try finds what the first has left */
            part->moved |= order->moved;
            part->unmet |= result == LEDGER_OK && ended->unmet && !ended->damaged;
            returns->moved += order->moved;
            returns->awaited += order->moved && part->awaited;
        }
    }
    returns->committed |= result == LEDGER_OK && returns->moved > 0;
}

/* ---- Redis again ---- */

/* Raises the ledger's fences to the locks' fences, which waits for a transaction that is still
 * under way or forbids it, and loads the segments from the ledger's rows. */
static void recover(struct stock *stock, struct returns_work *work)
{
    const size_t count = work->returned.segment_count;
    for (size_t i = 0, same; i < count; i += same) {
        struct sale *sale = work->holds[i]->sale;
        bool stale = false;
        for (same = 0; i + same < count && work->holds[i + same]->sale == sale; same++)
            work->holds[i + same]->state = SEGMENT_DIRTY;
        recovery_run(stock, &work->holds[i], same, &stale);
        if (stale)
            stock_sale_reload(stock, sale_sku(sale), &sale);
    }
}

/* Loads the segments that units came back to. The others keep their last fence in the ledger, so
 * their contents in Redis still count; if the ledger's fence is beyond the lock's, Redis is told of
 * it. No buyer was refused units while more were left than one order can want. A sale is read again
 * if the ledger has another round of it or does not show a segment: this process may have missed a
 * change. The parts and the holds are sorted alike. */
static void load(struct stock *stock, struct returns_work *work)
{
    size_t at = 0;
    for (size_t i = 0; i < work->part_count; i++) {
        struct part *part = &work->parts[i];
        struct sale *sale = part->sale;
        uint64_t left = 0; /* before the units came back */
        bool any = false, stale = false;
        for (; at < work->returned.segment_count && work->holds[at]->sale == sale; at++) {
            const struct ledger_return_segment *segment = &work->segments[at];
            struct segment_hold *hold = work->holds[at];
            any |= segment->returned > 0;
            stale |= segment->row.round != hold->round;
            if (segment->row.round == 0)
                continue;
            uint32_t now_left = segment->row.capacity - segment->row.sold;
            left += now_left - segment->returned;
            if (segment->returned > 0 || segment->row.fence > segment->fence) {
                hold->state = SEGMENT_DIRTY;
                recovery_load(stock, hold, &segment->row);
            } else {
                sale_hint_set(hold->sale, hold->segment, now_left);
            }
        }
        part->awaited = any && left < STOCK_QTY_MAX;
        if (stale && sale_snapshot(sale).round == part->snapshot.round)
            stock_sale_reload(stock, part->orders[0].sku, &sale);
    }
}

/* Publishes because other processes may remember that the sale is sold out. After an unknown commit
 * units may have come back as well: publishing is harmless. */
static void publish(struct stock *stock, const struct returns_work *work, bool all)
{
    for (size_t i = 0; i < work->part_count; i++) {
        if (!work->parts[i].sale || (!work->parts[i].awaited && !all))
            continue;
        sale_invalidate(work->parts[i].sale);
        redis_publish(stock->redis, STOCK_CHANNEL, sale_sku(work->parts[i].sale));
    }
}

static void end_locked(struct stock *stock, struct returns_work *work, struct returns *returns)
{
    list_segments(stock, work);
    list_orders(work);
    enum ledger_result result = ledger_return(stock->ledger, &work->returned);
    if (result == LEDGER_OK)
        load(stock, work);
    else if (result == LEDGER_FAILED)
        held_rows_met(stock, work->part_count == 1 ? work->parts[0].orders[0].sku : NULL);
    else
        recover(stock, work);
    read_results(work, result, returns);
    end_unchanged(stock);
    stock->hold_count = 0;
    stock_flush(stock);
    publish(stock, work, result == LEDGER_UNKNOWN);
}

static void end_parts(struct stock *stock, struct part *parts, size_t count, enum ledger_status to,
                      struct returns *returns)
{
    assert(count > 0);
    struct returns_work *work = stock->returning;
    if (!work)
        work = stock->returning = memory_must(malloc(sizeof *work));
    work->parts = parts;
    work->part_count = count;
    work->returned = (struct ledger_return){.to = to};
    if (lock(stock, work)) {
        end_locked(stock, work, returns);
        return;
    }
    stock_flush(stock);
    for (size_t i = 0; i < count; i++)
        set_all(&parts[i], STOCK_STATE_FAILED);
}

/* Keeps the sales none of whose orders could be ended because this process was wrong about their
 * segments, for a try with twice as many segments. */
static size_t keep_unmet(struct part *parts, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].moved || !parts[i].unmet || parts[i].least >= parts[i].snapshot.segments)
            continue;
        parts[i].least *= 2;
        parts[kept++] = parts[i];
    }
    return kept;
}

/* While held rows are expected, each sale has a transaction of its own, so that the others do not
 * fail with it. */
struct returns returns_end(struct stock *stock, struct return_order *orders, size_t count,
                           enum ledger_status to)
{
    struct returns returns = {.moved = 0};
    struct part *parts = memory_must(calloc(count, sizeof *parts));
    assert(count > 0 && count <= LEDGER_RETURNS_MAX);
    size_t part_count = list_parts(stock, parts, orders, count, to);
    while (part_count > 0) {
        size_t together = held_rows_expected(stock) ? 1 : part_count;
        for (size_t i = 0; i < part_count; i += together)
            end_parts(stock, parts + i, together, to, &returns);
        part_count = keep_unmet(parts, part_count);
    }
    free(parts);
    return returns;
}
