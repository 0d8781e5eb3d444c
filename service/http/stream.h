/* An answer of any length, made page by page by a call worker while its client reads the page
 * before. */
#ifndef SECKILL_SERVICE_HTTP_STREAM_H
#define SECKILL_SERVICE_HTTP_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { STREAMS_MAX = 8 }; /* at a time, in the process: each has one page in memory */

struct MHD_Response;
struct request;

/* The HTTP thread's between stream_open and stream_close, except while a call worker has the
 * request: then the worker's. */
struct stream {
    _Atomic int *active;
    char *text; /* the present page */
    size_t length;
    size_t size;
    size_t sent;
    bool ended;  /* the present page is the last */
    bool failed; /* there is no next page: the answer ends in the middle */
};

/* NULL when there are STREAMS_MAX already; `active` counts them. */
struct stream *stream_open(_Atomic int *active);

/* Frees the stream; none (NULL) is fine. */
void stream_close(struct stream **stream);

/* Begins the next page. */
void stream_clear(struct stream *stream);

/* Appends at most 511 bytes to the page, as printf does. */
void stream_printf(struct stream *stream, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The response that reads the request's stream, for as long as the request is there. The HTTP
 * thread's alone; the caller destroys the response. */
struct MHD_Response *stream_response(struct request *request);

#endif
