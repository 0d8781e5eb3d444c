/* The access log: lines about answers, with the ids that the answers carry. */
#include "service/http/access.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "service/http/head.h"
#include "service/log/log.h"

enum { BYTES_SIZE = 40 };

void access_sample(struct http_thread *thread, struct request *request)
{
    unsigned every = thread->service->config.access_log;
    if (every == 0 || ++thread->access.seen < every)
        return;
    thread->access.seen = 0;
    request->trace.sampled = request->trace.shown = true;
}

/* why_bounded_here: when thousands of answers a second fail, those beyond the bound may cost
 * nothing. Returns whether the line may be written; if so, how many were left out before it. */
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

void access_address(const struct http_thread *thread, const struct http_connection *connection,
                    char text_out[NETWORKS_TEXT_SIZE])
{
    head_address(connection->mhd, &atomic_load(&thread->service->proxies)->networks, text_out);
    if (text_out[0] == '\0')
        snprintf(text_out, NETWORKS_TEXT_SIZE, "unix");
}

/* The path is that of the route, so the line holds nothing of a client but its address and ids. */
static void write_line(const struct http_thread *thread, const struct http_connection *connection,
                       const struct request *request, unsigned status, size_t bytes,
                       unsigned long suppressed)
{
    const struct request_http *http = &request->http;
    char address[NETWORKS_TEXT_SIZE], left_out[BYTES_SIZE] = "";
    int64_t ms = (thread->now_ns - request->arrived_ns) / CLOCK_NS_PER_MS;
    access_address(thread, connection, address);
    if (suppressed > 0)
        snprintf(left_out, sizeof left_out, " suppressed=%lu", suppressed);
    const char *path = http->path ? http->path : "other";
    bool open_end = path[strlen(path) - 1] == '/'; /* what follows is the client's */
    log_each(status >= 500 ? LOG_WARN : LOG_INFO, status >= 500 ? "request_failed" : "request",
             "method=%s path=%s%s status=%u ms=%lld bytes=%zu address=%s%s%s",
             !http->path  ? "other"
             : http->head ? "HEAD"
                          : http->method,
             path, open_end ? "*" : "", status, (long long)ms, bytes, address,
             TRACE_LOG(&request->trace), left_out);
}

void access_answered(struct http_thread *thread, const struct http_connection *connection,
                     const struct request *request, unsigned status, size_t bytes)
{
    bool failed = status >= 500 && !request->http.probe;
    unsigned long suppressed = 0;
    if (request->trace.sampled || (failed && admit_failure(thread, &suppressed)))
        write_line(thread, connection, request, status, bytes, suppressed);
}
