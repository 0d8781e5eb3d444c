/* What the kernel says of this process: memory, descriptors, start. */
#ifndef SECKILL_SERVICE_METRICS_PROCESS_STATS_H
#define SECKILL_SERVICE_METRICS_PROCESS_STATS_H

#include <stdint.h>

struct process_stats {
    double start_s; /* since 1970 (UTC) */
    uint64_t resident_bytes;
    uint64_t virtual_bytes;
    uint64_t files; /* open descriptors */
    uint64_t files_max;
    uint64_t threads;
};

/* Reads them. What the kernel does not say is 0. With an older kernel (before 6.2) the descriptors
 * are counted one by one, which takes some ms when there are thousands: not for threads that serve
 * requests. */
void process_stats_read(struct process_stats *stats_out);

/* The processor time up to now, in s. Any thread, at once. */
double process_stats_cpu_s(void);

#endif
