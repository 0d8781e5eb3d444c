/* The system's clocks and sleeps as virtual time: the linker sends the project's calls here. */
#include <stddef.h>
#include <time.h>

#include "test/simulate/machine/loop.h"

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);

/* Every process has its own wall clock; what does not go backwards is the same for all. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    const struct task *task = task_current();
    int64_t ns = loop_clock_ns();
    if (clock == CLOCK_REALTIME)
        ns += LOOP_WALL_NS - LOOP_START_NS + (task ? task->process->wall_step_ns : 0);
    now->tv_sec = (time_t)(ns / 1000000000);
    now->tv_nsec = (long)(ns % 1000000000);
    return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)left;
    task_sleep(time->tv_sec * INT64_C(1000000000) + time->tv_nsec);
    return 0;
}
