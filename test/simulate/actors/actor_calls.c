/* The calls of shops and of the expiry worker: pay, cancel, expire. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "stock/returns/returns.h"
#include "stock/sales/sales.h"
#include "stock/stock.h"
#include "test/simulate/promise.h"
#include "test/simulate/story.h"
#include "test/simulate/tally.h"
#include "test/simulate/world.h"

enum { STEPS_MAX = 7, CHANGES_MAX = 3, WAIT_MS = 300, COUNT_MS = 100, PERIOD_US = 20000 };

static void change_states(struct stock *stock, struct chance *chance, bool pay)
{
    struct stock_status_change changes[CHANGES_MAX];
    size_t count = 1 + chance_below(chance, CHANGES_MAX);
    memset(changes, 0, sizeof changes);
    for (size_t i = 0; i < count; i++)
        changes[i].record.order_id = promise_pick_order(chance);
    if (pay)
        stock_pay(stock, changes, count, WAIT_MS);
    else
        stock_cancel(stock, changes, count, WAIT_MS);
    for (size_t i = 0; i < count; i++)
        promise_state(&changes[i], pay ? "paid" : "cancelled");
}

static void expire(struct stock *stock)
{
    struct ledger_due_cursor cursor = {.more = false};
    struct stock_expired expired;
    stock_count(stock, clock_now_ns() + COUNT_MS * CLOCK_NS_PER_MS);
    uint64_t ended = 0;
    stock_round_end(stock, clock_now_ns() + COUNT_MS * CLOCK_NS_PER_MS, &ended);
    stock_expire(stock, &cursor, &expired);
    tally_add("order expired", expired.count);
    story("  %zu orders have expired", expired.count);
}

static void act(struct stock *stock, struct chance *chance)
{
    switch (chance_below(chance, 6)) {
    case 0:
        change_states(stock, chance, true);
        break;
    case 1:
        expire(stock);
        break;
    default:
        change_states(stock, chance, false);
        break;
    }
}

void actor_calls(void *argument)
{
    struct chance chance = chance_stream(200 + (uint64_t)(intptr_t)argument * 1000 +
                                         task_current()->process->incarnation);
    struct stock *stock = world_stock(&chance);
    uint32_t steps = 1 + chance_below(&chance, STEPS_MAX);
    for (uint32_t i = 0; i < steps && !world.settling; i++) {
        struct chance before = chance;
        clock_sleep_ns((int64_t)chance_below(&chance, PERIOD_US) * 1000);
        if (world.pay_within_s > 0 && chance_below(&chance, 4) == 0)
            clock_sleep_ns((int64_t)chance_below(&chance, 1500) * CLOCK_NS_PER_MS);
        if (chance_step())
            act(stock, &chance);
        chance.state = before.state + 12345;
    }
    stock_flush(stock);
}
