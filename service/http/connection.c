/* A connection and the request on it: a request's life hangs on its connection.
 *
 * why_polled: libmicrohttpd calls exchange_access again in every MHD_run for a request that is
 * complete and has no response yet. For a request that waits for a worker this costs a function
 * call per turn and no system call; suspending its connection instead costs epoll_ctl twice and a
 * recv that finds nothing. That is cheaper as long as not too many connections wait: beyond
 * POLLED_MAX they are suspended. */
#include "service/http/connection.h"

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "service/http/reply.h"
#include "service/http/room.h"
#include "service/http/route.h"
#include "service/log/log.h"
#include "service/metrics/metrics.h"

enum { POLLED_MAX = 1024 }; /* see why_polled */

/* ---- orders first ---- */

/* Orders first: holds other calls back while orders are under way.
 *
 * An HTTP thread answers what comes in the order in which it comes. A few thousand connections that
 * look at the stock would leave orders what is left of its time, the less the more there are. So,
 * while orders are under way, other calls are paid for from a credit: each order that is answered
 * adds to it, and so does time, so that nothing stands still when orders do. A call that finds no
 * credit is held: its connection is suspended, and it goes on in its turn.
 *
 * why_a_crowd: held calls wait, and the clients of a shop that looks, orders and pays in turn would
 * wait with them. As long as fewer than CROWD other calls come in one turn, none is held.
 *
 * why_three_lines: calls of the shop do not wait behind those of buyers, nor calls of operators
 * behind either. Operators and probes must be answered within a second: only a crowd of their own
 * calls is held, and shorter. */

enum {
    CROWD = 256, /* see why_a_crowd */
    CROWD_OPERATORS = 64,
    ORDERS_MIN = 32,       /* in flight: below this, no other call is held back */
    CREDIT_PER_ORDER = 40, /* in percent of what an order costs */
    CREDIT_PER_MS = 100,
    CREDIT_MIN = -6400,
    CREDIT_MAX = 25600,
    COST = 100,           /* of reading a call and writing its answer, with the hold */
    COST_OPERATORS = 300, /* their answers are long */
    RELEASE_MIN = 6400,   /* a resume costs libmicrohttpd a look at all that are suspended */
    RECENT_MS = 20,       /* how long the next crowd of orders may be away */
    STUCK_MS = 250,       /* without an answered order: then holding others back is of no use */
    HOLD_MS_MAX = 1000,
    HOLD_OPERATORS_MS_MAX = 250,
};

static bool since(const struct http_thread *thread, int64_t then_ns, int ms)
{
    return thread->now_ns - then_ns < ms * CLOCK_NS_PER_MS;
}

static bool orders_under_way(const struct http_thread *thread)
{
    const struct http_fair *fair = &thread->fair;
    bool crowd = fair->orders >= ORDERS_MIN || since(thread, fair->crowded_ns, RECENT_MS);
    return crowd && since(thread, fair->answered_ns, STUCK_MS);
}

void fair_sent(struct http_thread *thread, enum call_kind kind)
{
    struct http_fair *fair = &thread->fair;
    if (kind != CALL_ORDER)
        fair->credit -= call_kinds[kind].cost;
    else if (++fair->orders >= ORDERS_MIN)
        fair->crowded_ns = thread->now_ns;
}

/* A request came back from a worker. */
static void fair_returned(struct http_thread *thread, enum call_kind kind)
{
    struct http_fair *fair = &thread->fair;
    if (kind != CALL_ORDER)
        return;
    assert(fair->orders > 0);
    fair->orders--;
    fair->answered_ns = thread->now_ns;
    fair->credit += CREDIT_PER_ORDER;
}

/* A line of held calls, and how many calls of a turn are no crowd. */
static const struct line {
    size_t crowd;
    int hold_ms_max;
    int cost;
} lines[HTTP_LINES] = {
    {CROWD, HOLD_MS_MAX, COST}, /* of buyers */
    {CROWD, HOLD_MS_MAX, COST}, /* of the shop */
    {CROWD_OPERATORS, HOLD_OPERATORS_MS_MAX, COST_OPERATORS},
};

/* Orders are never held. Whoever asks for nothing that there is counts as a buyer. */
static bool may_be_held(const struct request *request)
{
    const struct route *route = request->http.route;
    return !route || route->kind != CALL_ORDER;
}

static size_t line_of(const struct request *request)
{
    const struct route *route = request->http.route;
    if (!route)
        return 0;
    return route->class == ROUTE_SHOP ? 1 : ROUTE_BIT(route->class) & ROUTE_OPERATORS_OWN ? 2 : 0;
}

bool fair_holds(const struct http_thread *thread)
{
    for (size_t i = 0; i < HTTP_LINES; i++)
        if (thread->held[i].first)
            return true;
    return false;
}

bool fair_admit(struct http_thread *thread, struct request *request)
{
    struct http_fair *fair = &thread->fair;
    bool released = request->http.released;
    request->http.released = false;
    if (released || thread->closing || !may_be_held(request) || !orders_under_way(thread))
        return true;
    size_t number = line_of(request);
    if (!thread->held[number].first && fair->seen[number]++ < lines[number].crowd)
        return true;
    connection_list_add(thread, &thread->held[number], request->http.connection);
    request_suspend(request);
    metrics_count(METRIC_CALLS_HELD);
    return false;
}

/* A held request goes on, and is refused unless `refusal` is PROBLEM_NONE. */
static void fair_let_go(struct request *request, enum problem refusal)
{
    connection_list_remove(request->http.connection);
    if (refusal != PROBLEM_NONE)
        request->http.refusal = refusal;
    request->http.released = true;
    request_resume(request);
}

/* The first of each line. */
static void release_some(struct http_thread *thread)
{
    for (size_t i = 0; i < HTTP_LINES; i++) {
        const struct http_connection *first = thread->held[i].first;
        if (!first)
            continue;
        fair_let_go(first->request, PROBLEM_NONE);
        thread->fair.credit -= lines[i].cost;
    }
}

/* Those that have been held for as long as may be. */
static void release_late(struct http_thread *thread)
{
    for (size_t i = 0; i < HTTP_LINES; i++)
        while (thread->held[i].first &&
               !since(thread, thread->held[i].first->since_ns, lines[i].hold_ms_max))
            fair_let_go(thread->held[i].first->request, PROBLEM_NONE);
}

void fair_count_anew(struct http_thread *thread)
{
    memset(thread->fair.seen, 0, sizeof thread->fair.seen);
}

void fair_release(struct http_thread *thread)
{
    struct http_fair *fair = &thread->fair;
    int64_t ms = (thread->now_ns - fair->counted_ns) / CLOCK_NS_PER_MS;
    fair->counted_ns += ms * CLOCK_NS_PER_MS;
    fair_count_anew(thread);
    release_late(thread);
    fair->credit += (ms < STUCK_MS ? ms : STUCK_MS) * CREDIT_PER_MS;
    if (fair->credit > CREDIT_MAX)
        fair->credit = CREDIT_MAX;
    if (fair->credit < CREDIT_MIN)
        fair->credit = CREDIT_MIN;
    if (thread->closing || !orders_under_way(thread)) {
        while (fair_holds(thread))
            release_some(thread);
        return;
    }
    if (fair->credit < RELEASE_MIN)
        return;
    while (fair->credit > 0 && fair_holds(thread))
        release_some(thread);
}

/* ---- requests ---- */

static struct request *request_new(struct http_thread *thread, struct http_connection *connection)
{
    struct request *request = thread->free_requests;
    if (request) {
        thread->free_requests = request->http.next;
    } else {
        request = calloc(1, sizeof *request);
        if (!request)
            abort();
        request->home = &thread->home;
        request->http.body = request->http.inline_body;
    }
    request_phase(request, PHASE_HEAD);
    atomic_store_explicit(&request->state, REQUEST_RECEIVING, memory_order_relaxed);
    request->http.wait = WAIT_NONE;
    request->http.refusal = PROBLEM_NONE;
    request->http.released = false;
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
    assert(!request->http.connection && request->http.wait != WAIT_POLLED);
    request_phase(request, PHASE_FREE);
    request_list_remove(request);
    answer_clear(&request->answer);
    if (request->http.body != request->http.inline_body)
        free(request->http.body);
    request->http.body = request->http.inline_body;
    request->http.next = thread->free_requests;
    thread->free_requests = request;
}

void connection_wait(struct http_thread *thread, struct request *request)
{
    assert(request->http.wait == WAIT_NONE);
    if (thread->polled < POLLED_MAX) {
        request->http.wait = WAIT_POLLED;
        thread->polled++;
    } else {
        request_suspend(request);
    }
}

void connection_stop_polling(struct http_thread *thread, struct request *request)
{
    if (request->http.wait != WAIT_POLLED)
        return;
    assert(thread->polled > 0);
    thread->polled--;
    request->http.wait = WAIT_NONE;
}

void connection_abandon(struct http_thread *thread, struct http_connection *connection)
{
    struct request *request = connection->request;
    if (!request)
        return;
    assert(request->http.connection == connection);
    connection->request = NULL;
    request->http.connection = NULL;
    connection_stop_polling(thread, request);
    if (request_in_flight(request)) {
        request_phase(request, PHASE_ABANDONED);
        request_list_remove(request);
    } else {
        request_free(thread, request);
    }
}

void connection_return(struct http_thread *thread, struct request *request)
{
    assert(request_in_flight(request) && thread->in_flight > 0);
    thread->in_flight--;
    request_list_remove(request);
    fair_returned(thread, request->http.kind);
    if (!request->http.connection) {
        request_free(thread, request);
        return;
    }
    assert(request->http.connection->request == request);
    request_phase(request, PHASE_READY);
    request_resume(request);
}

/* Whether the call has more time than most; then it waits on in the list of such calls. */
static bool goes_on(struct http_thread *thread, struct request *request, bool usual)
{
    enum call_kind kind = request->http.kind;
    bool locks = kind != CALL_ORDER && call_kinds[kind].locks;
    int64_t bound_ms = call_bound_ms(&thread->service->config, locks);
    int64_t until_ns = request->arrived_ns + bound_ms * CLOCK_NS_PER_MS;
    if (!usual || thread->ending || until_ns <= thread->now_ns)
        return false;
    request->http.until_ns = until_ns;
    request_list_add(thread, LIST_LOCKS, request);
    return true;
}

void connection_expire(struct http_thread *thread, struct request *request)
{
    bool usual = request->http.list == &thread->lists[LIST_USUAL];
    request_list_remove(request);
    if (request->http.phase != PHASE_IN_FLIGHT) {
        assert(request->http.phase == PHASE_HEAD || request->http.phase == PHASE_BODY);
        if (request->http.connection->busy)
            fair_let_go(request, PROBLEM_OVERLOADED);
        else
            reply_past_libmicrohttpd(request->http.connection, PROBLEM_REQUEST_TIMEOUT);
    } else if (!goes_on(thread, request, usual)) {
        request_phase(request, PHASE_EXPIRED); /* look_for_answer answers */
        request_resume(request);
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
    request_arrives(thread, request);
}

void connection_free_requests(struct http_thread *thread)
{
    while (thread->free_requests) {
        struct request *request = thread->free_requests;
        assert(request->http.phase == PHASE_FREE);
        thread->free_requests = request->http.next;
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
