/* The gauges that are read when the page of metrics is made: queues, connections, servers, sales,
 * the process. All of them from memory. */
#ifndef SECKILL_SERVICE_LIVE_GAUGES_H
#define SECKILL_SERVICE_LIVE_GAUGES_H

#include "service/service.h"

enum { GAUGES_TEXT_MAX = 196608 }; /* bytes that the text never exceeds, with its NUL */

/* Writes them as Prometheus text, as metrics_print does, as of `now_ns` (monotonic). Also sets the
 * gauges of metrics.h that are read now, so it comes first. For HTTP threads, which the service's
 * `health` and `observer` outlive. */
size_t gauges_print(struct service *service, int64_t now_ns, char *buffer, size_t size);

#endif
