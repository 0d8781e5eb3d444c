/* The calls of shops and of the expiry worker: pay, cancel, refund, unpay, extend, expire. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "stock/returns/returns.h"
#include "stock/sales/sales.h"
#include "stock/stock.h"
#include "test/simulate/actors/pay_pick.h"
#include "test/simulate/promise_pay.h"
#include "test/simulate/story.h"
#include "test/simulate/tally.h"
#include "test/simulate/world.h"

enum {
    STEPS_MAX = 7,
    CHANGES_MAX = 3,
    WAIT_MS = 300,
    COUNT_MS = 100,
    PERIOD_US = 20000,
    TOGETHER_US = 8000
};

static void begin_payments(const struct stock_status_change *changes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (changes[i].payment.ref && changes[i].payment.ref[0] != '\0')
            promise_payment_begin(changes[i].record.order_id, changes[i].payment.ref);
}

static void check_paid(const struct stock_status_change *change, int64_t since_ns)
{
    promise_state(change, "paid");
    if (change->payment.ref[0] != '\0')
        promise_payment(change, since_ns);
}

static void check_cancelled(const struct stock_status_change *change, int64_t since_ns)
{
    (void)since_ns;
    if (change->keep > 0)
        promise_kept(change);
    else
        promise_state(change, "cancelled");
}

static const struct {
    void (*change)(struct stock *stock, struct stock_status_change *changes, size_t count,
                   int wait_ms);
    void (*check)(const struct stock_status_change *change, int64_t since_ns);
} kinds[PAY_KINDS] = {
    [PAY_PAY] = {stock_pay_late, check_paid},      [PAY_CANCEL] = {stock_cancel, check_cancelled},
    [PAY_REFUND] = {stock_refund, promise_refund}, [PAY_UNPAY] = {stock_unpay, promise_unpay},
    [PAY_EXTEND] = {stock_extend, promise_extend},
};

/* Some calls name an order more than once. */
static void change_states(struct stock *stock, struct chance *chance, enum pay_kind kind)
{
    struct stock_status_change changes[CHANGES_MAX];
    char refs[CHANGES_MAX][PAY_REF_SIZE];
    size_t count = 1 + chance_below(chance, CHANGES_MAX);
    for (size_t i = 0; i < count; i++) {
        pay_pick(chance, kind, &changes[i], refs[i]);
        if (i > 0 && chance_below(chance, 3) == 0)
            changes[i].record.order_id = changes[i - 1].record.order_id;
    }
    if (kind == PAY_PAY)
        begin_payments(changes, count);
    int64_t since_ns = loop_now_ns();
    kinds[kind].change(stock, changes, count, WAIT_MS);
    for (size_t i = 0; i < count; i++)
        kinds[kind].check(&changes[i], since_ns);
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
    bool late = chance_below(chance, 2) == 0 && promise_pick_status(chance, LEDGER_EXPIRED) != 1;
    uint32_t kind = late ? 2 : chance_below(chance, 13);
    if (kind < 2)
        expire(stock);
    else if (kind < 6)
        change_states(stock, chance, PAY_PAY);
    else
        change_states(stock, chance,
                      kind < 9    ? PAY_CANCEL
                      : kind < 11 ? PAY_REFUND
                      : kind < 12 ? PAY_UNPAY
                                  : PAY_EXTEND);
}

void actor_calls(void *argument)
{
    struct chance chance = chance_stream(200 + (uint64_t)(intptr_t)argument * 1000 +
                                         task_current()->process->incarnation);
    struct stock *stock = world_stock(&chance);
    uint32_t steps = 1 + chance_below(&chance, STEPS_MAX);
    for (uint32_t i = 0; i < steps && !world.settling; i++) {
        struct chance before = chance;
        int64_t us = chance_below(&chance, PERIOD_US);
        if (world.pay_within_s > 0 && chance_below(&chance, 4) == 0)
            clock_sleep_ns((int64_t)chance_below(&chance, 1500) * CLOCK_NS_PER_MS);
        if (us % 2 == 0) /* together with others */
            us = TOGETHER_US - (loop_now_ns() / 1000) % TOGETHER_US;
        clock_sleep_ns(us * 1000);
        if (chance_step())
            act(stock, &chance);
        chance.state = before.state + 12345;
    }
    stock_flush(stock);
}
