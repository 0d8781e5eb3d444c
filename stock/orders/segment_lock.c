/* Sells by fenced segment locks: one round of lock, take, commit, settle for a whole batch.
 *
 *   orders ─► groups by sku ─► take: plan segments ─► Redis: lock · take ─► fill orders ───┐
 *                                 ▲                                                         │
 *                                 └── busy, empty, recovered: more segments ◄───────────────┘
 *             ─► commit: one ledger transaction for all segments and orders
 *             ─► settle and release, posted for the pipeline of the next batch; sent at once if
 *                this one held most of a sale's segments
 *             ─► conclude: for orders that got nothing, ask the ledger what is left
 *
 * why_commit_decides: only the ledger accepts an order. Whatever Redis loses or repeats, a
 * segment's row changes only from exactly the fence at which Redis was settled when the units were
 * taken. So the safety of the stock does not depend on this file; selling all of it does.
 *
 * why_in_doubt: when one node of a cluster is lost, only the holds that it had not answered are in
 * doubt: it may have locked and marked their segments. Nothing is sold from them, and their release
 * is posted: the next holder finds them open and recovers them. The batch goes on with the segments
 * of the other nodes. A slot that is being moved refuses calls, which have then certainly not run:
 * a refused lock is a busy segment, a refused take leaves the segment to the recovery, and a
 * refused settle or release leaves it locked until its lease ends, and then open. */
#include "stock/orders/orders.h"

#include <assert.h>

/* Passes that meet busy segments before the ledger is asked all the same. */
enum { BUSY_PASSES = 8 };

/* ---- take ---- */

/* Locks and takes for all sales of the batch in one round trip. False when Redis as a whole, or the
 * server of the guard locks, is lost: what the batch then holds is in doubt. */
static bool take(struct stock *stock, size_t first_hold)
{
    bool alive = stock_run_calls(stock);
    for (size_t i = first_hold; i < stock->hold_count; i++)
        if (stock->holds[i].state == SEGMENT_POSTED)
            segment_read_take(stock, &stock->holds[i]);
    return alive && !guard_lock_failed(stock);
}

/* Ends the holds that gave no units and recovers the dirty ones. */
static bool end_take(struct stock *stock, struct group *group, size_t first_hold)
{
    for (struct segment_hold *hold = group->first_hold; hold; hold = hold->group_next)
        if (hold >= &stock->holds[first_hold] && hold->state == SEGMENT_EMPTY)
            segment_post_release(stock, hold);
    strategy_recover(stock, group, first_hold);
    return true;
}

/* Releases the holds without settling, when it is unknown what Redis or the ledger has done. The
 * next holder recovers the dirty segments; the release spares it the wait for their leases. */
static void abandon(struct stock *stock)
{
    for (size_t i = 0; i < stock->hold_count; i++)
        if (stock->holds[i].state == SEGMENT_TAKEN || stock->holds[i].state == SEGMENT_DOUBT ||
            stock->holds[i].state == SEGMENT_DIRTY)
            segment_post_release(stock, &stock->holds[i]);
}

/* ---- commit ---- */

/* Recovers the segments whose updates the ledger refused: the ledger refutes what Redis said, so
 * nothing can be given back. The batch does so itself, under the locks that it still holds, because
 * perhaps no other batch follows. If the ledger cannot be asked, the segments are released dirty,
 * and the hint has the next batch try them. */
static void recover_refused(struct stock *stock, struct batch *batch)
{
    for (size_t i = 0; i < batch->group_count; i++) {
        struct segment_hold *hold = batch->groups[i].first_hold;
        for (; hold; hold = hold->group_next) {
            if (hold->state != SEGMENT_TAKEN || !hold->refused)
                continue;
            sale_hint_set(hold->sale, hold->segment, 1);
            hold->state = SEGMENT_DIRTY;
        }
        strategy_recover(stock, &batch->groups[i], 0);
    }
}

/* Settles every hold by the result of the commit: at its own fence when the ledger has updated the
 * segment, else at the fence of its last settled round; abandons holds in doubt. The calls are
 * posted only and travel with the next batch's locks. */
static void settle_all(struct stock *stock, struct batch *batch, bool committed)
{
    if (!committed)
        recover_refused(stock, batch);
    for (size_t i = 0; i < stock->hold_count; i++) {
        struct segment_hold *hold = &stock->holds[i];
        if (hold->state == SEGMENT_DOUBT)
            segment_post_release(stock, hold);
        if (hold->state != SEGMENT_TAKEN)
            continue;
        assert(!hold->refused);
        if (committed && hold->used > 0)
            segment_post_settle(stock, hold, hold->lock.fence, hold->taken - hold->used);
        else
            segment_give_back(stock, hold);
    }
    for (size_t i = 0; i < stock->hold_count; i++) /* leaves no lock behind */
        assert(stock->holds[i].state == SEGMENT_ENDED || stock->holds[i].state == SEGMENT_BUSY);
}

/* ---- conclude ---- */

/* Decides the orders that got no units. "Sold out" is never concluded from Redis alone. */
static void conclude(struct stock *stock, struct batch *batch)
{
    for (size_t i = 0; i < batch->group_count; i++) {
        struct group *group = &batch->groups[i];
        if (!group_open(group))
            continue;
        if (group->held) { /* the contents of those segments are not known */
            group_fail(group, true);
            continue;
        }
        /* The holder of a busy segment may give units back, and soon releases it. A dead holder
         * does neither, so the ledger is asked in the end. */
        if (group->busy && !group->stale && (group_passes(group) + 1) % BUSY_PASSES != 0)
            group_decide(group, STOCK_AGAIN, UINT32_MAX);
        else
            strategy_conclude(stock, group);
    }
}

/* True when the batch held most of a sale's segments. A worker that settles one batch and locks for
 * the next in one trip leaves others no moment, which matters if other segments are few. */
static bool held_most(const struct batch *batch)
{
    for (size_t i = 0; i < batch->group_count; i++) {
        const struct group *group = &batch->groups[i];
        size_t held = 0;
        for (const struct segment_hold *hold = group->first_hold; hold; hold = hold->group_next)
            held++;
        if (2 * held > group->snapshot.segments)
            return true;
    }
    return false;
}

static void sell(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    struct batch *batch = batch_begin(stock, orders, count);
    bool alive = strategy_take(
        stock, batch, stock->guard_lock ? guard_lock_post_take : segment_post_take, take, end_take);
    enum ledger_result result = alive ? strategy_commit(stock, batch) : LEDGER_UNKNOWN;
    /* After an unknown commit settle no hold, not even at its old fence: its units may be sold. */
    if (result == LEDGER_UNKNOWN)
        abandon(stock);
    else
        settle_all(stock, batch, result == LEDGER_OK);
    if (alive)
        conclude(stock, batch);
    else
        batch_lost(stock, batch);
    if (held_most(batch))
        stock_flush(stock);
    if (stock->guard_lock)
        guard_lock_end(stock);
}

const struct stock_strategy strategy_segment_lock = {
    .name = "segment_lock",
    .guard = LEDGER_CHAIN,
    .batch_max = STOCK_BATCH_MAX,
    .sell = sell,
};
