/* A thread that carries batches of orders from the queue through the stock, and back as answers. */
#ifndef SECKILL_SERVICE_WORKERS_ORDERS_H
#define SECKILL_SERVICE_WORKERS_ORDERS_H

#include <stddef.h>

#include "service/service.h"

struct lane;

/* Starts a lane, which takes orders until service->orders is stopped and empty. NULL with the
 * reason in `error_out`. */
struct lane *lane_start(struct service *service, char *error_out, size_t error_size);

/* Waits for the thread to end, and frees it. */
void lane_join(struct lane **lane);

#endif
