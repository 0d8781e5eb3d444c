/* A daemon in a simulated process: starts and stops the real service and its real workers in the
 * order in which service/main.c does.
 *
 * Left out are the parts that prepare and probe: the ledger's tables, the lease of the node number
 * and the clock's measurements. Here each daemon has a node of its own, for as long as it lives. */
#include "test/simulate/daemon/daemon.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "service/workers/workers.h"
#include "test/simulate/ledger/ledger_session.h"
#include "test/simulate/machine/arena.h"
#include "test/simulate/machine/chance.h"
#include "test/simulate/machine/loop.h"
#include "test/simulate/promise.h"
#include "test/simulate/promise_request.h"
#include "test/simulate/scene.h"
#include "test/simulate/story.h"
#include "test/simulate/tally.h"

enum { STOP_MS_MAX = 400, NODES_PER_PROCESS = 256, CACHE_SIZE = 32768 * sizeof(void *) };

struct daemon_plan daemon_plan;

struct daemon {
    struct process *process;
    struct service service;
    struct workers workers;
    struct front *front;
    int64_t stop_ns; /* when it is told to end */
    bool takes;      /* requests */
};

static struct daemon *daemons[PROCESSES_MAX];

void daemon_begin(void)
{
    memset(daemons, 0, sizeof daemons);
    json_set_alloc_funcs(malloc, free); /* the arena's, which forgets what the dead have left */
}

struct service *daemon_service(const struct process *process)
{
    struct daemon *daemon = daemons[process->number];
    return process->alive && daemon && daemon->takes ? &daemon->service : NULL;
}

/* Only what this part of the service reads. Texts are constants here. */
static void configure(struct config *config)
{
    char *none = (char *)(uintptr_t) "";
    *config = (struct config){
        .redis_url = (char *)(uintptr_t) "redis://simulated",
        .mysql_url = (char *)(uintptr_t) "mysql://simulated",
        .strategy = (char *)(uintptr_t)scene.strategy,
        .lock = (char *)(uintptr_t)(scene.guarded ? "mysql" : "redis"),
        .lock_servers = none,
        .admin_token = none,
        .admin_token_file = none,
        .shop_token = none,
        .shop_token_file = none,
        .trusted_proxies = none,
        .node_id = -1,
        .lease_ms = SCENE_LEASE_MS,
        .redis_timeout_ms = 100,
        .mysql_timeout_ms = 500,
        .deadline_ms = daemon_plan.deadline_ms,
        .order_workers = daemon_plan.order_workers,
        .max_batch = daemon_plan.max_batch,
        .queue_max = daemon_plan.queue_max,
        .call_queue_max = daemon_plan.queue_max,
        .lame_duck_ms = daemon_plan.lame_duck_ms,
        .drain_ms = daemon_plan.drain_ms,
        .rate_user_per_min = daemon_plan.rate_per_min,
        .events_retention_h = scene.events,
        .rate_user_burst = scene.rate_burst,
    };
}

/* In place of the preparer: it would lease the node and measure the clock. */
static void prepare(struct daemon *daemon)
{
    struct service *service = &daemon->service;
    struct process *process = daemon->process;
    unsigned node =
        (unsigned)process->number * NODES_PER_PROCESS + process->incarnation % NODES_PER_PROCESS;
    const struct order_id_lease lease = {
        .node = node, .to_ms = ORDER_ID_LAST_MS, .until_ns = INT64_MAX};
    int64_t boot_ns = clock_boot_ns();
    synced_clock_note(&service->clock, boot_ns, boot_ns, ledger_server_ms() * 1000);
    order_ids_lease(&service->ids, &lease);
    atomic_store(&service->replicated, daemon_plan.order_workers % 2 == 0);
    atomic_store(&service->prepared, true);
}

static void start(struct daemon *daemon)
{
    configure(&daemon->service.config);
    service_open(&daemon->service);
    daemon->process->cache = daemon->service.sale_cache;
    arena_touch(daemon->service.sale_cache, CACHE_SIZE); /* the listener soon reads all of it */
    bool started = workers_start(&daemon->workers, &daemon->service);
    assert(started);
    prepare(daemon);
    daemon->front = front_start(&daemon->service);
    daemon->takes = true;
}

static void await_stop(struct daemon *daemon)
{
    while (clock_now_ns() < daemon->stop_ns)
        task_await_signal(daemon, daemon->stop_ns);
}

/* As main and tell_to_stop do. */
static void stop(struct daemon *daemon)
{
    struct service *service = &daemon->service;
    story("        daemon %d ends", daemon->process->number);
    drain_signal(&service->drain, service->config.lame_duck_ms);
    drain_wait(&service->drain);
    daemon->takes = false;
    atomic_store(&service->phase, SERVICE_DRAINS);
    workers_stop(&daemon->workers);
    front_drain(daemon->front);
    service_stop_queues(service);
    workers_join(&daemon->workers);
    front_close(daemon->front);
    tally("a daemon has drained");
}

static void daemon_main(void *argument)
{
    struct daemon *daemon = argument;
    struct process *process = daemon->process;
    start(daemon);
    await_stop(daemon);
    stop(daemon);
    promise_stopped(process);
    daemons[process->number] = NULL;
    process_die(process); /* and with it who still asks it */
    daemon_plan.ended(process);
}

void daemon_start(struct process *process, bool stops)
{
    char name[TASK_NAME_SIZE];
    struct daemon *daemon = calloc(1, sizeof *daemon);
    daemon->process = process;
    daemon->stop_ns = LOOP_FOREVER;
    if (stops && daemon_plan.stops)
        daemon->stop_ns = loop_now_ns() + (int64_t)chance_effect(STOP_MS_MAX) * LOOP_MS;
    daemons[process->number] = daemon;
    snprintf(name, sizeof name, "%d main", process->number);
    struct task *task = task_start(process, name, daemon_main, daemon, 0);
    task->spared = true;
    task_last(task);
}

void daemon_stop_all(void)
{
    for (size_t i = 0; i < PROCESSES_MAX; i++)
        if (daemons[i]) {
            daemons[i]->stop_ns = 0;
            task_signal(daemons[i], true);
        }
}

size_t daemon_requests(void)
{
    size_t requests = 0;
    for (size_t i = 0; i < PROCESSES_MAX; i++) {
        const struct daemon *daemon = daemons[i];
        if (daemon && daemon->process->alive && daemon->front)
            requests += front_requests(daemon->front);
    }
    return requests;
}

void daemon_end_rates(void)
{
    daemon_plan.rate_per_min = 0;
    for (size_t i = 0; i < PROCESSES_MAX; i++)
        if (daemons[i])
            atomic_store(&daemons[i]->service.rates.user_per_min, 0);
}

/* ---- service/workers/workers.h ---- */

static void send_nothing(void *worker)
{
    (void)worker;
}

/* Nobody receives events here. */
const struct worker_kind webhook_sender_kind = {
    .name = "webhook-sender",
    .size = sizeof(struct service_worker),
    .servers = WORKER_OF_LEDGER,
    .run = send_nothing,
};

/* ---- stock_sell, as the order workers call it ---- */

void __wrap_stock_sell(struct stock *stock, struct stock_order *const *orders, size_t count);
void __real_stock_sell(struct stock *stock, struct stock_order *const *orders, size_t count);

/* What is checked of each try of an order is checked for the workers' tries as well. Late payments
 * are not among them: a call worker takes their units again. */
void __wrap_stock_sell(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    struct given *given[STOCK_BATCH_MAX];
    if (!task_current()->lasting || (count > 0 && orders[0]->payment_ref)) {
        __real_stock_sell(stock, orders, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        given[i] = promise_give(orders[i]);
        promise_taken(front_asked(orders[i]), given[i]);
    }
    int64_t start_ns = clock_now_ns();
    __real_stock_sell(stock, orders, count);
    promise_prompt(start_ns);
    for (size_t i = 0; i < count; i++)
        promise_answer(given[i], orders[i]);
    struct stock_stats stats = stock_stats(stock);
    promise_calm(&stats);
}
