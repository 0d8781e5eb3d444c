/* After the last fault: what is overdue must expire, an order be cancelled, what is left be sold
 * at once, and the sale be retired and made anew, each within a bounded number of tries. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "stock/returns/returns.h"
#include "stock/sales/sales.h"
#include "stock/stock.h"
#include "test/simulate/daemon/daemon.h"
#include "test/simulate/promise_pay.h"
#include "test/simulate/promise_request.h"
#include "test/simulate/servers/redis_server.h"
#include "test/simulate/story.h"
#include "test/simulate/tally.h"
#include "test/simulate/world.h"

enum {
    TRIES_MAX = 250,
    PAUSE_MS = 20,
    COUNT_MS = 1000,
    WAIT_MS = 300,
    PAY_MS = 20,
    CANCEL_MS = 5, /* its tries take memory, which a schedule has little of */
    TOLD_MAX = 4,  /* tries */
    PAYMENTS = 3,  /* told together */
};

static void wait_a_moment(void)
{
    clock_sleep_ns(PAUSE_MS * CLOCK_NS_PER_MS);
}

/* Makes a sale anew that was retired. A commit in doubt may be done: the next look tells. */
static void create_sale(struct stock *stock, const char *sku)
{
    struct stock_reset reset;
    struct ledger_sale sale;
    struct ledger_round_use use = {.units = 0};
    uint64_t ended = 0;
    world_first(sku, &reset);
    promise_reset_begin(sku, "");
    enum stock_admin_result result = stock_reset(stock, &reset, WAIT_MS, &sale, &use, &ended);
    promise_reset_end(sku, result == STOCK_ADMIN_OK, result == STOCK_ADMIN_IN_DOUBT);
    story("  %s is made anew: %d", sku, (int)result);
}

static void open_sale(struct stock *stock, const char *sku)
{
    struct stock_change change = {.fields = STOCK_CHANGE_STARTS | STOCK_CHANGE_ENDS |
                                            STOCK_CHANGE_LIMIT | STOCK_CHANGE_PAUSED |
                                            STOCK_CHANGE_PAY | STOCK_CHANGE_LATE};
    struct ledger_sale sale;
    for (int i = 0; i < TRIES_MAX; i++) {
        enum stock_admin_result result = stock_change(stock, sku, &change, &sale);
        if (result == STOCK_ADMIN_OK &&
            stock_count(stock, clock_now_ns() + COUNT_MS * CLOCK_NS_PER_MS) == LEDGER_NO)
            return;
        if (result == STOCK_ADMIN_NO_SALE)
            create_sale(stock, sku);
        wait_a_moment();
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
        wait_a_moment();
    }
    promise_break("the rounds before do not end although no fault strikes any more");
}

static void expire_overdue(struct stock *stock, const char *sku)
{
    for (int i = 0; i < TRIES_MAX && promise_reserved(sku, true) != 0; i++) {
        struct ledger_due_cursor cursor = {.more = false};
        struct stock_expired expired;
        if (i > 0)
            wait_a_moment();
        if (!scene.daemons) /* their expiry workers do it */
            stock_expire(stock, &cursor, &expired);
    }
    if (promise_reserved(sku, true) != 0)
        promise_break("order %llu does not expire although no fault strikes any more",
                      (unsigned long long)promise_reserved(sku, true));
}

static bool cancel(struct stock *stock, uint64_t order_id)
{
    struct stock_status_change change;
    memset(&change, 0, sizeof change);
    for (int i = 0; i < TRIES_MAX; i++) {
        if (i > 0)
            wait_a_moment();
        change.record.order_id = order_id;
        change.payment.ref = NULL;
        stock_cancel(stock, &change, 1, CANCEL_MS);
        promise_state(&change, "cancelled");
        if (change.result == STOCK_STATE_OK || change.result == STOCK_STATE_REFUSED)
            return true;
    }
    promise_break("order %llu cannot be cancelled although no fault strikes any more",
                  (unsigned long long)order_id);
    return false;
}

/* One try of an order by a stock of the closing's own. */
static enum stock_outcome try_order(struct stock *stock, const char *sku, uint32_t qty)
{
    struct stock_order order = {.qty = qty};
    struct stock_order *orders[] = {&order};
    strcpy(order.sku, sku);
    strcpy(order.user_id, "closer");
    order.order_id = ++world.order_id;
    order.created_ms = clock_wall_ms();
    struct given *given = promise_give(&order);
    stock_sell(stock, orders, 1);
    stock_flush(stock);
    promise_answer(given, &order);
    stock_order_clear(&order);
    return order.outcome;
}

/* The same by one of the daemons that went through the faults; "": without a key. */
static enum stock_outcome ask_daemon(const char *sku, uint32_t qty, const char *key)
{
    struct process *process = process_at(world.order_id++ % (uint64_t)world.processes);
    struct asked *asked = promise_ask(process, daemon_plan.deadline_ms);
    strcpy(asked->sku, sku);
    strcpy(asked->user_id, "closer");
    strcpy(asked->key, key);
    asked->qty = qty;
    if (!front_ask(process, asked)) {
        promise_unasked(asked);
        return STOCK_OPEN;
    }
    front_await(asked);
    return asked->outcome == STOCK_REPLAYED ? STOCK_ACCEPTED : asked->outcome;
}

/* Tries an order until it has that outcome, or as often as that should take. */
static bool buy(struct stock *stock, const char *sku, uint32_t qty, enum stock_outcome wanted)
{
    enum stock_outcome outcome = STOCK_OPEN;
    char key[16] = "";
    /* A daemon that ends, or has little time, may leave an outcome unclear: then its client repeats
     * the order under its key. */
    if (wanted == STOCK_ACCEPTED && (daemon_plan.stops || daemon_plan.deadline_ms < 1000))
        snprintf(key, sizeof key, "c%llu", (unsigned long long)world.order_id);
    for (int i = 0; i < TRIES_MAX && outcome != wanted; i++) {
        if (i > 0)
            wait_a_moment();
        story_pause(i >= TOLD_MAX && i < TRIES_MAX - 1);
        outcome = scene.daemons ? ask_daemon(sku, qty, key) : try_order(stock, sku, qty);
    }
    story_pause(false);
    return outcome == wanted;
}

/* Counters may lack what a process took that died, until they are set again; so they may what a
 * request takes that arrives when its client has given up. */
static void reconcile(struct stock *stock, const char *sku)
{
    clock_sleep_ns(REDIS_SERVER_LATE_MS * CLOCK_NS_PER_MS);
    struct stock_report *report = malloc(sizeof *report);
    bool done = false;
    for (int i = 0; i < TRIES_MAX && !done; i++) {
        if (i > 0)
            wait_a_moment();
        done = stock_reconcile(stock, sku, WAIT_MS, report) == STOCK_ADMIN_OK && report->consistent;
    }
    if (!done)
        promise_break("%s cannot be reconciled although no fault strikes any more", sku);
    free(report);
}

/* Another daemon lets late payments have units, after this one has heard that the sale does not. */
static void let_late(struct stock *stock, const char *sku)
{
    struct stock_change change = {.fields = STOCK_CHANGE_LATE, .settings = {.refund_late = true}};
    struct ledger_sale sale;
    if (stock_change(stock, sku, &change, &sale) != STOCK_ADMIN_OK)
        return;
    sale.settings.refund_late = false;
    enum ledger_result result =
        ledger_settings_change(stock_ledger(stock), sku, &sale.settings, false);
    story("  late payments of %s have units again: %d", sku, (int)result);
    if (result != LEDGER_OK)
        open_sale(stock, sku);
}

/* The late payment comes first, and others with it. */
static void pick_payment(struct chance *chance, size_t i, uint64_t *order_id, const char **ref)
{
    if (i > 0)
        promise_pick_payment(chance, order_id, ref);
    promise_payment_begin(*order_id, *ref);
}

static void tell_stock(struct stock *stock, uint64_t order_id, struct chance *chance)
{
    struct stock_status_change changes[PAYMENTS];
    memset(changes, 0, sizeof changes);
    for (size_t i = 0; i < PAYMENTS; i++) {
        changes[i].record.order_id = order_id;
        changes[i].payment.ref = "late";
        changes[i].now_ms = clock_wall_ms();
        pick_payment(chance, i, &changes[i].record.order_id, &changes[i].payment.ref);
    }
    int64_t since_ns = clock_now_ns();
    stock_pay_late(stock, changes, PAYMENTS, PAY_MS);
    for (size_t i = 0; i < PAYMENTS; i++)
        promise_payment(&changes[i], since_ns);
}

static void tell_daemon(uint64_t order_id, struct chance *chance)
{
    struct process *process = process_at(world.order_id++ % (uint64_t)world.processes);
    struct asked *asked[PAYMENTS] = {NULL};
    for (size_t i = 0; i < PAYMENTS; i++) {
        const char *ref = "late";
        asked[i] = promise_ask(process, daemon_plan.deadline_ms);
        asked[i]->kind = ASKED_PAY;
        asked[i]->order_id = order_id;
        pick_payment(chance, i, &asked[i]->order_id, &ref);
        snprintf(asked[i]->ref, sizeof asked[i]->ref, "%s", ref);
        if (!front_ask(process, asked[i])) {
            promise_unasked(asked[i]);
            asked[i] = NULL;
        }
    }
    for (size_t i = 0; i < PAYMENTS; i++)
        if (asked[i])
            front_await(asked[i]);
}

/* A late payment is decided; its order gets its units if there are any. */
static void pay_late(struct stock *stock, const char *sku, bool present, struct chance *chance)
{
    uint64_t order_id = promise_expired(sku, present);
    if (order_id == 0)
        return;
    if (present && scene.counters)
        reconcile(stock, sku);
    if (present && chance_below(chance, 2) == 0)
        let_late(stock, sku);
    for (int i = 0; i < TRIES_MAX; i++) {
        if (i > 0)
            wait_a_moment();
        story_pause(i >= TOLD_MAX && i < TRIES_MAX - 1);
        if (scene.daemons)
            tell_daemon(order_id, chance);
        else
            tell_stock(stock, order_id, chance);
        story_pause(false);
        if (promise_is_decided(order_id, "late")) {
            tally(present ? "late payment at last" : "late payment of a retired sale");
            return;
        }
    }
    promise_break(
        "the late payment of order %llu is not decided although no fault strikes any more",
        (unsigned long long)order_id);
}

static void sell_rest(struct stock *stock, const char *sku, struct chance *chance)
{
    if (scene.counters)
        reconcile(stock, sku);
    uint32_t left = promise_left(sku);
    story("  %u units of %s are left", left, sku);
    if (left > 1 && chance_below(chance, 4) == 0 && !buy(stock, sku, left / 2, STOCK_ACCEPTED))
        promise_break("%u of %u units that exist cannot be bought", left / 2, left);
    left = promise_left(sku);
    if (left > 0 && !buy(stock, sku, left, STOCK_ACCEPTED))
        promise_break("%u units that exist cannot be bought", left);
    if (promise_left(sku) == 0 && !buy(stock, sku, 1, STOCK_SOLD_OUT))
        promise_break("the sale is sold out, and does not say so");
}

/* The sale ends, and begins anew. */
static void retire(struct stock *stock, const char *sku, struct chance *chance)
{
    struct ledger_sale sale;
    struct ledger_held held;
    enum stock_admin_result result = STOCK_ADMIN_BUSY;
    for (uint64_t id; (id = promise_reserved(sku, false)) != 0 && cancel(stock, id);)
        continue;
    for (int i = 0; i < TRIES_MAX && result != STOCK_ADMIN_OK; i++) {
        if (i > 0)
            wait_a_moment();
        result = stock_retire(stock, sku, true, WAIT_MS, &sale, &held);
        story("  retire %s: %d", sku, (int)result);
    }
    if (result == STOCK_ADMIN_OK)
        promise_retired(sku, sale.round);
    else
        promise_break("%s cannot be retired although no fault strikes any more", sku);
    if (!buy(stock, sku, 1, STOCK_UNKNOWN_SKU))
        promise_break("%s is retired, and its orders are not told so", sku);
    pay_late(stock, sku, false, chance);
    open_sale(stock, sku);
}

static void close_sale(struct stock *stock, const char *sku, struct chance *chance)
{
    open_sale(stock, sku);
    end_rounds(stock);
    expire_overdue(stock, sku);
    uint64_t reserved = promise_reserved(sku, false);
    if (reserved != 0 && chance_below(chance, 3) == 0)
        cancel(stock, reserved);
    if (chance_below(chance, 2) == 0)
        pay_late(stock, sku, true, chance);
    sell_rest(stock, sku, chance);
    if (chance_below(chance, 2) == 0 && !promise_broken())
        pay_late(stock, sku, true, chance); /* which finds nothing left, mostly */
    if (!world.retires || chance_below(chance, 3) > 0 || promise_broken())
        return;
    retire(stock, sku, chance);
    if (!promise_broken())
        sell_rest(stock, sku, chance);
}

void actor_closing(void *argument)
{
    struct chance chance = chance_stream(400);
    struct stock *stock = world_veteran(&chance);
    (void)argument;
    for (int i = 0; i < scene.sales && !promise_broken(); i++)
        close_sale(stock, SCENE_SKU(i), &chance);
}
