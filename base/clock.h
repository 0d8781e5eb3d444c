/* The two clocks: one for deadlines and durations, one for dates. No function here can fail; any
 * thread may call each. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define CLOCK_NS_PER_MS INT64_C(1000000)
#define CLOCK_NS_PER_S INT64_C(1000000000)

static inline int64_t clock_read_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * CLOCK_NS_PER_S + now.tv_nsec;
}

/* Nanoseconds of the monotonic clock, which nobody sets: its zero means nothing, and all processes
 * of one machine share it. In the header, because hot paths read it several times per batch. */
static inline int64_t clock_now_ns(void)
{
    return clock_read_ns(CLOCK_MONOTONIC);
}

/* Nanoseconds since the machine's start: as clock_now_ns, but this clock also runs while the
 * machine sleeps. For leases that another machine counts down meanwhile. */
static inline int64_t clock_boot_ns(void)
{
    return clock_read_ns(CLOCK_BOOTTIME);
}

/* clock_now_ns in milliseconds, rounded down. */
static inline int64_t clock_now_ms(void)
{
    return clock_now_ns() / CLOCK_NS_PER_MS;
}

/* Milliseconds since 1970 (UTC). An administrator may set this clock, forwards and backwards: use
 * it for dates, never to measure a wait. */
static inline int64_t clock_wall_ms(void)
{
    return clock_read_ns(CLOCK_REALTIME) / CLOCK_NS_PER_MS;
}

/* Converts a duration, or a time of the monotonic clock, for system calls. ns >= 0. */
struct timespec clock_timespec(int64_t ns);

/* Sleeps for that long, also when signals arrive meanwhile; not at all for 0 or less. Nothing ends
 * this sleep early: a thread that must stop at once sleeps by worker_sleep_ns. */
void clock_sleep_ns(int64_t ns);

/* Initialises a condition variable whose waits clock_wait bounds. The caller destroys it. */
void clock_condition_init(pthread_cond_t *condition);

/* Waits on such a variable, with the mutex locked, up to a time of clock_now_ns. False when that
 * time has come. As after pthread_cond_wait, check the condition after true. */
bool clock_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t until_ns);

#endif
