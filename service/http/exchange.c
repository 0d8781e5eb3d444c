/* One exchange with a client: libmicrohttpd's callbacks, from the accept to the answer written. */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "service/http/http.h"
#include "service/log/log.h"
#include "service/metrics/metrics.h"
#include "service/request/unescape.h"

enum MHD_Result exchange_accept(void *cls, const struct sockaddr *from, socklen_t length)
{
    struct http_thread *thread = cls;
    (void)from;
    (void)length;
    thread->accepts++;
    return room_admits(thread->room) ? MHD_YES : MHD_NO;
}

/* ---- requests ---- */

static void move_phase(struct request *request, enum http_phase phase)
{
    static const bool allowed[PHASE_COUNT][PHASE_COUNT] = {
        [PHASE_FREE] = {[PHASE_HEAD] = true},
        [PHASE_HEAD] = {[PHASE_BODY] = true, [PHASE_FREE] = true},
        [PHASE_BODY] = {[PHASE_IN_FLIGHT] = true, [PHASE_READY] = true, [PHASE_FREE] = true},
        [PHASE_IN_FLIGHT] = {[PHASE_READY] = true, [PHASE_ABANDONED] = true},
        /* To FREE once it came back; until then a queue or a worker points to it. */
        [PHASE_ABANDONED] = {[PHASE_FREE] = true},
        [PHASE_READY] = {[PHASE_FREE] = true},
    };
    assert(allowed[request->http.phase][phase]);
    request->http.phase = phase;
}

static bool is_in_flight(const struct request *request)
{
    enum http_phase phase = request->http.phase;
    return phase == PHASE_IN_FLIGHT || phase == PHASE_ABANDONED;
}

static struct request *request_new(struct http_connection *connection)
{
    struct http_thread *thread = connection->thread;
    struct request *request = thread->free_requests;
    if (request) {
        thread->free_requests = request->queue_next;
    } else {
        request = memory_must(calloc(1, sizeof *request));
        request->home = &thread->home;
    }
    assert(request->http.phase == PHASE_FREE && !connection->request);
    memset(&request->http, 0, offsetof(struct request_http, inline_body));
    request->http.body = request->http.inline_body;
    move_phase(request, PHASE_HEAD);
    atomic_store_explicit(&request->state, REQUEST_RECEIVING, memory_order_relaxed);
    trace_begin(&request->trace, NULL, NULL); /* until its head is read */
    request->call.changes = request->call.again = false;
    request->call.state = NULL;
    request->arrived_ns = thread->now_ns;
    request->http.until_ns =
        thread->now_ns + (int64_t)thread->service->config.deadline_ms * CLOCK_NS_PER_MS;
    request->http.connection = connection;
    connection->request = request;
    return request;
}

static void request_free(struct http_thread *thread, struct request *request)
{
    assert(!request->http.connection);
    move_phase(request, PHASE_FREE);
    answer_clear(&request->answer);
    if (request->http.body != request->http.inline_body)
        free(request->http.body);
    free(request->call.webhook);
    request->call.webhook = NULL;
    request->queue_next = thread->free_requests;
    thread->free_requests = request;
}

void exchange_abandon(struct http_connection *connection)
{
    struct request *request = connection->request;
    if (!request)
        return;
    assert(request->http.connection == connection);
    connection->request = NULL;
    request->http.connection = NULL;
    fair_let_go(connection->thread, request);
    if (is_in_flight(request))
        move_phase(request, PHASE_ABANDONED);
    else
        request_free(connection->thread, request);
}

void exchange_return(struct http_thread *thread, struct request *request)
{
    assert(is_in_flight(request) && thread->in_flight > 0);
    thread->in_flight--;
    thread->readers -= request->http.route->kind == CALL_EVENTS;
    fair_returned(thread, request->http.route->kind);
    if (request->http.connection)
        move_phase(request, PHASE_READY);
    else
        request_free(thread, request);
}

void exchange_free_requests(struct http_thread *thread)
{
    while (thread->free_requests) {
        struct request *request = thread->free_requests;
        assert(request->http.phase == PHASE_FREE);
        thread->free_requests = request->queue_next;
        free(request);
    }
}

/* ---- connections ---- */

/* A request still attached was given up by libmicrohttpd, which sent nothing. The socket stays open
 * until this returns, so the client can still be told. */
static void end_connection(struct http_connection *connection)
{
    if (connection->request && !connection->answered)
        reply_past_libmicrohttpd(connection, PROBLEM_HEADERS_TOO_LARGE);
    else if (!connection->request && refusal_silent(connection))
        reply_past_libmicrohttpd(connection, PROBLEM_INVALID_HEAD);
    exchange_abandon(connection);
    connection_close(connection);
}

void exchange_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
                         enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *socket_context = connection_open(cls, mhd);
    } else {
        end_connection(*socket_context);
        *socket_context = NULL;
    }
}

/* ---- receiving ---- */

void *exchange_begin(void *cls, const char *uri, struct MHD_Connection *mhd)
{
    (void)cls;
    /* The socket context is ours and lives until the connection closes. */
    struct http_connection *connection =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    exchange_abandon(connection); /* in case the last request's end was not reported */
    struct request_http *http = &request_new(connection)->http;
    connection->answered = false;
    connection->asked = true;
    connection_move(connection, CONNECTION_SENDING);
    struct route_path path;
    head_read_target(uri, http);
    route_note_encoding(uri + http->path_at, &path);
    http->plain_head = path.plain_head;
    http->plain_tail = path.plain_tail;
    http->query_cut = head_cut_query(uri);
    return connection;
}

size_t exchange_unescape(void *cls, struct MHD_Connection *mhd, char *text)
{
    (void)cls;
    (void)mhd;
    return unescape(text);
}

/* Operators want to see who tries; the log limits the lines per second. */
static void note_unauthorized(const struct http_connection *connection)
{
    char address[NETWORKS_TEXT_SIZE];
    struct request *request = connection->request;
    const struct route *route = request->http.route;
    bool shop = route->class == ROUTE_SHOP;
    request->trace.shown = true;
    access_address(connection, address);
    metrics_count(shop ? METRIC_UNAUTHORIZED_SHOP : METRIC_UNAUTHORIZED_ADMIN);
    log_event(LOG_WARN, "unauthorized", "class=%s method=%s path=%s address=%s%s",
              shop ? "shop" : "admin", route->method, route->path, address,
              TRACE_LOG(&request->trace));
}

static bool wants_token(const struct http_connection *connection)
{
    const struct service *service = connection->thread->service;
    switch (connection->request->http.route->class) {
    case ROUTE_SHOP:
        return tokens_wanted(service->tokens, TOKENS_SHOP);
    case ROUTE_ADMIN:
        return true;
    case ROUTE_LIVE:
        return strcmp(service->config.demo, "on") != 0 && !head_local(connection->mhd);
    default:
        return false;
    }
}

/* True when the request carries the token that its route needs, if any. */
static bool authorized(const struct http_connection *connection)
{
    struct tokens *tokens = connection->thread->service->tokens;
    enum route_class class = connection->request->http.route->class;
    enum token_class wanted = class == ROUTE_SHOP ? TOKENS_SHOP : TOKENS_ADMIN;
    if (!wants_token(connection))
        return true;
    const char *given = head_bearer(connection->mhd);
    if (given && tokens_match(tokens, wanted, given))
        return true;
    note_unauthorized(connection);
    return false;
}

/* A browser makes calls for any page, and the shop's calls may need no token. */
static bool page_admitted(const struct http_connection *connection, const char *url)
{
    char address[NETWORKS_TEXT_SIZE];
    struct request *request = connection->request;
    const struct route *route = request->http.route;
    if (strcmp(route->method, MHD_HTTP_METHOD_GET) == 0 ||
        head_own_origin(connection->mhd, url, request->http.path_at))
        return true;
    request->trace.shown = true;
    access_address(connection, address);
    log_event(LOG_WARN, "origin_refused", "method=%s path=%s origin=%s host=%s address=%s%s",
              route->method, route->path,
              LOG_QUOTE(head_value(connection->mhd, MHD_HTTP_HEADER_ORIGIN)),
              LOG_QUOTE(head_value(connection->mhd, MHD_HTTP_HEADER_HOST)), address,
              TRACE_LOG(&request->trace));
    return false;
}

static enum MHD_Result refuse_head(struct http_connection *connection, enum problem problem)
{
    connection->request->http.route = NULL;
    connection->last = true; /* its body is not read */
    if (problem != PROBLEM_URI_TOO_LONG && problem != PROBLEM_HEADERS_TOO_LARGE)
        return reply_problem(connection, connection->request, problem);
    reply_past_libmicrohttpd(connection, problem); /* the head has taken the answer's memory */
    return MHD_NO;                                 /* libmicrohttpd closes the connection */
}

/* The headers are complete. A refusal waits until the body was read, so that the connection can be
 * reused; that of a bad head is sent at once. */
static enum MHD_Result headers_read(struct http_connection *connection, const char *method,
                                    const char *url, const char *version)
{
    struct http_thread *thread = connection->thread;
    struct request_http *http = &connection->request->http;
    const struct head_line line = {method, url, version, http->uri_length, http->bad_target};
    const struct route_path path = {url + http->path_at, http->plain_head, http->plain_tail};
    move_phase(connection->request, PHASE_BODY);
    http->head = strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    http->route = route_find(thread->room->classes, method, &path, &http->refusal, &http->allow);
    enum problem bad = head_check(connection->mhd, &line, &connection->request->trace,
                                  &http->head_memory, &connection->last);
    access_sample(thread, connection->request);
    if (bad != PROBLEM_NONE)
        return refuse_head(connection, bad);
    if (!http->route)
        return MHD_YES;
    connection->request->trace.shown |= http->route->class == ROUTE_ADMIN; /* log lines name it */
    if (!page_admitted(connection, url))
        http->refusal = PROBLEM_ORIGIN_REFUSED;
    else if (!authorized(connection))
        http->refusal = PROBLEM_UNAUTHORIZED;
    else if (http->route->body && !head_json(connection->mhd))
        http->refusal = PROBLEM_UNSUPPORTED_MEDIA_TYPE;
    return MHD_YES;
}

/* Most bodies fit into the request, so reading one allocates nothing. */
static void body_read(struct request_http *http, const char *data, size_t length)
{
    size_t room = http->body == http->inline_body ? BODY_INLINE_MAX : BODY_MAX;
    if (http->body_length + length > BODY_MAX) {
        http->refusal = PROBLEM_PAYLOAD_TOO_LARGE; /* the rest is read and discarded */
        return;
    }
    if (http->body_length + length > room) {
        http->body = memory_must(malloc(BODY_MAX));
        memcpy(http->body, http->inline_body, http->body_length);
    }
    assert(http->body_length + length <= BODY_MAX);
    memcpy(http->body + http->body_length, data, length);
    http->body_length += length;
}

/* ---- the complete request ---- */

/* Runs the call's handler; its texts are valid only until this returns. */
static enum call_start handle(struct http_connection *connection, const char *url)
{
    struct service *service = connection->thread->service;
    struct request *request = connection->request;
    const struct route *route = request->http.route;
    const char *path = url + request->http.path_at;
    bool file = route->start == call_web_file || route->start == call_web_demo;
    struct call call = {
        .service = service,
        .path = path,
        .tail = path + route_tail(route),
        .body = request->http.body,
        .body_length = request->http.body_length,
        .key = route->body ? head_value(connection->mhd, "Idempotency-Key") : NULL,
        .if_none_match = file ? head_value(connection->mhd, MHD_HTTP_HEADER_IF_NONE_MATCH) : NULL,
        .now_ns = connection->thread->now_ns,
    };
    if (!route->body)
        head_parameters(connection->mhd, &call);
    request->order.address[0] = '\0';
    /* For the rate limit per address, and for the log of operators' changes. */
    if (route->class == ROUTE_ADMIN ||
        (route->kind == CALL_ORDER && atomic_load(&service->rates.address_per_min) > 0))
        head_address(connection->mhd, &atomic_load(&service->proxies)->networks,
                     request->order.address);
    return route->start(request, &call);
}

/* The queue is full: a quick refusal is better than an answer after the deadline. A thread that is
 * ending refuses as well, since it waits for no worker any more. */
static void refuse(const struct http_thread *thread, struct request *request)
{
    if (request->http.route->kind == CALL_ORDER)
        metrics_count(thread->ending ? METRIC_ORDERS_UNAVAILABLE : METRIC_ORDERS_OVERLOADED);
    answer_problem(&request->answer, thread->ending ? PROBLEM_UNAVAILABLE : PROBLEM_OVERLOADED);
}

static struct queue *queue_of(struct service *service, const struct request *request)
{
    enum call_kind kind = request->http.route->kind;
    return kind == CALL_ORDER ? service->orders : service->calls[kind];
}

/* Sends a complete request to a worker. The caller has reserved its place in the queue. */
static void send_on(struct http_thread *thread, struct request *request)
{
    bool moved = request_move(request, REQUEST_RECEIVING, REQUEST_QUEUED);
    assert(moved); /* no worker knows it yet */
    enum call_kind kind = request->http.route->kind;
    move_phase(request, PHASE_IN_FLIGHT);
    request_set_deadline(request, &thread->service->config, kind);
    request->queue_next = NULL;
    thread->in_flight++;
    thread->readers += kind == CALL_EVENTS;
    if (kind != CALL_ORDER) {
        queue_push(queue_of(thread->service, request), request, request);
        return;
    }
    /* Orders are collected until the end of the turn, so that the queue is locked once. */
    struct order_list *list = &thread->orders;
    if (list->last)
        list->last->queue_next = request;
    else
        list->first = request;
    list->last = request;
}

static void start(struct http_connection *connection, const char *url)
{
    struct http_thread *thread = connection->thread;
    struct request *request = connection->request;
    enum call_start next = handle(connection, url);
    bool order = next == START_TO_ORDER_WORKER;
    struct queue *queue = queue_of(thread->service, request);
    request->flow = order ? queue_flow(request->order.sku) : 0; /* orders share by sku */
    if (next == START_ANSWERED) {
        move_phase(request, PHASE_READY);
    } else if (!thread->ending && queue_reserve(queue, request->flow)) {
        send_on(thread, request);
        fair_sent(thread, request->http.route->kind);
    } else {
        refuse(thread, request);
        move_phase(request, PHASE_READY);
    }
}

static_assert((int)HISTOGRAM_CALL_WEBHOOK - (int)HISTOGRAM_CALL_LOOKUP == (int)CALL_WEBHOOK,
              "the histograms of calls stand in the order of the kinds");

/* Measures by the turn's clock, from the complete request on: the time that its client took to send
 * it does not count, and an order refused at once takes no time. The feed is left out: its requests
 * wait for events. */
static void observe(const struct http_thread *thread, const struct request *request)
{
    enum call_kind kind = request->http.route->kind;
    uint64_t ns = (uint64_t)(thread->now_ns - request->http.complete_ns);
    if (kind == CALL_ORDER)
        metrics_observe(HISTOGRAM_ORDER_SECONDS, ns);
    else if (kind <= CALL_WEBHOOK && (ROUTE_BIT(request->http.route->class) & ROUTE_MEASURED))
        metrics_observe((enum metrics_histogram)((int)HISTOGRAM_CALL_LOOKUP + (int)kind), ns);
}

/* Measures how long a returned order waited for its HTTP thread; zero within the turn in which it
 * returned. */
static void observe_return(const struct http_thread *thread, const struct request *request)
{
    int64_t ns = thread->now_ns - request->stage_ns;
    if (request->http.route->kind == CALL_ORDER)
        metrics_observe(HISTOGRAM_STAGE_ANSWER, ns > 0 ? (uint64_t)ns : 0);
}

/* The request is complete: handles it, unless it is held. */
static enum MHD_Result request_read(struct http_connection *connection, const char *url)
{
    struct http_thread *thread = connection->thread;
    struct request *request = connection->request;
    if (connection->state != CONNECTION_BUSY)
        connection_move(connection, CONNECTION_BUSY);
    if (!fair_admit(thread, request))
        return MHD_YES;
    if (request->http.until_ns <= thread->now_ns) /* it was held too long */
        request->http.refusal = PROBLEM_OVERLOADED;
    request->stage_ns = request->http.complete_ns = thread->now_ns;
    if (request->http.head_memory > 0 &&
        head_leaves_no_room(connection->mhd, request->http.head_memory))
        return refuse_head(connection, PROBLEM_HEADERS_TOO_LARGE);
    if (request->http.query_cut)
        request->http.refusal = PROBLEM_URI_TOO_LONG;
    if (request->http.refusal != PROBLEM_NONE) {
        answer_problem(&request->answer, request->http.refusal);
        move_phase(request, PHASE_READY);
        return reply_answer(connection, request);
    }
    start(connection, url);
    if (request->http.phase == PHASE_READY) {
        observe(thread, request);
        return reply_answer(connection, request);
    }
    return MHD_YES;
}

/* Called for a request that waits for its worker. */
static enum MHD_Result look_for_answer(struct http_connection *connection)
{
    struct http_thread *thread = connection->thread;
    struct request *request = connection->request;
    bool in_flight = request->http.phase == PHASE_IN_FLIGHT;
    if (in_flight && request->http.until_ns > thread->now_ns && !thread->ending)
        return MHD_YES;
    thread->answers++; /* the loop writes it in one more run of libmicrohttpd */
    observe(thread, request);
    if (!in_flight) {
        observe_return(thread, request);
        return reply_answer(connection, request);
    }
    exchange_abandon(connection); /* freed when its worker, if it has one, returns it */
    return reply_expired(connection, request);
}

enum MHD_Result exchange_access(void *cls, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *upload_data,
                                size_t *upload_data_size, void **con_cls)
{
    (void)cls;
    (void)mhd;
    struct http_connection *connection = *con_cls;
    struct request *request = connection->request;
    /* libmicrohttpd calls again although it refused the answer or was bypassed: close. */
    if (!request || connection->answered)
        return MHD_NO;
    if (request->http.phase != PHASE_HEAD && *upload_data_size > 0) {
        /* Reads a refused request's body, too, so that the connection can be reused. */
        body_read(&request->http, upload_data, *upload_data_size);
        *upload_data_size = 0;
        return MHD_YES;
    }
    enum MHD_Result result;
    if (request->http.phase == PHASE_HEAD)
        result = headers_read(connection, method, url, version);
    else if (request->http.phase == PHASE_BODY)
        result = request_read(connection, url);
    else
        result = look_for_answer(connection);
    if (connection->answered) /* it waits until its client has read the answer */
        connection_move(connection, CONNECTION_STRANGER);
    return result;
}

void exchange_end(void *cls, struct MHD_Connection *mhd, void **con_cls,
                  enum MHD_RequestTerminationCode reason)
{
    (void)cls;
    (void)mhd;
    struct http_connection *connection = *con_cls;
    /* The client's socket failed, and nothing can be written; or libmicrohttpd had no memory. */
    bool failed = reason == MHD_REQUEST_TERMINATED_WITH_ERROR;
    if (!connection)
        return;
    const struct request *request = connection->request;
    connection->last |= failed;
    if (failed && request && request->http.phase <= PHASE_BODY)
        return; /* the close, which follows, answers it */
    if (failed && request && request->http.phase == PHASE_READY)
        reply_again(connection);
    /* A client that has gone changes nothing: its order may be accepted. */
    exchange_abandon(connection);
    connection_move(connection, CONNECTION_SERVED);
    *con_cls = NULL;
}
