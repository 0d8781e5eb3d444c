/* The live thread: says once a second how this daemon is, to the group and to open dashboards. */
#ifndef SECKILL_SERVICE_LIVE_LIVE_H
#define SECKILL_SERVICE_LIVE_LIVE_H

#include <stddef.h>

#include "service/service.h"

enum { LIVE_PAUSE_MS = 1000 };

struct live;

/* Starts the thread; `address` is where the daemon serves buyers. NULL with the reason in
 * `error_out`. */
struct live *live_start(struct service *service, const char *address, char *error_out,
                        size_t error_size);

/* Tells the thread to end, and does not wait. NULL is fine. */
void live_stop(struct live *live);

/* Waits for the thread, which leaves the group, frees it and sets the pointer to NULL. NULL is
 * fine. */
void live_join(struct live **live);

#endif
