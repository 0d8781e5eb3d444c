/* Order workers: threads that carry batches of orders from the queue through Redis and the ledger,
 * and back to the HTTP threads as answers.
 *
 *   queue ─► take orders that wait, up to half in flight ─► stock_sell (Redis, ledger, Redis)
 *     ▲                                                       │
 *     └── orders that met busy segments ◄─────────────────────┤
 *   HTTP threads ◄─ answers, one wake-up per thread ◄─────────┘
 *
 * why_patience: queue.h has the rule of batches. While a worker carries a batch, the next one fills
 * by itself, so a request that waits for most of the time of one batch loses little, and shares its
 * lock and its commit with more requests. Daemons with a part of the orders each share the ledger's
 * time in turns, so a request waits for as much of each one's batch. */
#include "service/workers/workers.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "lua/redis.h"
#include "service/request/order_answer.h"
#include "service/request/faults.h"
#include "service/log/log.h"
#include "service/metrics/metrics.h"
#include "service/request/request.h"
#include "stock/stock.h"

enum {
    IDLE_MS = 1000,       /* interval at which an idle worker pings its servers */
    LINGER_MS = 2,        /* see take_next */
    PATIENCE_MS_MAX = 50, /* so that one slow batch does not keep the worker slow */
    PAUSE_US_MIN = 200,   /* after a batch in which nothing could be decided */
    PAUSE_US_MAX = 1000,
    PAUSE_DOUBLINGS = 4, /* of the pause, for consecutive such batches */
};

struct order_worker {
    struct service_worker base;
    struct request *requests[STOCK_BATCH_MAX];
    struct stock_order *orders[STOCK_BATCH_MAX]; /* the requests' orders, in the same sequence */
    int64_t took_ns;         /* duration of the last batch that decided something */
    struct stock_stats seen; /* already in the metrics */
    uint64_t redis_connects, ledger_connects;
    uint64_t recoveries;         /* already logged */
    enum problem refusal;        /* problem of the batch's undecided orders */
    unsigned random, collisions; /* collisions: consecutive undecided batches */
    _Atomic int64_t turned_ns;   /* start of its current turn; others may read it */
};

/* ---- from the queue and back ---- */

/* Answers requests for which no ids may be made. Takes them first, so that no other worker does. */
static void refuse(struct order_worker *worker, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct request *request = worker->requests[i];
        atomic_store_explicit(&request->published_id, 0, memory_order_relaxed);
        if (request_move(request, REQUEST_QUEUED, REQUEST_TAKEN)) {
            answer_problem(&request->answer, PROBLEM_NO_ORDER_ID);
            if (request_move(request, REQUEST_TAKEN, REQUEST_DONE)) /* else see answer */
                metrics_count(METRIC_ORDERS_UNAVAILABLE);
        }
    }
    queue_give_back(worker->base.service->orders, worker->requests, count);
}

enum { ID_PARTS = (STOCK_BATCH_MAX + ORDER_ID_RESERVE_MAX - 1) / ORDER_ID_RESERVE_MAX };

/* Reserves ids for a batch, in parts as large as the generator gives. False: it may make none. */
static bool reserve_ids(struct order_worker *worker, size_t count, uint64_t first_out[ID_PARTS],
                        uint64_t *now_ms_out)
{
    size_t reserved = 0;
    for (size_t part = 0; reserved < count; part++) {
        size_t left = count - reserved;
        size_t n = left < ORDER_ID_RESERVE_MAX ? left : ORDER_ID_RESERVE_MAX;
        first_out[part] = order_ids_reserve(&worker->base.service->ids, (unsigned)n, now_ms_out);
        if (first_out[part] == 0)
            return false;
        reserved += n;
    }
    return true;
}

/* Gives every request an id and marks it as taken; requests whose deadline came first go back to
 * their HTTP threads. Returns the number left to sell. */
static size_t take(struct order_worker *worker, size_t count, int64_t now_ns)
{
    struct request *withdrawn[STOCK_BATCH_MAX];
    size_t taken = 0, dropped = 0;
    uint64_t now_ms, first[ID_PARTS];
    if (!reserve_ids(worker, count, first, &now_ms)) {
        refuse(worker, count);
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        struct request *request = worker->requests[i];
        uint64_t id = first[i / ORDER_ID_RESERVE_MAX] + i % ORDER_ID_RESERVE_MAX;
        /* Set before the move: once the request is taken, its HTTP thread may report the id. */
        atomic_store_explicit(&request->published_id, id, memory_order_relaxed);
        if (!request_move(request, REQUEST_QUEUED, REQUEST_TAKEN)) {
            withdrawn[dropped++] = request;
            continue;
        }
        request->order.order_id = id;
        request->order.created_ms = (int64_t)now_ms;
        /* Its HTTP thread may have read the clock a moment later. */
        int64_t waited_ns = now_ns - request->stage_ns;
        metrics_observe(HISTOGRAM_STAGE_QUEUE, waited_ns > 0 ? (uint64_t)waited_ns : 0);
        worker->orders[taken] = &request->order;
        worker->requests[taken++] = request;
    }
    assert(taken + dropped == count);
    queue_give_back(worker->base.service->orders, withdrawn, dropped);
    return taken;
}

/* Puts an order that met busy segments back into the queue. False when the deadline came meanwhile:
 * its client knows the id, and another try would give the order a new one. */
static bool put_back(struct order_worker *worker, struct request *request, int64_t now_ns)
{
    request->stage_ns = now_ns; /* before the move, after which other threads may read it */
    if (!request_move(request, REQUEST_TAKEN, REQUEST_QUEUED))
        return false;
    stock_order_clear(&request->order);
    queue_push(worker->base.service->orders, request, request);
    return true;
}

/* Orders whose deadline came while a worker had them. */
struct late {
    size_t orders, accepted;
    struct trace example; /* of the first one */
};

/* Answers the decided orders, and returns their number. A stopped queue takes nothing back, so its
 * undecided orders are answered, too; and so are those whose time is over: if their client has gone
 * no HTTP thread would ever take them out of the queue. */
static size_t answer(struct order_worker *worker, size_t count, int64_t now_ns,
                     struct late *late_out)
{
    struct service *service = worker->base.service;
    size_t answered = 0, decided = 0;
    *late_out = (struct late){0};
    for (size_t i = 0; i < count; i++) {
        struct request *request = worker->requests[i];
        bool again = request->order.outcome == STOCK_AGAIN;
        bool over = again && stock_order_late(&request->order, now_ns);
        if (again && !over && !queue_stopped(service->orders) && put_back(worker, request, now_ns))
            continue; /* from now on another worker may have it */
        request->stage_ns = now_ns;
        /* An order counts once: if its deadline came first, as its client was told then. */
        if (!request_move(request, REQUEST_TAKEN, REQUEST_DONE)) {
            if (late_out->orders++ == 0)
                late_out->example = request->trace;
            late_out->accepted += request->order.outcome == STOCK_ACCEPTED;
            stock_order_clear(&request->order);
        } else if (over) {
            answer_problem(&request->answer,
                           request_why_untaken(request, atomic_load(&service->sold_ns)));
            stock_order_clear(&request->order);
        } else {
            order_answer(request, worker->refusal);
        }
        worker->requests[answered++] = request;
        decided += !again;
    }
    queue_give_back(service->orders, worker->requests, answered);
    return decided;
}

/* ---- metrics and log ---- */

static void count_connects(struct order_worker *worker)
{
    uint64_t redis = redis_stats(stock_redis(worker->base.stock)).connects;
    uint64_t ledger = ledger_stats(stock_ledger(worker->base.stock)).connects;
    if (redis > worker->redis_connects) {
        if (worker->redis_connects > 0)
            metrics_add(METRIC_REDIS_RECONNECTS, redis - worker->redis_connects);
        log_event(LOG_INFO, "redis_connected", "connects=%llu", (unsigned long long)redis);
    }
    if (ledger > worker->ledger_connects) {
        if (worker->ledger_connects > 0)
            metrics_add(METRIC_LEDGER_RECONNECTS, ledger - worker->ledger_connects);
        log_event(LOG_INFO, "ledger_connected", "connects=%llu", (unsigned long long)ledger);
    }
    worker->redis_connects = redis;
    worker->ledger_connects = ledger;
}

/* Counts the time since the last batch as that many calls of equal length; with one or two calls
 * per batch, little detail is lost. */
static void observe_calls(enum metrics_histogram histogram, uint64_t calls, uint64_t ns)
{
    for (uint64_t i = 0; i < calls; i++)
        metrics_observe(histogram, ns / calls);
}

/* The time of one batch. */
struct times {
    uint64_t all_ns, redis_ns, ledger_ns;
};

/* Each order of a batch counts with the whole batch's time. */
static struct times measure(struct order_worker *worker, size_t count, int64_t took_ns)
{
    struct stock_stats now = stock_stats(worker->base.stock);
    const struct stock_stats *seen = &worker->seen;
    const struct times times = {(uint64_t)took_ns, now.redis_calls_ns - seen->redis_calls_ns,
                                now.ledger_calls_ns - seen->ledger_calls_ns};
    uint64_t servers_ns = times.redis_ns + times.ledger_ns;
    metrics_observe_times(HISTOGRAM_STAGE_REDIS, times.redis_ns, count);
    metrics_observe_times(HISTOGRAM_STAGE_LEDGER, times.ledger_ns, count);
    metrics_observe_times(HISTOGRAM_STAGE_WORKER,
                          times.all_ns > servers_ns ? times.all_ns - servers_ns : 0, count);
    metrics_add(METRIC_RECOVERIES, now.recoveries - seen->recoveries);
    metrics_add(METRIC_LEDGER_REFUSALS, now.refusals - seen->refusals);
    metrics_add(METRIC_UNKNOWN_COMMITS, now.unknown_commits - seen->unknown_commits);
    observe_calls(HISTOGRAM_REDIS_SECONDS, now.redis_calls - seen->redis_calls, times.redis_ns);
    observe_calls(HISTOGRAM_LEDGER_SECONDS, now.ledger_calls - seen->ledger_calls, times.ledger_ns);
    worker->seen = now;
    return times;
}

/* Logs which servers failed in the batch, and the effect on its orders. Returns whether an order
 * could not be decided, and sets the problem that refuses such orders. */
static bool log_faults(struct order_worker *worker, size_t count)
{
    size_t unavailable = 0, doubt = 0;
    const struct trace *example = NULL;
    for (size_t i = 0; i < count; i++) {
        unavailable += worker->orders[i]->outcome == STOCK_UNAVAILABLE;
        doubt += worker->orders[i]->outcome == STOCK_IN_DOUBT;
        if (unavailable + doubt > 0 && !example)
            example = &worker->requests[i]->trace;
    }
    worker->refusal = faults_problem(worker->base.stock);
    if (doubt > 0)
        faults_log(worker->base.stock, "commit_in_doubt", doubt,
                   "the orders were answered 503 outcome_unknown: all of the batch are in the "
                   "ledger, or none will ever be",
                   example);
    if (unavailable > 0)
        faults_log(worker->base.stock, "unavailable", unavailable,
                   "the orders were answered 503 unavailable: nothing was done", example);
    if (unavailable + doubt == 0)
        faults_log(worker->base.stock, "retried", 0, "none: a further try decided the orders",
                   NULL);
    return unavailable + doubt > 0;
}

/* Logs that other clients held rows of the ledger; at most one line a second. */
static void log_held(const struct order_worker *worker)
{
    const struct stock_held *held = stock_held(worker->base.stock);
    if (held->count > 0)
        log_failure(LOG_WARN, "row_held", "ledger", "address=%s sku=%s row=%s holder=%s effect=%s",
                    stock_place(worker->base.stock, STOCK_LEDGER), held->sku, LOG_QUOTE(held->row),
                    LOG_QUOTE(held->holder),
                    LOG_QUOTE("orders that need the row are answered 503 unavailable until it is "
                              "free; the others go on"));
}

/* The only server that failed, else the slower one: an unanswered call is in neither sum. */
static enum stock_server slow_server(const struct order_worker *worker, const struct times *times)
{
    bool redis = stock_fault(worker->base.stock, STOCK_REDIS)->count > 0;
    bool ledger = stock_fault(worker->base.stock, STOCK_LEDGER)->count > 0;
    bool longer = times->redis_ns > times->ledger_ns;
    return (redis == ledger ? longer : redis) ? STOCK_REDIS : STOCK_LEDGER;
}

/* Logs late answers: even a slow server that does not fail costs clients their answers. */
static void log_late(const struct order_worker *worker, const struct late *late,
                     const struct times *times)
{
    enum stock_server slow = slow_server(worker, times);
    if (late->orders > 0)
        log_failure(LOG_WARN, "orders_late", slow == STOCK_REDIS ? "redis" : "ledger",
                    "address=%s orders=%zu accepted=%zu batch_ms=%llu redis_ms=%llu ledger_ms=%llu "
                    "effect=%s%s",
                    stock_place(worker->base.stock, slow), late->orders, late->accepted,
                    (unsigned long long)(times->all_ns / CLOCK_NS_PER_MS),
                    (unsigned long long)(times->redis_ns / CLOCK_NS_PER_MS),
                    (unsigned long long)(times->ledger_ns / CLOCK_NS_PER_MS),
                    LOG_QUOTE("the orders were answered 503 outcome_unknown at their deadline"),
                    TRACE_LOG(&late->example));
}

/* ---- one batch after the other ---- */

/* Workers that collided on segments must not retry in step. With few segments in a sale, the worker
 * that holds them goes on, and the other one retries ever less often. */
static void pause_randomly(struct order_worker *worker)
{
    long us = PAUSE_US_MIN + rand_r(&worker->random) % (PAUSE_US_MAX - PAUSE_US_MIN);
    clock_sleep_ns((us * 1000) << worker->collisions);
    if (worker->collisions < PAUSE_DOUBLINGS)
        worker->collisions++;
}

static void carry(struct order_worker *worker, size_t taken)
{
    int64_t start_ns = clock_now_ns();
    size_t count = take(worker, taken, start_ns);
    if (count == 0) /* all were withdrawn */
        return;
    struct late late;
    faults_begin(worker->base.stock);
    unsigned section = sale_cache_enter(worker->base.service->sale_cache);
    stock_sell(worker->base.stock, worker->orders, count);
    sale_cache_leave(worker->base.service->sale_cache, section);
    metrics_observe(HISTOGRAM_BATCH_ORDERS, count);
    bool failed = log_faults(worker, count); /* before answer, which gives the orders away */
    log_held(worker);
    int64_t decided_ns = clock_now_ns();
    const struct times times = measure(worker, count, decided_ns - start_ns);
    size_t decided = answer(worker, count, decided_ns, &late);
    log_late(worker, &late, &times);
    if (decided > 0 && !failed)
        atomic_store(&worker->base.service->sold_ns, clock_now_ns());
    faults_log_recoveries(worker->base.stock, &worker->recoveries);
    count_connects(worker);
    if (decided > 0) {
        worker->took_ns = clock_now_ns() - start_ns;
        worker->collisions = 0;
    } else {
        stock_flush(worker->base.stock); /* other workers need what this one gave back */
        pause_randomly(worker);
    }
}

/* How long an order may wait for a whole batch: three quarters of each daemon's batch time. */
static int64_t order_patience_ns(const struct order_worker *worker)
{
    const struct service *service = worker->base.service;
    int64_t daemons = 1 + atomic_load_explicit(&service->other_daemons, memory_order_relaxed);
    int64_t most_ns = PATIENCE_MS_MAX * CLOCK_NS_PER_MS;
    int64_t own_ns = worker->took_ns / 4 * 3;
    return own_ns < most_ns / daemons ? own_ns * daemons : most_ns;
}

/* why_linger: the settle of a batch rides with the next batch's trip to Redis. Without a next batch
 * soon, the worker sends the settle alone, or segments would stay locked for a lease. */
static size_t take_next(struct order_worker *worker, size_t max)
{
    struct queue *queue = worker->base.service->orders;
    int64_t patience_ns = order_patience_ns(worker);
    size_t taken = queue_take(queue, worker->requests, max, patience_ns, LINGER_MS);
    if (taken > 0)
        return taken;
    stock_flush(worker->base.stock);
    return queue_take(queue, worker->requests, max, patience_ns, IDLE_MS);
}

/* Keeps idle connections alive, and detects dead ones. */
static void ping(struct order_worker *worker)
{
    faults_begin(worker->base.stock);
    redis_ping(stock_redis(worker->base.stock));
    ledger_ping(stock_ledger(worker->base.stock));
    faults_log(worker->base.stock, "ping_failed", 0, "orders that come now may be refused", NULL);
}

static void run(void *context)
{
    struct order_worker *worker = context;
    struct queue *queue = worker->base.service->orders;
    size_t max = worker->base.service->config.max_batch;
    worker->random = (unsigned)(uintptr_t)worker;
    prctl(PR_SET_TIMERSLACK, 1); /* ns: by default the kernel adds 50 us to each patience */
    if (max > stock_batch_max(worker->base.stock)) /* the strategy may carry fewer */
        max = stock_batch_max(worker->base.stock);
    assert(max > 0 && max <= STOCK_BATCH_MAX);
    while (!queue_stopped(queue) || queue_waiting(queue)) {
        atomic_store_explicit(&worker->turned_ns, clock_now_ns(), memory_order_relaxed);
        size_t taken = take_next(worker, max);
        if (taken > 0)
            carry(worker, taken);
        else if (atomic_load(&worker->base.service->prepared))
            ping(worker);
    }
    stock_flush(
        worker->base.stock); /* now: other threads may take longer to end than a lease lasts */
}

int64_t order_worker_turned_ns(const struct service_worker *base)
{
    const struct order_worker *worker = (const struct order_worker *)base;
    return atomic_load_explicit(&worker->turned_ns, memory_order_relaxed);
}

const struct worker_kind order_worker_kind = {
    .name = "order-worker",
    .size = sizeof(struct order_worker),
    .servers = WORKER_OF_STOCK,
    .run = run,
};
