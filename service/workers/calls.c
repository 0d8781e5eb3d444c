/* Call workers: threads that carry everything but orders, look-ups and admin calls. */
#include "service/workers/calls.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "base/worker.h"
#include "service/calls/call.h"
#include "service/http/loop.h"
#include "service/queue.h"

enum { IDLE_MS = 1000 }; /* the longest wait for a request; a stopped queue ends it at once */

struct call_worker_thread {
    struct worker thread;
    struct call_worker worker;
};

/* True when the request went to the end of the queue: its segment is held by another worker, and
 * calls that can be carried now have their turn first. A client that was answered meanwhile gains
 * nothing from a further try. */
static bool put_back(struct call_worker *worker, struct request *request)
{
    bool again = request->call.again;
    request->call.again = false;
    if (!again || !request_move(request, REQUEST_TAKEN, REQUEST_QUEUED))
        return false;
    queue_push(worker->service->calls, request, request);
    return true;
}

static void carry(struct call_worker *worker, struct request *request)
{
    assert(request->call.work);
    if (request_move(request, REQUEST_QUEUED, REQUEST_TAKEN)) { /* else its deadline came first */
        request->call.work(worker, request);
        if (put_back(worker, request))
            return;
        request_move(request, REQUEST_TAKEN, REQUEST_DONE);
    }
    queue_leave(worker->service->calls, request->flow);
    request->queue_next = NULL;
    http_return(request->http_thread, request);
}

static void run(void *context)
{
    struct call_worker *worker = context;
    struct queue *queue = worker->service->calls;
    struct request *request = NULL;
    prctl(PR_SET_NAME, "call-worker");
    while (!queue_stopped(queue) || queue_waiting(queue))
        if (queue_take(queue, &request, 1, IDLE_MS) == 1)
            carry(worker, request);
}

struct call_worker_thread *call_worker_start(struct service *service, char *error_out,
                                             size_t error_size)
{
    struct call_worker_thread *thread = calloc(1, sizeof *thread);
    if (!thread)
        abort();
    thread->worker.service = service;
    thread->worker.stock = stock_open(&service->stock, service->sale_cache, error_out, error_size);
    if (!thread->worker.stock) {
        free(thread);
        return NULL;
    }
    if (!worker_start(&thread->thread, run, &thread->worker))
        abort();
    return thread;
}

void call_worker_join(struct call_worker_thread **thread)
{
    if (*thread) {
        worker_join(&(*thread)->thread);
        stock_close(&(*thread)->worker.stock);
    }
    free(*thread);
    *thread = NULL;
}
