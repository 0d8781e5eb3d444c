/* The strategy of fenced segment locks: one round of lock, take, commit, settle for a whole batch.
 *
 *   orders ─► groups by sku ─► gather: plan segments ─► Redis: lock · take ─► fill orders ─┐
 *                                 ▲                                                         │
 *                                 └── busy, empty, recovered: more segments ◄───────────────┘
 *             ─► commit: one ledger transaction for all segments and orders
 *             ─► settle and release, posted for the pipeline of the next batch
 *             ─► conclude: who got nothing asks the ledger what is left
 *
 * why_commit_decides: an order is accepted by the ledger alone. Whatever is lost or repeated in
 * Redis, a segment's row moves only from exactly the fence at which Redis was settled when the
 * units were taken, so nothing here has to be right for the stock to be safe; it has to be right
 * for the stock to be sold. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stock/batch.h"
#include "stock/recovery.h"
#include "stock/replay.h"
#include "stock/segment.h"

enum {
    COMMIT_TRIES_MAX = 3, /* duplicate keys met in one batch */
    BUSY_PASSES = 8, /* passes that met busy segments before the ledger is asked all the same */
    RESOLVE_PAUSE_MS = 20,
};

/* ---- gather ---- */

/* Posts lock and take for as many more segments as the group's open orders seem to need. */
static void plan_segments(struct stock *stock, struct group *group)
{
    uint32_t unmet = group_unmet(group);
    uint32_t segment = 0;
    while (unmet > 0 && stock->hold_count < STOCK_HOLDS_MAX && group_next(group, &segment)) {
        uint32_t hint = sale_hint(group->sale, segment);
        if (hint == 0)
            continue;
        uint32_t wanted = hint < unmet ? hint : unmet;
        segment_post_take(stock, &stock->holds[stock->hold_count++], group->sale, &group->view,
                          segment, wanted);
        unmet -= wanted;
    }
}

static void recover_group(struct stock *stock, struct group *group, size_t first_hold)
{
    struct segment_hold *dirty[STOCK_HOLDS_MAX];
    size_t count = 0;
    for (size_t i = first_hold; i < stock->hold_count; i++)
        if (stock->holds[i].state == SEGMENT_DIRTY && stock->holds[i].sale == group->sale)
            dirty[count++] = &stock->holds[i];
    if (count == 0)
        return;
    bool stale = false;
    if (!recovery_run(stock, dirty, count, &stale))
        group->busy = true;
    group->stale |= stale;
    for (size_t i = 0; i < count; i++)
        group_retry(group, dirty[i]->segment);
}

static void sort_out(struct stock *stock, struct group *group, size_t first_hold)
{
    for (size_t i = first_hold; i < stock->hold_count; i++) {
        struct segment_hold *hold = &stock->holds[i];
        if (hold->sale != group->sale)
            continue;
        bool lost = hold->state == SEGMENT_BUSY && hold->lock.state == LOCK_STATE_HELD;
        if (hold->state == SEGMENT_BUSY)
            group->busy = true;
        if (lost) /* locked, and then the take did not find the lock: nothing is to be settled */
            segment_post_release(stock, hold);
        else if (hold->state == SEGMENT_EMPTY)
            segment_post_release(stock, hold);
        else if (hold->state == SEGMENT_TAKEN)
            group->leftover += hold->taken;
    }
}

/* Takes units until every order is filled or every segment has been tried. False when Redis is
 * lost: what is held by then is in doubt. */
static bool gather(struct stock *stock, struct batch *batch)
{
    for (;;) {
        size_t first_hold = stock->hold_count;
        for (size_t i = 0; i < batch->group_count; i++)
            if (!batch->groups[i].stale)
                plan_segments(stock, &batch->groups[i]);
        if (stock->hold_count == first_hold)
            return true;
        bool alive = stock_run_calls(stock);
        for (size_t i = first_hold; i < stock->hold_count; i++)
            segment_read_take(stock, &stock->holds[i]);
        if (!alive)
            return false;
        for (size_t i = 0; i < batch->group_count; i++) {
            sort_out(stock, &batch->groups[i], first_hold);
            recover_group(stock, &batch->groups[i], first_hold);
            group_fill(stock, batch, &batch->groups[i]);
        }
    }
}

/* Redis was lost: gives up what is held, without settling. The next holder finds the segments dirty
 * and recovers them; releasing them spares it waiting for the leases. */
static void abandon(struct stock *stock)
{
    for (size_t i = 0; i < stock->hold_count; i++)
        if (stock->holds[i].state == SEGMENT_TAKEN || stock->holds[i].state == SEGMENT_DOUBT ||
            stock->holds[i].state == SEGMENT_DIRTY)
            segment_post_release(stock, &stock->holds[i]);
}

/* ---- commit ---- */

/* Settles every hold by what became of the commit: at its own fence when the ledger moved it, else
 * at that of its last settled round. */
static void settle_all(struct stock *stock, const struct batch *batch, bool committed)
{
    for (size_t i = 0; i < stock->hold_count; i++) {
        struct segment_hold *hold = &stock->holds[i];
        if (hold->state != SEGMENT_TAKEN)
            continue;
        if (!committed && batch_refused(batch, hold)) {
            sale_hint_set(hold->sale, hold->segment, 1); /* dirty: to be looked at, not skipped */
            segment_post_release(stock, hold);
        } else if (committed && hold->used > 0) {
            segment_post_settle(stock, hold, hold->lock.fence, hold->taken - hold->used);
        } else {
            segment_give_back(stock, hold);
        }
    }
}

static void pause_ms(int ms)
{
    struct timespec span = {.tv_nsec = ms * 1000000L};
    nanosleep(&span, NULL);
}

/* Asks the ledger what became of a commit whose answer was lost. */
static enum ledger_result resolve(struct stock *stock, struct batch *batch)
{
    int64_t until_ns = stock_now_ns() + (int64_t)stock->options.resolve_ms * 1000000;
    stock->stats.unknown_commits++;
    for (;;) {
        enum ledger_result result =
            ledger_resolve(stock->ledger, &batch->moves[0], batch->rows[0].order_id);
        if (result != LEDGER_FAILED)
            return result;
        if (stock_now_ns() > until_ns)
            return LEDGER_UNKNOWN;
        pause_ms(RESOLVE_PAUSE_MS);
    }
}

/* Somebody wrote one of the keys first: those orders are answered with his, the others go on.
 * False when it was not a key (an order id that is taken), or the ledger cannot be asked. */
static bool drop_replayed(struct stock *stock, struct batch *batch)
{
    struct stock_order *orders[STOCK_BATCH_MAX];
    size_t count = batch_filled(batch, orders);
    bool dropped = false;
    bool asked = replay_find(stock, orders, count);
    for (size_t i = 0; i < batch->item_count; i++)
        if (batch->items[i].piece_count > 0 && batch->items[i].order->outcome != STOCK_OPEN) {
            item_unfill(batch, &batch->items[i]);
            dropped = true;
        }
    return asked && dropped;
}

static enum ledger_result commit_once(struct stock *stock, struct batch *batch)
{
    batch_write(stock, batch);
    if (batch->row_count == 0)
        return LEDGER_NO;
    int64_t start_ns = stock_now_ns();
    enum ledger_result result = ledger_commit(stock->ledger, batch->moves, batch->move_count,
                                              batch->rows, batch->row_count);
    stock->stats.ledger_calls++;
    stock->stats.ledger_calls_ns += (uint64_t)(stock_now_ns() - start_ns);
    if (result == LEDGER_NO)
        stock->stats.refusals++;
    return result;
}

static enum ledger_result commit(struct stock *stock, struct batch *batch)
{
    enum ledger_result result = LEDGER_DUPLICATE;
    for (int tries = 0; tries < COMMIT_TRIES_MAX && result == LEDGER_DUPLICATE; tries++) {
        result = commit_once(stock, batch);
        if (result == LEDGER_DUPLICATE && !drop_replayed(stock, batch))
            break;
    }
    if (result != LEDGER_UNKNOWN)
        return result;
    result = resolve(stock, batch);
    if (result == LEDGER_NO)
        batch->moves[0].refused = true; /* its fence was raised: the segment must be recovered */
    return result;
}

/* The ledger refused a move: perhaps for terms or a round that this process does not know yet. */
static void reload_refused(struct stock *stock, const struct batch *batch)
{
    struct sale *last = NULL;
    for (size_t i = 0; i < batch->move_count; i++) {
        struct sale *sale = batch->moved[i]->sale;
        if (batch->moves[i].refused && sale != last)
            stock_sale_reload(stock, sale_sku(sale), &sale);
        last = batch->moved[i]->sale;
    }
}

/* Carries out what the ledger said: outcomes for the filled orders, ends for the holds. */
static void finish(struct stock *stock, struct batch *batch, enum ledger_result result)
{
    switch (result) {
    case LEDGER_OK:
        batch_accept(batch);
        settle_all(stock, batch, true);
        break;
    case LEDGER_UNKNOWN:
        batch_decide(batch, STOCK_IN_DOUBT);
        abandon(stock);
        break;
    case LEDGER_FAILED:
        batch_fail(batch, ledger_ping(stock->ledger) == LEDGER_OK);
        settle_all(stock, batch, false);
        break;
    default: /* refused, or an id or key was taken: nothing was written */
        batch_decide(batch, STOCK_AGAIN);
        settle_all(stock, batch, false);
        reload_refused(stock, batch);
        break;
    }
}

/* ---- conclude ---- */

/* The ledger knows units where this process saw none: look there again, and recover what Redis
 * still calls empty. */
static uint32_t look_again(struct sale *sale, const struct ledger_segment *rows, size_t count)
{
    uint32_t left = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t units = rows[i].capacity - rows[i].sold;
        left += units;
        if (units > 0 && sale_hint(sale, rows[i].segment) == 0) {
            sale_hint_set(sale, rows[i].segment, units);
            sale_suspect(sale, rows[i].segment);
        }
    }
    return left;
}

static void conclude_group(struct stock *stock, struct group *group)
{
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    struct sale *sale = group->sale;
    size_t count = 0;
    if (ledger_segments(stock->ledger, sale_sku(sale), rows, &count) != LEDGER_OK) {
        group_fail(group, ledger_ping(stock->ledger) == LEDGER_OK);
        return;
    }
    if (rows[0].round != group->view.round || count != group->view.segments) {
        stock_sale_reload(stock, sale_sku(sale), &sale);
        group_decide(group, STOCK_AGAIN, UINT32_MAX);
        return;
    }
    uint32_t left = look_again(sale, rows, count);
    sale_remember_left(sale, group->view.epoch, left,
                       stock_now_ns() + (int64_t)stock->options.remember_left_ms * 1000000);
    group_decide(group, STOCK_AGAIN, left);
}

static void conclude(struct stock *stock, struct batch *batch)
{
    for (size_t i = 0; i < batch->group_count; i++) {
        struct group *group = &batch->groups[i];
        if (!group_open(group))
            continue;
        /* Who holds a busy segment may give units back, and will soon be gone; a holder that died
         * will not, so the ledger is asked in the end. */
        if (group->busy && !group->stale && (group_passes(group) + 1) % BUSY_PASSES != 0)
            group_decide(group, STOCK_AGAIN, UINT32_MAX);
        else
            conclude_group(stock, group);
    }
}

static void sell(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    struct batch *batch = stock->batch;
    stock->hold_count = 0;
    batch_begin(stock, batch, orders, count);
    if (!gather(stock, batch)) {
        abandon(stock);
        batch_lost(batch, redis_connect(stock->redis) == REDIS_ANSWERED);
        return;
    }
    if (batch_filled(batch, NULL) > 0)
        finish(stock, batch, commit(stock, batch));
    else
        settle_all(stock, batch, false);
    conclude(stock, batch);
}

const struct stock_strategy stock_segment_lock = {.name = "segment_lock", .sell = sell};
