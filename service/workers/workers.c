/* The workers: opens, starts and ends them. */
#include "service/workers/workers.h"

#include <assert.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/memory.h"
#include "lua/redis.h"

/* ---- one worker ---- */

static int bounded(unsigned timeout_ms, unsigned max_ms)
{
    return (int)(max_ms == 0 || timeout_ms < max_ms ? timeout_ms : max_ms);
}

static bool open_connections(struct service_worker *worker, char *error_out, size_t error_size)
{
    const struct service *service = worker->service;
    const struct config *config = &service->config;
    unsigned max_ms = worker->kind->timeout_ms_max;
    switch (worker->kind->servers) {
    case WORKER_OF_REDIS:
        worker->redis = redis_open(config->redis_url, bounded(config->redis_timeout_ms, max_ms),
                                   error_out, error_size);
        return worker->redis;
    case WORKER_OF_LEDGER:
        worker->ledger = ledger_open(config->mysql_url, bounded(config->mysql_timeout_ms, max_ms),
                                     error_out, error_size);
        return worker->ledger;
    case WORKER_OF_STOCK:
        worker->stock = stock_open(&service->stock, service->sale_cache, error_out, error_size);
        break;
    }
    return worker->stock;
}

struct service_worker *service_worker_open(const struct worker_kind *kind, struct service *service,
                                           unsigned number, char *error_out, size_t error_size)
{
    struct service_worker *worker = memory_must(calloc(1, kind->size));
    worker->kind = kind;
    worker->service = service;
    worker->number = number;
    if (!open_connections(worker, error_out, error_size) ||
        (kind->task &&
         !election_open(&worker->election, service, kind->task->lock, error_out, error_size)) ||
        (kind->open && !kind->open(worker, error_out, error_size)))
        service_worker_join(&worker);
    return worker;
}

static void run_task(struct service_worker *worker, const struct election_task *task)
{
    enum { FAILED_MS = 400 }; /* added after a failure: time to elect another daemon */
    while (!worker_stopping(&worker->thread)) {
        int pause_ms = task->period_ms;
        enum election_result result = ELECTION_NONE;
        /* Before the service is prepared, the ledger's tables may not be there. */
        if (atomic_load(&worker->service->prepared))
            result = election_hold(&worker->election, task);
        if (result == ELECTION_HELD && !task->work(worker)) {
            result = ELECTION_NONE;
            election_resign(&worker->election);
            pause_ms += FAILED_MS;
        }
        task->tell(worker, result);
        worker_sleep_ns(&worker->thread, pause_ms * CLOCK_NS_PER_MS);
    }
    task->tell(worker, ELECTION_NONE);
    election_resign(&worker->election);
}

static void run(void *context)
{
    struct service_worker *worker = context;
    prctl(PR_SET_NAME, worker->kind->name);
    if (worker->kind->task)
        run_task(worker, worker->kind->task);
    else
        worker->kind->run(worker);
}

void service_worker_start(struct service_worker *worker)
{
    if (!worker_start(&worker->thread, run, worker))
        abort();
}

void service_worker_stop(struct service_worker *worker)
{
    if (worker)
        worker_stop(&worker->thread);
}

void service_worker_join(struct service_worker **worker_pointer)
{
    struct service_worker *worker = *worker_pointer;
    *worker_pointer = NULL;
    if (!worker)
        return;
    worker_join(&worker->thread);
    if (worker->kind->close)
        worker->kind->close(worker);
    election_close(&worker->election);
    stock_close(&worker->stock);
    ledger_close(&worker->ledger);
    redis_close(&worker->redis);
    free(worker);
}

/* ---- all workers ---- */

/* Opens and starts a worker. False with the reason in `error_out`. */
static bool start(struct service_worker **worker_out, const struct worker_kind *kind,
                  struct service *service, unsigned number, char *error_out, size_t error_size)
{
    *worker_out = service_worker_open(kind, service, number, error_out, error_size);
    if (*worker_out)
        service_worker_start(*worker_out);
    return *worker_out;
}

bool workers_start(struct workers *workers, struct service *service, char *error_out,
                   size_t error_size)
{
    unsigned order_workers = service->config.order_workers;
    bool good = true;
    assert(order_workers <= ORDER_WORKERS_MAX);
    for (unsigned i = 0; i < order_workers && good; i++)
        good = start(&workers->order_workers[i], &order_worker_kind, service, i, error_out,
                     error_size);
    for (unsigned i = 0; i < CALL_KINDS && good; i++)
        good = start(&workers->call_workers[i],
                     i == CALL_EVENTS ? &event_feed_kind : &call_worker_kind, service, i, error_out,
                     error_size);
    if (good && service->config.events_retention_h > 0)
        good = start(&workers->event_publisher, &event_publisher_kind, service, 0, error_out,
                     error_size) &&
               start(&workers->webhook_sender, &webhook_sender_kind, service, 0, error_out,
                     error_size);
    if (good &&
        start(&workers->expiry_worker, &expiry_worker_kind, service, 0, error_out, error_size) &&
        start(&workers->invalidation_listener, &invalidation_listener_kind, service, 0, error_out,
              error_size))
        workers->preparer = service_worker_open(&preparer_kind, service, 0, error_out, error_size);
    return workers->preparer;
}

int64_t workers_turned_ns(const struct workers *workers)
{
    int64_t oldest_ns = INT64_MAX;
    for (unsigned i = 0; i < ORDER_WORKERS_MAX && workers->order_workers[i]; i++) {
        int64_t turned_ns = order_worker_turned_ns(workers->order_workers[i]);
        if (turned_ns < oldest_ns)
            oldest_ns = turned_ns;
    }
    return oldest_ns;
}

void workers_stop(struct workers *workers)
{
    service_worker_stop(workers->preparer);
    service_worker_stop(workers->expiry_worker);
    service_worker_stop(workers->event_publisher);
    service_worker_stop(workers->webhook_sender);
}

void workers_join(struct workers *workers)
{
    service_worker_join(&workers->expiry_worker);
    service_worker_join(&workers->webhook_sender);
    service_worker_join(&workers->event_publisher);
    for (int kind = 0; kind < CALL_KINDS; kind++)
        service_worker_join(&workers->call_workers[kind]);
    for (unsigned i = 0; i < ORDER_WORKERS_MAX; i++)
        service_worker_join(&workers->order_workers[i]);
    service_worker_join(&workers->invalidation_listener);
    service_worker_join(&workers->preparer); /* gives the node back: no thread makes ids any more */
}
