/* The expiry worker: a thread that lets unpaid orders expire, at work in one daemon of many. */
#ifndef SECKILL_SERVICE_WORKERS_EXPIRY_H
#define SECKILL_SERVICE_WORKERS_EXPIRY_H

#include "service/service.h"

struct expiry_worker;

/* Starts the thread. NULL with the reason in `error_out`. */
struct expiry_worker *expiry_worker_start(struct service *service, char *error_out,
                                          size_t error_size);

/* Tells the thread to end after its present transaction, and does not wait for it. NULL is fine. */
void expiry_worker_stop(struct expiry_worker *worker);

/* Waits for the thread to end, and frees it. */
void expiry_worker_join(struct expiry_worker **worker);

#endif
