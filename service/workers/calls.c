/* Call workers: threads that answer everything but orders, look-ups and admin calls. */
#include "service/workers/calls.h"

#include <stdlib.h>

#include "base/worker.h"
#include "service/calls/call.h"
#include "service/http/loop.h"
#include "service/queue.h"

struct desk_thread {
    struct worker worker;
    struct call_worker calls;
};

/* True when the request went to the end of the queue, for other calls to have their turn. */
static bool put_back(struct call_worker *calls, struct request *request)
{
    bool again = request->call.again;
    request->call.again = false;
    if (!again || !request_move(request, REQUEST_TAKEN, REQUEST_QUEUED))
        return false;
    queue_push(calls->service->calls, request, request);
    return true;
}

static void work(struct call_worker *calls, struct request *request)
{
    if (request_move(request, REQUEST_QUEUED, REQUEST_TAKEN)) {
        request->call.work(calls, request);
        if (put_back(calls, request))
            return;
        request_move(request, REQUEST_TAKEN, REQUEST_DONE);
    }
    queue_leave(calls->service->calls, request->flow);
    request->queue_next = NULL;
    http_return(request->http_thread, request);
}

static void desk_main(void *context)
{
    struct call_worker *calls = context;
    struct request *request = NULL;
    while (!queue_stopped(calls->service->calls) || queue_waiting(calls->service->calls))
        if (queue_take(calls->service->calls, &request, 1, 1000) == 1)
            work(calls, request);
}

struct desk_thread *desk_start(struct service *service, char *error_out, size_t error_size)
{
    struct desk_thread *thread = calloc(1, sizeof *thread);
    if (!thread)
        abort();
    thread->calls.service = service;
    thread->calls.stock = stock_open(&service->stock, service->sale_cache, error_out, error_size);
    if (!thread->calls.stock) {
        free(thread);
        return NULL;
    }
    if (!worker_start(&thread->worker, desk_main, &thread->calls))
        abort();
    return thread;
}

void desk_join(struct desk_thread **thread)
{
    if (*thread) {
        worker_join(&(*thread)->worker);
        stock_close(&(*thread)->calls.stock);
    }
    free(*thread);
    *thread = NULL;
}
