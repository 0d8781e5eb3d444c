/* Answers as libmicrohttpd's responses; the fixed ones are made once and shared. */
#include "service/http/reply.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "service/http/live_stream.h"
#include "service/http/prepared.h"
#include "service/http/stream.h"
#include "service/metrics.h"

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

/* Unless a cache may keep the answer for a time that it names. */
static void add_no_store(struct MHD_Response *response)
{
    add_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
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

static struct MHD_Response *problem_response(enum problem problem, bool close)
{
    char text[ANSWER_INLINE_MAX];
    size_t length = problem_text(problem, NULL, "", text, sizeof text);
    struct MHD_Response *response =
        response_new(text, length, true, "application/problem+json", close);
    add_retry_after(response, problem_retry_after(problem));
    add_no_store(response); /* a 404 may be kept unasked, beyond a sale's start */
    if (problem == PROBLEM_UNAUTHORIZED)
        add_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"seckill\"");
    return response;
}

void reply_prepare(struct http_thread *thread)
{
    for (int problem = 0; problem < PROBLEM_COUNT; problem++)
        for (int close = 0; close < 2; close++) /* where a request ends unclearly, always close */
            thread->problems[close][problem] = problem_response(
                (enum problem)problem,
                close == 1 || problem == PROBLEM_AMBIGUOUS_END || problem == PROBLEM_INVALID_HEAD);
}

void reply_discard(struct http_thread *thread)
{
    for (int problem = 0; problem < PROBLEM_COUNT; problem++)
        for (int close = 0; close < 2; close++)
            MHD_destroy_response(thread->problems[close][problem]);
}

static enum MHD_Result queue_response(struct http_thread *thread,
                                      struct http_connection *connection, unsigned status,
                                      struct MHD_Response *response)
{
    metrics_count_status(status);
    thread->replies++;
    connection->answered = true; /* or it is being closed: either way nothing more is written */
    waiting_answered(thread, connection);
    return MHD_queue_response(connection->mhd, status, response);
}

enum MHD_Result reply_problem(struct http_thread *thread, struct http_connection *connection,
                              enum problem problem, const char *allow)
{
    unsigned status = problem_status(problem);
    if (!allow)
        return queue_response(thread, connection, status,
                              thread->problems[thread->closing][problem]);
    struct MHD_Response *response = problem_response(problem, thread->closing);
    add_header(response, MHD_HTTP_HEADER_ALLOW, allow);
    enum MHD_Result result = queue_response(thread, connection, status, response);
    MHD_destroy_response(response);
    return result;
}

/* Where the order that was just made is. */
static void add_location(struct MHD_Response *response, uint64_t order_id)
{
    char path[32];
    snprintf(path, sizeof path, "/order/%llu", (unsigned long long)order_id);
    add_header(response, MHD_HTTP_HEADER_LOCATION, path);
}

static enum MHD_Result reply_text(struct http_thread *thread, struct http_connection *connection,
                                  const struct answer *answer, bool copy)
{
    struct MHD_Response *response =
        response_new(answer->text, answer->length, copy, answer->content_type, thread->closing);
    add_retry_after(response, answer->retry_after_s);
    if (answer->cache_control)
        add_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, answer->cache_control);
    else
        add_no_store(response);
    if (answer->new_order_id != 0)
        add_location(response, answer->new_order_id);
    if (answer->limit > 0) {
        add_number(response, "RateLimit-Limit", answer->limit);
        add_number(response, "RateLimit-Remaining", 0); /* only refused orders carry a limit */
        add_number(response, "RateLimit-Reset", answer->reset_s);
    }
    enum MHD_Result result = queue_response(thread, connection, answer->status, response);
    MHD_destroy_response(response);
    return result;
}

/* libmicrohttpd counts the uses of a response, and locks it: HTTP threads may share one. */
static enum MHD_Result reply_prepared(struct http_thread *thread,
                                      struct http_connection *connection,
                                      const struct prepared *prepared)
{
    unsigned status = prepared_status(prepared);
    if (!thread->closing)
        return queue_response(thread, connection, status, prepared_response(prepared));
    struct MHD_Response *response = prepared_closing(prepared);
    enum MHD_Result result = queue_response(thread, connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result reply_stream(struct http_thread *thread, struct http_connection *connection,
                                    struct request *request)
{
    struct MHD_Response *response = stream_response(request);
    add_no_store(response);
    add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, request->answer.content_type);
    if (thread->closing)
        add_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (request->http.head) /* otherwise the last chunk is sent, before the next answer */
        MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
    enum MHD_Result result = queue_response(thread, connection, request->answer.status, response);
    MHD_destroy_response(response);
    return result;
}

/* Each stream has a connection of its own: its end is the connection's. */
static enum MHD_Result reply_live(struct http_thread *thread, struct http_connection *connection,
                                  const struct request *request)
{
    static const char content_type[] = "text/event-stream";
    struct MHD_Response *response = request->http.head
                                        ? response_new("", 0, false, content_type, true)
                                        : live_stream_open(thread, connection);
    if (!response)
        return reply_problem(thread, connection, PROBLEM_OVERLOADED, NULL);
    if (!request->http.head) {
        add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
        add_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    }
    add_no_store(response);
    add_header(response, "X-Accel-Buffering", "no"); /* of proxies, which would hold events back */
    enum MHD_Result result = queue_response(thread, connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result reply_answer(struct http_thread *thread, struct http_connection *connection,
                             struct request *request)
{
    const struct answer *answer = &request->answer;
    if (answer->problem != PROBLEM_NONE)
        return reply_problem(thread, connection, answer->problem, NULL);
    if (answer->prepared)
        return reply_prepared(thread, connection, answer->prepared);
    if (answer->live)
        return reply_live(thread, connection, request);
    if (answer->stream)
        return reply_stream(thread, connection, request);
    return reply_text(thread, connection, answer, false);
}

/* Why no order worker took the order in time: too many were waiting before it; but when not one of
 * those was decided since it came, Redis or the ledger hangs. */
static enum problem why_untaken(struct http_thread *thread, const struct request *request)
{
    assert(request->http.kind == CALL_ORDER);
    bool carried = atomic_load(&thread->service->sold_ns) > request->arrived_ns;
    metrics_count(carried ? METRIC_ORDERS_OVERLOADED : METRIC_ORDERS_UNAVAILABLE);
    return carried ? PROBLEM_OVERLOADED : PROBLEM_UNAVAILABLE;
}

/* WITHDRAWN: no worker has the request, and none will take it: it was certainly not carried out.
 * TIMED_OUT: the worker that has it carries it through. DONE: it has just done so. The loop is for
 * an order worker that puts the request back into the queue between the two attempts. */
static enum request_state withdraw(struct request *request)
{
    do {
        if (request_move(request, REQUEST_QUEUED, REQUEST_WITHDRAWN))
            return REQUEST_WITHDRAWN;
        if (request_move(request, REQUEST_TAKEN, REQUEST_TIMED_OUT))
            return REQUEST_TIMED_OUT;
    } while (atomic_load(&request->state) == REQUEST_QUEUED);
    return REQUEST_DONE;
}

/* A worker may be writing to the request at this moment, so this reads only members that do not
 * change any more, and atomic ones. libmicrohttpd copies the text: an answer made here ends with
 * the function, and the request's own belongs to the worker. */
enum MHD_Result reply_expired(struct http_thread *thread, struct http_connection *connection,
                              struct request *request)
{
    assert(request->http.phase == PHASE_ABANDONED);
    enum request_state state = withdraw(request);
    bool order = request->http.kind == CALL_ORDER;
    if (state == REQUEST_WITHDRAWN || (!order && !request->call.changes))
        return reply_problem(thread, connection,
                             order ? why_untaken(thread, request) : PROBLEM_UNAVAILABLE, NULL);
    if (!order)
        return reply_problem(thread, connection, PROBLEM_OUTCOME_UNKNOWN, NULL);
    /* Unknown is never turned into failed: the client gets the id to ask for later. */
    struct answer answer = {.text = NULL};
    if (state == REQUEST_TIMED_OUT) /* otherwise its worker has counted it */
        metrics_count(METRIC_ORDERS_OUTCOME_UNKNOWN);
    answer_unknown_outcome(&answer, atomic_load(&request->published_id));
    return reply_text(thread, connection, &answer, true);
}

/* Reads what has arrived and forgets it: a close with unread bytes resets the connection, and the
 * client loses the answer. */
static void discard_input(int fd)
{
    enum { READS_MAX = 16 };
    char bytes[4096];
    for (int i = 0; i < READS_MAX && recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0; i++)
        ;
}

/* One send of a whole answer: nobody would write the rest of it later. */
static void write_problem(int fd, enum problem problem)
{
    char body[ANSWER_INLINE_MAX];
    char text[ANSWER_INLINE_MAX + 256];
    unsigned status = problem_status(problem);
    size_t length = problem_text(problem, NULL, "", body, sizeof body);
    int total =
        snprintf(text, sizeof text,
                 "HTTP/1.1 %u %s\r\nConnection: close\r\nCache-Control: no-store\r\n"
                 "Content-Type: application/problem+json\r\nContent-Length: %zu\r\n\r\n%.*s",
                 status, MHD_get_reason_phrase_for(status), length, (int)length, body);
    metrics_count_status(status);
    /* A client that does not even read loses its answer: the socket never blocks this thread. */
    if (send(fd, text, (size_t)total, MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
        shutdown(fd, SHUT_WR);
}

void reply_past_libmicrohttpd(struct http_connection *connection, enum problem problem)
{
    if (!connection->answered)
        write_problem(connection->fd, problem);
    connection->answered = true;
    discard_input(connection->fd);
    shutdown(connection->fd, SHUT_RD);
}
