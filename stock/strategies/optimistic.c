/* The strategy of compare and swap: WATCH a counter, read it, set it by MULTI and EXEC, again while
 * others change it in between; then the insert. */
#include "stock/strategies/optimistic.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lua/command.h"
#include "lua/script.h"
#include "sql/orders/ledger_commit.h"
#include "stock/orders/check_rate.h"
#include "stock/strategies/counter.h"

enum {
    TRIES_MAX = 20, /* swaps lost to others before the segment counts as busy */
    PAUSE_US_MAX = 500,
};

static void post(struct stock *stock, struct segment_hold *hold, struct sale *sale,
                 const struct sale_snapshot *snapshot, uint32_t segment, uint32_t wanted)
{
    (void)stock;
    counter_begin(hold, sale, snapshot, segment, wanted);
}

/* Reads a hash's fields as numbers. False when the segment cannot be sold from; stock_count.lua has
 * the same conditions. */
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

/* Sets the watched counter. SEGMENT_BUSY: somebody else has changed it since it was read. */
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

static void take_once(struct redis *redis, struct segment_hold *hold, uint32_t wanted)
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
    assert(wanted > 0);
    uint32_t taken = available < wanted ? (uint32_t)available : wanted;
    if (!answered)
        hold->state = SEGMENT_BUSY; /* certainly nothing taken */
    else if (!sound)
        hold->state = SEGMENT_DIRTY;
    else
        hold->state = taken > 0 ? swap(redis, key, available - taken) : SEGMENT_EMPTY;
    if (hold->state == SEGMENT_TAKEN || hold->state == SEGMENT_EMPTY)
        counter_took(hold, taken, settled, (uint32_t)available - taken);
}

static void take_one(struct stock *stock, struct segment_hold *hold)
{
    uint32_t wanted = hold->taken;
    take_once(stock->redis, hold, wanted);
    for (int tries = 1; tries < TRIES_MAX && hold->state == SEGMENT_BUSY; tries++) {
        if (!script_alive(stock->redis))
            return;
        clock_sleep_ns(INT64_C(1000) * stock_random(stock, PAUSE_US_MAX));
        take_once(stock->redis, hold, wanted);
    }
}

static bool take(struct stock *stock, size_t first_hold)
{
    int64_t start_ns;
    stock_run_posted(stock); /* what the last batch gives back is there for this one */
    start_ns = clock_now_ns();
    for (size_t i = first_hold; i < stock->hold_count; i++)
        take_one(stock, &stock->holds[i]);
    stock->stats.redis_calls++;
    stock->stats.redis_calls_ns += (uint64_t)(clock_now_ns() - start_ns);
    return script_alive(stock->redis);
}

static void sell(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    rate_ask(stock, orders, count);
    counter_sell(stock, orders, count, post, take);
}

const struct stock_strategy strategy_optimistic = {
    .name = "optimistic",
    .guard = LEDGER_EPOCH,
    .batch_max = STOCK_BATCH_MAX,
    .sell = sell,
};
