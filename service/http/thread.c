/* What one HTTP thread keeps of its connections and requests, and how requests leave it. */
#include "service/http/thread.h"

#include <assert.h>

#include "base/clock.h"

/* ---- connections ---- */

void connection_list_remove(struct http_connection *connection)
{
    struct connection_list *list = connection->list;
    if (!list)
        return;
    connection->list = NULL;
    if (connection->prev)
        connection->prev->next = connection->next;
    else
        list->first = connection->next;
    if (connection->next)
        connection->next->prev = connection->prev;
    else
        list->last = connection->prev;
}

void connection_list_add(struct http_thread *thread, struct connection_list *list,
                         struct http_connection *connection)
{
    assert(connection->thread == thread);
    connection_list_remove(connection);
    connection->list = list;
    connection->since_ns = thread->now_ns;
    connection->next = NULL;
    connection->prev = list->last;
    if (list->last)
        list->last->next = connection;
    else
        list->first = connection;
    list->last = connection;
}

void waiting_add(struct http_thread *thread, struct http_connection *connection)
{
    connection_list_remove(connection);
    if (!connection->told_to_go)
        connection_list_add(thread, &thread->waiting[connection->known], connection);
}

static void note_known(struct http_thread *thread, struct http_connection *connection, bool known)
{
    assert(!connection->list);
    if (known && !connection->known)
        thread->strangers--;
    else if (!known && connection->known)
        thread->strangers++;
    connection->known = known;
}

void waiting_busy(struct http_thread *thread, struct http_connection *connection)
{
    connection_list_remove(connection);
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
    connection_list_remove(connection);
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
        [PHASE_IN_FLIGHT] = {[PHASE_READY] = true, [PHASE_ABANDONED] = true},
        /* FREE: it came back. Until then a queue or a worker points to it. */
        [PHASE_ABANDONED] = {[PHASE_FREE] = true},
        [PHASE_READY] = {[PHASE_FREE] = true},
    };
    assert(allowed[request->http.phase][phase]);
    request->http.phase = phase;
}

bool request_in_flight(const struct request *request)
{
    enum http_phase phase = request->http.phase;
    return phase == PHASE_IN_FLIGHT || phase == PHASE_ABANDONED;
}

struct queue *request_queue(struct service *service, const struct request *request)
{
    enum call_kind kind = request->http.kind;
    return kind == CALL_ORDER ? service->orders : service->calls[kind];
}

void request_send(struct http_thread *thread, struct request *request)
{
    bool moved = request_move(request, REQUEST_RECEIVING, REQUEST_QUEUED);
    assert(moved); /* no worker knows it yet */
    enum call_kind kind = request->http.kind;
    bool locks = kind != CALL_ORDER && call_kinds[kind].locks;
    int64_t bound_ms = call_bound_ms(&thread->service->config, locks);
    request_phase(request, PHASE_IN_FLIGHT);
    request->http.until_ns = request->arrived_ns + bound_ms * CLOCK_NS_PER_MS;
    request->order.until_ns = request->http.until_ns; /* of other calls nobody asks for it */
    request->queue_next = NULL;
    thread->in_flight++;
    if (kind != CALL_ORDER) {
        queue_push(request_queue(thread->service, request), request, request);
        return;
    }
    /* Orders wait for the end of the turn: one lock of the queue carries them all. */
    struct order_list *list = &thread->orders;
    if (list->last)
        list->last->queue_next = request;
    else
        list->first = request;
    list->last = request;
}
