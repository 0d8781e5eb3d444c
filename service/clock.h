/* The clock that deadlines and durations are measured by. */
#ifndef SECKILL_SERVICE_CLOCK_H
#define SECKILL_SERVICE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of the monotonic clock. Any thread. */
static inline int64_t clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
