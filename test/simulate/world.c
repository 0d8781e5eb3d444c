/* One schedule's world: the sale, the processes, and who does what in them. */
#include "test/simulate/world.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "stock/sales/sales.h"
#include "stock/stock.h"
#include "stock/stock_core.h"
#include "test/simulate/machine/arena.h"
#include "test/simulate/ledger/ledger_session.h"
#include "test/simulate/promise.h"
#include "test/simulate/servers/redis_server.h"
#include "test/simulate/servers/seam_lock.h"
#include "test/simulate/story.h"
#include "test/simulate/tally.h"

enum {
    EVENTS_MAX = 40000, /* of each part of a schedule: more than that is a livelock */
    ACTING_MS = 8000,
    SETTLING_MS = 60000,
    RESTART_MS_MAX = 1500,
    CALLERS_MAX = 2,
    RATE_PER_MIN = 3000,
};

struct world world;
static struct stock_rates rates;

static bool is_over(void)
{
    return promise_broken() != NULL || tasks_alive() == 0;
}

struct stock *world_stock(struct chance *chance)
{
    char error[128];
    struct stock_options options = {.strategy = scene.strategy,
                                    .lock = scene.guarded ? "mysql" : NULL,
                                    .rates = scene.rate_burst > 0 ? &rates : NULL,
                                    .redis_url = "redis://simulated",
                                    .mysql_url = "mysql://simulated",
                                    .lease_ms = SCENE_LEASE_MS,
                                    .redis_timeout_ms = 100,
                                    .mysql_timeout_ms = 500,
                                    .resolve_ms = 1000,
                                    .remember_left_ms = 100};
    struct stock *stock = stock_open(&options, task_current()->process->cache, error, sizeof error);
    assert(stock);
    stock->random = chance_below(chance, 1u << 30);
    return stock;
}

void world_leave_stock(struct stock *stock)
{
    const struct process *process = task_current()->process;
    world.veterans[process->number] = (struct veteran){stock, process->incarnation};
}

struct stock *world_veteran(struct chance *chance)
{
    const struct process *process = task_current()->process;
    const struct veteran *veteran = &world.veterans[process->number];
    bool lives = veteran->stock && veteran->incarnation == process->incarnation;
    return lives && chance_below(chance, 4) > 0 ? veteran->stock : world_stock(chance);
}

/* Most schedules sell as the daemon does by itself. */
static void plan_ways(struct chance *chance)
{
    uint32_t way = chance_below(chance, 16);
    scene.strategy = way == 0   ? "single_lock"
                     : way == 1 ? "atomic"
                     : way == 2 ? "database"
                                : "segment_lock";
    scene.locked = way > 2;
    scene.counters = way == 1;
    scene.guarded = way == 3 || way == 4;
    scene.rate_burst = way == 5 ? 3 + chance_below(chance, 20) : 0;
    scene.sales = chance_below(chance, 4) == 0 ? 2 : 1;
    world.retires = chance_below(chance, 3) == 0;
    tally(way < 5 ? scene.strategy : "segment_lock alone");
    atomic_store(&rates.user_burst, scene.rate_burst);
    atomic_store(&rates.user_per_min, RATE_PER_MIN);
}

static void plan(uint64_t seed)
{
    (void)seed;
    struct chance chance = chance_stream(1), ways = chance_stream(4);
    world = (struct world){.order_id = 1000};
    scene = (struct scene){.sales = 1};
    plan_ways(&ways);
    world.segments = 1 + chance_below(&chance, 4);
    world.total = world.segments + chance_below(&chance, 16);
    world.processes = 1 + (int)chance_below(&chance, 3);
    world.workers = 2 + (int)chance_below(&chance, 3);
    if (chance_below(&chance, 4) == 0)
        world.per_user_limit = 1 + chance_below(&chance, 4);
    if (chance_below(&chance, 3) == 0)
        world.pay_within_s = 1 + chance_below(&chance, 2);
}

const char *world_sku(struct chance *chance)
{
    return SCENE_SKU(scene.sales > 1 ? chance_below(chance, (uint32_t)scene.sales) : 0);
}

/* The second sale is smaller. */
void world_first(const char *sku, struct stock_reset *reset_out)
{
    bool first = SCENE_SALE_OF(sku) == 0;
    *reset_out = (struct stock_reset){
        .sku = sku,
        .total = first ? world.total : 1 + world.total / 2,
        .segments = first ? world.segments : 1 + world.segments / 3,
        .key = "",
        .now_ms = clock_wall_ms(),
    };
    reset_out->change.fields = STOCK_CHANGE_LIMIT | STOCK_CHANGE_PAY;
    reset_out->change.settings.per_user_limit = world.per_user_limit;
    reset_out->change.settings.pay_within_s = world.pay_within_s;
}

static void set_up(void *argument)
{
    struct chance chance = chance_stream(2);
    struct stock *stock = world_stock(&chance);
    (void)argument;
    for (int i = 0; i < scene.sales; i++) {
        struct stock_reset reset;
        struct ledger_sale sale;
        struct ledger_round_use use = {.units = 0};
        uint64_t ended = 0;
        world_first(SCENE_SKU(i), &reset);
        promise_reset_begin(reset.sku, "");
        bool done = stock_reset(stock, &reset, 1000, &sale, &use, &ended) == STOCK_ADMIN_OK;
        promise_reset_end(reset.sku, done, false);
        if (!done)
            promise_break("the sale cannot be created");
    }
}

/* The tasks of a process: its share of the workers, one for calls, and one for the operator. */
static void start_tasks(struct process *process)
{
    char name[TASK_NAME_SIZE];
    for (int i = 0; i < world.workers; i++) {
        if (i % world.processes != process->number)
            continue;
        snprintf(name, sizeof name, "worker %d", i);
        task_start(process, name, actor_orders, (void *)(intptr_t)i,
                   (int64_t)chance_delay(2000) * 1000);
    }
    if (process->number < CALLERS_MAX) {
        snprintf(name, sizeof name, "calls %d", process->number);
        task_start(process, name, actor_calls, (void *)(intptr_t)process->number,
                   (int64_t)chance_delay(4000) * 1000);
    }
    if (process->number == 0)
        task_start(process, "admin", actor_admin, NULL, (int64_t)chance_delay(8000) * 1000);
}

/* A process that died starts again, with what is left to be done in this schedule. */
static void revive(void *argument, uint32_t tag)
{
    struct process *process = argument;
    (void)tag;
    if (!process->alive) {
        story("        process %d starts", process->number);
        process_start(process);
        if (!world.settling)
            start_tasks(process);
    }
}

static void on_death(struct task *task)
{
    loop_at(loop_now_ns() + (int64_t)(1 + chance_effect(RESTART_MS_MAX)) * LOOP_MS, revive,
            task->process, 0);
}

static int64_t time_ns(void)
{
    return loop_now_ns() - LOOP_START_NS;
}

static const char *present_actor(void)
{
    return task_current() ? task_current()->name : "";
}

static void begin(uint64_t seed, const struct mask *mask)
{
    static bool noticed = false;
    arena_reset();
    loop_begin();
    story_begin(time_ns, present_actor);
    chance_begin(seed, mask);
    redis_server_begin();
    ledger_server_begin();
    seam_lock_begin();
    promise_begin();
    plan(seed);
    if (!noticed)
        loop_on_death(on_death);
    noticed = true;
    for (int i = 0; i < world.processes; i++)
        process_start(process_make(i));
}

static void run(int64_t ms, const char *what)
{
    bool bounded = loop_run(loop_now_ns() + ms * LOOP_MS, EVENTS_MAX, is_over);
    if (!bounded || tasks_alive() > 0)
        promise_break("%s", what);
}

/* No fault any more: who lives comes to an end, who died lives again. */
static void settle(void)
{
    struct process *process = NULL;
    story("---- no fault from here on ----");
    chance_calm();
    world.settling = true;
    atomic_store(&rates.user_per_min, 0); /* how long one waits for a rate is no matter of faults */
    run(SETTLING_MS, "a call does not end although no fault strikes any more");
    for (size_t i = 0; (process = process_at(i)); i++)
        revive(process, 0);
}

const char *world_run(uint64_t seed, const struct mask *mask)
{
    begin(seed, mask);
    story("---- %u units in %u segments, %d processes, %d workers, limit %u, to pay within %u s, "
          "%d sales, %s%s, burst %u ----",
          world.total, world.segments, world.processes, world.workers, world.per_user_limit,
          world.pay_within_s, scene.sales, scene.strategy, scene.guarded ? " and a guard lock" : "",
          scene.rate_burst);
    chance_arm(false);
    task_start(process_at(0), "set up", set_up, NULL, 0);
    run(1000, "the sale is not created");
    chance_arm(true);
    for (size_t i = 0; process_at(i); i++)
        start_tasks(process_at(i));
    if (!promise_broken())
        loop_run(loop_now_ns() + ACTING_MS * LOOP_MS, EVENTS_MAX, is_over);
    if (!promise_broken())
        settle();
    if (!promise_broken()) {
        struct chance chance = chance_stream(3);
        struct process *process = process_at(chance_below(&chance, (uint32_t)world.processes));
        task_start(process, "closing", actor_closing, NULL, 0);
        run(SETTLING_MS, "what is left is not sold within the bound");
    }
    if (!promise_broken())
        promise_end();
    return promise_broken();
}
