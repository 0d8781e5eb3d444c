/* One exchange with a client: libmicrohttpd's callbacks, from the accept to the answer written. */
#include "service/http/exchange.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "service/calls/calls.h"
#include "service/http/reply.h"
#include "service/http/connection.h"
#include "service/http/fair.h"
#include "service/http/head.h"
#include "service/http/room.h"
#include "service/http/route.h"
#include "service/request/unescape.h"
#include "service/log/log.h"
#include "service/metrics/metrics.h"

enum MHD_Result exchange_accept(void *cls, const struct sockaddr *from, socklen_t length)
{
    struct http_thread *thread = cls;
    (void)from;
    (void)length;
    thread->accepts++;
    return room_admits(thread) ? MHD_YES : MHD_NO;
}

void exchange_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
                         enum MHD_ConnectionNotificationCode code)
{
    struct http_thread *thread = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *socket_context = connection_open(thread, mhd);
    } else {
        connection_close(thread, *socket_context);
        *socket_context = NULL;
    }
}

/* ---- receiving ---- */

void *exchange_begin(void *cls, const char *uri, struct MHD_Connection *mhd)
{
    struct http_thread *thread = cls;
    /* The socket context, no pointer of libmicrohttpd: it lives until the connection closes. */
    struct http_connection *connection =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    connection_begin(thread, connection);
    struct request_http *http = &connection->request->http;
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

/* Operators want to see who tries; the log bounds the lines per second. */
static void note_unauthorized(struct http_thread *thread, const struct http_connection *connection)
{
    char address[NETWORKS_TEXT_SIZE];
    struct request *request = connection->request;
    const struct route *route = request->http.route;
    bool shop = route->class == ROUTE_SHOP;
    request->trace.shown = true;
    access_address(thread, connection, address);
    metrics_count(shop ? METRIC_UNAUTHORIZED_SHOP : METRIC_UNAUTHORIZED_ADMIN);
    log_event(LOG_WARN, "unauthorized", "class=%s method=%s path=%s address=%s%s",
              shop ? "shop" : "admin", route->method, route->path, address,
              TRACE_LOG(&request->trace));
}

static bool wants_token(const struct service *service, const struct http_connection *connection)
{
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

/* Whether the request shows the token that its route wants, if any. */
static bool authorized(struct http_thread *thread, const struct http_connection *connection)
{
    struct tokens *tokens = thread->service->tokens;
    enum route_class class = connection->request->http.route->class;
    enum token_class wanted = class == ROUTE_SHOP ? TOKENS_SHOP : TOKENS_ADMIN;
    if (!wants_token(thread->service, connection))
        return true;
    const char *given = head_bearer(connection->mhd);
    if (given && tokens_match(tokens, wanted, given))
        return true;
    note_unauthorized(thread, connection);
    return false;
}

/* A browser sends calls for any page, and the shop's calls may need no token. */
static bool page_admitted(struct http_thread *thread, const struct http_connection *connection,
                          const char *url)
{
    char address[NETWORKS_TEXT_SIZE];
    struct request *request = connection->request;
    const struct route *route = request->http.route;
    if (strcmp(route->method, MHD_HTTP_METHOD_GET) == 0 ||
        head_own_origin(connection->mhd, url, request->http.path_at))
        return true;
    request->trace.shown = true;
    access_address(thread, connection, address);
    log_event(LOG_WARN, "origin_refused", "method=%s path=%s origin=%s host=%s address=%s%s",
              route->method, route->path, LOG_QUOTE(head_origin(connection->mhd)),
              LOG_QUOTE(head_host(connection->mhd)), address, TRACE_LOG(&request->trace));
    return false;
}

/* The headers are there. A refusal is kept until the body has been read, so that the connection can
 * go on; only where the body ends too far away, or nowhere for certain, it is answered at once. */
static enum MHD_Result headers_read(struct http_thread *thread, struct http_connection *connection,
                                    const char *method, const char *url, const char *version)
{
    struct request_http *http = &connection->request->http;
    const struct head_line line = {method, url, version, http->uri_length, http->bad_target};
    const struct route_path path = {url + http->path_at, http->plain_head, http->plain_tail};
    request_phase(connection->request, PHASE_BODY);
    http->head = strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    http->route = route_find(thread->classes, method, &path, &http->refusal, &http->allow);
    enum problem bad = head_check(connection->mhd, &line, &connection->request->trace);
    access_sample(thread, connection->request);
    if (bad != PROBLEM_NONE)
        return reply_problem(thread, connection, connection->request, bad);
    if (!http->route)
        return MHD_YES;
    connection->request->trace.shown |= http->route->class == ROUTE_ADMIN; /* their lines name it */
    http->kind = http->route->kind;
    http->method = http->route->method;
    http->path = http->route->path;
    http->probe = http->route->class == ROUTE_OPS || http->route->class == ROUTE_LIVE;
    if (!page_admitted(thread, connection, url))
        http->refusal = PROBLEM_ORIGIN_REFUSED;
    else if (!authorized(thread, connection))
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
        http->refusal = PROBLEM_PAYLOAD_TOO_LARGE; /* the rest is read and forgotten */
        return;
    }
    if (http->body_length + length > room) {
        http->body = malloc(BODY_MAX);
        if (!http->body)
            abort();
        memcpy(http->body, http->inline_body, http->body_length);
    }
    assert(http->body_length + length <= BODY_MAX);
    memcpy(http->body + http->body_length, data, length);
    http->body_length += length;
}

/* ---- the complete request ---- */

/* Runs the call's handler on the texts of the request, which end with this function. */
static enum call_start handle(struct http_thread *thread, struct http_connection *connection,
                              const char *url)
{
    struct service *service = thread->service;
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
        .key = route->body ? head_key(connection->mhd) : NULL,
        .if_none_match = file ? head_if_none_match(connection->mhd) : NULL,
        .now_ns = thread->now_ns,
    };
    if (!route->body)
        head_parameters(connection->mhd, &call);
    request->order.address[0] = '\0';
    /* For the rate of an address, and for the log of what operators change. */
    if (route->class == ROUTE_ADMIN ||
        (route->kind == CALL_ORDER && atomic_load(&service->rates.address_per_min) > 0))
        head_address(connection->mhd, &atomic_load(&service->proxies)->networks,
                     request->order.address);
    return route->start(request, &call);
}

/* A bounded queue: better a quick answer than one after the deadline. A thread that ends waits for
 * no answer any more. */
static void refuse(const struct http_thread *thread, struct request *request)
{
    if (request->http.kind == CALL_ORDER)
        metrics_count(thread->ending ? METRIC_ORDERS_UNAVAILABLE : METRIC_ORDERS_OVERLOADED);
    answer_problem(&request->answer, thread->ending ? PROBLEM_UNAVAILABLE : PROBLEM_OVERLOADED);
}

static void start(struct http_thread *thread, struct http_connection *connection, const char *url)
{
    struct service *service = thread->service;
    struct request *request = connection->request;
    enum call_start next = handle(thread, connection, url);
    bool order = next == START_TO_ORDER_WORKER;
    struct queue *queue = request_queue(service, request);
    request->flow = order ? queue_flow(request->order.sku) : 0; /* orders share by sku */
    if (next == START_ANSWERED) {
        request_phase(request, PHASE_READY);
    } else if (!thread->ending && queue_reserve(queue, request->flow)) {
        request_send(thread, request);
        fair_sent(thread, request->http.kind);
    } else {
        refuse(thread, request);
        request_phase(request, PHASE_READY);
    }
}

static_assert((int)HISTOGRAM_CALL_LISTING - (int)HISTOGRAM_CALL_LOOKUP == (int)CALL_LISTING,
              "the histograms of calls stand in the order of the kinds");

/* By the time of the turn, so an order that is refused at once takes none. Without the time that
 * its client took to send it. */
static void observe(const struct http_thread *thread, const struct request *request)
{
    enum call_kind kind = request->http.kind;
    uint64_t ns = (uint64_t)(thread->now_ns - request->http.complete_ns);
    if (kind == CALL_ORDER)
        metrics_observe(HISTOGRAM_ORDER_SECONDS, ns);
    else if (ROUTE_BIT(request->http.route->class) & ROUTE_MEASURED)
        metrics_observe((enum metrics_histogram)((int)HISTOGRAM_CALL_LOOKUP + (int)kind), ns);
}

/* How long an order that has come back waited for its HTTP thread; none while the turn lasts in
 * which it came. */
static void observe_return(const struct http_thread *thread, const struct request *request)
{
    int64_t ns = thread->now_ns - request->stage_ns;
    if (request->http.kind == CALL_ORDER)
        metrics_observe(HISTOGRAM_STAGE_ANSWER, ns > 0 ? (uint64_t)ns : 0);
}

/* The request is complete: handles it, unless it is held. */
static enum MHD_Result request_read(struct http_thread *thread, struct http_connection *connection,
                                    const char *url)
{
    struct request *request = connection->request;
    waiting_busy(thread, connection);
    if (!fair_admit(thread, request))
        return MHD_YES;
    if (request->http.until_ns <= thread->now_ns) /* it was held too long */
        request->http.refusal = PROBLEM_OVERLOADED;
    request->stage_ns = request->http.complete_ns = thread->now_ns;
    if (head_leaves_no_room(connection->mhd, CONNECTION_MEMORY))
        request->http.refusal = PROBLEM_HEADERS_TOO_LARGE;
    else if (request->http.query_cut)
        request->http.refusal = PROBLEM_URI_TOO_LONG;
    if (request->http.refusal != PROBLEM_NONE) {
        request_phase(request, PHASE_READY);
        return reply_problem(thread, connection, request, request->http.refusal);
    }
    start(thread, connection, url);
    if (request->http.phase == PHASE_READY) {
        observe(thread, request);
        return reply_answer(thread, connection, request);
    }
    return MHD_YES;
}

/* For a request that waits for its worker. */
static enum MHD_Result look_for_answer(struct http_thread *thread,
                                       struct http_connection *connection)
{
    struct request *request = connection->request;
    bool in_flight = request->http.phase == PHASE_IN_FLIGHT;
    if (in_flight && request->http.until_ns > thread->now_ns && !thread->ending)
        return MHD_YES;
    thread->answers++; /* the loop writes it in one more run of libmicrohttpd */
    observe(thread, request);
    if (!in_flight) {
        observe_return(thread, request);
        return reply_answer(thread, connection, request);
    }
    connection_abandon(thread, connection); /* freed when its worker, if it has one, returns it */
    return reply_expired(thread, connection, request);
}

enum MHD_Result exchange_access(void *cls, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *upload_data,
                                size_t *upload_data_size, void **con_cls)
{
    (void)mhd;
    struct http_thread *thread = cls;
    struct http_connection *connection = *con_cls;
    struct request *request = connection->request;
    /* libmicrohttpd asks again although an answer was refused, or was written past it: close. */
    if (!request || connection->answered)
        return MHD_NO;
    if (request->http.phase == PHASE_HEAD)
        return headers_read(thread, connection, method, url, version);
    if (*upload_data_size > 0) { /* also of a request that is refused: the connection goes on */
        body_read(&request->http, upload_data, *upload_data_size);
        *upload_data_size = 0;
        return MHD_YES;
    }
    if (request->http.phase == PHASE_BODY)
        return request_read(thread, connection, url);
    return look_for_answer(thread, connection);
}

void exchange_end(void *cls, struct MHD_Connection *mhd, void **con_cls,
                  enum MHD_RequestTerminationCode reason)
{
    (void)mhd;
    (void)reason; /* the client's loss of interest changes nothing: an order may be accepted */
    struct http_thread *thread = cls;
    struct http_connection *connection = *con_cls;
    if (!connection)
        return;
    connection_abandon(thread, connection);
    waiting_served(thread, connection);
    *con_cls = NULL;
}
