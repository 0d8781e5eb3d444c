/* The observer: a thread that reads in the background what the metrics show.
 *
 * why_a_thread: a page of metrics is made on an HTTP thread, which never waits for the ledger, and
 * however often it is asked for, it must not cost the ledger more. */
#include "service/workers/observer.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/worker.h"
#include "service/request/faults.h"

struct observer {
    struct worker thread;
    struct service *service;
    struct ledger *ledger; /* its own connection */
    struct sale_figures *sales;
    pthread_mutex_t mutex; /* guards `process` */
    struct process_stats process;
};

/* The start stays what it was first found to be: whoever sees it change takes it for a restart,
 * and the clock that it is a time of may be set. */
static void look_at_process(struct observer *observer)
{
    struct process_stats stats;
    process_stats_read(&stats);
    if (observer->process.start_s > 0)
        stats.start_s = observer->process.start_s;
    pthread_mutex_lock(&observer->mutex);
    observer->process = stats;
    pthread_mutex_unlock(&observer->mutex);
}

/* A failure is no news: the probe of the ledger has told of it, and the figures tell their age. */
static bool look_at_sales(struct observer *observer)
{
    const struct service *service = observer->service;
    if (!atomic_load(&service->prepared))
        return false;
    sale_figures_turn(observer->sales, observer->ledger, synced_clock_ms(&service->clock));
    faults_log_damage(observer->ledger);
    fault_clear(ledger_fault(observer->ledger));
    return true;
}

static void run(void *context)
{
    struct observer *observer = context;
    prctl(PR_SET_NAME, "observer");
    bool looked = false;
    int64_t pause_ms = 0;
    do {
        look_at_process(observer);
        looked = look_at_sales(observer);
        pause_ms = looked ? OBSERVER_PAUSE_MS : OBSERVER_PAUSE_MS / 10;
    } while (worker_sleep_ns(&observer->thread, pause_ms * CLOCK_NS_PER_MS));
}

/* Also of an observer that was opened in part. */
static void observer_free(struct observer *observer)
{
    if (observer->ledger)
        ledger_close(&observer->ledger);
    sale_figures_close(&observer->sales);
    pthread_mutex_destroy(&observer->mutex);
    free(observer);
}

struct observer *observer_start(struct service *service, char *error_out, size_t error_size)
{
    struct observer *observer = calloc(1, sizeof *observer);
    if (!observer)
        abort();
    observer->service = service;
    pthread_mutex_init(&observer->mutex, NULL);
    observer->sales = sale_figures_open();
    observer->ledger = ledger_open(service->stock.mysql_url, service->stock.mysql_timeout_ms,
                                   error_out, error_size);
    if (!observer->ledger) {
        observer_free(observer);
        return NULL;
    }
    if (!worker_start(&observer->thread, run, observer))
        abort();
    return observer;
}

void observer_stop(struct observer *observer)
{
    if (observer)
        worker_stop(&observer->thread);
}

void observer_join(struct observer **observer_pointer)
{
    struct observer *observer = *observer_pointer;
    *observer_pointer = NULL;
    if (!observer)
        return;
    worker_join(&observer->thread);
    observer_free(observer);
}

void observer_process(struct observer *observer, struct process_stats *stats_out)
{
    pthread_mutex_lock(&observer->mutex);
    *stats_out = observer->process;
    pthread_mutex_unlock(&observer->mutex);
}

void observer_sales(struct observer *observer, struct sale_figures_view *view_out)
{
    sale_figures_view(observer->sales, view_out);
}
