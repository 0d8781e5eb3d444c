/* The strategy of one script and no lock: check and decrement of a counter, then the insert. */
#include "stock/strategies/atomic.h"

#include <assert.h>

#include "sql/orders/ledger_commit.h"
#include "stock/orders/check_rate.h"
#include "stock/strategies/counter.h"

enum { TOOK = 1 }; /* first number of stock_count.lua; 2 is dirty */

static void post(struct stock *stock, struct segment_hold *hold, struct sale *sale,
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
        hold->state = SEGMENT_DOUBT; /* units that were taken are leaked: giving them back as well
                                      * could sell them twice, if they were not */
    else if (call->result != REDIS_ANSWERED)
        hold->state = SEGMENT_BUSY; /* certainly nothing taken */
    else if (call->values[0] != TOOK || call->values[1] < 0 || call->values[1] > hold->taken ||
             call->values[3] < 0 || call->values[3] > LEDGER_TOTAL_MAX)
        hold->state = SEGMENT_DIRTY;
    else
        counter_took(hold, (uint32_t)call->values[1], (uint64_t)call->values[2],
                     (uint32_t)call->values[3]);
}

static bool take(struct stock *stock, size_t first_hold)
{
    bool alive = rate_run(stock);
    for (size_t i = first_hold; i < stock->hold_count; i++)
        read_answer(&stock->holds[i], &stock->calls[stock->holds[i].call]);
    return alive;
}

static void sell(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    rate_post(stock, orders, count);
    counter_sell(stock, orders, count, post, take);
    rate_finish(stock);
}

const struct stock_strategy strategy_atomic = {
    .name = "atomic",
    .guard = LEDGER_EPOCH,
    .batch_max = STOCK_BATCH_MAX,
    .sell = sell,
};
