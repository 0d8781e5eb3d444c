/* An order worker and its clients: batches of new orders, repeats under their keys, and orders that
 * are to be tried again, carried as service/workers/orders.c carries them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "stock/stock.h"
#include "test/simulate/promise.h"
#include "test/simulate/story.h"
#include "test/simulate/world.h"

enum {
    BATCHES_MAX = 6,
    BATCH_MAX = 4,
    DEADLINE_MS = 1000,
    HURRIED_MS_MIN = 30, /* the deadline of some orders, so that repeats come after it */
    HURRIED_MS_MAX = 150,
    PAUSE_US_MIN = 200,
    PAUSE_US_MAX = 50000, /* longer than the service's, in the end: virtual time costs nothing */
    USERS = 3,
    QTY_MAX = 5,
};

struct waiting {
    struct stock_order order;
    int64_t deadline_ns;
};

struct worker {
    struct chance chance;
    struct stock *stock;
    struct waiting *batch[BATCH_MAX];
    size_t count;
    uint32_t pause_us;
    int number;
};

/* An order that was given before under a key, rather one whose client does not know its outcome;
 * NULL when it is absent. */
static const struct given *pick_repeated(struct chance *chance)
{
    size_t count = promise_given_count();
    uint32_t pick = chance_below(chance, 1u << 16);
    bool unclear_only = chance_below(chance, 2) == 0;
    for (size_t i = 0; i < count; i++) {
        const struct given *given = promise_given((pick + i) % count);
        bool unclear = !given->answered || given->outcome == STOCK_IN_DOUBT ||
                       given->outcome == STOCK_UNAVAILABLE;
        if (given->key[0] != '\0' && (unclear || !unclear_only))
            return given;
    }
    return NULL;
}

static int64_t deadline_of(struct chance *chance)
{
    uint32_t ms = DEADLINE_MS;
    if (chance_below(chance, 3) == 0)
        ms = HURRIED_MS_MIN + chance_below(chance, HURRIED_MS_MAX - HURRIED_MS_MIN);
    return clock_now_ns() + ms * CLOCK_NS_PER_MS;
}

/* A new order, or the repeat of one that was given before under a key. */
static struct waiting *new_order(struct worker *worker)
{
    struct chance *chance = &worker->chance;
    struct waiting *waiting = calloc(1, sizeof *waiting);
    struct stock_order *order = &waiting->order;
    strcpy(order->sku, world_sku(chance));
    snprintf(order->user_id, sizeof order->user_id, "u%u", chance_below(chance, USERS));
    order->qty = 1 + chance_below(chance, 1 + chance_below(chance, QTY_MAX));
    waiting->deadline_ns = deadline_of(chance);
    uint32_t kind = chance_below(chance, 8);
    if (kind < 2)
        snprintf(order->key, sizeof order->key, "k%d.%u", worker->number,
                 chance_below(chance, 100));
    const struct given *first = kind == 2 || kind == 3 || kind == 4 ? pick_repeated(chance) : NULL;
    if (!first)
        return waiting;
    strcpy(order->user_id, first->user_id);
    strcpy(order->key, first->key);
    if (chance_below(chance, 8) > 0) {
        strcpy(order->sku, first->sku);
        order->qty = first->qty;
    }
    return waiting;
}

static void fill(struct worker *worker)
{
    uint32_t wanted = 1 + chance_below(&worker->chance, BATCH_MAX);
    while (worker->count < wanted && worker->count < BATCH_MAX)
        worker->batch[worker->count++] = new_order(worker);
}

/* Orders that are to be tried again stay, until their deadline. Once no fault strikes any more,
 * each must be decided, however long that takes. */
static void keep_undecided(struct worker *worker)
{
    size_t kept = 0;
    for (size_t i = 0; i < worker->count; i++) {
        struct waiting *waiting = worker->batch[i];
        bool waits = world.settling || clock_now_ns() < waiting->deadline_ns;
        bool again = waiting->order.outcome == STOCK_AGAIN && waits;
        stock_order_clear(&waiting->order);
        if (again && clock_now_ns() >= waiting->deadline_ns)
            waiting->deadline_ns = deadline_of(&worker->chance); /* its client repeats it */
        if (again)
            worker->batch[kept++] = waiting;
    }
    worker->count = kept;
}

static void carry(struct worker *worker)
{
    struct stock_order *orders[BATCH_MAX];
    struct given *given[BATCH_MAX];
    size_t before = worker->count;
    for (size_t i = 0; i < worker->count; i++) {
        orders[i] = &worker->batch[i]->order;
        orders[i]->order_id = ++world.order_id;
        orders[i]->created_ms = clock_wall_ms();
        orders[i]->until_ns = worker->batch[i]->deadline_ns;
        given[i] = promise_give(orders[i]);
    }
    int64_t start_ns = clock_now_ns();
    stock_sell(worker->stock, orders, worker->count);
    promise_prompt(start_ns);
    for (size_t i = 0; i < worker->count; i++)
        promise_answer(given[i], orders[i]);
    struct stock_stats stats = stock_stats(worker->stock);
    promise_calm(&stats);
    keep_undecided(worker);
    if (worker->count < before) {
        worker->pause_us = PAUSE_US_MIN;
        return;
    }
    stock_flush(worker->stock);
    worker->pause_us = worker->pause_us < PAUSE_US_MAX ? 2 * worker->pause_us : PAUSE_US_MAX;
    clock_sleep_ns((int64_t)(worker->pause_us + chance_below(&worker->chance, worker->pause_us)) *
                   1000);
}

/* Between batches a worker goes on at once, or settles and waits. */
static void rest(struct worker *worker)
{
    uint32_t kind = chance_below(&worker->chance, 4);
    if (kind == 0)
        return;
    stock_flush(worker->stock);
    clock_sleep_ns((int64_t)chance_below(&worker->chance, kind == 1 ? 40000 : 3000) * 1000);
}

void actor_orders(void *argument)
{
    struct worker *worker = calloc(1, sizeof *worker);
    worker->number = (int)(intptr_t)argument;
    worker->chance =
        chance_stream(100 + (uint64_t)worker->number * 1000 + task_current()->process->incarnation);
    worker->stock = world_stock(&worker->chance);
    worker->pause_us = PAUSE_US_MIN;
    uint32_t batches = 1 + chance_below(&worker->chance, BATCHES_MAX);
    for (uint32_t i = 0; i < batches && !world.settling; i++) {
        struct chance before = worker->chance;
        if (chance_step()) {
            fill(worker);
            carry(worker);
            rest(worker);
        }
        worker->chance.state =
            before.state + 12345; /* the next step is the same without this one */
    }
    while (worker->count > 0)
        carry(worker);
    stock_flush(worker->stock);
    world_leave_stock(worker->stock);
}
