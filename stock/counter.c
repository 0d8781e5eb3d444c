/* Selling by counters in Redis without locks: what `atomic` and `optimistic` have in common.
 *
 *   orders ─► groups by sku ─► gather: plan segments ─► Redis: take ─► fill orders ─┐
 *                                 ▲                                                  │
 *                                 └── counters read anew, recovered ◄────────────────┘
 *             ─► commit: one ledger transaction for all segments and orders
 *             ─► give back what was not sold
 *
 * the_epoch: a segment's settled fence stays as it is while it is sold in this way, and changes
 * whenever its counter is set again from the ledger. The ledger takes an order only from the fence
 * its units were taken at, and units come back to the counter only at that fence. So each unit that
 * was under way at a recovery is counted once: in the ledger, if it was committed before, else by
 * the recovery, which then has forbidden the commit.
 *
 * What a process that dies had taken is missing from the counter until a recovery; nothing marks it
 * (see README.md). */
#include "stock/counter.h"

#include <assert.h>

/* Passes in which units that only the ledger has may yet come back. */
enum { IN_FLIGHT_PASSES = 16 };

void counter_key(const struct segment_hold *hold, char *key_out)
{
    char name[SECLOCK_NAME_MAX];
    segment_name(sale_sku(hold->sale), hold->segment, name);
    lock_redis_key(STOCK_PREFIX, name, "segment", key_out);
}

void counter_begin(struct segment_hold *hold, struct sale *sale, const struct sale_view *view,
                   uint32_t segment, uint32_t wanted)
{
    segment_begin(hold, sale, view, segment);
    hold->taken = wanted;
}

void counter_took(struct segment_hold *hold, uint32_t taken, uint64_t settled, uint32_t left)
{
    hold->taken = taken;
    hold->settled = settled;
    hold->left = left;
    hold->state = taken > 0 ? SEGMENT_TAKEN : SEGMENT_EMPTY;
    sale_hint_set(hold->sale, hold->segment, left);
}

/* ---- gather ---- */

/* Recovers the dirty segments, under locks, which keep several from doing the same. */
static bool recover(struct stock *stock, struct group *group, size_t first_hold)
{
    bool found = false, alive = true;
    for (size_t i = first_hold; i < stock->hold_count; i++) {
        struct segment_hold *hold = &stock->holds[i];
        if (hold->sale != group->sale || hold->state != SEGMENT_DIRTY)
            continue;
        segment_post_take(stock, hold, hold->sale, &group->view, hold->segment, 0);
        found = true;
    }
    if (!found)
        return true;
    alive = stock_run_calls(stock);
    for (size_t i = first_hold; i < stock->hold_count; i++) {
        struct segment_hold *hold = &stock->holds[i];
        if (hold->sale != group->sale || hold->state != SEGMENT_POSTED)
            continue;
        segment_read_take(stock, hold);
        group->busy |= hold->state == SEGMENT_BUSY;
        if (hold->state == SEGMENT_EMPTY) /* locked, and found to be recovered already */
            group_retry(group, hold->segment);
        if (hold->state != SEGMENT_DIRTY && hold->lock.state != SECLOCK_STATE_RELEASED)
            segment_post_release(stock, hold);
    }
    steps_recover(stock, group, first_hold);
    return alive;
}

/* An order has each segment once: units of one that was taken from before, by its hint, join those.
 */
static void join(struct stock *stock, struct segment_hold *hold)
{
    for (struct segment_hold *old = stock->holds; old < hold; old++)
        if (old->state == SEGMENT_TAKEN && old->sale == hold->sale &&
            old->segment == hold->segment && old->settled == hold->settled) {
            old->taken += hold->taken;
            old->left = hold->left;
            hold->state = SEGMENT_ENDED;
            return;
        }
}

static void count_taken(struct stock *stock, struct group *group, size_t first_hold)
{
    for (size_t i = first_hold; i < stock->hold_count; i++) {
        struct segment_hold *hold = &stock->holds[i];
        if (hold->sale != group->sale)
            continue;
        group->busy |= hold->state == SEGMENT_BUSY;
        if (hold->state != SEGMENT_TAKEN)
            continue;
        group->leftover += hold->taken;
        if (group->looked)
            join(stock, hold);
    }
}

/* What a counter has, and 1 for one that has to be recovered first. */
static uint32_t units_in(const struct script_call *read, uint32_t round)
{
    bool clean = read->values[0] == 1 && read->values[2] == round && read->values[3] == 0;
    return clean && read->values[1] >= 0 ? (uint32_t)read->values[1] : 1;
}

/* Reads all counters of a group that found too little by its hints: others may have given units
 * back. False when Redis is lost. */
static bool read_counters(struct stock *stock, struct group *group)
{
    stock_flush(stock); /* units of our own that are on their way back */
    for (uint32_t i = 0; i < group->view.segments; i++) {
        char key[SCRIPT_KEY_MAX];
        struct script_call *call = stock_call(stock);
        counter_key(&(struct segment_hold){.sale = group->sale, .segment = i}, key);
        script_begin(call, SCRIPT_stock_read);
        script_key(call, key);
    }
    if (!stock_run_calls(stock))
        return false;
    for (uint32_t i = 0; i < group->view.segments; i++)
        sale_hint_set(group->sale, i, units_in(&stock->calls[i], group->view.round));
    group->tried = 0;
    group->looked = true;
    return true;
}

/* Lets the groups that still lack units begin again, once, by what the counters have now. False
 * when Redis is lost. */
static bool look_again(struct stock *stock, struct batch *batch, bool *again_out)
{
    bool alive = true;
    *again_out = false;
    for (size_t i = 0; i < batch->group_count && alive; i++) {
        struct group *group = &batch->groups[i];
        if (group->looked || group->stale || !group_open(group))
            continue;
        alive = read_counters(stock, group);
        *again_out = true;
    }
    return alive;
}

static bool gather(struct stock *stock, struct batch *batch, steps_post *post,
                   bool (*take)(struct stock *stock, size_t first_hold))
{
    for (;;) {
        size_t first_hold = stock->hold_count;
        for (size_t i = 0; i < batch->group_count; i++)
            if (!batch->groups[i].stale)
                steps_plan(stock, &batch->groups[i], post);
        if (stock->hold_count == first_hold) {
            bool again = false;
            if (!look_again(stock, batch, &again))
                return false;
            if (!again)
                return true;
            continue;
        }
        bool alive = take(stock, first_hold);
        for (size_t i = 0; i < batch->group_count; i++) {
            count_taken(stock, &batch->groups[i], first_hold);
            alive = alive && recover(stock, &batch->groups[i], first_hold);
            group_fill(stock, batch, &batch->groups[i]);
        }
        if (!alive)
            return false;
    }
}

/* ---- end ---- */

/* Posts that units come back, or that the ledger refused the counter they came from. */
static void post_return(struct stock *stock, const struct segment_hold *hold, uint32_t units,
                        const char *mark)
{
    char key[SCRIPT_KEY_MAX];
    struct script_call *call = stock_call(stock);
    counter_key(hold, key);
    script_begin(call, SCRIPT_stock_return);
    script_key(call, key);
    script_int(call, hold->round);
    script_int(call, (int64_t)hold->settled);
    script_int(call, units);
    script_text(call, mark);
    sale_hint_set(hold->sale, hold->segment, hold->left + (units > 0 ? units : 1));
}

/* Gives back what was taken and is certainly not sold. What an unanswered commit may have sold
 * stays away. */
static void end_holds(struct stock *stock, const struct batch *batch, enum ledger_result result)
{
    bool may_be_sold = result == LEDGER_OK || result == LEDGER_UNKNOWN;
    for (size_t i = 0; i < stock->hold_count; i++) {
        const struct segment_hold *hold = &stock->holds[i];
        if (hold->state != SEGMENT_TAKEN)
            continue;
        assert(hold->used <= hold->taken);
        uint32_t back = may_be_sold ? hold->taken - hold->used : hold->taken;
        if (!may_be_sold && batch_refused(batch, hold))
            post_return(stock, hold, 0, "refused");
        else if (back > 0)
            post_return(stock, hold, back, "");
    }
}

/* Where the ledger knows of units that the counters lack they are in flight, and may come back, or
 * have been leaked, and will not. */
static void conclude(struct stock *stock, struct group *group)
{
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    size_t count = 0;
    uint32_t left = 0;
    if (!steps_look(stock, group, rows, &count))
        return;
    for (size_t i = 0; i < count; i++)
        left += rows[i].capacity - rows[i].sold;
    if (group->busy || group_passes(group) < IN_FLIGHT_PASSES)
        steps_left(stock, group, left);
    else
        group_decide(group, STOCK_SOLD_OUT, 0);
}

void counter_sell(struct stock *stock, struct stock_order *const *orders, size_t count,
                  steps_post *post, bool (*take)(struct stock *stock, size_t first_hold))
{
    struct batch *batch = stock->batch;
    enum ledger_result result = LEDGER_FAILED;
    stock->hold_count = 0;
    batch_begin(stock, batch, orders, count);
    if (!gather(stock, batch, post, take)) {
        end_holds(stock, batch, LEDGER_FAILED);
        batch_lost(batch, redis_connect(stock->redis) == REDIS_ANSWERED);
        return;
    }
    if (batch_filled(batch, NULL) > 0) {
        result = steps_commit(stock, batch, steps_write);
        steps_decide(stock, batch, result);
    }
    end_holds(stock, batch, result);
    for (size_t i = 0; i < batch->group_count; i++)
        if (group_open(&batch->groups[i]))
            conclude(stock, &batch->groups[i]);
}
