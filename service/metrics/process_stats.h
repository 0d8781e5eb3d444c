/* The kernel's figures of this process: memory, descriptors, start. */
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

/* Reads the figures; an unavailable one is 0. Kernels before 6.2 need the descriptors counted one
 * by one, some ms for thousands: not for threads that serve requests. */
void process_stats_read(struct process_stats *stats_out);

/* The processor time up to now, in s. Any thread, at once. */
double process_stats_cpu_s(void);

#endif
