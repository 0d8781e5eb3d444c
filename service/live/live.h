/* The live thread: once a second it reads this daemon, the others of its group, and the sales. Open
 * dashboards, the metrics, and the progress in the log show what it has read last. */
#ifndef SECKILL_SERVICE_LIVE_LIVE_H
#define SECKILL_SERVICE_LIVE_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "service/live/live_sales.h"
#include "service/metrics/process_stats.h"
#include "service/metrics/rates.h"
#include "service/service.h"
#include "sql/payments/payments.h"

enum { LIVE_PAUSE_MS = 1000 };

/* Makes service->live and starts its thread; `address` is the one that buyers use. False with the
 * reason in service->error. */
bool live_start(struct service *service, const char *address);

/* Tells the thread to end, and does not wait. NULL is fine. */
void live_stop(struct live *live);

/* Waits for the thread, which leaves the group, frees it and sets the pointer to NULL. Call after
 * all threads that read from it have ended. NULL is fine. */
void live_join(struct live **live);

/* ---- its last readings: any thread, without waiting for a server ---- */

/* A hold on the text that dashboards show; NULL before the first. */
struct prepared *live_page(struct live *live);

void live_process(struct live *live, struct process_stats *stats_out);
void live_figures(struct live *live, struct live_figures *figures_out);

/* The payments that the shop is to pay back. False before they are first known. */
bool live_refunds(struct live *live, struct ledger_refunds_due *refunds_out);

/* Writes the gauges of the feed of events and of webhooks, like metrics_print. */
void live_print_events(struct live *live, FILE *page);

/* ---- the metrics ---- */

/* Writes the gauges that are read when the metrics page is made, as of `now_ns` (monotonic), like
 * metrics_print. For HTTP threads, which the service's `health` and `live` outlive. */
void gauges_print(struct service *service, int64_t now_ns, FILE *page);

/* ---- the line of progress, for the live thread only ---- */

struct progress {
    int64_t told_ns; /* when the last line was logged, or the thread began */
    struct rates rates;
};

/* Logs the progress, when the next line is due. */
void progress_tell(struct progress *progress, const struct service *service,
                   struct live_sales *sales, int64_t now_ns);

#endif
