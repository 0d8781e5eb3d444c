/* The workers: opens, starts and ends them. */
#include "service/workers/workers.h"

#include <assert.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/memory.h"
#include "lock/seclock.h"
#include "lua/redis.h"
#include "service/log/log.h"

/* ---- one daemon of many ---- */

/* Pods other than 0 add their number to the lock's name, as they may share a Redis. */
static bool election_open(struct election *election, struct service *service, const char *name)
{
    const struct config *config = &service->config;
    const char *const servers[] = {config->redis_url, NULL};
    const struct seclock_options options =
        SECLOCK_OPTIONS(.servers = servers, .prefix = STOCK_PREFIX,
                        .lease_ms = (int)config->lease_ms,
                        .timeout_ms = (int)config->redis_timeout_ms);
    if (config->pod > 0)
        snprintf(election->name, sizeof election->name, "%s:%u", name, config->pod);
    else
        snprintf(election->name, sizeof election->name, "%s", name);
    if (seclock_open(&options, &election->locks) == SECLOCK_OK)
        return true;
    snprintf(service->error, REASON_SIZE, "%s", seclock_error());
    return false;
}

/* Gives the lock back, so that another daemon need not wait for the lease. */
static void election_resign(struct election *election)
{
    if (election->held) /* otherwise seclock_error keeps why it is not */
        seclock_resign(election->held);
    seclock_free(&election->held);
}

bool election_held(const struct election *election)
{
    return election->held && seclock_state(election->held) == SECLOCK_STATE_HELD;
}

/* Tries to be elected, unless this daemon is, and logs what changes. The lock's watchdog renews the
 * lease. */
static enum election_result hold(struct service_worker *worker, const struct election_task *task)
{
    struct election *election = &worker->election;
    const struct seclock_request request =
        SECLOCK_REQUEST(.name = election->name, .kind = SECLOCK_KIND_SIMPLE);
    if (election_held(election))
        return ELECTION_HELD;
    if (election->held)
        log_event(LOG_WARN, task->lost, "effect=%s", LOG_QUOTE(task->lost_effect));
    election_resign(election);
    enum seclock_result result = seclock_campaign(
        election->locks, &request, node_holder(&worker->service->node), &election->held);
    if (result == SECLOCK_OK) {
        log_event(LOG_INFO, task->won, NULL);
        return ELECTION_HELD;
    }
    election_resign(election); /* an election in doubt has a handle, too */
    if (result == SECLOCK_BUSY)
        return ELECTION_OTHER;
    log_failure(LOG_WARN, task->failed, "redis", "error=%s effect=%s", LOG_QUOTE(seclock_error()),
                LOG_QUOTE(task->failed_effect));
    return ELECTION_FAILED;
}

/* ---- one worker ---- */

static int bounded(unsigned timeout_ms, unsigned max_ms)
{
    return (int)(max_ms == 0 || timeout_ms < max_ms ? timeout_ms : max_ms);
}

static bool open_connections(struct service_worker *worker)
{
    struct service *service = worker->service;
    const struct config *config = &service->config;
    const struct worker_kind *kind = worker->kind;
    char *error = service->error;
    if (kind->servers & WORKER_OF_REDIS)
        worker->redis =
            redis_open(config->redis_url, bounded(config->redis_timeout_ms, kind->redis_ms_max),
                       error, REASON_SIZE);
    if (kind->servers & WORKER_OF_LEDGER)
        worker->ledger =
            ledger_open(config->mysql_url, bounded(config->mysql_timeout_ms, kind->ledger_ms_max),
                        error, REASON_SIZE);
    if (kind->servers & WORKER_OF_STOCK)
        worker->stock = stock_open(&service->stock, service->sale_cache, error, REASON_SIZE);
    unsigned opened = (worker->redis ? WORKER_OF_REDIS : 0) |
                      (worker->ledger ? WORKER_OF_LEDGER : 0) |
                      (worker->stock ? WORKER_OF_STOCK : 0);
    return opened == kind->servers;
}

struct service_worker *service_worker_open(const struct worker_kind *kind, struct service *service,
                                           unsigned number)
{
    struct service_worker *worker = memory_must(calloc(1, kind->size));
    worker->kind = kind;
    worker->service = service;
    worker->number = number;
    if (!open_connections(worker) ||
        (kind->task && !election_open(&worker->election, service, kind->task->lock)) ||
        (kind->open && !kind->open(worker)))
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
            result = hold(worker, task);
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
    election_resign(&worker->election);
    seclock_close(&worker->election.locks);
    stock_close(&worker->stock);
    ledger_close(&worker->ledger);
    redis_close(&worker->redis);
    free(worker);
}

/* ---- all workers ---- */

/* Opens and starts a worker. */
static bool start(struct service_worker **worker_out, const struct worker_kind *kind,
                  struct service *service, unsigned number)
{
    *worker_out = service_worker_open(kind, service, number);
    if (*worker_out)
        service_worker_start(*worker_out);
    return *worker_out;
}

bool workers_start(struct workers *workers, struct service *service)
{
    unsigned order_workers = service->config.order_workers;
    bool good = true;
    assert(order_workers <= ORDER_WORKERS_MAX);
    for (unsigned i = 0; i < order_workers && good; i++)
        good = start(&workers->order_workers[i], &order_worker_kind, service, i);
    for (unsigned i = 0; i < CALL_KINDS && good; i++)
        good = start(&workers->call_workers[i],
                     i == CALL_EVENTS ? &event_feed_kind : &call_worker_kind, service, i);
    if (good && service->config.events_retention_h > 0)
        good = start(&workers->event_publisher, &event_publisher_kind, service, 0) &&
               start(&workers->webhook_sender, &webhook_sender_kind, service, 0);
    if (good && start(&workers->expiry_worker, &expiry_worker_kind, service, 0) &&
        start(&workers->invalidation_listener, &invalidation_listener_kind, service, 0))
        workers->preparer = service_worker_open(&preparer_kind, service, 0);
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
