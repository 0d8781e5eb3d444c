/* A bounded queue of requests between threads, taken in batches that share fairly between flows. */
#include "service/request/queue.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "service/request/request.h"

struct flow {
    _Atomic size_t depth; /* places claimed */
    struct request *first;
    struct request *last;
    struct flow *next; /* in the list of flows with waiting requests */
};

struct queue {
    size_t max;
    _Atomic size_t depth;
    _Atomic size_t waiting; /* requests; written under the mutex, read without */
    _Atomic bool stopped;
    pthread_mutex_t mutex;
    pthread_cond_t arrived;
    size_t sleepers;       /* workers waiting for requests */
    size_t batch_max;      /* maximum of the last worker that took */
    size_t in_flight_peak; /* recent maximum of `depth`, decays per batch */
    int64_t oldest_ns;     /* when the oldest request arrived, or a batch left it behind */
    struct flow *first;    /* list of flows with waiting requests; the first has its turn */
    struct flow *last;
    struct flow flows[QUEUE_FLOWS];
};

struct queue *queue_open(size_t max)
{
    struct queue *queue = memory_must(calloc(1, sizeof *queue));
    queue->max = max;
    pthread_mutex_init(&queue->mutex, NULL);
    clock_condition_init(&queue->arrived);
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

unsigned queue_flow(const char *identifier)
{
    return (unsigned)hash_slot(identifier, QUEUE_FLOWS);
}

/* Each of several threads counts itself first, so together they may refuse one request too many,
 * but never accept one too many. */
bool queue_reserve(struct queue *queue, unsigned flow)
{
    size_t depth = atomic_fetch_add(&queue->depth, 1); /* before a look at `stopped` */
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
    return atomic_load(&queue->depth); /* after a look at `stopped` */
}

size_t queue_capacity(const struct queue *queue)
{
    return queue->max;
}

/* Appends the flow: its turn comes after all other flows with waiting requests. */
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
    if (depth > queue->in_flight_peak)
        queue->in_flight_peak = depth;
}

static size_t lesser(size_t one, size_t other)
{
    return one < other ? one : other;
}

/* Uses the peak, not the present depth: clients that were just answered and order again soon hold
 * no place now. */
static size_t whole_batch(const struct queue *queue)
{
    size_t peak = queue->in_flight_peak;
    size_t half = (peak + 1) / 2;
    size_t most_of_few = lesser(peak - peak / 4, QUEUE_BATCH_MIN);
    return lesser(half > most_of_few ? half : most_of_few, queue->batch_max);
}

static bool whole_batch_waits(const struct queue *queue)
{
    return atomic_load_explicit(&queue->waiting, memory_order_relaxed) >= whole_batch(queue);
}

/* The rule of batches, see queue.h. */
static bool batch_leaves(const struct queue *queue, int64_t patience_ns)
{
    return queue->first && (whole_batch_waits(queue) || atomic_load(&queue->stopped) ||
                            clock_now_ns() >= queue->oldest_ns + patience_ns);
}

void queue_push(struct queue *queue, struct request *first, struct request *last)
{
    size_t count = 0;
    struct request *next = first;
    last->queue_next = NULL;
    pthread_mutex_lock(&queue->mutex);
    bool was_empty = !queue->first;
    if (was_empty)
        queue->oldest_ns = clock_now_ns();
    while (next) {
        struct request *request = next;
        next = request->queue_next;
        append(queue, request);
        count++;
    }
    atomic_fetch_add_explicit(&queue->waiting, count, memory_order_relaxed);
    note_in_flight(queue);
    bool wake = queue->sleepers > 0 && (was_empty || whole_batch_waits(queue));
    pthread_mutex_unlock(&queue->mutex);
    /* Wakes one worker for the whole list, so that its batch is full; it wakes the next one if it
     * leaves requests. The first request wakes a worker, too, which then watches its patience.
     * Signals after the unlock, or the worker would only block on the mutex. */
    if (wake)
        pthread_cond_signal(&queue->arrived);
}

static void wait_for_batch(struct queue *queue, int64_t patience_ns, int wait_ms)
{
    int64_t until_ns = clock_now_ns() + wait_ms * CLOCK_NS_PER_MS;
    bool in_time = true;
    queue->sleepers++;
    while (!batch_leaves(queue, patience_ns) && !atomic_load(&queue->stopped) && in_time) {
        int64_t leaves_ns = queue->first ? queue->oldest_ns + patience_ns : INT64_MAX;
        bool leaves = leaves_ns < until_ns;
        in_time =
            clock_wait(&queue->arrived, &queue->mutex, leaves ? leaves_ns : until_ns) || leaves;
    }
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

/* Decays per batch. Integer division leaves values below QUEUE_FADE as they are, so a peak above
 * the present depth also loses one. */
static void decay_peak(struct queue *queue)
{
    queue->in_flight_peak -= queue->in_flight_peak / QUEUE_FADE;
    queue->in_flight_peak -= queue->in_flight_peak > queue_depth(queue);
    note_in_flight(queue);
}

size_t queue_take(struct queue *queue, struct request **requests_out, size_t max,
                  int64_t patience_ns, int wait_ms)
{
    size_t count = 0;
    pthread_mutex_lock(&queue->mutex);
    queue->batch_max = max;
    if (wait_ms > 0)
        wait_for_batch(queue, patience_ns, wait_ms);
    if (batch_leaves(queue, patience_ns)) {
        size_t whole = whole_batch(queue);
        size_t least = lesser(QUEUE_BATCH_MIN, max); /* a small rest is no batch of its own */
        count = take_locked(queue, requests_out, whole > least ? whole : least);
        decay_peak(queue);
        queue->oldest_ns = clock_now_ns();
    }
    bool wake = queue->first && queue->sleepers > 0;
    pthread_mutex_unlock(&queue->mutex);
    if (wake) /* another worker takes the rest, or watches its patience */
        pthread_cond_signal(&queue->arrived);
    return count;
}

size_t queue_take_marked(struct queue *queue, struct request **requests_out, size_t max,
                         int wait_ms)
{
    struct request *withdrawn[CALL_BATCH_MAX];
    size_t taken = 0, dropped = 0;
    assert(max <= CALL_BATCH_MAX);
    size_t count = queue_take(queue, requests_out, max, 0, wait_ms);
    for (size_t i = 0; i < count; i++)
        if (request_move(requests_out[i], REQUEST_QUEUED, REQUEST_TAKEN))
            requests_out[taken++] = requests_out[i];
        else
            withdrawn[dropped++] = requests_out[i];
    queue_give_back(queue, withdrawn, dropped);
    return taken;
}

void queue_give_back(struct queue *queue, struct request **requests, size_t count)
{
    for (size_t i = 0; i < count; i++)
        queue_leave(queue, requests[i]->flow);
    request_return_all(requests, count);
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
