/* A connection and the request on it: a request's life hangs on its connection. */
#include "service/http/connection.h"

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "service/http/fair.h"
#include "service/http/reply.h"
#include "service/http/room.h"
#include "service/log/log.h"
#include "service/metrics/metrics.h"

/* ---- requests ---- */

static struct request *request_new(struct http_thread *thread, struct http_connection *connection)
{
    struct request *request = thread->free_requests;
    if (request) {
        thread->free_requests = request->queue_next;
    } else {
        request = calloc(1, sizeof *request);
        if (!request)
            abort();
        request->home = &thread->home;
        request->http.body = request->http.inline_body;
    }
    request_phase(request, PHASE_HEAD);
    atomic_store_explicit(&request->state, REQUEST_RECEIVING, memory_order_relaxed);
    request->http.refusal = PROBLEM_NONE;
    request->http.held_ns = 0;
    request->http.allow = NULL;
    request->http.method = request->http.path = NULL;
    request->http.probe = false;
    trace_begin(&request->trace, NULL, NULL); /* until its head was read */
    request->http.body_length = 0;
    request->call.changes = request->call.again = false;
    assert(!connection->request);
    request->http.connection = connection;
    connection->request = request;
    return request;
}

static void request_free(struct http_thread *thread, struct request *request)
{
    assert(!request->http.connection);
    request_phase(request, PHASE_FREE);
    answer_clear(&request->answer);
    if (request->http.body != request->http.inline_body)
        free(request->http.body);
    request->http.body = request->http.inline_body;
    request->queue_next = thread->free_requests;
    thread->free_requests = request;
}

void connection_abandon(struct http_thread *thread, struct http_connection *connection)
{
    struct request *request = connection->request;
    if (!request)
        return;
    assert(request->http.connection == connection);
    connection->request = NULL;
    request->http.connection = NULL;
    fair_let_go(thread, request);
    if (request_in_flight(request))
        request_phase(request, PHASE_ABANDONED);
    else
        request_free(thread, request);
}

void connection_return(struct http_thread *thread, struct request *request)
{
    assert(request_in_flight(request) && thread->in_flight > 0);
    thread->in_flight--;
    fair_returned(thread, request->http.kind);
    if (!request->http.connection) {
        request_free(thread, request);
        return;
    }
    assert(request->http.connection->request == request);
    request_phase(request, PHASE_READY);
}

void connection_expire(struct http_thread *thread)
{
    struct http_connection *connection;
    while ((connection = thread->sending.first) &&
           (thread->ending || connection->request->http.until_ns <= thread->now_ns)) {
        connection_list_remove(connection);
        reply_past_libmicrohttpd(connection, PROBLEM_REQUEST_TIMEOUT);
    }
}

void connection_begin(struct http_thread *thread, struct http_connection *connection)
{
    connection_abandon(thread, connection); /* a request whose end was not reported */
    struct request *request = request_new(thread, connection);
    connection->answered = false;
    connection_list_remove(connection);
    if (!connection->told_to_go)
        connection_list_add(thread, &thread->sending, connection);
    request->arrived_ns = thread->now_ns;
    request->http.until_ns =
        thread->now_ns + (int64_t)thread->service->config.deadline_ms * CLOCK_NS_PER_MS;
}

void connection_free_requests(struct http_thread *thread)
{
    while (thread->free_requests) {
        struct request *request = thread->free_requests;
        assert(request->http.phase == PHASE_FREE);
        thread->free_requests = request->queue_next;
        free(request);
    }
}

/* ---- connections ---- */

/* Where the kernel watches no further descriptor, libmicrohttpd finds the connection ended. */
static void watch_hangup(struct http_thread *thread, const struct http_connection *connection)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.fd = connection->fd};
    if (epoll_ctl(thread->hangup_fd, EPOLL_CTL_ADD, connection->fd, &event) == 0)
        return;
    metrics_count(METRIC_CONNECTIONS_FULL);
    log_event(LOG_WARN, "connection_refused", "error=%s", LOG_QUOTE(strerror(errno)));
    shutdown(connection->fd, SHUT_RDWR);
}

struct http_connection *connection_open(struct http_thread *thread, struct MHD_Connection *mhd)
{
    struct http_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        abort();
    connection->mhd = mhd;
    connection->fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    watch_hangup(thread, connection);
    room_enter(thread, connection);
    return connection;
}

/* A request that is still here was not reported as ended: libmicrohttpd gave up on it between two
 * errors of its own, with nothing sent. The socket is open until this returns, so the client can
 * still be told. */
void connection_close(struct http_thread *thread, struct http_connection *connection)
{
    if (connection->request)
        reply_past_libmicrohttpd(connection, PROBLEM_HEADERS_TOO_LARGE);
    connection_abandon(thread, connection);
    room_leave(thread, connection);
    connection_list_remove(connection);
    free(connection); /* closing the socket takes it out of every epoll set */
}
