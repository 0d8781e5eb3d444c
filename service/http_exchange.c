/* One exchange with a client: libmicrohttpd's callbacks, from the first line to the answer written.
 *
 * why_parked: libmicrohttpd calls exchange_access again in every MHD_run for a request that is
 * complete and has no response yet. For a request that waits for a lane this costs a function call
 * per turn and no system call; suspending it instead costs epoll_ctl twice and a recv that finds
 * nothing. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>

#include "service/http_private.h"
#include "service/metrics.h"

enum {
    FORWARDED_MAX = 8, /* headers X-Forwarded-For of one request */
    QUERY_PARAMETERS_MAX = 32,
    RECORD_BYTES = 64,      /* of libmicrohttpd, for each header, cookie and parameter */
    REPLY_HEAD_BYTES = 1024 /* kept for the head of an answer */
};

static_assert((int)STOCK_ADDRESS_SIZE == (int)NETWORKS_TEXT_SIZE, "an order holds an address");

static int socket_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

static struct http_connection *connection_open(struct front *front, struct MHD_Connection *mhd)
{
    struct http_connection *connection = calloc(1, sizeof *connection);
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.fd = socket_of(mhd)};
    if (!connection || epoll_ctl(front->hangup_fd, EPOLL_CTL_ADD, event.data.fd, &event) != 0)
        abort(); /* out of memory, or the kernel is */
    connection->mhd = mhd;
    front->connections++;
    return connection;
}

static void unpark(struct front *front, struct request *request)
{
    front->parked -= request->parked;
    request->parked = false;
}

void exchange_abandon(struct front *front, struct http_connection *connection)
{
    struct request *request = connection->request;
    if (!request)
        return;
    assert(request->connection == connection);
    connection->request = NULL;
    request->connection = NULL;
    unpark(front, request);
    if (request->away)
        front_list_remove(request);
    else
        front_request_free(front, request);
}

/* A request that is still here was not reported as ended: libmicrohttpd gave up on it between two
 * errors of its own, with nothing sent. The socket is open until this returns, so the client can
 * still be told. */
static void connection_close(struct front *front, struct http_connection *connection)
{
    if (connection->request)
        reply_past_libmicrohttpd(connection, PROBLEM_HEADERS_TOO_LARGE);
    exchange_abandon(front, connection);
    assert(front->connections > 0);
    front->connections--;
    free(connection); /* closing the socket takes it out of every epoll set */
}

void exchange_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
                         enum MHD_ConnectionNotificationCode code)
{
    struct front *front = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *socket_context = connection_open(front, mhd);
    } else {
        connection_close(front, *socket_context);
        *socket_context = NULL;
    }
}

/* True when the query has too many parameters. libmicrohttpd 0.9.75 makes a record of each before
 * it asks anybody, and closes the connection without a word when they fill its memory. So the query
 * is cut here, in libmicrohttpd's own buffer, before it is parsed; the request is then refused. */
static bool cut_query(const char *uri)
{
    char *query = strchr((char *)(uintptr_t)uri, '?');
    unsigned count = 1;
    if (!query)
        return false;
    for (const char *at = query; (at = strchr(at, '&')); at++)
        count++;
    if (count <= QUERY_PARAMETERS_MAX)
        return false;
    query[1] = '\0';
    return true;
}

void *exchange_begin(void *cls, const char *uri, struct MHD_Connection *mhd)
{
    struct front *front = cls;
    struct http_connection *connection =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    exchange_abandon(front, connection); /* one whose end was not reported */
    struct request *request = front_request_new(front, connection);
    connection->answered = false;
    request->query_cut = cut_query(uri);
    request->until_ns = front->now_ns + (int64_t)RECEIVE_MS_MAX * 1000000;
    front_list_add(front, LIST_RECEIVING, request);
    return connection;
}

/* Percent-decoding in place. A NUL would cut the path short, so it becomes a character that no path
 * of ours has. */
size_t exchange_unescape(void *cls, struct MHD_Connection *connection, char *text)
{
    (void)cls;
    (void)connection;
    for (char *nul = strstr(text, "%00"); nul; nul = strstr(nul, "%00"))
        memcpy(nul, "%01", 3);
    return MHD_http_unescape(text);
}

static const char *header(struct MHD_Connection *mhd, const char *name)
{
    return MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, name);
}

/* Compares in a time that depends on the length given alone, not on where the difference is. */
static bool token_matches(const char *given, const char *token)
{
    size_t length = strlen(token), given_length = strlen(given);
    unsigned char difference = given_length != length || length == 0;
    for (size_t i = 0; i < given_length; i++)
        difference |= (unsigned char)(given[i] ^ (length > 0 ? token[i % length] : 1));
    return difference == 0;
}

static bool authorized(const struct front *front, struct MHD_Connection *mhd)
{
    static const char scheme[] = "Bearer ";
    const char *value = header(mhd, MHD_HTTP_HEADER_AUTHORIZATION);
    return value && strncasecmp(value, scheme, sizeof scheme - 1) == 0 &&
           token_matches(value + sizeof scheme - 1, front->service->config.admin_token);
}

static bool is_json(struct MHD_Connection *mhd)
{
    static const char json[] = "application/json";
    const char *type = header(mhd, MHD_HTTP_HEADER_CONTENT_TYPE);
    if (!type || strncasecmp(type, json, sizeof json - 1) != 0)
        return false;
    char next = type[sizeof json - 1];
    return next == '\0' || next == ';' || next == ' ' || next == '\t';
}

/* What the headers say of where the body ends. */
struct framing {
    const char *length; /* Content-Length, or NULL */
    unsigned count;     /* of headers that say it */
    bool bad;           /* one of them is not of a kind that everybody understands alike */
};

static enum MHD_Result note_framing(void *cls, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    struct framing *framing = cls;
    (void)kind;
    framing->bad |= name[strcspn(name, " \t")] != '\0';
    if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) {
        framing->length = value;
        framing->count++;
    } else if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        framing->bad |= !value || strcasecmp(value, "chunked") != 0;
        framing->count++;
    }
    return MHD_YES;
}

/* What a proxy takes for one request must not be two for us: with its end in doubt nothing is done,
 * and the connection is closed (RFC 9112, 5.1 and 6.3). */
static enum problem framing_problem(struct MHD_Connection *mhd)
{
    struct framing framing = {.length = NULL};
    MHD_get_connection_values(mhd, MHD_HEADER_KIND, note_framing, &framing);
    if (framing.bad || framing.count > 1)
        return PROBLEM_AMBIGUOUS_END;
    bool too_much = framing.length && strtoull(framing.length, NULL, 10) > BODY_MAX;
    return too_much ? PROBLEM_PAYLOAD_TOO_LARGE : PROBLEM_NONE;
}

/* The headers are there. What is wrong with them is kept until the body has been read, so that the
 * connection can go on; only a body that is too large is not waited for. */
static enum MHD_Result headers_read(struct front *front, struct http_connection *connection,
                                    struct request *request, const char *method, const char *url)
{
    const char *allow = NULL;
    request->begun = true;
    request->head = strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    request->route = route_find(method, url, &request->refusal, &allow);
    request->allow = allow;
    enum problem framing = framing_problem(connection->mhd);
    if (framing != PROBLEM_NONE)
        return reply_problem(front, connection, framing, NULL);
    if (!request->route)
        return MHD_YES;
    if (request->route->admin && !authorized(front, connection->mhd))
        request->refusal = PROBLEM_UNAUTHORIZED;
    else if (request->route->body && !is_json(connection->mhd))
        request->refusal = PROBLEM_UNSUPPORTED_MEDIA_TYPE;
    return MHD_YES;
}

static void body_read(struct request *request, const char *data, size_t length)
{
    size_t room = request->body == request->inline_body ? BODY_INLINE_MAX : BODY_MAX;
    if (request->body_length + length > BODY_MAX) {
        request->refusal = PROBLEM_PAYLOAD_TOO_LARGE; /* the rest is read and forgotten */
        return;
    }
    if (request->body_length + length > room) {
        request->body = malloc(BODY_MAX);
        if (!request->body)
            abort();
        memcpy(request->body, request->inline_body, request->body_length);
    }
    memcpy(request->body + request->body_length, data, length);
    request->body_length += length;
}

static int64_t deadline_ns(const struct front *front, const struct request *request)
{
    const struct config *config = &front->service->config;
    int64_t ms = config->deadline_ms;
    if (request->route->list == LIST_ADMIN)
        ms += (int64_t)config->lease_ms + ADMIN_DEADLINE_EXTRA_MS;
    return request->arrived_ns + ms * 1000000;
}

void exchange_send(struct front *front, struct request *request, enum request_state from)
{
    bool moved = request_move(request, from, REQUEST_QUEUED);
    assert(moved);
    request->until_ns = deadline_ns(front, request);
    request->away = true;
    request->queue_next = NULL;
    front->away++;
    front_list_add(front, request->route->list, request);
    if (request->route->list != LIST_ORDERS) {
        queue_push(front->service->calls, request, request);
        return;
    }
    if (front->orders_last)
        front->orders_last->queue_next = request;
    else
        front->orders_first = request;
    front->orders_last = request;
}

static void refuse_overloaded(struct request *request, bool order)
{
    if (order)
        metrics_count(METRIC_ORDERS_OVERLOADED);
    answer_problem(&request->answer, PROBLEM_OVERLOADED);
    request->ready = true;
}

static enum MHD_Result note_parameter(void *cls, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    struct call *call = cls;
    (void)kind;
    if (call->parameter_count < PARAMETERS_MAX)
        call->parameters[call->parameter_count] = (struct call_parameter){name, value ? value : ""};
    return call->parameter_count++ < PARAMETERS_MAX ? MHD_YES : MHD_NO;
}

struct forwarded {
    const char *lists[FORWARDED_MAX];
    size_t count;
};

static enum MHD_Result note_forwarded(void *cls, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    struct forwarded *forwarded = cls;
    (void)kind;
    if (value && strcasecmp(name, "X-Forwarded-For") == 0)
        forwarded->lists[forwarded->count++ % FORWARDED_MAX] = value;
    return MHD_YES;
}

/* The address of the client, as far as proxies that are trusted tell it. Every proxy adds at the
 * end, to the last header or as one more; of very many headers the last ones are looked at. */
static void write_address(const struct front *front, struct MHD_Connection *mhd,
                          char text_out[NETWORKS_TEXT_SIZE])
{
    const struct networks *proxies = &front->service->proxies;
    struct forwarded forwarded = {.count = 0};
    struct address address;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    text_out[0] = '\0';
    if (!info || !address_of(info->client_addr, &address))
        return;
    if (networks_hold(proxies, &address))
        MHD_get_connection_values(mhd, MHD_HEADER_KIND, note_forwarded, &forwarded);
    size_t left = forwarded.count < FORWARDED_MAX ? forwarded.count : FORWARDED_MAX;
    while (left-- > 0 &&
           address_forwarded(proxies, forwarded.lists[--forwarded.count % FORWARDED_MAX], &address))
        ;
    address_text(&address, text_out);
}

static void start(struct front *front, struct http_connection *connection, struct request *request,
                  const char *url)
{
    struct service *service = front->service;
    struct call call = {
        .tail = url + route_tail(request->route),
        .body = request->body,
        .body_length = request->body_length,
        .key = request->route->body ? header(connection->mhd, "Idempotency-Key") : NULL,
        .now_ns = front->now_ns,
    };
    if (!request->route->body)
        MHD_get_connection_values(connection->mhd, MHD_GET_ARGUMENT_KIND, note_parameter, &call);
    request->order.address[0] = '\0';
    if (request->route->list == LIST_ORDERS && service->config.rate_address_per_min > 0)
        write_address(front, connection->mhd, request->order.address);
    enum start_result result = request->route->start(service, request, &call);
    bool order = result == START_TO_LANE;
    request->flow = order ? queue_flow(request->order.sku) : request->route->list;
    if (result == START_ANSWERED)
        request->ready = true;
    else if (!queue_reserve(order ? service->orders : service->calls, request->flow))
        refuse_overloaded(request, order);
    else
        exchange_send(front, request, REQUEST_RECEIVING);
}

static enum MHD_Result note_memory(void *cls, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    size_t *bytes = cls;
    *bytes += RECORD_BYTES;
    if (kind == MHD_COOKIE_KIND || kind == MHD_FOOTER_KIND) /* cookies are copied */
        *bytes += strlen(name) + (value ? strlen(value) : 0);
    return MHD_YES;
}

/* True when what the request's head and trailers take of the connection's memory leaves too little
 * for the head of an answer: libmicrohttpd would close the connection without one, though the order
 * were accepted. */
static bool leaves_no_room(struct MHD_Connection *mhd)
{
    enum MHD_ValueKind kinds =
        MHD_HEADER_KIND | MHD_COOKIE_KIND | MHD_GET_ARGUMENT_KIND | MHD_FOOTER_KIND;
    size_t bytes = REPLY_HEAD_BYTES;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    bytes += info ? info->header_size : 0;
    MHD_get_connection_values(mhd, kinds, note_memory, &bytes);
    return bytes > CONNECTION_MEMORY;
}

/* The request is complete: handles it, and parks the connection when the answer takes time. */
static enum MHD_Result request_read(struct front *front, struct http_connection *connection,
                                    struct request *request, const char *url)
{
    front_list_remove(request);
    request->arrived_ns = front->now_ns;
    if (leaves_no_room(connection->mhd))
        request->refusal = PROBLEM_HEADERS_TOO_LARGE;
    else if (request->query_cut)
        request->refusal = PROBLEM_URI_TOO_LONG;
    if (request->refusal != PROBLEM_NONE) {
        request->ready = true;
        return reply_problem(front, connection, request->refusal, request->allow);
    }
    start(front, connection, request, url);
    if (request->ready)
        return reply_answer(front, connection, request);
    if (front->parked < PARKED_MAX) {
        request->parked = true;
        front->parked++;
    } else {
        request->suspended = true;
        MHD_suspend_connection(connection->mhd);
    }
    return MHD_YES;
}

/* Called in every turn for a parked request, and once for one that was resumed. */
static enum MHD_Result look_for_answer(struct front *front, struct http_connection *connection,
                                       struct request *request)
{
    if (request->ready || request->expired) {
        unpark(front, request);
        front->answers++;
    }
    if (request->ready) {
        if (request->route->list == LIST_ORDERS)
            metrics_observe(HISTOGRAM_ORDER_SECONDS,
                            (uint64_t)(front->now_ns - request->arrived_ns));
        return reply_answer(front, connection, request);
    }
    if (!request->expired)
        return MHD_YES;
    exchange_abandon(front, connection); /* a lane or desk has it still: freed when it comes back */
    return reply_expired(front, connection, request);
}

enum MHD_Result exchange_access(void *cls, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *upload_data,
                                size_t *upload_data_size, void **con_cls)
{
    (void)mhd;
    (void)version;
    struct front *front = cls;
    struct http_connection *connection = *con_cls;
    struct request *request = connection->request;
    if (!request)
        return MHD_NO; /* libmicrohttpd asks again although an answer was refused: close */
    if (!request->begun)
        return headers_read(front, connection, request, method, url);
    if (*upload_data_size > 0) {
        body_read(request, upload_data, *upload_data_size);
        *upload_data_size = 0;
        return MHD_YES;
    }
    if (request->parked || request->suspended || request->ready || request->expired)
        return look_for_answer(front, connection, request);
    return request_read(front, connection, request, url);
}

void exchange_end(void *cls, struct MHD_Connection *mhd, void **con_cls,
                  enum MHD_RequestTerminationCode reason)
{
    (void)mhd;
    (void)reason;
    struct front *front = cls;
    if (*con_cls)
        exchange_abandon(front, *con_cls);
    *con_cls = NULL;
}
