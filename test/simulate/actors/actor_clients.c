/* The clients of one daemon: bursts of orders, repeats under their keys, and looks at the stock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "test/simulate/actors/pay_pick.h"
#include "test/simulate/daemon/daemon.h"
#include "test/simulate/promise_pay.h"
#include "test/simulate/promise_request.h"
#include "test/simulate/world.h"

enum {
    BURSTS_MAX = 6,
    BURST_MAX = 5,
    USERS = 3,
    QTY_MAX = 5,
    PAUSE_MS_MAX = 1500, /* so that what daemons remember gets old */
    CLIENTS_MAX = 64,
};

struct clients {
    struct chance chance;
    struct process *process;
    struct asked *asked[CLIENTS_MAX];
    size_t count;
};

/* A keyed order that was asked for before, at any daemon, rather one whose client does not know its
 * outcome; NULL when it is absent. */
static const struct asked *pick_repeated(struct chance *chance)
{
    size_t count = promise_asked_count();
    uint32_t pick = chance_below(chance, 1u << 16);
    bool unclear_only = chance_below(chance, 2) == 0;
    for (size_t i = 0; i < count; i++) {
        const struct asked *asked = promise_asked((pick + i) % count);
        bool unclear = !asked->answered || asked->outcome == STOCK_OPEN;
        if (asked->key[0] != '\0' && (unclear || !unclear_only))
            return asked;
    }
    return NULL;
}

/* See call_bound_ms: a cancel may wait for the locks of a holder that died. */
static unsigned deadline_ms(enum asked_kind kind)
{
    unsigned usual_ms = daemon_plan.deadline_ms, locks_ms = SCENE_LEASE_MS + usual_ms / 2;
    bool locks = kind == ASKED_CANCEL || kind == ASKED_REFUND || kind == ASKED_UNPAY;
    return locks && locks_ms > usual_ms ? locks_ms : usual_ms;
}

static enum asked_kind any_kind(struct chance *chance)
{
    static const enum asked_kind kinds[] = {ASKED_PAY,   ASKED_PAY,    ASKED_CANCEL, ASKED_REFUND,
                                            ASKED_UNPAY, ASKED_EXTEND, ASKED_STOCK,  ASKED_STOCK};
    uint32_t kind = chance_below(chance, 24);
    return kind < sizeof kinds / sizeof kinds[0] ? kinds[kind] : ASKED_ORDER;
}

static void fill_in_change(struct chance *chance, struct asked *asked)
{
    struct stock_status_change change;
    char ref[PAY_REF_SIZE];
    enum pay_kind kind = asked->kind == ASKED_PAY      ? PAY_PAY
                         : asked->kind == ASKED_CANCEL ? PAY_CANCEL
                         : asked->kind == ASKED_REFUND ? PAY_REFUND
                         : asked->kind == ASKED_UNPAY  ? PAY_UNPAY
                                                       : PAY_EXTEND;
    pay_pick(chance, kind, &change, ref);
    asked->order_id = change.record.order_id;
    asked->keep = change.keep;
    asked->restock = change.restock;
    asked->expires_ms = change.extension.expires_ms;
    strcpy(asked->ref, kind == PAY_PAY || kind == PAY_REFUND || kind == PAY_UNPAY ? ref : "");
}

static void fill_in(struct clients *clients, struct asked *asked)
{
    struct chance *chance = &clients->chance;
    const struct asked *first = NULL;
    strcpy(asked->sku, world_sku(chance));
    snprintf(asked->user_id, sizeof asked->user_id, "u%u", chance_below(chance, USERS));
    asked->qty = 1 + chance_below(chance, 1 + chance_below(chance, QTY_MAX));
    uint32_t kind = chance_below(chance, 8);
    if (kind < 2)
        snprintf(asked->key, sizeof asked->key, "k%d.%u", clients->process->number,
                 chance_below(chance, 100));
    else if (kind < 4)
        first = pick_repeated(chance);
    asked->kind = any_kind(chance);
    asked->deadline_ms = deadline_ms(asked->kind);
    if (asked->kind != ASKED_ORDER && asked->kind != ASKED_STOCK)
        fill_in_change(chance, asked);
    if (asked->kind != ASKED_ORDER)
        asked->key[0] = '\0';
    if (!first || asked->kind != ASKED_ORDER)
        return;
    strcpy(asked->user_id, first->user_id);
    strcpy(asked->key, first->key);
    if (chance_below(chance, 8) > 0) {
        strcpy(asked->sku, first->sku);
        asked->qty = first->qty;
    }
}

/* A daemon that takes no requests now loses clients to others. */
static void ask(struct clients *clients)
{
    struct asked *asked = promise_ask(clients->process, daemon_plan.deadline_ms);
    fill_in(clients, asked);
    if (asked->kind == ASKED_PAY && asked->ref[0] != '\0')
        promise_payment_begin(asked->order_id, asked->ref);
    if (front_ask(clients->process, asked))
        clients->asked[clients->count++] = asked;
    else
        promise_unasked(asked);
}

static void rest(struct clients *clients)
{
    uint32_t kind = chance_below(&clients->chance, 8);
    int64_t us = kind == 0 ? PAUSE_MS_MAX * 1000 : kind < 4 ? 60000 : 4000;
    clock_sleep_ns((int64_t)chance_below(&clients->chance, (uint32_t)us) * 1000);
}

void actor_clients(void *argument)
{
    struct clients *clients = calloc(1, sizeof *clients);
    clients->process = argument;
    clients->chance = chance_stream(500 + (uint64_t)clients->process->number * 1000 +
                                    clients->process->incarnation);
    uint32_t bursts = 1 + chance_below(&clients->chance, BURSTS_MAX);
    for (uint32_t i = 0; i < bursts && !world.settling; i++) {
        struct chance before = clients->chance;
        uint32_t burst = 1 + chance_below(&clients->chance, BURST_MAX);
        for (uint32_t j = 0; j < burst; j++)
            if (chance_step())
                ask(clients);
        rest(clients);
        clients->chance.state = before.state + 12345; /* the same without this burst */
    }
    for (size_t i = 0; i < clients->count; i++)
        front_await(clients->asked[i]);
}
