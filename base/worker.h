/* A thread in the background that stops at once when it is told to: its sleeps and waits end.
 *
 *   owner                                 the worker's thread
 *   worker_start(worker, run, context) ─► run(context)
 *                                             while (!worker_stopping(worker)) {
 *                                                 … one piece of work …
 *   worker_stop(worker)  ── ends this ─►          worker_sleep_ns(worker, pause_ns);
 *   worker_join(worker)  ◄─ run returns ──    }
 *
 * The owner of many workers tells all of them to stop first and then joins them, so they end side
 * by side. */
#ifndef BASE_WORKER_H
#define BASE_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The owner embeds it, zero-initialised, and does not move or free it before worker_join. The
 * members are for worker.c alone. */
struct worker {
    pthread_t thread;
    int stop_fd; /* an eventfd: readable once stop is set, so that waits for sockets end as well */
    _Atomic bool stop;
    bool started;
    void (*run)(void *context);
    void *context;
};

/* Starts the thread, which runs `run(context)` once. False, with errno set and nothing to join,
 * when the system has no thread or descriptor for it. Owner's thread. */
bool worker_start(struct worker *worker, void (*run)(void *context), void *context);

/* Tells the worker to stop, and does not wait for it. Any thread between start and join, any number
 * of times; does nothing to a worker that was never started. */
void worker_stop(struct worker *worker);

/* Tells the worker to stop, waits until `run` has returned, and frees the descriptor; does nothing
 * to a worker that was never started. Afterwards it may be started again. Owner's thread. */
void worker_join(struct worker *worker);

/* True when the worker was told to stop. Any thread. */
bool worker_stopping(const struct worker *worker);

/* Sleeps on the monotonic clock. False, and at once, when the worker is told to stop or was before.
 * For the worker's own thread. */
bool worker_sleep_ns(struct worker *worker, int64_t ns);

/* Waits without limit until a read of the descriptor would not block, as for a lost connection,
 * too. False, and at once, when the worker is told to stop or was before. For the worker's own
 * thread. */
bool worker_await_fd(struct worker *worker, int fd);

/* Starts a plain thread that handles none of the program's signals, which are for the program's own
 * threads. False when the system has no thread for it. */
bool worker_thread(pthread_t *thread_out, void *(*run)(void *context), void *context);

#endif
