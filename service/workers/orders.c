/* A thread that carries batches of orders from the queue through the stock, and back as answers.
 *
 *   queue ─► take whatever waits, up to max_batch ─► stock_sell (Redis, ledger, Redis)
 *     ▲                                                  │
 *     └── those that met busy segments ◄─────────────────┤
 *   fronts ◄─ answers, one wake-up per front and batch ◄─┘
 *
 * While a batch is being committed the next one gathers by itself; waiting to fill one is not worth
 * it, but for the moment that lane_gather explains. */
#include "service/workers/orders.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/worker.h"
#include "service/calls/order_answer.h"
#include "service/http/loop.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/request.h"
#include "stock/sell.h"

enum {
    IDLE_MS = 1000, /* how often an idle lane shows its connections a sign of life */
    GATHER_US = 50, /* see lane_gather */
    GATHER_PART = 8,
    PAUSE_US_MIN = 200, /* after a batch in which nothing could be decided */
    PAUSE_US_MAX = 1000,
};

struct lane {
    struct worker worker;
    struct service *service;
    struct stock *stock;
    struct request *requests[STOCK_BATCH_MAX];
    struct stock_order *orders[STOCK_BATCH_MAX];
    size_t last;             /* size of the last batch */
    struct stock_stats seen; /* what the metrics know already */
    uint64_t redis_connects, ledger_connects;
    unsigned random;
};

/* Gives each front its requests in one list: one pass per front, of which there are few. */
static void return_all(struct request **requests, size_t count)
{
    while (count > 0) {
        struct http_thread *thread = requests[0]->http_thread;
        struct request *list = NULL;
        size_t kept = 0;
        for (size_t i = 0; i < count; i++) {
            if (requests[i]->http_thread != thread) {
                requests[kept++] = requests[i];
                continue;
            }
            requests[i]->queue_next = list;
            list = requests[i];
        }
        http_return(thread, list);
        count = kept;
    }
}

/* Marks what was taken from the queue as taken, with ids; what was given up meanwhile goes back to
 * its front. Returns how many are left to be sold. */
static size_t lane_take(struct lane *lane, size_t count)
{
    struct request *given_up[STOCK_BATCH_MAX];
    size_t taken = 0, dropped = 0;
    uint64_t id = order_ids_reserve(&lane->service->ids, (unsigned)count);
    for (size_t i = 0; i < count; i++, id++) {
        struct request *request = lane->requests[i];
        atomic_store_explicit(&request->published_id, id, memory_order_relaxed);
        if (!request_move(request, REQUEST_QUEUED, REQUEST_TAKEN)) {
            given_up[dropped++] = request;
            continue;
        }
        request->order.order_id = id;
        request->order.created_ms = (int64_t)order_id_time_ms(id);
        lane->orders[taken] = &request->order;
        lane->requests[taken++] = request;
    }
    for (size_t i = 0; i < dropped; i++)
        queue_leave(lane->service->orders, given_up[i]->flow);
    return_all(given_up, dropped);
    return taken;
}

/* Puts an order that met busy segments back into the queue. False when its client was told
 * meanwhile that it may be accepted, and by which id: it would get another. */
static bool put_back(struct lane *lane, struct request *request)
{
    if (!request_move(request, REQUEST_TAKEN, REQUEST_QUEUED))
        return false;
    stock_order_clear(&request->order);
    queue_push(lane->service->orders, request, request);
    return true;
}

/* Answers what was decided. Returns how many. */
static size_t lane_answer(struct lane *lane, size_t count)
{
    size_t decided = 0;
    for (size_t i = 0; i < count; i++) {
        struct request *request = lane->requests[i];
        if (request->order.outcome == STOCK_AGAIN && !queue_stopped(lane->service->orders) &&
            put_back(lane, request))
            continue;
        order_answer(request);
        request_move(request, REQUEST_TAKEN, REQUEST_DONE);
        queue_leave(lane->service->orders, request->flow);
        lane->requests[decided++] = request;
    }
    return_all(lane->requests, decided);
    return decided;
}

static void pause_randomly(struct lane *lane)
{
    long us = PAUSE_US_MIN + rand_r(&lane->random) % (PAUSE_US_MAX - PAUSE_US_MIN);
    clock_sleep_ns(us * 1000);
}

static void count_connects(struct lane *lane)
{
    uint64_t redis = stock_redis_connects(lane->stock);
    uint64_t ledger = ledger_stats(stock_ledger(lane->stock)).connects;
    if (redis > lane->redis_connects) {
        if (lane->redis_connects > 0)
            metrics_add(METRIC_REDIS_RECONNECTS, redis - lane->redis_connects);
        log_event(LOG_INFO, "redis_connected", "connects=%llu", (unsigned long long)redis);
    }
    if (ledger > lane->ledger_connects) {
        if (lane->ledger_connects > 0)
            metrics_add(METRIC_LEDGER_RECONNECTS, ledger - lane->ledger_connects);
        log_event(LOG_INFO, "ledger_connected", "connects=%llu", (unsigned long long)ledger);
    }
    lane->redis_connects = redis;
    lane->ledger_connects = ledger;
}

/* The time of the calls since the last look counts as that many calls of the same length: one look
 * per batch, so it is nearly always one or two. */
static void observe_calls(enum metrics_histogram histogram, uint64_t calls, uint64_t ns)
{
    for (uint64_t i = 0; i < calls; i++)
        metrics_observe(histogram, ns / calls);
}

static void lane_measure(struct lane *lane)
{
    struct stock_stats now = stock_stats(lane->stock);
    const struct stock_stats *seen = &lane->seen;
    metrics_add(METRIC_RECOVERIES, now.recoveries - seen->recoveries);
    metrics_add(METRIC_LEDGER_REFUSALS, now.refusals - seen->refusals);
    metrics_add(METRIC_UNKNOWN_COMMITS, now.unknown_commits - seen->unknown_commits);
    observe_calls(HISTOGRAM_REDIS_SECONDS, now.redis_calls - seen->redis_calls,
                  now.redis_calls_ns - seen->redis_calls_ns);
    observe_calls(HISTOGRAM_LEDGER_SECONDS, now.ledger_calls - seen->ledger_calls,
                  now.ledger_calls_ns - seen->ledger_calls_ns);
    lane->seen = now;
    count_connects(lane);
}

/* Says why an order could not be decided. Returns whether there was one. */
static bool lane_log(struct lane *lane, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        enum stock_outcome outcome = lane->orders[i]->outcome;
        if (outcome != STOCK_UNAVAILABLE && outcome != STOCK_IN_DOUBT)
            continue;
        log_event(LOG_WARN, outcome == STOCK_IN_DOUBT ? "commit_in_doubt" : "unavailable",
                  "redis=%s ledger=%s", LOG_QUOTE(stock_redis_error(lane->stock)),
                  LOG_QUOTE(ledger_error(stock_ledger(lane->stock))));
        return true;
    }
    return false;
}

static void lane_carry(struct lane *lane, size_t taken)
{
    size_t count = lane_take(lane, taken);
    if (count == 0) { /* all given up: the batch before them may have left its end to this one */
        stock_flush(lane->stock);
        return;
    }
    stock_sell(lane->stock, lane->orders, count);
    metrics_observe(HISTOGRAM_BATCH_ORDERS, count);
    bool failed = lane_log(lane, count);
    size_t decided = lane_answer(lane, count);
    if (decided > 0 && !failed)
        atomic_store(&lane->service->sold_ns, clock_now_ns());
    if (decided == 0 || !queue_waiting(lane->service->orders))
        stock_flush(lane->stock);
    lane_measure(lane);
    if (decided == 0)
        pause_randomly(lane);
}

/* Clients that were answered together order again together, and the first of them would get a round
 * and a commit of its own while the others arrive. After a much larger batch it is given a moment:
 * far less than that round would take. */
static size_t lane_gather(struct lane *lane, size_t taken, size_t max)
{
    if (taken * GATHER_PART < lane->last) {
        clock_sleep_ns(GATHER_US * 1000);
        taken += queue_take(lane->service->orders, lane->requests + taken, max - taken, 0);
    }
    lane->last = taken;
    return taken;
}

/* Keeps idle connections alive, and finds out when they are not. */
static void lane_ping(struct lane *lane)
{
    stock_ping_redis(lane->stock);
    stock_ping_ledger(lane->stock);
}

static void lane_main(void *context)
{
    struct lane *lane = context;
    struct queue *queue = lane->service->orders;
    size_t max = lane->service->config.max_batch;
    if (max > stock_batch_max(lane->stock))
        max = stock_batch_max(lane->stock);
    while (!queue_stopped(queue) || queue_waiting(queue)) {
        size_t taken = queue_take(queue, lane->requests, max, IDLE_MS);
        if (taken > 0)
            lane_carry(lane, lane_gather(lane, taken, max));
        else if (atomic_load(&lane->service->prepared))
            lane_ping(lane);
    }
}

struct lane *lane_start(struct service *service, char *error_out, size_t error_size)
{
    struct lane *lane = calloc(1, sizeof *lane);
    if (!lane)
        abort();
    lane->service = service;
    lane->random = (unsigned)(uintptr_t)lane;
    lane->stock = stock_open(&service->stock, service->sale_cache, error_out, error_size);
    if (!lane->stock) {
        free(lane);
        return NULL;
    }
    if (!worker_start(&lane->worker, lane_main, lane))
        abort();
    return lane;
}

void lane_join(struct lane **lane)
{
    if (*lane) {
        worker_join(&(*lane)->worker);
        stock_close(&(*lane)->stock);
    }
    free(*lane);
    *lane = NULL;
}
