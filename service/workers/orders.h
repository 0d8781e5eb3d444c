/* Order workers: threads that carry batches of orders from the queue through Redis and the ledger,
 * and back to the HTTP threads as answers. */
#ifndef SECKILL_SERVICE_WORKERS_ORDERS_H
#define SECKILL_SERVICE_WORKERS_ORDERS_H

#include <stddef.h>

#include "service/service.h"

struct order_worker;

/* Starts an order worker, with connections of its own, which takes orders until the queue is
 * stopped and empty. NULL with the reason in `error_out`. */
struct order_worker *order_worker_start(struct service *service, char *error_out,
                                        size_t error_size);

/* When it last began to look for orders (monotonic): each second, or after each batch. Any
 * thread. */
int64_t order_worker_turned_ns(const struct order_worker *worker);

/* Waits for the thread to end, and frees the worker. */
void order_worker_join(struct order_worker **worker);

#endif
