/* Sells by counters in Redis without locks: the strategies `atomic` and `optimistic`.
 *
 *   orders ─► groups by sku ─► take: plan segments ─► Redis: take ─► fill orders ───┐
 *                                 ▲                                                  │
 *                                 └── empty, recovered: more segments ◄──────────────┘
 *             ─► commit: one ledger transaction for all segments and orders
 *             ─► give back what was not sold
 *             ─► conclude: for orders that got nothing, ask the ledger what is left
 *
 * the_epoch: a segment's settled fence stays as it is while it is sold in this way, and changes
 * whenever its counter is set again from the ledger. The ledger takes an order only from the fence
 * at which its units were taken, and units come back to the counter only at that fence. So each
 * unit that was under way at a recovery is counted once: in the ledger, if it was committed before,
 * else by the recovery, which then has forbidden the commit.
 *
 * Units that a process had taken when it died are missing from the counter until a recovery;
 * nothing marks the segment (see README.md). */
#include "stock/orders/orders.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "lua/command.h"

/* Passes during which units that only the ledger has may still come back. */
enum { IN_FLIGHT_PASSES = 16 };

/* Writes the key of the hold's segment into `key_out` (SCRIPT_KEY_MAX bytes). */
static void counter_key(const struct segment_hold *hold, char *key_out)
{
    char name[SECLOCK_NAME_MAX];
    segment_name(sale_sku(hold->sale), hold->segment, name);
    lock_redis_key(STOCK_PREFIX, name, "segment", key_out);
}

/* Begins a hold whose units are taken later. */
static void counter_begin(struct segment_hold *hold, struct sale *sale,
                          const struct sale_snapshot *snapshot, uint32_t segment, uint32_t wanted)
{
    assert(wanted > 0 && segment < snapshot->segments);
    segment_begin(hold, sale, snapshot, segment);
    hold->wanted = wanted;
}

/* Notes the answer to a take: `taken` units at the fence `settled`; `left` stay in the counter. */
static void counter_took(struct segment_hold *hold, uint32_t taken, uint64_t settled, uint32_t left)
{
    assert(hold->used == 0); /* no order has units of it yet */
    hold->taken = taken;
    hold->settled = settled;
    hold->left = left;
    hold->state = taken > 0 ? SEGMENT_TAKEN : SEGMENT_EMPTY;
    sale_hint_set(hold->sale, hold->segment, left);
}

/* ---- take ---- */

/* Posts the locks of the group's dirty segments; returns their number. */
static size_t post_locks(struct stock *stock, struct group *group, size_t first_hold,
                         struct segment_hold **locked_out)
{
    size_t count = 0;
    for (size_t i = first_hold; i < stock->hold_count; i++) {
        struct segment_hold *hold = &stock->holds[i];
        if (hold->sale != group->sale || hold->state != SEGMENT_DIRTY)
            continue;
        segment_post_take(stock, hold, hold->sale, &group->snapshot, hold->segment, 0);
        locked_out[count++] = hold;
    }
    return count;
}

/* Recovers the dirty segments. Their locks keep processes from recovering one segment at once; a
 * take of no units under the lock tells whether it still is dirty. False when Redis is lost. */
static bool recover(struct stock *stock, struct group *group, size_t first_hold)
{
    struct segment_hold *locked[STOCK_HOLDS_MAX];
    size_t count = post_locks(stock, group, first_hold, locked);
    if (count == 0)
        return true;
    bool alive = stock_run_calls(stock);
    for (size_t i = 0; i < count; i++)
        segment_read_take(stock, locked[i]);
    /* Reads all answers before it posts anything, which would overwrite them. */
    for (size_t i = 0; i < count; i++) {
        group->busy |= locked[i]->state == SEGMENT_BUSY;
        if (locked[i]->state == SEGMENT_EMPTY) /* another process has recovered it since */
            group_retry(group, locked[i]->segment);
        if (locked[i]->state != SEGMENT_DIRTY && locked[i]->lock.state != SECLOCK_STATE_RELEASED)
            segment_post_release(stock, locked[i]);
    }
    strategy_recover(stock, group, first_hold);
    return alive;
}

/* ---- end ---- */

/* Posts that units come back, or marks their counter as refused by the ledger: units of a refused
 * counter stay away, because its recovery counts them. */
static void post_return(struct stock *stock, const struct segment_hold *hold, uint32_t units,
                        const char *mark)
{
    char key[SCRIPT_KEY_MAX];
    assert(units == 0 || mark[0] == '\0');
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

/* Recovers the counters that the ledger refused, which are marked by now, because perhaps no batch
 * follows this one. */
static void recover_refused(struct stock *stock, struct batch *batch)
{
    for (size_t i = 0; i < batch->group_count; i++)
        recover(stock, &batch->groups[i], 0);
}

/* Gives back units that are certainly not sold, none that an unanswered commit may have sold. */
static void end_holds(struct stock *stock, struct batch *batch, enum ledger_result result)
{
    bool may_be_sold = result == LEDGER_OK || result == LEDGER_UNKNOWN;
    bool refused = false;
    for (size_t i = 0; i < stock->hold_count; i++) {
        struct segment_hold *hold = &stock->holds[i];
        if (hold->state != SEGMENT_TAKEN)
            continue;
        assert(hold->used <= hold->taken);
        uint32_t back = may_be_sold ? hold->taken - hold->used : hold->taken;
        if (!may_be_sold && hold->refused) {
            post_return(stock, hold, 0, "refused");
            hold->state = SEGMENT_DIRTY;
            refused = true;
        } else if (back > 0) {
            post_return(stock, hold, back, "");
        }
    }
    if (refused)
        recover_refused(stock, batch);
}

/* Units that the ledger has and the counters lack are either in flight and may come back, or leaked
 * by a process that died. After some passes with new tries they count as leaked. */
static void conclude(struct stock *stock, struct group *group)
{
    if (group->busy || group->stale || group->held || group_passes(group) < IN_FLIGHT_PASSES)
        strategy_conclude(stock, group);
    else
        group_decide(group, STOCK_SOLD_OUT, 0);
}

/* Decides a batch. `post` begins a hold, and `take` carries the begun holds out: each becomes
 * taken, empty, dirty, busy or in doubt. */
static void counter_sell(struct stock *stock, struct stock_order *const *orders, size_t count,
                         begin_hold *post, take_holds *take)
{
    struct batch *batch = batch_begin(stock, orders, count);
    if (!strategy_take(stock, batch, post, take, recover)) {
        end_holds(stock, batch, LEDGER_FAILED);
        batch_lost(stock, batch);
        return;
    }
    end_holds(stock, batch, strategy_commit(stock, batch));
    for (size_t i = 0; i < batch->group_count; i++)
        if (group_open(&batch->groups[i]))
            conclude(stock, &batch->groups[i]);
}

/* ---- atomic: one script checks and decrements a counter ---- */

enum { TOOK = 1 }; /* first number of stock_count.lua; 2 means dirty */

static void post_atomic(struct stock *stock, struct segment_hold *hold, struct sale *sale,
                        const struct sale_snapshot *snapshot, uint32_t segment, uint32_t wanted)
{
    char key[SCRIPT_KEY_MAX];
    assert(wanted > 0);
    counter_begin(hold, sale, snapshot, segment, wanted);
    counter_key(hold, key);
    hold->call = stock->call_count;
    struct script_call *call = stock_call(stock);
    script_begin(call, SCRIPT_stock_count);
    script_key(call, key);
    script_int(call, snapshot->round);
    script_int(call, wanted);
}

static void read_answer(struct segment_hold *hold, const struct script_call *call)
{
    if (call->result == REDIS_UNKNOWN)
        hold->state = SEGMENT_DOUBT; /* taken units are leaked: giving them back
                                      * could sell them twice if none was taken */
    else if (call->result != REDIS_ANSWERED)
        hold->state = SEGMENT_BUSY; /* certainly no units taken */
    else if (call->values[0] != TOOK || call->values[1] < 0 || call->values[1] > hold->wanted ||
             call->values[3] < 0 || call->values[3] > LEDGER_TOTAL_MAX)
        hold->state = SEGMENT_DIRTY;
    else
        counter_took(hold, (uint32_t)call->values[1], (uint64_t)call->values[2],
                     (uint32_t)call->values[3]);
}

static bool take_atomic(struct stock *stock, size_t first_hold)
{
    bool alive = stock_run_calls(stock);
    for (size_t i = first_hold; i < stock->hold_count; i++)
        read_answer(&stock->holds[i], &stock->calls[stock->holds[i].call]);
    return alive;
}

static void sell_atomic(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    counter_sell(stock, orders, count, post_atomic, take_atomic);
}

const struct stock_strategy strategy_atomic = {
    .name = "atomic",
    .guard = LEDGER_EPOCH,
    .batch_max = STOCK_BATCH_MAX,
    .sell = sell_atomic,
};

/* ---- optimistic: WATCH a counter, read it, set it by MULTI and EXEC; retry if others change it
 * ---- */

enum {
    TRIES_MAX = 20, /* lost swaps until the segment counts as busy */
    PAUSE_US_MAX = 500,
};

static void post_optimistic(struct stock *stock, struct segment_hold *hold, struct sale *sale,
                            const struct sale_snapshot *snapshot, uint32_t segment, uint32_t wanted)
{
    (void)stock;
    counter_begin(hold, sale, snapshot, segment, wanted);
}

/* Reads a hash's fields as numbers. False when stock_count.lua would not sell from it. */
static bool read_fields(const struct command *read, uint32_t round, int64_t *available_out,
                        uint64_t *settled_out)
{
    size_t open = 0;
    *available_out = command_int(read, 0);
    *settled_out = (uint64_t)command_int(read, 3);
    bool there =
        command_text(read, 0, NULL) && command_text(read, 2, &open) && command_text(read, 3, NULL);
    return there && open == 0 && command_int(read, 1) == round && *available_out >= 0;
}

/* Sets the watched counter. SEGMENT_BUSY: another client has changed it since it was read. */
static enum segment_state swap(struct redis *redis, const char *key, int64_t available)
{
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, available);
    struct command commands[] = {
        {.argc = 1, .argv = {"MULTI"}},
        {.argc = 4, .argv = {"HSET", key, "available", number}},
        {.argc = 1, .argv = {"EXEC"}},
    };
    command_run(redis, commands, 3);
    enum redis_result result = commands[2].result;
    bool done = result == REDIS_ANSWERED && command_count(&commands[2]) >= 0;
    command_clear(commands, 3);
    if (result == REDIS_UNKNOWN)
        return SEGMENT_DOUBT;
    return done ? SEGMENT_TAKEN : SEGMENT_BUSY;
}

static void take_once(struct redis *redis, struct segment_hold *hold)
{
    char key[SCRIPT_KEY_MAX];
    int64_t available = 0;
    uint64_t settled = 0;
    counter_key(hold, key);
    struct command commands[] = {
        {.argc = 2, .argv = {"WATCH", key}},
        {.argc = 6, .argv = {"HMGET", key, "available", "round", "open", "settled"}},
    };
    command_run(redis, commands, 2);
    bool answered = commands[1].result == REDIS_ANSWERED;
    bool sound = answered && read_fields(&commands[1], hold->round, &available, &settled);
    command_clear(commands, 2);
    assert(hold->wanted > 0);
    uint32_t taken = available < hold->wanted ? (uint32_t)available : hold->wanted;
    if (!answered)
        hold->state = SEGMENT_BUSY; /* certainly no units taken */
    else if (!sound)
        hold->state = SEGMENT_DIRTY;
    else
        hold->state = taken > 0 ? swap(redis, key, available - taken) : SEGMENT_EMPTY;
    assert(hold->state != SEGMENT_POSTED);
    if (hold->state == SEGMENT_TAKEN || hold->state == SEGMENT_EMPTY)
        counter_took(hold, taken, settled, (uint32_t)available - taken);
}

static void take_one(struct stock *stock, struct segment_hold *hold)
{
    take_once(stock->redis, hold);
    for (int tries = 1; tries < TRIES_MAX && hold->state == SEGMENT_BUSY; tries++) {
        if (!script_alive(stock->redis))
            return;
        clock_sleep_ns(INT64_C(1000) * stock_random(stock, PAUSE_US_MAX));
        take_once(stock->redis, hold);
    }
}

static bool take_optimistic(struct stock *stock, size_t first_hold)
{
    stock_flush(stock); /* makes the last batch's returned units available */
    int64_t start_ns = clock_now_ns();
    for (size_t i = first_hold; i < stock->hold_count; i++)
        take_one(stock, &stock->holds[i]);
    stock->stats.redis_calls++;
    stock->stats.redis_calls_ns += (uint64_t)(clock_now_ns() - start_ns);
    return script_alive(stock->redis);
}

static void sell_optimistic(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    counter_sell(stock, orders, count, post_optimistic, take_optimistic);
}

const struct stock_strategy strategy_optimistic = {
    .name = "optimistic",
    .guard = LEDGER_EPOCH,
    .batch_max = STOCK_BATCH_MAX,
    .asks_rates_first = true,
    .sell = sell_optimistic,
};
