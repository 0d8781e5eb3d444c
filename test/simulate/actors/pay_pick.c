/* What the callers of pay, cancel, refund, unpay and extend ask for, by chance. */
#include "test/simulate/actors/pay_pick.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "test/simulate/promise_pay.h"

enum { REFS = 3, KEEP_MAX = 3, EXTENSION_MS_MAX = 5000 };

/* What was asked for last, of each kind. */
static struct {
    struct stock_status_change change;
    char ref[PAY_REF_SIZE];
    bool there;
} last[PAY_KINDS];

void pay_pick_begin(void)
{
    memset(last, 0, sizeof last);
}

/* Any order; for a payment rather one that is late, for a refund one that has been paid. */
static uint64_t pick_order(struct chance *chance, enum pay_kind kind)
{
    uint32_t pick = chance_below(chance, 4);
    if (kind == PAY_PAY && pick < 2)
        return promise_pick_status(chance, LEDGER_EXPIRED);
    if ((kind == PAY_REFUND || kind == PAY_UNPAY) && pick == 0)
        return promise_pick_status(chance, LEDGER_PAID);
    if (kind == PAY_EXTEND && pick < 2)
        return promise_pick_status(chance, LEDGER_RESERVED);
    return promise_pick_order(chance);
}

static void pick(struct chance *chance, enum pay_kind kind, struct stock_status_change *change,
                 char ref[PAY_REF_SIZE])
{
    const char *asked = NULL;
    uint64_t order_id = 0;
    memset(change, 0, sizeof *change);
    snprintf(ref, PAY_REF_SIZE, "p%u", chance_below(chance, REFS));
    change->record.order_id = pick_order(chance, kind);
    change->payment.ref = ref;
    change->now_ms = clock_wall_ms();
    change->restock = chance_below(chance, 2) == 0;
    bool unnamed = chance_below(chance, 4) == 0;
    if (kind == PAY_PAY ? unnamed : kind != PAY_REFUND && kind != PAY_UNPAY)
        ref[0] = '\0';
    if ((kind == PAY_REFUND || kind == PAY_UNPAY) && chance_below(chance, 8) > 0 &&
        promise_pick_payment(chance, &order_id, &asked)) {
        change->record.order_id = order_id;
        snprintf(ref, PAY_REF_SIZE, "%s", asked);
    }
    if ((kind == PAY_CANCEL || kind == PAY_REFUND) && chance_below(chance, 3) == 0)
        change->keep = 1 + chance_below(chance, KEEP_MAX);
    if (kind == PAY_EXTEND)
        change->extension.expires_ms = change->now_ms + chance_below(chance, EXTENSION_MS_MAX);
}

void pay_pick(struct chance *chance, enum pay_kind kind, struct stock_status_change *change,
              char ref[PAY_REF_SIZE])
{
    pick(chance, kind, change, ref);
    if (chance_below(chance, 3) == 0 && last[kind].there) {
        bool other_ref = kind == PAY_PAY && chance_below(chance, 2) == 0;
        *change = last[kind].change;
        if (!other_ref)
            strcpy(ref, last[kind].ref);
        change->payment.ref = ref;
        change->now_ms = clock_wall_ms();
    }
    last[kind].change = *change;
    strcpy(last[kind].ref, ref);
    last[kind].there = true;
}
