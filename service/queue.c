/* A bounded queue of requests between threads, taken in batches that share fairly between flows. */
#include "service/queue.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "service/request.h"

struct flow {
    _Atomic size_t depth; /* places claimed */
    struct request *first;
    struct request *last;
    struct flow *next; /* in the circle of flows with waiting requests */
};

struct queue {
    size_t max;
    _Atomic unsigned *joined; /* queues whose workers are busy, see queue_join; or NULL */
    _Atomic size_t depth;
    _Atomic size_t waiting; /* requests; written under the mutex, read without */
    _Atomic bool stopped;
    _Atomic unsigned batch_wait_ms; /* see queue_beside */
    pthread_mutex_t mutex;
    pthread_cond_t arrived;
    pthread_cond_t gathered; /* for the gatherers: most of the requests in flight wait */
    size_t gatherers;        /* workers in queue_gather */
    size_t sleepers;         /* workers that wait for requests */
    size_t busy;             /* workers that carry a batch which they took with queue_take_beside */
    size_t batch_max;        /* of their batches */
    size_t in_flight;        /* places claimed, of late at most */
    size_t lookers;          /* of the sleepers, those that soon look by themselves */
    uint64_t takes;          /* batches taken */
    unsigned alone;          /* batches that are to be carried one after the other */
    int64_t oldest_ns;       /* since when the oldest request waits, or was left by a batch */
    struct flow *first;      /* of the flows with waiting requests: whose turn it is */
    struct flow *last;
    struct flow flows[QUEUE_FLOWS];
};

struct queue *queue_open(size_t max)
{
    struct queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        abort();
    queue->max = max;
    pthread_mutex_init(&queue->mutex, NULL);
    clock_condition_init(&queue->arrived);
    clock_condition_init(&queue->gathered);
    return queue;
}

void queue_close(struct queue **queue)
{
    if (*queue) {
        pthread_cond_destroy(&(*queue)->arrived);
        pthread_cond_destroy(&(*queue)->gathered);
        pthread_mutex_destroy(&(*queue)->mutex);
    }
    free(*queue);
    *queue = NULL;
}

unsigned queue_flow(const char *identifier)
{
    return (unsigned)hash_slot(identifier, QUEUE_FLOWS);
}

/* Several threads may reserve at the same moment. Each counts itself first, so together they may
 * refuse one request too many, but never accept one. */
bool queue_reserve(struct queue *queue, unsigned flow)
{
    size_t depth = atomic_fetch_add_explicit(&queue->depth, 1, memory_order_relaxed);
    size_t own = atomic_fetch_add_explicit(&queue->flows[flow].depth, 1, memory_order_relaxed);
    if (depth < queue->max && own < QUEUE_ALPHA * (queue->max - depth))
        return true;
    queue_leave(queue, flow);
    return false;
}

void queue_leave(struct queue *queue, unsigned flow)
{
    size_t own = atomic_fetch_sub_explicit(&queue->flows[flow].depth, 1, memory_order_relaxed);
    size_t depth = atomic_fetch_sub_explicit(&queue->depth, 1, memory_order_relaxed);
    assert(depth > 0 && own > 0);
}

size_t queue_depth(const struct queue *queue)
{
    return atomic_load_explicit(&queue->depth, memory_order_relaxed);
}

size_t queue_capacity(const struct queue *queue)
{
    return queue->max;
}

/* The flow gets its next turn after all other flows with waiting requests. */
static void line_up(struct queue *queue, struct flow *flow)
{
    flow->next = NULL;
    if (queue->last)
        queue->last->next = flow;
    else
        queue->first = flow;
    queue->last = flow;
}

static void append(struct queue *queue, struct request *request)
{
    assert(request->flow < QUEUE_FLOWS);
    struct flow *flow = &queue->flows[request->flow];
    request->queue_next = NULL;
    if (flow->first) {
        flow->last->queue_next = request;
    } else {
        flow->first = request;
        line_up(queue, flow);
    }
    flow->last = request;
}

static void note_in_flight(struct queue *queue)
{
    size_t depth = queue_depth(queue);
    queue->in_flight = depth > queue->in_flight ? depth : queue->in_flight;
}

/* Half of the requests in flight. */
static size_t whole_batch(const struct queue *queue)
{
    size_t half = (queue->in_flight + 1) / 2;
    return half < queue->batch_max ? half : queue->batch_max;
}

static bool has_batch_wait(const struct queue *queue)
{
    return atomic_load_explicit(&queue->batch_wait_ms, memory_order_relaxed) > 0;
}

/* Beside other daemons: whether most of what is in flight waits, or has waited for long enough.
 */
static bool has_waited(const struct queue *queue, size_t waiting)
{
    size_t most = queue->in_flight - queue->in_flight / 4;
    return waiting >= (most < queue->batch_max ? most : queue->batch_max) ||
           atomic_load(&queue->stopped) ||
           clock_now_ns() >= queue->oldest_ns + queue_batch_wait_ns(queue);
}

/* Whether workers of a joined queue are busy. */
static bool others_busy(const struct queue *queue)
{
    return queue->joined &&
           atomic_load_explicit(queue->joined, memory_order_relaxed) > (queue->busy > 0);
}

/* True when a worker may take requests, while `others` carry batches: see queue_take_beside. */
static bool may_take(struct queue *queue, size_t others)
{
    size_t waiting = atomic_load_explicit(&queue->waiting, memory_order_relaxed);
    bool wait = has_batch_wait(queue);
    if (!queue->first || others == 0)
        return queue->first != NULL && (!wait || has_waited(queue, waiting));
    size_t wanted = others_busy(queue) ? 2 * whole_batch(queue) : whole_batch(queue);
    return queue->alone == 0 && waiting >= (wait ? queue->batch_max : wanted);
}

/* Of few requests none is left for the next batch, and none of those that have waited. */
static size_t batch_size(const struct queue *queue)
{
    bool all = has_batch_wait(queue) || others_busy(queue);
    size_t whole = all ? queue->batch_max : whole_batch(queue);
    size_t least = QUEUE_BATCH_MIN < queue->batch_max ? QUEUE_BATCH_MIN : queue->batch_max;
    return whole > least ? whole : least;
}

/* True when most of the requests in flight wait. */
static bool most_wait(const struct queue *queue)
{
    size_t waiting = atomic_load_explicit(&queue->waiting, memory_order_relaxed);
    return waiting > 0 && (waiting >= queue->in_flight / 4 * 3 || waiting >= queue->batch_max);
}

void queue_push(struct queue *queue, struct request *first, struct request *last)
{
    size_t count = 0;
    struct request *next = first;
    last->queue_next = NULL;
    pthread_mutex_lock(&queue->mutex);
    if (!queue->first && has_batch_wait(queue))
        queue->oldest_ns = clock_now_ns();
    while (next) {
        struct request *request = next;
        next = request->queue_next;
        append(queue, request);
        count++;
    }
    atomic_fetch_add_explicit(&queue->waiting, count, memory_order_relaxed);
    note_in_flight(queue);
    bool wake = queue->sleepers > 0 && (may_take(queue, queue->busy) || queue->lookers == 0);
    bool gathered = queue->gatherers > 0 && most_wait(queue);
    pthread_mutex_unlock(&queue->mutex);
    if (gathered)
        pthread_cond_signal(&queue->gathered);
    /* One worker for the whole list, so that its batch is full; it wakes the next one if it leaves
     * requests. Signalled after the unlock: it would only run into the mutex. */
    if (wake)
        pthread_cond_signal(&queue->arrived);
}

static void wait_for_first(struct queue *queue, int wait_ms)
{
    int64_t until_ns = clock_now_ns() + wait_ms * CLOCK_NS_PER_MS;
    bool in_time = true;
    queue->sleepers++;
    while (!queue->first && !atomic_load(&queue->stopped) && in_time)
        in_time = clock_wait(&queue->arrived, &queue->mutex, until_ns);
    queue->sleepers--;
}

/* One flow's turn: takes up to `max` of its requests. */
static size_t take_turn(struct queue *queue, struct request **requests_out, size_t max)
{
    struct flow *flow = queue->first;
    size_t count = 0;
    for (; flow->first && count < max; flow->first = flow->first->queue_next)
        requests_out[count++] = flow->first;
    queue->first = flow->next;
    if (!queue->first)
        queue->last = NULL;
    if (flow->first)
        line_up(queue, flow);
    return count;
}

static size_t take_locked(struct queue *queue, struct request **requests_out, size_t max)
{
    size_t count = 0;
    size_t share = max > QUEUE_SHARE ? max / QUEUE_SHARE : 1;
    while (queue->first && count < max)
        count += take_turn(queue, requests_out + count, share < max - count ? share : max - count);
    atomic_fetch_sub_explicit(&queue->waiting, count, memory_order_relaxed);
    return count;
}

size_t queue_take(struct queue *queue, struct request **requests_out, size_t max, int wait_ms)
{
    pthread_mutex_lock(&queue->mutex);
    if (!queue->first && wait_ms > 0)
        wait_for_first(queue, wait_ms);
    size_t count = take_locked(queue, requests_out, max);
    bool wake = queue->first && queue->sleepers > 0;
    pthread_mutex_unlock(&queue->mutex);
    if (wake) /* the requests that are left are for another worker */
        pthread_cond_signal(&queue->arrived);
    return count;
}

void queue_beside(struct queue *queue, unsigned batch_wait_ms)
{
    atomic_store_explicit(&queue->batch_wait_ms, batch_wait_ms, memory_order_relaxed);
}

int64_t queue_batch_wait_ns(const struct queue *queue)
{
    return CLOCK_NS_PER_MS * atomic_load_explicit(&queue->batch_wait_ms, memory_order_relaxed);
}

/* When a worker that waits must look by itself. */
static int64_t look_ns(const struct queue *queue)
{
    if (queue->busy > 0)
        return clock_now_ns() + QUEUE_BESIDE_MS * CLOCK_NS_PER_MS;
    return queue->first ? queue->oldest_ns + queue_batch_wait_ns(queue) : INT64_MAX;
}

/* Waits until the worker may take, or requests have waited for QUEUE_BESIDE_MS in which no worker
 * took any: the other one may hang as long as its server does. While another is busy the worker
 * looks every QUEUE_BESIDE_MS; queue_push wakes one that sleeps for longer. */
static void wait_beside(struct queue *queue, int wait_ms)
{
    int64_t idle_ns = clock_now_ns() + wait_ms * CLOCK_NS_PER_MS;
    bool held = false, in_time = true;
    queue->sleepers++;
    while (!may_take(queue, queue->busy) && !held && !atomic_load(&queue->stopped) && in_time) {
        int64_t then_ns = look_ns(queue);
        bool look = then_ns < idle_ns, waiting = queue->first != NULL;
        uint64_t takes = queue->takes;
        queue->lookers += look;
        bool signalled = clock_wait(&queue->arrived, &queue->mutex, look ? then_ns : idle_ns);
        queue->lookers -= look;
        in_time = look || signalled;
        held = !signalled && waiting && queue->first && queue->takes == takes;
    }
    queue->sleepers--;
}

static void set_busy(struct queue *queue, size_t busy)
{
    if (queue->joined && (busy > 0) != (queue->busy > 0))
        atomic_fetch_add(queue->joined, busy > 0 ? 1U : -1U);
    queue->busy = busy;
}

/* Clients that were answered a moment ago and order again soon have no place just now, so the
 * greatest number of late counts; it fades with each batch. */
static void fade_in_flight(struct queue *queue)
{
    queue->in_flight -= queue->in_flight / QUEUE_FADE;
    if (has_batch_wait(queue) && queue->in_flight > queue_depth(queue))
        queue->in_flight--; /* few fade, too: no order waits for clients that have gone */
    note_in_flight(queue);
}

size_t queue_take_beside(struct queue *queue, struct request **requests_out, size_t max,
                         int wait_ms, bool *busy)
{
    size_t count = 0;
    pthread_mutex_lock(&queue->mutex);
    queue->batch_max = max;
    assert(!*busy || (queue->busy > 0 && wait_ms == 0));
    if (wait_ms > 0)
        wait_beside(queue, wait_ms);
    size_t others = queue->busy - *busy;
    if (wait_ms > 0 || may_take(queue, others) || atomic_load(&queue->stopped))
        count = take_locked(queue, requests_out, batch_size(queue));
    if (count > 0) {
        fade_in_flight(queue);
        queue->oldest_ns = clock_now_ns();
        queue->takes++;
        set_busy(queue, others + 1);
        queue->alone -= queue->alone > 0;
        *busy = true;
    }
    bool wake = queue->sleepers > 0 && may_take(queue, queue->busy);
    pthread_mutex_unlock(&queue->mutex);
    if (wake)
        pthread_cond_signal(&queue->arrived);
    return count;
}

void queue_join(struct queue *queue, _Atomic unsigned *busy)
{
    queue->joined = busy;
}

void queue_gather(struct queue *queue)
{
    bool in_time = true;
    if (!queue->joined)
        return;
    int64_t until_ns = clock_now_ns() + QUEUE_GATHER_US * CLOCK_NS_PER_MS / 1000;
    pthread_mutex_lock(&queue->mutex);
    queue->gatherers++;
    while (others_busy(queue) && !most_wait(queue) && !atomic_load(&queue->stopped) && in_time)
        in_time = clock_wait(&queue->gathered, &queue->mutex, until_ns);
    queue->gatherers--;
    pthread_mutex_unlock(&queue->mutex);
}

void queue_finish(struct queue *queue, bool *busy)
{
    if (!*busy)
        return;
    pthread_mutex_lock(&queue->mutex);
    assert(queue->busy > 0);
    set_busy(queue, queue->busy - 1);
    *busy = false;
    bool wake = queue->sleepers > 0 && may_take(queue, queue->busy);
    pthread_mutex_unlock(&queue->mutex);
    if (wake)
        pthread_cond_signal(&queue->arrived);
}

void queue_collided(struct queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    if (queue->batch_max >= QUEUE_BATCH_MIN)
        queue->alone = QUEUE_ALONE_TAKES;
    pthread_mutex_unlock(&queue->mutex);
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
    pthread_cond_broadcast(&queue->gathered);
    pthread_mutex_unlock(&queue->mutex);
}

bool queue_stopped(const struct queue *queue)
{
    return atomic_load(&queue->stopped);
}
