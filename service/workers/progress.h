/* The line of progress: what goes on, every log_every seconds, as event=progress in the log. */
#ifndef SECKILL_SERVICE_WORKERS_PROGRESS_H
#define SECKILL_SERVICE_WORKERS_PROGRESS_H

#include "service/service.h"

enum { PROGRESS_SALES_MAX = 5 }; /* sales with a line of their own at a time */

struct progress;

/* Starts the thread, after the observer; there is none, and the result is NULL, when log_every
 * is 0. */
struct progress *progress_start(struct service *service);

/* Tells the thread to end, and does not wait. NULL is fine. */
void progress_stop(struct progress *progress);

/* Waits for the thread, frees it and sets the pointer to NULL. NULL is fine. */
void progress_join(struct progress **progress);

#endif
