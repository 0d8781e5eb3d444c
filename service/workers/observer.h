/* The observer: a thread that reads in the background what the metrics show and what would take
 * an HTTP thread too long: what is sold of the sales, and what the kernel says of the process. */
#ifndef SECKILL_SERVICE_WORKERS_OBSERVER_H
#define SECKILL_SERVICE_WORKERS_OBSERVER_H

#include "service/metrics/process_stats.h"
#include "service/metrics/sale_figures.h"
#include "service/service.h"

enum { OBSERVER_PAUSE_MS = 2000 };

struct observer;

/* Starts the thread, which asks the ledger once the service is prepared. NULL with the reason in
 * `error_out`. */
struct observer *observer_start(struct service *service, char *error_out, size_t error_size);

/* Tells the thread to end, and does not wait. NULL is fine. */
void observer_stop(struct observer *observer);

/* Waits for the thread, after all who read from it have ended, frees it and sets the pointer to
 * NULL. NULL is fine. */
void observer_join(struct observer **observer);

/* Copies what was last seen. Any thread, without waiting for a server. */
void observer_process(struct observer *observer, struct process_stats *stats_out);
void observer_sales(struct observer *observer, struct sale_figures_view *view_out);

#endif
