/* What one HTTP thread keeps of its requests: their phases, their lists, and how they leave it. */
#include "service/http/thread.h"

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <unistd.h>

#include "base/clock.h"

enum { LOCKS_DEADLINE_EXTRA_MS = 5000 }; /* to wait for locks: lease, deadline and this */

void http_wake(struct http_thread *thread)
{
    uint64_t one = 1;
    ssize_t written = write(thread->wake_fd, &one, sizeof one);
    assert(written == sizeof one || errno == EAGAIN);
}

/* ---- connections ---- */

void waiting_remove(struct http_connection *connection)
{
    struct connection_list *list = &connection->thread->waiting[connection->known];
    if (!connection->waits)
        return;
    connection->waits = false;
    if (connection->prev)
        connection->prev->next = connection->next;
    else
        list->first = connection->next;
    if (connection->next)
        connection->next->prev = connection->prev;
    else
        list->last = connection->prev;
}

void waiting_add(struct http_thread *thread, struct http_connection *connection)
{
    struct connection_list *list = &thread->waiting[connection->known];
    assert(connection->thread == thread);
    waiting_remove(connection);
    if (connection->told_to_go)
        return;
    connection->waits = true;
    connection->since_ns = thread->now_ns;
    connection->next = NULL;
    connection->prev = list->last;
    if (list->last)
        list->last->next = connection;
    else
        list->first = connection;
    list->last = connection;
}

static void note_known(struct http_thread *thread, struct http_connection *connection, bool known)
{
    assert(!connection->waits);
    if (known && !connection->known)
        thread->strangers--;
    else if (!known && connection->known)
        thread->strangers++;
    connection->known = known;
}

void waiting_busy(struct http_thread *thread, struct http_connection *connection)
{
    note_known(thread, connection, true);
    thread->busy += !connection->busy;
    connection->busy = true;
}

void waiting_not_busy(struct http_thread *thread, struct http_connection *connection)
{
    thread->busy -= connection->busy;
    connection->busy = false;
}

/* Moves it to the list of those that are known, or not, as the one that waits since now. */
static void set_known(struct http_thread *thread, struct http_connection *connection, bool known)
{
    waiting_not_busy(thread, connection);
    waiting_remove(connection);
    note_known(thread, connection, known);
    waiting_add(thread, connection);
}

void waiting_answered(struct http_thread *thread, struct http_connection *connection)
{
    set_known(thread, connection, false);
}

void waiting_served(struct http_thread *thread, struct http_connection *connection)
{
    set_known(thread, connection, true);
}

/* ---- requests ---- */

void request_phase(struct request *request, enum http_phase phase)
{
    static const bool allowed[PHASE_COUNT][PHASE_COUNT] = {
        [PHASE_FREE] = {[PHASE_HEAD] = true},
        [PHASE_HEAD] = {[PHASE_BODY] = true, [PHASE_FREE] = true},
        [PHASE_BODY] = {[PHASE_IN_FLIGHT] = true, [PHASE_READY] = true, [PHASE_FREE] = true},
        [PHASE_IN_FLIGHT] =
            {[PHASE_READY] = true, [PHASE_EXPIRED] = true, [PHASE_ABANDONED] = true},
        /* READY: a worker gave it back before libmicrohttpd asked, so the real answer is sent. */
        [PHASE_EXPIRED] = {[PHASE_READY] = true, [PHASE_ABANDONED] = true},
        /* FREE: it came back. Until then a queue or a worker points to it. */
        [PHASE_ABANDONED] = {[PHASE_FREE] = true},
        /* IN_FLIGHT: a stream, for its next page. */
        [PHASE_READY] = {[PHASE_IN_FLIGHT] = true, [PHASE_FREE] = true},
    };
    assert(allowed[request->http.phase][phase]);
    request->http.phase = phase;
}

bool request_in_flight(const struct request *request)
{
    enum http_phase phase = request->http.phase;
    return phase == PHASE_IN_FLIGHT || phase == PHASE_EXPIRED || phase == PHASE_ABANDONED;
}

void request_list_add(struct http_thread *thread, enum http_list which, struct request *request)
{
    struct request_list *list = &thread->lists[which];
    struct request_http *http = &request->http;
    assert(!http->list);
    assert(!list->last || list->last->http.until_ns <= request->http.until_ns);
    http->list = list;
    http->next = NULL;
    http->prev = list->last;
    if (list->last)
        list->last->http.next = request;
    else
        list->first = request;
    list->last = request;
}

void request_list_remove(struct request *request)
{
    struct request_http *http = &request->http;
    struct request_list *list = http->list;
    if (!list)
        return;
    if (http->prev)
        http->prev->http.next = http->next;
    else
        list->first = http->next;
    if (http->next)
        http->next->http.prev = http->prev;
    else
        list->last = http->prev;
    http->list = NULL;
}

void request_suspend(struct request *request)
{
    assert(request->http.wait == WAIT_NONE);
    request->http.wait = WAIT_SUSPENDED;
    MHD_suspend_connection(request->http.connection->mhd);
}

/* A polled connection is asked about in the next run anyway. */
void request_resume(struct request *request)
{
    if (request->http.wait != WAIT_SUSPENDED)
        return;
    request->http.wait = WAIT_NONE;
    MHD_resume_connection(request->http.connection->mhd);
}

static enum http_list list_of(const struct request *request)
{
    enum call_kind kind = request->http.kind;
    return kind != CALL_ORDER && call_kinds[kind].locks ? LIST_LOCKS : LIST_USUAL;
}

static int64_t deadline_ns(const struct http_thread *thread, const struct request *request)
{
    const struct config *config = &thread->service->config;
    int64_t ms = config->deadline_ms;
    if (list_of(request) == LIST_LOCKS)
        ms += (int64_t)config->lease_ms + LOCKS_DEADLINE_EXTRA_MS;
    return request->arrived_ns + ms * CLOCK_NS_PER_MS;
}

struct queue *request_queue(struct service *service, const struct request *request)
{
    struct shard *shard = &service->shards[request_shard(request)];
    enum call_kind kind = request->http.kind;
    return kind == CALL_ORDER ? shard->orders : shard->calls[kind];
}

void request_send(struct http_thread *thread, struct request *request, enum request_state from)
{
    bool moved = request_move(request, from, REQUEST_QUEUED);
    assert(moved); /* no worker knows it yet */
    request_phase(request, PHASE_IN_FLIGHT);
    request->http.until_ns = deadline_ns(thread, request);
    request->queue_next = NULL;
    thread->in_flight++;
    request_list_add(thread, list_of(request), request);
    if (request->http.kind != CALL_ORDER) {
        queue_push(request_queue(thread->service, request), request, request);
        return;
    }
    /* Orders wait for the end of the turn: one lock of the queue carries them all. */
    struct order_list *list = &thread->orders[request_shard(request)];
    if (list->last)
        list->last->queue_next = request;
    else
        list->first = request;
    list->last = request;
}
