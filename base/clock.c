/* The two clocks: one for deadlines and durations, one for dates. */
#include "base/clock.h"

#include <assert.h>
#include <errno.h>

struct timespec clock_timespec(int64_t ns)
{
    assert(ns >= 0);
    return (struct timespec){.tv_sec = (time_t)(ns / CLOCK_NS_PER_S),
                             .tv_nsec = (long)(ns % CLOCK_NS_PER_S)};
}

void clock_sleep_ns(int64_t ns)
{
    if (ns <= 0)
        return;
    struct timespec left = clock_timespec(ns);
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

void clock_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

bool clock_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t until_ns)
{
    struct timespec until = clock_timespec(until_ns);
    return pthread_cond_timedwait(condition, mutex, &until) != ETIMEDOUT;
}
