/* A bounded queue of requests between threads, taken in batches. */
#include "service/queue.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "service/request.h"

struct queue {
    size_t max;
    _Atomic size_t depth;
    _Atomic size_t waiting;
    _Atomic bool stopped;
    pthread_mutex_t mutex;
    pthread_cond_t arrived;
    size_t sleepers;
    struct request *first;
    struct request *last;
};

struct queue *queue_open(size_t max)
{
    pthread_condattr_t monotonic;
    struct queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        abort();
    queue->max = max;
    pthread_mutex_init(&queue->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&queue->arrived, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return queue;
}

void queue_close(struct queue **queue)
{
    if (*queue) {
        pthread_cond_destroy(&(*queue)->arrived);
        pthread_mutex_destroy(&(*queue)->mutex);
    }
    free(*queue);
    *queue = NULL;
}

bool queue_reserve(struct queue *queue)
{
    if (atomic_fetch_add_explicit(&queue->depth, 1, memory_order_relaxed) < queue->max)
        return true;
    queue_leave(queue);
    return false;
}

void queue_leave(struct queue *queue)
{
    size_t before = atomic_fetch_sub_explicit(&queue->depth, 1, memory_order_relaxed);
    assert(before > 0);
}

size_t queue_depth(const struct queue *queue)
{
    return atomic_load_explicit(&queue->depth, memory_order_relaxed);
}

void queue_push(struct queue *queue, struct request *first, struct request *last)
{
    size_t count = 1;
    for (struct request *request = first; request != last; request = request->queue_next)
        count++;
    last->queue_next = NULL;
    pthread_mutex_lock(&queue->mutex);
    if (queue->last)
        queue->last->queue_next = first;
    else
        queue->first = first;
    queue->last = last;
    atomic_fetch_add_explicit(&queue->waiting, count, memory_order_relaxed);
    bool wake = queue->sleepers > 0;
    pthread_mutex_unlock(&queue->mutex);
    if (wake)
        pthread_cond_signal(&queue->arrived);
}

static void wait_for_first(struct queue *queue, int wait_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += wait_ms % 1000 * 1000000L;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    int late = 0;
    queue->sleepers++;
    while (!queue->first && !atomic_load(&queue->stopped) && late == 0)
        late = pthread_cond_timedwait(&queue->arrived, &queue->mutex, &until);
    queue->sleepers--;
}

size_t queue_take(struct queue *queue, struct request **requests_out, size_t max, int wait_ms)
{
    size_t count = 0;
    pthread_mutex_lock(&queue->mutex);
    if (!queue->first && wait_ms > 0)
        wait_for_first(queue, wait_ms);
    while (queue->first && count < max) {
        requests_out[count++] = queue->first;
        queue->first = queue->first->queue_next;
    }
    if (!queue->first)
        queue->last = NULL;
    atomic_fetch_sub_explicit(&queue->waiting, count, memory_order_relaxed);
    bool wake = queue->first && queue->sleepers > 0;
    pthread_mutex_unlock(&queue->mutex);
    if (wake) /* what is left is for another thread */
        pthread_cond_signal(&queue->arrived);
    return count;
}

bool queue_waiting(const struct queue *queue)
{
    return atomic_load_explicit(&queue->waiting, memory_order_relaxed) > 0;
}

void queue_stop(struct queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    atomic_store(&queue->stopped, true);
    pthread_cond_broadcast(&queue->arrived);
    pthread_mutex_unlock(&queue->mutex);
}

bool queue_stopped(const struct queue *queue)
{
    return atomic_load(&queue->stopped);
}
