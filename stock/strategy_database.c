/* The strategies of the ledger alone: a conditional UPDATE, or SELECT ... FOR UPDATE. No Redis.
 *
 * why_hints_suffice: what this process last saw of the segments says where an UPDATE is worth
 * trying; its condition says whether the units are there. When it refuses, or nothing is to be seen
 * any more, the segments are read.
 *
 * Each change leaves the segment's fence one greater than it was, so that whoever sells by the
 * counters in Redis afterwards finds them out of date and recovers them. */
#include <string.h>

#include "stock/strategy_common.h"

static void look(struct stock *stock, struct group *group)
{
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    size_t count = 0;
    if (steps_look(stock, group, rows, &count))
        steps_left(stock, group, steps_hint(group->sale, rows, count));
}

static void lower_hints(struct stock *stock)
{
    for (size_t i = 0; i < stock->hold_count; i++) {
        const struct segment_hold *hold = &stock->holds[i];
        uint32_t hint = sale_hint(hold->sale, hold->segment);
        sale_hint_set(hold->sale, hold->segment, hint > hold->used ? hint - hold->used : 0);
    }
}

static void sell(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    struct batch *batch = stock->batch;
    enum ledger_result result = LEDGER_OK;
    stock->hold_count = 0;
    batch_begin(stock, batch, orders, count);
    steps_fill(stock, batch);
    if (batch_filled(batch, NULL) > 0) {
        result = steps_commit(stock, batch, steps_write);
        steps_decide(stock, batch, result);
    }
    if (result == LEDGER_OK)
        lower_hints(stock);
    for (size_t i = 0; i < batch->group_count; i++)
        if (result == LEDGER_NO || group_open(&batch->groups[i]))
            look(stock, &batch->groups[i]);
}

/* ---- SELECT ... FOR UPDATE ---- */

/* Fills the orders of one sale from its segments as they are, while nobody else can change them. */
static void plan(void *context, const struct ledger_segment *rows, size_t count,
                 struct ledger_plan *plan_out)
{
    struct stock *stock = context;
    struct batch *batch = stock->batch;
    struct group *group = &batch->groups[0];
    stock->hold_count = 0;
    batch_unfill(batch);
    if (rows[0].round == group->snapshot.round && count == group->snapshot.segments) {
        steps_hint(group->sale, rows, count);
        steps_fill(stock, batch);
    }
    steps_prepare(stock, batch);
    *plan_out =
        (struct ledger_plan){batch->moves, batch->move_count, batch->rows, batch->row_count};
}

static enum ledger_result write_locked(struct stock *stock, struct batch *batch)
{
    int64_t start_ns = stock_now_ns();
    enum ledger_result result =
        ledger_commit_locked(stock->ledger, sale_sku(batch->groups[0].sale), plan, stock);
    stock->stats.ledger_calls++;
    stock->stats.ledger_calls_ns += (uint64_t)(stock_now_ns() - start_ns);
    return result;
}

static void sell_sku(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    struct batch *batch = stock->batch;
    batch_begin(stock, batch, orders, count);
    if (batch->group_count == 0)
        return;
    enum ledger_result result = steps_commit(stock, batch, write_locked);
    if (result == LEDGER_FAILED) /* perhaps before anything could be planned */
        batch_lost(batch, ledger_ping(stock->ledger) == LEDGER_OK);
    else
        steps_decide(stock, batch, result);
    if (group_open(&batch->groups[0]))
        look(stock, &batch->groups[0]);
}

/* A transaction for each sale in the batch. */
static void sell_for_update(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct stock_order *same[STOCK_BATCH_MAX];
        size_t found = 0;
        for (size_t j = i; j < count; j++)
            if (orders[j]->outcome == STOCK_OPEN && !orders[j]->twin &&
                strcmp(orders[j]->sku, orders[i]->sku) == 0)
                same[found++] = orders[j];
        if (found > 0)
            sell_sku(stock, same, found);
    }
}

const struct stock_strategy stock_database = {
    .name = "database",
    .guard = LEDGER_UNFENCED,
    .batch_max = STOCK_BATCH_MAX,
    .sell = sell,
};

const struct stock_strategy stock_database_for_update = {
    .name = "database_for_update",
    .guard = LEDGER_UNFENCED,
    .batch_max = STOCK_BATCH_MAX,
    .sell = sell_for_update,
};
