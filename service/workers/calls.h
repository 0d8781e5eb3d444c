/* Call workers: threads that carry everything but orders, one for each kind of calls. */
#ifndef SECKILL_SERVICE_WORKERS_CALLS_H
#define SECKILL_SERVICE_WORKERS_CALLS_H

#include "service/service.h"

/* A call worker's thread; the calls see its struct call_worker (request/request.h). */
struct call_worker_thread;

/* Starts the worker of a kind of calls, with connections of its own, which takes requests
 * until the queue of the kind is stopped and empty. NULL with the reason in `error_out`. */
struct call_worker_thread *call_worker_start(struct service *service, enum call_kind kind,
                                             char *error_out, size_t error_size);

/* Waits for the thread to end, and frees it. */
void call_worker_join(struct call_worker_thread **thread);

#endif
