/* The invalidation listener: a thread that forgets cached stock when other daemons change it. */
#ifndef SECKILL_SERVICE_WORKERS_INVALIDATION_H
#define SECKILL_SERVICE_WORKERS_INVALIDATION_H

#include "service/service.h"

struct invalidation_listener;

/* Starts the thread. NULL with the reason in `error_out`. */
struct invalidation_listener *invalidation_listener_start(struct service *service, char *error_out,
                                                          size_t error_size);

/* Tells the thread to end, and does not wait for it. NULL is fine. */
void invalidation_listener_stop(struct invalidation_listener *listener);

/* Waits for the thread to end, and frees it. */
void invalidation_listener_join(struct invalidation_listener **listener);

#endif
