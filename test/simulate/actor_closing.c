/* After the last fault: what is left must be sold, in one order, within a bounded number of tries;
 * and then nobody gets any more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "stock/sale_count.h"
#include "stock/sale_round.h"
#include "stock/sale_settings.h"
#include "stock/sell.h"
#include "stock/stock.h"
#include "test/simulate/promise.h"
#include "test/simulate/story.h"
#include "test/simulate/world.h"

enum { TRIES_MAX = 250, PAUSE_MS = 20, COUNT_MS = 1000, TOLD_MAX = 4 /* tries */ };

static void open_sale(struct stock *stock)
{
    struct stock_change change = {.fields = STOCK_CHANGE_STARTS | STOCK_CHANGE_ENDS |
                                            STOCK_CHANGE_LIMIT | STOCK_CHANGE_PAUSED |
                                            STOCK_CHANGE_PAY};
    struct ledger_sale sale;
    for (int i = 0; i < TRIES_MAX; i++) {
        enum stock_admin_result result = stock_change(stock, SCENE_SKU, &change, &sale);
        if (result == STOCK_ADMIN_OK &&
            stock_count(stock, clock_now_ns() + COUNT_MS * CLOCK_NS_PER_MS) == LEDGER_NO)
            return;
        clock_sleep_ns(PAUSE_MS * CLOCK_NS_PER_MS);
    }
    promise_break("the sale cannot be opened although no fault strikes any more");
}

static void end_rounds(struct stock *stock)
{
    uint64_t ended = 0;
    for (int i = 0; i < TRIES_MAX; i++) {
        if (stock_round_end(stock, clock_now_ns() + COUNT_MS * CLOCK_NS_PER_MS, &ended) ==
            LEDGER_NO)
            return;
        clock_sleep_ns(PAUSE_MS * CLOCK_NS_PER_MS);
    }
    promise_break("the rounds before do not end although no fault strikes any more");
}

/* Tries an order until it has that outcome, or as often as that should take. */
static bool buy(struct stock *stock, uint32_t qty, enum stock_outcome wanted)
{
    struct stock_order order = {.qty = qty};
    struct stock_order *orders[] = {&order};
    strcpy(order.sku, SCENE_SKU);
    strcpy(order.user_id, "closer");
    for (int i = 0; i < TRIES_MAX && order.outcome != wanted; i++) {
        if (i > 0)
            clock_sleep_ns(PAUSE_MS * CLOCK_NS_PER_MS);
        story_pause(i >= TOLD_MAX && i < TRIES_MAX - 1);
        order.order_id = ++world.order_id;
        order.created_ms = clock_wall_ms();
        struct given *given = promise_give(&order);
        stock_sell(stock, orders, 1);
        stock_flush(stock);
        promise_answer(given, &order);
        stock_order_clear(&order);
    }
    story_pause(false);
    return order.outcome == wanted;
}

void actor_closing(void *argument)
{
    struct chance chance = chance_stream(400);
    struct stock *stock = world_stock(&chance);
    (void)argument;
    open_sale(stock);
    end_rounds(stock);
    uint32_t left = promise_left();
    story("  %u units are left", left);
    if (left > 1 && chance_below(&chance, 4) == 0 && !buy(stock, left / 2, STOCK_ACCEPTED))
        promise_break("%u of %u units that exist cannot be bought", left / 2, left);
    left = promise_left();
    if (left > 0 && !buy(stock, left, STOCK_ACCEPTED))
        promise_break("%u units that exist cannot be bought", left);
    if (promise_left() == 0 && !buy(stock, 1, STOCK_SOLD_OUT))
        promise_break("the sale is sold out, and does not say so");
}
