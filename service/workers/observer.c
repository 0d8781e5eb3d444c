/* The observer: a thread that reads in the background what the metrics show.
 *
 * why_a_thread: a page of metrics is made on an HTTP thread, which never waits for the ledger, and
 * however often it is asked for, it must not cost the ledger more. */
#include "service/workers/observer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/worker.h"
#include "service/faults.h"
#include "service/workers/health.h"

struct observer {
    struct worker thread;
    struct service *service;
    struct observed {          /* of each shard */
        struct ledger *ledger; /* its own connection */
        struct sale_figures *sales;
    } shards[SHARDS_MAX];
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

/* A failure is no news: the probe of the ledger has told of it, and the figures tell their age. A
 * ledger that is known to be down would hold up the others' figures, when it hangs. */
static bool look_at_sales(struct observer *observer, unsigned number)
{
    const struct service *service = observer->service;
    struct observed *observed = &observer->shards[number];
    bool known_down =
        service->shard_count > 1 && !health_shard_up(service->health, number, clock_now_ns());
    if (!atomic_load(&service->shards[number].prepared) || known_down)
        return false;
    sale_figures_turn(observed->sales, observed->ledger,
                      shard_clock_ms(&service->shards[number].clock));
    faults_log_damage(observed->ledger);
    fault_clear(ledger_fault(observed->ledger));
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
        for (unsigned i = 0; i < observer->service->shard_count; i++)
            looked = look_at_sales(observer, i) || looked;
        pause_ms = looked ? OBSERVER_PAUSE_MS : OBSERVER_PAUSE_MS / 10;
    } while (worker_sleep_ns(&observer->thread, pause_ms * CLOCK_NS_PER_MS));
}

static bool open_shards(struct observer *observer, char *error_out, size_t error_size)
{
    const struct service *service = observer->service;
    for (unsigned i = 0; i < service->shard_count; i++) {
        const struct stock_options *options = &service->shards[i].stock;
        observer->shards[i].sales = sale_figures_open();
        observer->shards[i].ledger =
            ledger_open(options->mysql_url, options->mysql_timeout_ms, error_out, error_size);
        if (!observer->shards[i].ledger)
            return false;
    }
    return true;
}

/* Also of an observer that was opened in part. */
static void observer_free(struct observer *observer)
{
    for (unsigned i = 0; i < SHARDS_MAX; i++) {
        if (observer->shards[i].ledger)
            ledger_close(&observer->shards[i].ledger);
        if (observer->shards[i].sales)
            sale_figures_close(&observer->shards[i].sales);
    }
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
    if (!open_shards(observer, error_out, error_size)) {
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

static int by_sku(const void *a, const void *b)
{
    return strcmp(((const struct ledger_sale *)a)->sku, ((const struct ledger_sale *)b)->sku);
}

/* Where not all can be shown, each shard shows its part. */
static void add_view(struct sale_figures_view *sum, const struct sale_figures_view *view,
                     unsigned shards_left)
{
    size_t room = (SALE_FIGURES_SHOWN_MAX - sum->shown) / shards_left;
    size_t shown = view->shown < room ? view->shown : room;
    memcpy(sum->sales + sum->shown, view->sales, shown * sizeof view->sales[0]);
    sum->shown += shown;
    sum->known += view->known;
    if (view->read_ms > sum->read_ms)
        sum->read_ms = view->read_ms;
}

void observer_sales(struct observer *observer, struct sale_figures_view *view_out)
{
    struct sale_figures_view view;
    unsigned count = observer->service->shard_count;
    sale_figures_view(observer->shards[0].sales, view_out);
    if (count == 1)
        return;
    view_out->shown = 0;
    view_out->known = 0;
    view_out->read_ms = 0;
    for (unsigned i = 0; i < count; i++) {
        sale_figures_view(observer->shards[i].sales, &view);
        add_view(view_out, &view, count - i);
    }
    qsort(view_out->sales, view_out->shown, sizeof view_out->sales[0], by_sku);
}
