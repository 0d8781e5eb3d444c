/* Lets orders expire that were not paid in time: a thread, at work in one daemon of many. */
#ifndef SECKILL_SERVICE_WORKERS_EXPIRY_H
#define SECKILL_SERVICE_WORKERS_EXPIRY_H

#include "service/service.h"

struct expirer;

/* Starts the thread. NULL with the reason in `error_out`. */
struct expirer *expirer_start(struct service *service, char *error_out, size_t error_size);

/* Tells the thread to end after the transaction it is in, and does not wait for it. NULL is
 * fine. */
void expirer_stop(struct expirer *expirer);

/* Waits for the thread to end, and frees it. */
void expirer_join(struct expirer **expirer);

#endif
