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
#include "test/simulate/actors/pay_pick.h"
#include "test/simulate/machine/arena.h"
#include "test/simulate/ledger/ledger_session.h"
#include "test/simulate/daemon/daemon.h"
#include "test/simulate/ledger/ledger_table.h"
#include "test/simulate/promise_events.h"
#include "test/simulate/promise_pay.h"
#include "test/simulate/promise_request.h"
#include "test/simulate/servers/redis_server.h"
#include "test/simulate/servers/seam_lock.h"
#include "test/simulate/servers/seam_redis.h"
#include "test/simulate/story.h"
#include "test/simulate/tally.h"

enum {
    EVENTS_MAX = 40000, /* of each part of a schedule: more than that is a livelock */
    ACTING_MS = 8000,
    SETTLING_MS = 60000,
    RESTART_MS_MAX = 1500,
    CALLERS_MAX = 2,
    PUBLISHERS_MAX = 2,
    RATE_PER_MIN = 3000,
    DAEMONS_PART = 4, /* one of so many schedules has whole daemons */
    DAEMON_EVENTS_MAX = 200000,
    STOPPING_MS = 600, /* of a daemon, besides its drain: a batch and a turn of its workers */
};

struct world world;
static struct stock_rates rates;

static void revive_later(struct process *process);

/* An order whose client was answered at its deadline may still be with a worker. */
static bool is_over(void)
{
    return promise_broken() != NULL ||
           (tasks_alive() == 0 && (!world.settling || daemon_requests() == 0));
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
                                    .events = scene.events,
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

/* A daemon's deadline, queue and drain are short beside the service's usual ones, so that a
 * schedule reaches their ends. */
static void plan_daemons(struct chance *chance, const struct mask *mask)
{
    static const unsigned deadlines_ms[] = {1000, 400, 120}, places[] = {64, 8, 3};
    scene.daemons = chance_below(chance, DAEMONS_PART) == 0 || (mask && mask->daemons);
    daemon_plan = (struct daemon_plan){
        .deadline_ms = deadlines_ms[chance_below(chance, 3)],
        .queue_max = places[chance_below(chance, 3)],
        .order_workers = 1 + chance_below(chance, 2),
        .max_batch = chance_below(chance, 2) == 0 ? STOCK_BATCH_MAX : 1 + chance_below(chance, 4),
        .lame_duck_ms = chance_below(chance, 2) * 40,
        .drain_ms = chance_below(chance, 2) * chance_below(chance, 300),
        .rate_per_min = scene.rate_burst > 0 ? RATE_PER_MIN : 0,
        .stops = chance_below(chance, 2) == 0,
        .ended = revive_later,
    };
    if (scene.daemons)
        tally("whole daemons");
}

static void plan_events(void)
{
    struct chance chance = chance_stream(7);
    scene.events = chance_below(&chance, 8) > 0;
}

static void plan_payments(struct chance *chance)
{
    world.refund_late = chance_below(chance, 8) == 0;
    world.hold_max_s = chance_below(chance, 2) * (1 + chance_below(chance, 4));
    world.grace_s = chance_below(chance, 3) == 0 ? 1 : 0;
}

static void plan(const struct mask *mask)
{
    struct chance chance = chance_stream(1), ways = chance_stream(4), daemons = chance_stream(5),
                  payments = chance_stream(6);
    world = (struct world){.order_id = 1000};
    scene = (struct scene){.sales = 1};
    plan_ways(&ways);
    plan_daemons(&daemons, mask);
    world.segments = 1 + chance_below(&chance, 4);
    world.total = world.segments + chance_below(&chance, 16);
    world.processes = 1 + (int)chance_below(&chance, 3);
    world.workers = 2 + (int)chance_below(&chance, 3);
    if (chance_below(&chance, 4) == 0)
        world.per_user_limit = 1 + chance_below(&chance, 4);
    if (chance_below(&chance, 3) == 0)
        world.pay_within_s = 1 + chance_below(&chance, 2);
    plan_payments(&payments);
    plan_events();
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
    reset_out->change.fields = STOCK_CHANGE_LIMIT | STOCK_CHANGE_PAY | STOCK_CHANGE_LATE |
                               STOCK_CHANGE_HOLD | STOCK_CHANGE_GRACE;
    reset_out->change.settings.refund_late = world.refund_late;
    reset_out->change.settings.hold_max_s = world.hold_max_s;
    reset_out->change.settings.grace_s = world.grace_s;
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

/* Which process makes the calls of that number, and those of the operator. Beside daemons it is a
 * process of its own, as if it was a daemon that only carries calls. */
static bool makes_calls(const struct process *process, int number)
{
    return process->number == (scene.daemons ? world.processes : number);
}

static void start_workers(struct process *process)
{
    char name[TASK_NAME_SIZE];
    for (int i = 0; i < world.workers; i++) {
        if (i % world.processes != process->number)
            continue;
        snprintf(name, sizeof name, "worker %d", i);
        task_start(process, name, actor_orders, (void *)(intptr_t)i,
                   (int64_t)chance_delay(2000) * 1000);
    }
}

static void start_daemon(struct process *process)
{
    char name[TASK_NAME_SIZE];
    daemon_start(process, !world.settling);
    snprintf(name, sizeof name, "%d clients", process->number);
    if (!world.settling)
        task_start(process, name, actor_clients, process, (int64_t)(1 + chance_delay(3)) * LOOP_MS);
}

static void start_lasting(struct process *process, const char *name, void (*actor)(void *),
                          intptr_t number)
{
    struct task *task = task_start(process, name, actor, (void *)number, 0);
    task->spared = true;
    task_last(task);
}

/* Beside daemons only a reader: they publish. */
static void start_events(struct process *process)
{
    if (makes_calls(process, 0))
        start_lasting(process, "reader", actor_reader, 0);
    if (!scene.daemons && process->number < PUBLISHERS_MAX)
        start_lasting(process, "publisher", actor_publisher, process->number);
}

/* The tasks of a process: its share of the workers, one for calls, and one for the operator. */
static void start_tasks(struct process *process)
{
    char name[TASK_NAME_SIZE];
    if (process->listens)
        start_daemon(process);
    else if (!scene.daemons && !world.settling)
        start_workers(process);
    for (int i = 0; i < CALLERS_MAX && !world.settling; i++) {
        if (!makes_calls(process, i))
            continue;
        snprintf(name, sizeof name, "calls %d", i);
        task_start(process, name, actor_calls, (void *)(intptr_t)i,
                   (int64_t)chance_delay(4000) * 1000);
    }
    if (makes_calls(process, 0) && !world.settling)
        task_start(process, "admin", actor_admin, NULL, (int64_t)chance_delay(8000) * 1000);
    if (scene.events)
        start_events(process);
}

/* A process that died starts again, with what is left to be done in this schedule. */
static void revive(void *argument, uint32_t tag)
{
    struct process *process = argument;
    (void)tag;
    if (!process->alive && !world.ending) {
        story("        process %d starts", process->number);
        process_start(process);
        start_tasks(process);
    }
}

static void revive_later(struct process *process)
{
    loop_at(loop_now_ns() + (int64_t)(1 + chance_effect(RESTART_MS_MAX)) * LOOP_MS, revive, process,
            0);
}

static void on_death(struct task *task)
{
    revive_later(task->process);
}

static int64_t time_ns(void)
{
    return loop_now_ns() - LOOP_START_NS;
}

static const char *present_actor(void)
{
    return task_current() ? task_current()->name : "";
}

static void check_commit(const struct txn *txn)
{
    promise_commit(txn);
    promise_pay_commit(txn);
    if (promise_events_commit(txn))
        task_signal(&world.events, true);
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
    seam_redis_begin();
    daemon_begin();
    plan(mask);
    promise_begin();
    promise_pay_begin();
    promise_events_begin();
    actor_events_begin();
    tables_on_commit(check_commit);
    pay_pick_begin();
    promise_requests_begin();
    if (!noticed)
        loop_on_death(on_death);
    noticed = true;
    for (int i = 0; i < world.processes + scene.daemons; i++) {
        struct process *process = process_make(i);
        process_start(process);
        process->listens = i < world.processes && scene.daemons;
    }
}

static uint32_t events_max(void)
{
    return scene.daemons ? DAEMON_EVENTS_MAX : EVENTS_MAX;
}

static void run(int64_t ms, const char *what)
{
    bool bounded = loop_run(loop_now_ns() + ms * LOOP_MS, events_max(), is_over);
    if (!bounded || !is_over())
        promise_break("%s", what);
}

/* No fault any more: who lives comes to an end, who died lives again. */
static void settle(void)
{
    struct process *process = NULL;
    story("---- no fault from here on ----");
    chance_calm();
    world.settling = true;
    daemon_end_rates();
    atomic_store(&rates.user_per_min, 0); /* how long one waits for a rate is no matter of faults */
    run(SETTLING_MS, "a call does not end although no fault strikes any more");
    for (size_t i = 0; (process = process_at(i)); i++)
        revive(process, 0);
}

/* The process that closes the sales: beside daemons, the one that makes the calls. */
static struct process *closing_process(void)
{
    struct chance chance = chance_stream(3);
    uint32_t any = chance_below(&chance, (uint32_t)world.processes);
    return process_at(scene.daemons ? (size_t)world.processes : any);
}

static bool is_all_over(void)
{
    return promise_broken() != NULL || tasks_lasting() == 0;
}

/* The daemons end as by a signal, at once when they have answered what is under way. */
static void end_daemons(void)
{
    int64_t ms = daemon_plan.lame_duck_ms + daemon_plan.drain_ms + STOPPING_MS;
    int64_t awake_ns = loop_now_ns();
    for (size_t i = 0; process_at(i); i++)
        if (process_at(i)->asleep_until_ns > awake_ns)
            awake_ns = process_at(i)->asleep_until_ns;
    world.ending = true;
    daemon_stop_all();
    task_signal(&world.events, true);
    loop_run(awake_ns + ms * LOOP_MS, events_max(), is_all_over);
    if (tasks_lasting() > 0)
        promise_break("a daemon does not end although no fault strikes any more");
}

/* What has happened is in the feed, and a reader is told of it. */
static void close_events(bool by_daemons)
{
    if (!scene.events || promise_broken())
        return;
    task_start(closing_process(), "events", actor_events_closing, by_daemons ? NULL : &world, 0);
    run(SETTLING_MS, "events are not read within the bound");
}

static void run_parts(void)
{
    chance_arm(false);
    task_start(closing_process(), "set up", set_up, NULL, 0);
    run(1000, "the sale is not created");
    chance_arm(true);
    for (size_t i = 0; process_at(i); i++)
        start_tasks(process_at(i));
    if (!promise_broken())
        loop_run(loop_now_ns() + ACTING_MS * LOOP_MS, events_max(), is_over);
    if (!promise_broken())
        settle();
    if (!promise_broken()) {
        task_start(closing_process(), "closing", actor_closing, NULL, 0);
        run(SETTLING_MS, "what is left is not sold within the bound");
    }
    if (scene.daemons)
        close_events(true);
    if (!promise_broken())
        end_daemons();
    close_events(false);
    if (!promise_broken())
        promise_end();
    if (!promise_broken())
        promise_pay_end();
    if (!promise_broken())
        promise_events_end();
}

const char *world_run(uint64_t seed, const struct mask *mask)
{
    begin(seed, mask);
    story("---- %u units in %u segments, %d processes, %d workers, limit %u, to pay within %u s, "
          "%d sales, %s%s, burst %u%s ----",
          world.total, world.segments, world.processes, world.workers, world.per_user_limit,
          world.pay_within_s, scene.sales, scene.strategy, scene.guarded ? " and a guard lock" : "",
          scene.rate_burst, scene.daemons ? ", whole daemons" : "");
    run_parts();
    return promise_broken();
}
