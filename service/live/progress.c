/* The line of progress: what goes on, every log_every seconds.
 *
 * why_a_thread: when the ledger or Redis hangs, the line must come all the same. So this thread
 * asks neither: it reads the metrics, and the figures of sales that the live thread has read. */
#include "service/live/live.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/worker.h"
#include "service/log/log.h"
#include "service/metrics/rates.h"

enum {
    TEXT_SIZE = 192,
    PROGRESS_SALES_MAX = 5, /* sales with a line of their own at a time */
};

/* A sale in which units were sold since the last look. */
struct moved {
    const struct ledger_sale *sale;
    uint32_t units;
};

struct progress {
    struct worker thread;
    struct service *service;
    struct rates rates;
    struct live_figures views[2]; /* the present one, and the one before it with its time */
    int present;
};

/* ---- sales ---- */

static const struct ledger_sale *find(const struct live_figures *view, const char *sku)
{
    for (size_t i = 0; i < view->shown; i++)
        if (strcmp(view->sales[i].sku, sku) == 0)
            return &view->sales[i];
    return NULL;
}

static int compare(const void *a, const void *b)
{
    uint32_t one = ((const struct moved *)a)->units, other = ((const struct moved *)b)->units;
    return one < other ? 1 : one > other ? -1 : 0;
}

/* Lists the sales that moved between two views, the busiest first. A round that has begun in
 * between counts from the next view on. */
static size_t list_moved(const struct live_figures *before, const struct live_figures *now,
                         struct moved *moved_out)
{
    size_t count = 0;
    for (size_t i = 0; i < now->shown; i++) {
        const struct ledger_sale *sale = &now->sales[i], *old = find(before, sale->sku);
        if (old && old->round == sale->round && sale->sold > old->sold)
            moved_out[count++] = (struct moved){sale, sale->sold - old->sold};
    }
    qsort(moved_out, count, sizeof *moved_out, compare);
    return count;
}

/* Looks at the live thread's figures. The number of sales that moved, and over how many ms; 0 while
 * there are no newer figures. */
static size_t look_at_sales(struct progress *progress, struct moved *moved_out, int64_t *ms_out)
{
    const struct live_figures *before = &progress->views[progress->present];
    struct live_figures *now = &progress->views[!progress->present];
    live_figures(progress->service->live, now);
    *ms_out = now->read_ms - before->read_ms;
    if (*ms_out <= 0)
        return 0;
    progress->present = !progress->present;
    return before->read_ms > 0 ? list_moved(before, now, moved_out) : 0;
}

/* ---- the lines ---- */

/* What the daemon does, for the end of each line. */
static void print_daemon(const struct rates_figures *figures, size_t queue, char out[TEXT_SIZE])
{
    char p99[32] = "";
    if (!isnan(figures->p99_ms))
        snprintf(p99, sizeof p99, " p99_ms=%.1f", figures->p99_ms);
    snprintf(out, TEXT_SIZE,
             "orders_per_s=%.1f repeats_per_s=%.1f refused_per_s=%.1f errors_per_s=%.1f%s "
             "queue=%zu",
             figures->per_s[RATES_ACCEPTED], figures->per_s[RATES_REPLAYED],
             figures->per_s[RATES_SOLD_OUT] + figures->per_s[RATES_REFUSED],
             figures->per_s[RATES_ERRORS], p99, queue);
}

static void write_lines(struct progress *progress)
{
    struct rates_figures figures;
    struct moved moved[LIVE_FIGURES_MAX];
    char daemon[TEXT_SIZE];
    int64_t ms = 0;
    size_t queue = queue_depth(progress->service->orders);
    rates_take(&progress->rates, clock_now_ns(), progress->service->config.order_workers, &figures);
    size_t count = look_at_sales(progress, moved, &ms);
    if (figures.answered == 0 && queue == 0)
        return;
    print_daemon(&figures, queue, daemon);
    for (size_t i = 0; i < count && i < PROGRESS_SALES_MAX; i++)
        log_event(LOG_INFO, "progress", "sku=%s round=%u sold=%u total=%u per_s=%.1f %s",
                  moved[i].sale->sku, moved[i].sale->round, moved[i].sale->sold,
                  moved[i].sale->total, (double)moved[i].units * 1000 / (double)ms, daemon);
    if (count == 0 || count > PROGRESS_SALES_MAX)
        log_event(LOG_INFO, "progress", "sales=%zu %s", count, daemon);
}

static void run(void *context)
{
    struct progress *progress = context;
    int64_t pause_ns = progress->service->config.log_every * CLOCK_NS_PER_S;
    prctl(PR_SET_NAME, "progress");
    rates_begin(&progress->rates, clock_now_ns());
    while (worker_sleep_ns(&progress->thread, pause_ns))
        write_lines(progress);
}

struct progress *progress_start(struct service *service)
{
    if (service->config.log_every == 0)
        return NULL;
    struct progress *progress = calloc(1, sizeof *progress);
    if (!progress)
        abort();
    progress->service = service;
    if (!worker_start(&progress->thread, run, progress))
        abort();
    return progress;
}

void progress_stop(struct progress *progress)
{
    if (progress)
        worker_stop(&progress->thread);
}

void progress_join(struct progress **progress)
{
    if (*progress)
        worker_join(&(*progress)->thread);
    free(*progress);
    *progress = NULL;
}
