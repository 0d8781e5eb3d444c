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
#include "stock/outer.h"
#include "stock/steps.h"

/* Passes that met busy segments before the ledger is asked all the same. */
enum { BUSY_PASSES = 8 };

/* ---- gather ---- */

static void sort_out(struct stock *stock, struct group *group, size_t first_hold)
{
    for (size_t i = first_hold; i < stock->hold_count; i++) {
        struct segment_hold *hold = &stock->holds[i];
        if (hold->sale != group->sale)
            continue;
        bool lost = hold->state == SEGMENT_BUSY && hold->lock.state == SECLOCK_STATE_HELD;
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

/* Takes units until every order is filled or every segment has been tried. False when Redis, or the
 * server of the outer locks, is lost: what is held by then is in doubt. */
static bool gather(struct stock *stock, struct batch *batch)
{
    steps_post *post = stock->outer ? outer_post_take : segment_post_take;
    for (;;) {
        size_t first_hold = stock->hold_count;
        for (size_t i = 0; i < batch->group_count; i++)
            if (!batch->groups[i].stale)
                steps_plan(stock, &batch->groups[i], post);
        if (stock->hold_count == first_hold)
            return true;
        bool alive = stock_run_calls(stock);
        for (size_t i = first_hold; i < stock->hold_count; i++)
            if (stock->holds[i].state == SEGMENT_POSTED)
                segment_read_take(stock, &stock->holds[i]);
        if (!alive || outer_failed(stock))
            return false;
        for (size_t i = 0; i < batch->group_count; i++) {
            sort_out(stock, &batch->groups[i], first_hold);
            steps_recover(stock, &batch->groups[i], first_hold);
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

/* Carries out what the ledger said: outcomes for the filled orders, ends for the holds. */
static void finish(struct stock *stock, struct batch *batch, enum ledger_result result)
{
    steps_decide(stock, batch, result);
    if (result == LEDGER_UNKNOWN)
        abandon(stock);
    else
        settle_all(stock, batch, result == LEDGER_OK);
}

/* ---- conclude ---- */

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
            steps_conclude(stock, group);
    }
}

static void sell_batch(struct stock *stock, struct stock_order *const *orders, size_t count)
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
        finish(stock, batch, steps_commit(stock, batch, steps_write));
    else
        settle_all(stock, batch, false);
    conclude(stock, batch);
}

static void sell(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    sell_batch(stock, orders, count);
    if (stock->outer)
        outer_end(stock);
}

const struct stock_strategy stock_segment_lock = {
    .name = "segment_lock",
    .guard = LEDGER_CHAIN,
    .batch_max = STOCK_BATCH_MAX,
    .limits_ride = true,
    .sell = sell,
};
