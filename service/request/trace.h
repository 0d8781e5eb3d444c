/* What a request is called: the id that its client or a proxy has given it, or one made here, and
 * the W3C trace that it is part of. */
#ifndef SECKILL_SERVICE_REQUEST_TRACE_H
#define SECKILL_SERVICE_REQUEST_TRACE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    REQUEST_ID_SIZE = 64 + 1, /* with the NUL */
    TRACE_ID_SIZE = 32 + 1,
    TRACEPARENT_SIZE = 55 + 1,
    TRACE_LOG_SIZE = 160,
};

/* Written when the head of a request is read, and unchanged until its answer is queued, but for
 * `shown` and `sampled`, which belong to the HTTP thread: a worker may read the rest. */
struct trace {
    uint64_t number;             /* unique: the request's own span, and its id if it has no other */
    char given[REQUEST_ID_SIZE]; /* X-Request-Id, or "" */
    char id[TRACE_ID_SIZE];      /* of traceparent, or "" */
    unsigned char flags;         /* of traceparent */
    bool shown;                  /* the answer carries the id, as a line in the log does */
    bool sampled;                /* the access log has a line of the request */
};

/* Begins with what the headers say: NULL for an absent one, or one that comes twice. Takes only
 * what is valid: an id of 1 to 64 characters out of A-Z a-z 0-9 . _ : / + @ -, and a traceparent as
 * W3C Trace Context defines it, of version 00 or one that begins like it. Any thread. */
void trace_begin(struct trace *trace_out, const char *request_id, const char *traceparent);

/* The request's id: the given one, or one made of its number in `buffer`. */
const char *trace_request_id(const struct trace *trace, char buffer[REQUEST_ID_SIZE]);

/* Writes the traceparent of the answer: the same trace, and the request's own span. False when the
 * request is part of no trace. */
bool trace_parent(const struct trace *trace, char text_out[TRACEPARENT_SIZE]);

/* Whether the client has named its request, so that every answer names it, too. */
bool trace_named(const struct trace *trace);

/* Writes ` request_id=…` and, within a trace, ` trace_id=…`, for the end of a line in the log.
 * Returns `buffer`. */
const char *trace_log(const struct trace *trace, char buffer[TRACE_LOG_SIZE]);

/* trace_log with a buffer that lives to the end of the enclosing block:
 * log_event(LOG_INFO, "reset", "sku=%s%s", sku, TRACE_LOG(&request->trace)). */
#define TRACE_LOG(trace) trace_log((trace), (char[TRACE_LOG_SIZE]){0})

#endif
