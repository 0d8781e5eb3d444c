/* The calls of an operator: units added, settings changed, a new round, a reconciliation,
 * the end of a sale. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "stock/returns/returns.h"
#include "stock/sales/sales.h"
#include "stock/stock.h"
#include "test/simulate/promise_pay.h"
#include "test/simulate/story.h"
#include "test/simulate/tally.h"
#include "test/simulate/world.h"

enum {
    STEPS_MAX = 4,
    WAIT_MS = 300,
    PERIOD_US = 40000,
    UNITS_MAX = 4,
    DECIDED_MAX = 12,
    LATE_MS = 2500
};

static const char *result_name(enum stock_admin_result result)
{
    static const char *const names[] = {
        [STOCK_ADMIN_OK] = "done",           [STOCK_ADMIN_NO_SALE] = "no sale",
        [STOCK_ADMIN_BUSY] = "busy",         [STOCK_ADMIN_FAILED] = "failed",
        [STOCK_ADMIN_IN_DOUBT] = "in doubt", [STOCK_ADMIN_IN_USE] = "in use",
    };
    size_t count = sizeof names / sizeof names[0];
    return (size_t)result < count && names[result] ? names[result] : "refused";
}

static void restock(struct stock *stock, const char *sku, struct chance *chance)
{
    char key[16] = "";
    struct ledger_sale sale;
    uint32_t units = 1 + chance_below(chance, UNITS_MAX);
    if (chance_below(chance, 3) > 0) {
        uint32_t number = world.restock_keys;
        if (number == 0 || chance_below(chance, 3) > 0)
            number = ++world.restock_keys;
        snprintf(key, sizeof key, "r%u", number);
        units = 1 + number % UNITS_MAX;
    }
    promise_restock_begin(sku, key, units);
    enum stock_admin_result result = stock_restock(stock, sku, units, key, WAIT_MS, &sale);
    bool done = result == STOCK_ADMIN_OK;
    tally(done ? "restock done" : "restock not done");
    story("  restock of %s, %u%s%s: %s", sku, units, key[0] ? ", key " : "", key,
          result_name(result));
    promise_restock_end(sku, done, result == STOCK_ADMIN_IN_DOUBT);
    if (result == STOCK_ADMIN_KEY_REUSED)
        promise_break("the key %s of a restock was refused as used for other units", key);
}

static void change(struct stock *stock, const char *sku, struct chance *chance)
{
    struct stock_change change = {.fields = 0};
    struct ledger_sale sale;
    int64_t now_ms = clock_wall_ms();
    switch (chance_below(chance, 9)) {
    case 0:
    case 1:
        change.fields = STOCK_CHANGE_LIMIT;
        change.settings.per_user_limit = chance_below(chance, 5);
        break;
    case 2:
        change.fields = STOCK_CHANGE_PAUSED;
        change.settings.paused = chance_below(chance, 3) == 0;
        break;
    case 3:
        change.fields = STOCK_CHANGE_PAY;
        change.settings.pay_within_s = chance_below(chance, 3);
        break;
    case 4:
    case 5:
        change.fields = STOCK_CHANGE_LATE;
        change.settings.refund_late = chance_below(chance, 2) == 0;
        break;
    case 6:
        change.fields = STOCK_CHANGE_HOLD;
        change.settings.hold_max_s = chance_below(chance, 5);
        break;
    case 7:
        change.fields = STOCK_CHANGE_GRACE;
        change.settings.grace_s = chance_below(chance, 3);
        break;
    default:
        change.fields = STOCK_CHANGE_STARTS | STOCK_CHANGE_ENDS;
        change.settings.starts_ms =
            chance_below(chance, 4) > 0 ? 0 : now_ms + 1 + chance_below(chance, 30);
        change.settings.ends_ms =
            chance_below(chance, 2) == 0 ? 0 : now_ms + 1 + chance_below(chance, 50);
        break;
    }
    enum stock_admin_result result = stock_change(stock, sku, &change, &sale);
    tally(result == STOCK_ADMIN_OK ? "settings changed" : "settings not changed");
    story("  change of settings %u of %s: %s", change.fields, sku, result_name(result));
}

static void reset(struct stock *stock, const char *sku, struct chance *chance)
{
    char key[16] = "";
    struct ledger_sale sale = {.round = 0};
    struct ledger_round_use use = {.units = 0};
    uint64_t ended = 0;
    uint32_t segments = 1 + chance_below(chance, 4), total = segments + chance_below(chance, 8);
    if (chance_below(chance, 3) > 0) { /* a repeat asks for the same */
        uint32_t number = world.reset_keys;
        if (number == 0 || chance_below(chance, 2) == 0)
            number = ++world.reset_keys;
        snprintf(key, sizeof key, "e%u", number);
        segments = 1 + number % 4;
        total = segments + number;
    }
    struct stock_reset asked = {.sku = sku,
                                .total = total,
                                .segments = segments,
                                .key = key,
                                .now_ms = clock_wall_ms(),
                                .end_round = key[0] != '\0' || chance_below(chance, 3) > 0};
    promise_reset_begin(sku, key);
    enum stock_admin_result result = stock_reset(stock, &asked, WAIT_MS, &sale, &use, &ended);
    bool done = result == STOCK_ADMIN_OK;
    tally(done ? "reset done" : "reset not done");
    story("  reset of %s to %u in %u%s%s: %s", sku, total, segments, key[0] ? ", key " : "", key,
          result_name(result));
    promise_reset_end(sku, done, result == STOCK_ADMIN_IN_DOUBT);
    if (result == STOCK_ADMIN_KEY_REUSED)
        promise_break("the key %s of a reset was refused as used for another one", key);
}

static void reconcile(struct stock *stock, const char *sku)
{
    struct stock_report *report = malloc(sizeof *report);
    enum stock_admin_result result = stock_reconcile(stock, sku, WAIT_MS, report);
    story("  reconcile %s: %s", sku, result_name(result));
    free(report);
}

/* Decides what is reserved: no sale can be retired before. Orders may come in between. */
static void decide_reserved(struct stock *stock, const char *sku, struct chance *chance)
{
    struct stock_status_change change;
    uint64_t order_id = 0;
    int64_t since_ns = loop_now_ns();
    for (int i = 0; i < DECIDED_MAX && (order_id = promise_reserved(sku, false)) != 0; i++) {
        bool pay = chance_below(chance, 2) == 0;
        memset(&change, 0, sizeof change);
        change.record.order_id = order_id;
        change.payment.ref = pay ? "admin" : NULL;
        change.now_ms = clock_wall_ms();
        if (pay)
            promise_payment_begin(order_id, "admin");
        if (pay)
            stock_pay_late(stock, &change, 1, WAIT_MS);
        else
            stock_cancel(stock, &change, 1, WAIT_MS);
        promise_state(&change, pay ? "paid" : "cancelled");
        if (pay)
            promise_payment(&change, since_ns);
    }
}

static void retire(struct stock *stock, const char *sku, struct chance *chance)
{
    struct ledger_sale sale = {.round = 0};
    struct ledger_held held;
    if (chance_below(chance, 4) > 0)
        decide_reserved(stock, sku, chance);
    bool elsewhere = chance_below(chance, 3) > 0;
    int64_t since_ns = loop_now_ns();
    enum stock_admin_result result = stock_retire(stock, sku, elsewhere, WAIT_MS, &sale, &held);
    bool done = result == STOCK_ADMIN_OK;
    tally(done ? "sale retired" : "sale not retired");
    story("  retire %s, round %u: %s", sku, sale.round, result_name(result));
    if (done)
        promise_retired(sku, sale.round);
    if (done && !elsewhere)
        promise_no_refunds(sku, since_ns);
    if (result == STOCK_ADMIN_REFUNDS_DUE) {
        tally("sale kept for its refunds");
        promise_refunds_due(sku);
        if (elsewhere)
            promise_break("%s was kept for refunds that are made elsewhere", sku);
    }
}

static void act(struct stock *stock, struct chance *chance)
{
    const char *sku = world_sku(chance);
    uint32_t kind = chance_below(chance, world.retires ? 14 : 10);
    if (kind < 4)
        restock(stock, sku, chance);
    else if (kind < 8)
        change(stock, sku, chance);
    else if (kind < 9)
        reset(stock, sku, chance); /* NOLINT: the last kind as well, if sales retire */
    else if (kind < 10)
        reconcile(stock, sku);
    else if (kind < 13)
        retire(stock, sku, chance);
    else
        reset(stock, sku, chance);
}

void actor_admin(void *argument)
{
    (void)argument;
    struct chance chance = chance_stream(300 + task_current()->process->incarnation);
    struct stock *stock = world_stock(&chance);
    uint32_t steps = chance_below(&chance, STEPS_MAX);
    for (uint32_t i = 0; i < steps && !world.settling; i++) {
        struct chance before = chance;
        clock_sleep_ns((int64_t)chance_below(&chance, PERIOD_US) * 1000);
        if (world.pay_within_s > 0 && chance_below(&chance, 2) == 0) /* among late payments */
            clock_sleep_ns((int64_t)chance_below(&chance, LATE_MS) * CLOCK_NS_PER_MS);
        if (chance_step())
            act(stock, &chance);
        chance.state = before.state + 12345;
    }
    stock_flush(stock);
}
