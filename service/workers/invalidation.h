/* Hears from other processes that a sale has units again. */
#ifndef SECKILL_SERVICE_WORKERS_INVALIDATION_H
#define SECKILL_SERVICE_WORKERS_INVALIDATION_H

#include "service/service.h"

struct news;

/* Starts the listening thread. NULL with the reason in `error_out`. */
struct news *news_start(struct service *service, char *error_out, size_t error_size);

/* Tells the thread to end, and does not wait for it. NULL is fine. */
void news_stop(struct news *news);

/* Waits for the thread to end, and frees it. */
void news_join(struct news **news);

#endif
