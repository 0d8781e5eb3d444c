/* The ids of a request: the one that its client or a proxy gave it, or one made here, and the W3C
 * trace that it is part of. */
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

/* Written when the request's head is read, and constant until its answer is queued, so that workers
 * may read it; only `shown` and `sampled` belong to the HTTP thread. */
struct trace {
    uint64_t number;             /* unique: the request's span, and its id if it has no other */
    char given[REQUEST_ID_SIZE]; /* X-Request-Id, or "" */
    char id[TRACE_ID_SIZE];      /* of traceparent, or "" */
    unsigned char flags;         /* of traceparent */
    bool shown;                  /* the answer carries the id, because the log does */
    bool sampled;                /* the access log gets a line for the request */
};

/* Starts from the headers: NULL for a header that is absent or comes twice. Takes only valid
 * values: an id of 1 to 64 characters out of A-Z a-z 0-9 . _ : / + @ -, and a traceparent of W3C
 * Trace Context version 00, or of a later one that begins like it. Any thread. */
void trace_begin(struct trace *trace_out, const char *request_id, const char *traceparent);

/* The request's id: the given one, or its number written to `buffer`. */
const char *trace_request_id(const struct trace *trace, char buffer[REQUEST_ID_SIZE]);

/* Writes the answer's traceparent: the request's trace and own span. False when the request is part
 * of no trace. */
bool trace_parent(const struct trace *trace, char text_out[TRACEPARENT_SIZE]);

/* True when the client named its request: then every answer names it, too. */
bool trace_named(const struct trace *trace);

/* Writes ` request_id=…` and, within a trace, ` trace_id=…`, for the end of a log line. Returns
 * `buffer`. */
const char *trace_log(const struct trace *trace, char buffer[TRACE_LOG_SIZE]);

/* trace_log with a buffer that lives until the enclosing block ends:
 * log_event(LOG_INFO, "reset", "sku=%s%s", sku, TRACE_LOG(&request->trace)). */
#define TRACE_LOG(trace) trace_log((trace), (char[TRACE_LOG_SIZE]){0})

#endif
