/* base/worker.h and condition variables over virtual time: threads as tasks of their process.
 *
 * Mutexes are the system's own: no task waits while it holds one, except by a condition variable,
 * which gives the mutex back. */
#include "test/simulate/servers/seam_thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/worker.h"
#include "test/simulate/machine/loop.h"
#include "test/simulate/servers/seam_redis.h"

int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_pthread_cond_signal(pthread_cond_t *condition);
int __wrap_pthread_cond_broadcast(pthread_cond_t *condition);
int __wrap_prctl(int option, ...);
ssize_t __wrap_getrandom(void *buffer, size_t size, unsigned flags);
ssize_t __wrap_write(int fd, const void *buffer, size_t size);

/* ---- condition variables ---- */

int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
    pthread_mutex_unlock(mutex);
    bool woken = task_await_signal(condition, until->tv_sec * CLOCK_NS_PER_S + until->tv_nsec);
    pthread_mutex_lock(mutex);
    return woken ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_signal(pthread_cond_t *condition)
{
    task_signal(condition, false);
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *condition)
{
    task_signal(condition, true);
    return 0;
}

/* ---- base/worker.h ---- */

enum { RUNS, HAS_ENDED }; /* in place of the thread's id */

static void worker_main(void *context)
{
    struct worker *worker = context;
    worker->run(worker->context);
    worker->thread = HAS_ENDED;
    task_signal(&worker->thread, true);
}

bool worker_start(struct worker *worker, void (*run)(void *context), void *context)
{
    worker->run = run;
    worker->context = context;
    atomic_store(&worker->stop, false);
    worker->thread = RUNS;
    worker->started = true;
    task_start(task_current()->process, "worker", worker_main, worker, 0)->spared = true;
    return true;
}

void worker_stop(struct worker *worker)
{
    if (worker->started && !atomic_exchange(&worker->stop, true))
        task_signal(&worker->stop, true);
}

void worker_join(struct worker *worker)
{
    if (!worker->started)
        return;
    worker_stop(worker);
    while (worker->thread != HAS_ENDED)
        task_await_signal(&worker->thread, LOOP_FOREVER);
    worker->started = false;
}

bool worker_stopping(const struct worker *worker)
{
    return atomic_load(&worker->stop);
}

bool worker_sleep_ns(struct worker *worker, int64_t ns)
{
    int64_t until_ns = clock_now_ns() + ns;
    while (!worker_stopping(worker) && clock_now_ns() < until_ns)
        task_await_signal(&worker->stop, until_ns);
    return !worker_stopping(worker);
}

bool worker_await_fd(struct worker *worker, int fd)
{
    while (!worker_stopping(worker) && !seam_redis_readable(fd, &worker->stop))
        task_await_signal(&worker->stop, LOOP_FOREVER);
    return !worker_stopping(worker);
}

/* ---- what threads ask of the system ---- */

/* A thread names itself: then it is known whether faults begin at its turns. Other threads work
 * beside those that carry orders, and would use up a schedule's faults while nothing goes on. */
int __wrap_prctl(int option, ...)
{
    va_list arguments;
    if (option != PR_SET_NAME)
        return 0;
    va_start(arguments, option);
    const char *name = va_arg(arguments, const char *);
    va_end(arguments);
    struct task *task = task_current();
    snprintf(task->name, sizeof task->name, "%d %s", task->process->number, name);
    task->spared = strcmp(name, "order-worker") != 0;
    return 0;
}

/* Requests get ids for logs from it: which ones does not matter, but they repeat. */
ssize_t __wrap_getrandom(void *buffer, size_t size, unsigned flags)
{
    (void)flags;
    memset(buffer, 1, size);
    return (ssize_t)size;
}

/* ---- the descriptor by which workers wake an HTTP thread ---- */

static bool woken[PROCESSES_MAX];

int seam_wake_fd(const struct process *process)
{
    woken[process->number] = false;
    return SEAM_FD + process->number;
}

ssize_t __wrap_write(int fd, const void *buffer, size_t size)
{
    (void)buffer;
    woken[fd - SEAM_FD] = true;
    task_signal(&woken[fd - SEAM_FD], true);
    return (ssize_t)size;
}

void seam_wake_await(int fd, int64_t until_ns)
{
    bool *here = &woken[fd - SEAM_FD];
    if (!*here)
        task_await_signal(here, until_ns);
    *here = false;
}
