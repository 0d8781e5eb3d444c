/* The strategy of the ledger alone: a conditional UPDATE, and no Redis.
 *
 * why_hints_suffice: what this process last saw of the segments says where an UPDATE is worth
 * trying; its condition says whether the units are there. When it refuses, or nothing is to be seen
 * any more, the segments are read.
 *
 * Each change leaves the segment's fence one greater than it was, so that a strategy which sells by
 * the counters in Redis afterwards finds them out of date and recovers them. */
#include "stock/orders/orders.h"

/* Reads the group's segments: what they have left decides its open orders, and is the next hint. */
static void fetch(struct stock *stock, struct group *group)
{
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    size_t count = 0;
    if (strategy_fetch(stock, group, rows, &count))
        strategy_remember_left(stock, group, strategy_hint(group->sale, rows, count));
}

/* The hints follow what this process has sold; what others sell shows when an UPDATE is refused. */
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
    struct batch *batch = batch_begin(stock, orders, count);
    enum ledger_result result = LEDGER_OK;
    strategy_fill(stock, batch);
    if (batch_filled(batch, NULL) > 0)
        result = strategy_commit(stock, batch);

    if (result == LEDGER_OK)
        lower_hints(stock);
    for (size_t i = 0; i < batch->group_count; i++)
        if (result == LEDGER_NO || group_open(&batch->groups[i]))
            fetch(stock, &batch->groups[i]);
}

const struct stock_strategy strategy_database = {
    .name = "database",
    .guard = LEDGER_UNFENCED,
    .batch_max = STOCK_BATCH_MAX,
    .asks_rates_first = true,
    .sell = sell,
};
