/* Threads that answer everything but orders: look-ups and admin calls. */
#include "service/desk.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/worker.h"
#include "service/http.h"
#include "service/queue.h"

struct desk_thread {
    struct worker worker;
    struct desk desk;
};

/* True when the request went to the end of the queue, for other calls to have their turn. */
static bool put_back(struct desk *desk, struct request *request)
{
    bool again = request->again;
    request->again = false;
    if (!again || !request_move(request, REQUEST_TAKEN, REQUEST_QUEUED))
        return false;
    queue_push(desk->service->calls, request, request);
    return true;
}

static void work(struct desk *desk, struct request *request)
{
    if (request_move(request, REQUEST_QUEUED, REQUEST_TAKEN)) {
        request->work(desk, request);
        if (put_back(desk, request))
            return;
        request_move(request, REQUEST_TAKEN, REQUEST_DONE);
    }
    queue_leave(desk->service->calls, request->flow);
    request->queue_next = NULL;
    http_return(request->front, request);
}

static void desk_main(void *context)
{
    struct desk *desk = context;
    struct request *request = NULL;
    while (!queue_stopped(desk->service->calls) || queue_waiting(desk->service->calls))
        if (queue_take(desk->service->calls, &request, 1, 1000) == 1)
            work(desk, request);
}

struct desk_thread *desk_start(struct service *service, char *error_out, size_t error_size)
{
    struct desk_thread *thread = calloc(1, sizeof *thread);
    if (!thread)
        abort();
    thread->desk.service = service;
    thread->desk.stock = stock_open(&service->stock, service->sale_cache, error_out, error_size);
    if (!thread->desk.stock) {
        free(thread);
        return NULL;
    }
    if (!worker_start(&thread->worker, desk_main, &thread->desk))
        abort();
    return thread;
}

void desk_join(struct desk_thread **thread)
{
    if (*thread) {
        worker_join(&(*thread)->worker);
        stock_close(&(*thread)->desk.stock);
    }
    free(*thread);
    *thread = NULL;
}

int desk_lock_wait_ms(const struct desk *desk)
{
    enum { EXTRA_MS = 2000 };
    return (int)desk->service->config.lease_ms + EXTRA_MS;
}

void desk_answer(struct request *request, unsigned status, struct json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);
    json_decref(value);
    if (!text)
        abort();
    size_t length = strlen(text);
    text[length] = '\n'; /* in the place of the NUL: answers carry their length */
    answer_text(&request->answer, status, "application/json", text, length + 1);
}
