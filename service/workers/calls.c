/* Call workers: threads that carry everything but orders, one for each kind of calls.
 *
 *   queue of the kind ─► take the calls that wait, up to a batch ─► the work of each, together
 *     ▲                                                               │
 *     └── calls that are not possible yet ◄───────────────────────────┤
 *   HTTP threads ◄─ answers, one wake-up per thread ◄─────────────────┘ */
#include "service/workers/workers.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "service/request/request.h"
#include "service/request/faults.h"
#include "service/request/queue.h"

enum { IDLE_MS = 1000 }; /* longest wait for a request; stopping the queue ends it at once */

struct call_worker_thread {
    struct service_worker base;
    const struct call_kind_row *kind;
    struct queue *queue;
    uint64_t recoveries; /* already logged */
    struct request *requests[CALL_BATCH_MAX];
};

/* Returns the queue that a request goes on in, with a place in it. Locks of segments are waited for
 * in one queue alone, so that the calls that need none never wait for Redis. Its worker may have
 * ended, but not once it has seen the place: see run. NULL, with an answer: there is no place. */
static struct queue *next_queue(struct call_worker_thread *thread, struct request *request)
{
    struct queue *locking = thread->base.service->calls[CALL_CANCEL];
    if (request->call.late == LEDGER_LATE_ASKED || thread->queue == locking)
        return thread->queue;
    if (!queue_reserve(locking, request->flow)) {
        answer_problem(&request->answer, PROBLEM_OVERLOADED);
        return NULL;
    }
    if (!queue_stopped(locking))
        return locking;
    queue_leave(locking, request->flow);
    return thread->queue;
}

/* Puts a request that is not possible yet at the end of a queue, so that possible calls go first;
 * true when it did. A request whose client was answered meanwhile needs no further try. */
static bool put_back(struct call_worker_thread *thread, struct request *request)
{
    unsigned flow = request->flow;
    bool again = request->call.again;
    request->call.again = false;
    struct queue *next = again ? next_queue(thread, request) : NULL;
    bool queued = next && request_move(request, REQUEST_TAKEN, REQUEST_QUEUED);
    if (queued)
        queue_push(next, request, request);
    if (next && next != thread->queue)
        queue_leave(queued ? thread->queue : next, flow);
    return queued;
}

/* Call before the requests, with their answers, are given back. Client errors (below 503) do not
 * count. */
static void log_faults(struct call_worker_thread *thread, struct request **group, size_t count)
{
    size_t refused = 0;
    const struct trace *example = NULL;
    for (size_t i = 0; i < count; i++) {
        refused += group[i]->answer.status == 503 && !group[i]->call.again;
        if (refused > 0 && !example)
            example = &group[i]->trace;
    }
    const char *effect = refused > 0
                             ? "the calls were answered 503: unavailable, nothing was done; "
                               "outcome_unknown, the change may be done"
                             : "none: the calls were carried out by a further try";
    faults_log(thread->base.stock, thread->kind->failed, refused, effect, example);
    faults_log_recoveries(thread->base.stock, &thread->recoveries);
}

/* Carries the requests of `group`, which share work and state; gives back the finished ones. */
static void carry_group(struct call_worker_thread *thread, struct request **group, size_t count)
{
    size_t done = 0;
    faults_begin(thread->base.stock);
    struct sale_cache *cache = thread->base.service->sale_cache;
    unsigned section = sale_cache_enter(cache);
    group[0]->call.work(&thread->base, group, count);
    sale_cache_leave(cache, section);
    log_faults(thread, group, count);
    for (size_t i = 0; i < count; i++) {
        struct request *request = group[i];
        if (put_back(thread, request))
            continue; /* from now on its HTTP thread may withdraw it */
        request_move(request, REQUEST_TAKEN, REQUEST_DONE);
        group[done++] = request;
    }
    queue_give_back(thread->queue, group, done);
}

/* Makes one pass per work and state; a kind has few. */
static void carry(struct call_worker_thread *thread, size_t count)
{
    struct request *group[CALL_BATCH_MAX];
    while (count > 0) {
        const struct request_call *call = &thread->requests[0]->call;
        call_work *work = call->work;
        const struct state_work *state = call->state;
        size_t grouped = 0, kept = 0;
        assert(work);
        for (size_t i = 0; i < count; i++)
            if (thread->requests[i]->call.work == work && thread->requests[i]->call.state == state)
                group[grouped++] = thread->requests[i];
            else
                thread->requests[kept++] = thread->requests[i];
        carry_group(thread, group, grouped);
        count = kept;
    }
}

/* why_rest: a crowd's calls would keep the ledger busy while orders wait. So, while orders wait,
 * the worker pauses for a part of the time that a batch took, longer for costlier calls. Fewer
 * calls than a crowd's need no rest. */
static void rest(const struct call_worker_thread *thread, int64_t took_ns)
{
    enum { CROWD = 512, REST_MS_MAX = 20 };
    size_t half = thread->kind->places / 2, crowd = half < CROWD ? half : CROWD;
    int64_t ns = took_ns * thread->kind->cost / 200;
    if (queue_depth(thread->queue) < crowd || !queue_waiting(thread->base.service->orders))
        return;
    clock_sleep_ns(ns < REST_MS_MAX * CLOCK_NS_PER_MS ? ns : REST_MS_MAX * CLOCK_NS_PER_MS);
}

static void run(void *context)
{
    struct call_worker_thread *thread = context;
    struct service *service = thread->base.service;
    struct queue *queue = service->calls[thread->base.number];
    thread->kind = &call_kinds[thread->base.number];
    thread->queue = queue;
    prctl(PR_SET_NAME, thread->kind->thread);
    while (!queue_stopped(queue) || queue_depth(queue) > 0) {
        size_t taken = queue_take_marked(queue, thread->requests, thread->kind->batch, IDLE_MS);
        int64_t start_ns = clock_now_ns();
        carry(thread, taken);
        if (taken > 0)
            rest(thread, clock_now_ns() - start_ns);
    }
}

const struct worker_kind call_worker_kind = {
    .name = "call-worker", /* until its thread takes its kind's name */
    .size = sizeof(struct call_worker_thread),
    .servers = WORKER_OF_STOCK,
    .run = run,
};
