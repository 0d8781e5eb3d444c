/* The line of progress: every log_every seconds, from what the live thread reads anyway. */
#include "service/live/live.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "service/log/log.h"
#include "service/metrics/rates.h"

enum {
    TEXT_SIZE = 192,
    PROGRESS_SALES_MAX = 5, /* sales with their own line at a time */
};

static int compare(const void *a, const void *b)
{
    uint32_t one = ((const struct live_moved *)a)->units;
    uint32_t other = ((const struct live_moved *)b)->units;
    return one < other ? 1 : one > other ? -1 : 0;
}

/* ---- the lines ---- */

/* Prints the daemon's load, for the end of each line. */
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

static void write_lines(struct progress *progress, const struct service *service,
                        struct live_sales *sales, int64_t now_ns)
{
    struct rates_figures figures;
    struct live_moved moved[LIVE_FIGURES_MAX];
    char daemon[TEXT_SIZE];
    size_t queue = queue_depth(service->orders);
    rates_take(&progress->rates, now_ns, service->config.order_workers, &figures);
    size_t count = live_sales_moved(sales, moved);
    if (figures.answered == 0 && queue == 0)
        return;
    qsort(moved, count, sizeof *moved, compare);
    print_daemon(&figures, queue, daemon);
    for (size_t i = 0; i < count && i < PROGRESS_SALES_MAX; i++)
        log_event(LOG_INFO, "progress", "sku=%s round=%u sold=%u total=%u per_s=%.1f %s",
                  moved[i].sale->sku, moved[i].sale->round, moved[i].sale->sold,
                  moved[i].sale->total, moved[i].units / figures.seconds, daemon);
    if (count == 0 || count > PROGRESS_SALES_MAX)
        log_event(LOG_INFO, "progress", "sales=%zu %s", count, daemon);
}

void progress_tell(struct progress *progress, const struct service *service,
                   struct live_sales *sales, int64_t now_ns)
{
    const int64_t early_ns = LIVE_PAUSE_MS / 2 * CLOCK_NS_PER_MS; /* the next turn is later still */
    int64_t pause_ns = service->config.log_every * CLOCK_NS_PER_S;
    if (pause_ns == 0 || now_ns + early_ns < progress->told_ns + pause_ns)
        return;
    write_lines(progress, service, sales, now_ns);
    progress->told_ns = now_ns;
}
