/* Runs a thread in the background that stops at once when it is told to.
 *
 * why_eventfd: a sleep could wait on a condition variable, but a wait for a socket cannot. Both
 * poll the same descriptor instead, so that there is one way to stop. ppoll measures its timeout by
 * the monotonic clock. */
#define _GNU_SOURCE /* ppoll */

#include "base/worker.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"

static void *worker_main(void *context)
{
    struct worker *worker = context;
    worker->run(worker->context);
    return NULL;
}

bool worker_start(struct worker *worker, void (*run)(void *context), void *context)
{
    assert(!worker->started);
    worker->run = run;
    worker->context = context;
    atomic_store(&worker->stop, false);
    worker->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (worker->stop_fd < 0)
        return false;
    int error = pthread_create(&worker->thread, NULL, worker_main, worker);
    if (error != 0) {
        close(worker->stop_fd);
        errno = error;
        return false;
    }
    worker->started = true;
    return true;
}

void worker_stop(struct worker *worker)
{
    if (!worker->started)
        return;
    /* The flag goes first: a wait that the descriptor ends must find it set. Nobody ever reads the
     * descriptor, so it stays readable for every later wait. */
    if (!atomic_exchange(&worker->stop, true))
        eventfd_write(worker->stop_fd, 1);
}

void worker_join(struct worker *worker)
{
    if (!worker->started)
        return;
    worker_stop(worker);
    pthread_join(worker->thread, NULL);
    close(worker->stop_fd);
    worker->started = false;
}

bool worker_stopping(const struct worker *worker)
{
    return atomic_load(&worker->stop);
}

bool worker_sleep_ns(struct worker *worker, int64_t ns)
{
    int64_t until_ns = clock_now_ns() + ns;
    struct pollfd stop = {.fd = worker->stop_fd, .events = POLLIN};
    /* A signal may end a poll early: then sleeps for the rest. */
    for (int64_t left_ns = ns; left_ns > 0 && !worker_stopping(worker);
         left_ns = until_ns - clock_now_ns()) {
        struct timespec left = clock_timespec(left_ns);
        ppoll(&stop, 1, &left, NULL);
    }
    return !worker_stopping(worker);
}

bool worker_await_fd(struct worker *worker, int fd)
{
    struct pollfd either[] = {{.fd = worker->stop_fd, .events = POLLIN},
                              {.fd = fd, .events = POLLIN}};
    while (!worker_stopping(worker) && poll(either, 2, -1) < 0 && errno == EINTR)
        continue;
    return !worker_stopping(worker);
}

bool worker_thread(pthread_t *thread_out, void *(*run)(void *context), void *context)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(thread_out, NULL, run, context) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}
