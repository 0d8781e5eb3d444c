/* Answers as libmicrohttpd's responses; the fixed ones are made once and shared. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "service/http/http.h"
#include "service/log/log.h"
#include "service/metrics/metrics.h"
#include "service/request/prepared.h"

static const char problem_type[] = "application/problem+json";
enum { NAMED_MAX = ANSWER_INLINE_MAX + 96 }; /* a problem with the id of its request */

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
    enum MHD_Result added = MHD_add_response_header(response, name, value);
    assert(added == MHD_YES);
}

static void add_number(struct MHD_Response *response, const char *name, unsigned number)
{
    char text[16];
    snprintf(text, sizeof text, "%u", number);
    add_header(response, name, text);
}

static void add_retry_after(struct MHD_Response *response, unsigned seconds)
{
    if (seconds > 0)
        add_number(response, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
}

/* Without a copy the text must outlive the response; see "What belongs to libmicrohttpd". */
static struct MHD_Response *response_new(const char *text, size_t length, bool copy,
                                         const char *content_type, bool close)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        length, (void *)(uintptr_t)text, copy ? MHD_RESPMEM_MUST_COPY : MHD_RESPMEM_PERSISTENT);
    assert(response);
    add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    if (close)
        add_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    return response;
}

static struct MHD_Response *problem_response(enum problem problem, const char *text, size_t length,
                                             bool close)
{
    struct MHD_Response *response = response_new(text, length, true, problem_type, close);
    add_retry_after(response, problem_retry_after(problem));
    /* Caches may otherwise keep a 404 past a sale's start. */
    add_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (problem == PROBLEM_UNAUTHORIZED)
        add_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"seckill\"");
    return response;
}

/* Where a request's end is uncertain, its connection must close. */
static bool problem_closes(enum problem problem)
{
    return problem == PROBLEM_AMBIGUOUS_END || problem == PROBLEM_INVALID_HEAD;
}

/* ---- the access log ---- */

enum { BYTES_SIZE = 40 };

void access_sample(struct http_thread *thread, struct request *request)
{
    unsigned every = atomic_load_explicit(&thread->service->access_log, memory_order_relaxed);
    if (every == 0 || ++thread->access.seen < every)
        return;
    thread->access.seen = 0;
    request->trace.sampled = request->trace.shown = true;
}

/* why_bounded_here: when thousands of answers a second fail, those beyond the bound must cost
 * nothing. True when the line may be written; then with the number left out before it. */
static bool admit_failure(struct http_thread *thread, unsigned long *suppressed_out)
{
    struct http_access *access = &thread->access;
    int64_t second = thread->now_ns / CLOCK_NS_PER_S;
    if (access->second != second) {
        access->second = second;
        access->failures = 0;
    }
    if (access->failures >= LOG_EVENT_PER_SECOND) {
        access->suppressed++;
        return false;
    }
    access->failures++;
    *suppressed_out = access->suppressed;
    access->suppressed = 0;
    return true;
}

void access_address(const struct http_connection *connection, char text_out[NETWORKS_TEXT_SIZE])
{
    const struct service *service = connection->thread->service;
    head_address(connection->mhd, &atomic_load(&service->proxies)->networks, text_out);
    if (text_out[0] == '\0')
        snprintf(text_out, NETWORKS_TEXT_SIZE, "unix");
}

/* Logs the route's path, so the only client data in the line are its address and ids. */
static void write_line(const struct http_connection *connection, const struct request *request,
                       unsigned status, size_t bytes, unsigned long suppressed)
{
    const struct route *route = request->http.route;
    char address[NETWORKS_TEXT_SIZE], left_out[BYTES_SIZE] = "";
    int64_t ms = (connection->thread->now_ns - request->arrived_ns) / CLOCK_NS_PER_MS;
    access_address(connection, address);
    if (suppressed > 0)
        snprintf(left_out, sizeof left_out, " suppressed=%lu", suppressed);
    const char *path = route ? route->path : "other";
    bool open_end = path[strlen(path) - 1] == '/'; /* the client's part is replaced */
    log_each(status >= 500 ? LOG_WARN : LOG_INFO, status >= 500 ? "request_failed" : "request",
             "method=%s path=%s%s status=%u ms=%lld bytes=%zu address=%s%s%s",
             !route               ? "other"
             : request->http.head ? "HEAD"
                                  : route->method,
             path, open_end ? "*" : "", status, (long long)ms, bytes, address,
             TRACE_LOG(&request->trace), left_out);
}

/* Logs a request that is about to be answered, if it is sampled, or its status is 500 or above and
 * it is no probe. `bytes` of the body. */
static void access_answered(const struct http_connection *connection, const struct request *request,
                            unsigned status, size_t bytes)
{
    const struct route *route = request->http.route;
    bool probe = route && (route->class == ROUTE_OPS || route->class == ROUTE_LIVE);
    bool failed = status >= 500 && !probe;
    unsigned long suppressed = 0;
    if (request->trace.sampled || (failed && admit_failure(connection->thread, &suppressed)))
        write_line(connection, request, status, bytes, suppressed);
}

/* ---- the ids of requests ---- */

/* why_not_always: an answer that names its request cannot be shared, as those to buyers who look at
 * the stock, and to refused crowds, are. So it names it only if its client or the log does, or if
 * it failed. */
static bool names_request(const struct request *request, unsigned status)
{
    const struct trace *trace = &request->trace;
    return trace->shown || status >= 500 || trace_named(trace);
}

static void add_ids(struct MHD_Response *response, const struct request *request, unsigned status)
{
    char id[REQUEST_ID_SIZE], parent[TRACEPARENT_SIZE];
    if (!names_request(request, status))
        return;
    add_header(response, "X-Request-Id", trace_request_id(&request->trace, id));
    if (trace_parent(&request->trace, parent))
        add_header(response, "traceparent", parent);
}

/* Copies a problem's text to `out` and adds its request's id as a member. Returns the length. */
static size_t name_request(const struct request *request, const char *text, size_t length,
                           char out[NAMED_MAX])
{
    static const char end[] = "}\n";
    char id[REQUEST_ID_SIZE];
    assert(length >= sizeof end - 1 && length <= ANSWER_INLINE_MAX);
    length -= sizeof end - 1;
    memcpy(out, text, length);
    return length + (size_t)snprintf(out + length, NAMED_MAX - length, ",\"request_id\":\"%s\"%s",
                                     trace_request_id(&request->trace, id), end);
}

/* Writes a problem's text, with the request's id if the service has failed. Returns the length.
 * `request` may be NULL. */
static size_t write_text(enum problem problem, const struct request *request, char out[NAMED_MAX])
{
    char plain[ANSWER_INLINE_MAX];
    size_t length = problem_text(problem, NULL, "", plain, sizeof plain);
    if (request && problem_status(problem) >= 500)
        return name_request(request, plain, length, out);
    memcpy(out, plain, length);
    return length;
}

/* ---- answers ---- */

void reply_prepare(struct http_thread *thread)
{
    for (int i = 0; i < PROBLEM_COUNT; i++) {
        enum problem problem = (enum problem)i;
        char text[NAMED_MAX];
        size_t length = write_text(problem, NULL, text);
        thread->problems[i] = (struct http_problem){
            problem_response(problem, text, length, problem_closes(problem)), length};
    }
}

void reply_discard(struct http_thread *thread)
{
    for (int problem = 0; problem < PROBLEM_COUNT; problem++)
        MHD_destroy_response(thread->problems[problem].response);
}

static enum MHD_Result queue_response(struct http_connection *connection,
                                      const struct request *request, unsigned status,
                                      struct MHD_Response *response, size_t bytes)
{
    metrics_count_status(status);
    access_answered(connection, request, status, bytes);
    connection->thread->replies++;
    connection->answered = true; /* or closing, if queueing failed: nothing more is written */
    return connection->thread->queue(connection->mhd, status, response);
}

/* Queues an unshared response: adds the ids, and destroys it. */
static enum MHD_Result queue_single(struct http_connection *connection,
                                    const struct request *request, unsigned status,
                                    struct MHD_Response *response, size_t bytes)
{
    add_ids(response, request, status);
    enum MHD_Result result = queue_response(connection, request, status, response, bytes);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result reply_problem(struct http_connection *connection, const struct request *request,
                              enum problem problem)
{
    unsigned status = problem_status(problem);
    const char *allow = problem == PROBLEM_METHOD_NOT_ALLOWED ? request->http.allow : NULL;
    const struct http_thread *thread = connection->thread;
    const struct http_problem *shared = &thread->problems[problem];
    if (!allow && !thread->closing && !names_request(request, status))
        return queue_response(connection, request, status, shared->response, shared->bytes);
    char text[NAMED_MAX];
    size_t length = write_text(problem, request, text);
    struct MHD_Response *response =
        problem_response(problem, text, length, thread->closing || problem_closes(problem));
    if (allow)
        add_header(response, MHD_HTTP_HEADER_ALLOW, allow);
    return queue_single(connection, request, status, response, length);
}

static enum MHD_Result reply_text(struct http_connection *connection, const struct request *request,
                                  const struct answer *answer, bool copy)
{
    char named[NAMED_MAX], location[32];
    const char *text = answer->text;
    size_t length = answer->length;
    if (answer->status >= 500 && strcmp(answer->content_type, problem_type) == 0) {
        length = name_request(request, text, length, named);
        text = named;
        copy = true;
    }
    struct MHD_Response *response =
        response_new(text, length, copy, answer->content_type, connection->thread->closing);
    add_retry_after(response, answer->retry_after_s);
    add_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (answer->new_order_id != 0) {
        snprintf(location, sizeof location, "/order/%llu",
                 (unsigned long long)answer->new_order_id);
        add_header(response, MHD_HTTP_HEADER_LOCATION, location);
    }
    if (answer->limit > 0) {
        add_number(response, "RateLimit-Limit", answer->limit);
        add_number(response, "RateLimit-Remaining", 0); /* only refused orders carry a limit */
        add_number(response, "RateLimit-Reset", answer->reset_s);
    }
    return queue_single(connection, request, answer->status, response, length);
}

/* HTTP threads may share a response: libmicrohttpd counts its uses, and locks it. */
static enum MHD_Result reply_prepared(struct http_connection *connection,
                                      const struct request *request, struct prepared *prepared)
{
    size_t bytes;
    unsigned status;
    struct MHD_Response *shared = prepared_response(prepared, &status, &bytes);
    bool closing = connection->thread->closing;
    if (!closing && !names_request(request, status))
        return queue_response(connection, request, status, shared, bytes);
    struct MHD_Response *response = prepared_single(prepared);
    if (closing)
        add_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    return queue_single(connection, request, status, response, bytes);
}

enum MHD_Result reply_answer(struct http_connection *connection, struct request *request)
{
    const struct answer *answer = &request->answer;
    if (answer->problem != PROBLEM_NONE)
        return reply_problem(connection, request, answer->problem);
    if (answer->prepared)
        return reply_prepared(connection, request, answer->prepared);
    return reply_text(connection, request, answer, false);
}

/* libmicrohttpd copies the text: an answer made here ends with the function, and the request's own
 * belongs to the worker. */
enum MHD_Result reply_expired(struct http_connection *connection, struct request *request)
{
    assert(request->http.phase == PHASE_ABANDONED);
    struct answer answer;
    request_answer_late(request, request->http.route->kind,
                        atomic_load(&connection->thread->service->sold_ns), &answer);
    return answer.problem != PROBLEM_NONE ? reply_problem(connection, request, answer.problem)
                                          : reply_text(connection, request, &answer, true);
}

/* Discards received bytes: closing with unread input resets the connection, and the client loses
 * the answer. */
static void discard_input(int fd)
{
    enum { READS_MAX = 16 };
    char bytes[4096];
    for (int i = 0; i < READS_MAX && recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0; i++)
        ;
}

/* Sends the whole answer in one call: nobody would write the rest later. True when it was sent. */
static bool write_past(const struct http_connection *connection, unsigned status, const char *type,
                       const char *body, size_t length)
{
    char head[256];
    const struct request *request = connection->request;
    bool headless = request && request->http.head;
    int size = snprintf(head, sizeof head,
                        "HTTP/1.1 %u %s\r\nConnection: close\r\nCache-Control: no-store\r\n"
                        "Content-Type: %s\r\nContent-Length: %zu\r\n\r\n",
                        status, MHD_get_reason_phrase_for(status), type, length);
    assert(size > 0 && (size_t)size < sizeof head);
    struct iovec parts[] = {{head, (size_t)size}, {(void *)(uintptr_t)body, headless ? 0 : length}};
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    /* A client that does not read loses its answer: the thread must never block here. */
    return sendmsg(connection->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
}

static bool write_problem(const struct http_connection *connection, enum problem problem)
{
    char body[NAMED_MAX];
    size_t length = write_text(problem, connection->request, body);
    return write_past(connection, problem_status(problem), problem_type, body, length);
}

static void end_past(struct http_connection *connection)
{
    connection->answered = connection->last = true;
    discard_input(connection->fd);
    shutdown(connection->fd, SHUT_RDWR);
}

void reply_past_libmicrohttpd(struct http_connection *connection, enum problem problem)
{
    if (write_problem(connection, problem))
        metrics_count_status(problem_status(problem));
    end_past(connection);
}

/* Nothing of the answer was sent: libmicrohttpd makes its head before. A prepared answer tells of
 * nothing that was done. */
void reply_again(struct http_connection *connection)
{
    const struct answer *answer = &connection->request->answer;
    if (answer->problem != PROBLEM_NONE)
        write_problem(connection, answer->problem);
    else if (answer->prepared)
        write_problem(connection, PROBLEM_HEADERS_TOO_LARGE);
    else
        write_past(connection, answer->status, answer->content_type, answer->text, answer->length);
    end_past(connection);
}
