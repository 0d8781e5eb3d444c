/* Call workers: threads that answer everything but orders, look-ups and admin calls. */
#ifndef SECKILL_SERVICE_WORKERS_CALLS_H
#define SECKILL_SERVICE_WORKERS_CALLS_H

#include "service/service.h"

struct desk_thread;

/* Starts a call worker, which takes requests from service->calls until that is stopped and empty.
 * NULL with the reason in `error_out`. */
struct desk_thread *desk_start(struct service *service, char *error_out, size_t error_size);

/* Waits for the thread to end, and frees it. */
void desk_join(struct desk_thread **thread);

#endif
