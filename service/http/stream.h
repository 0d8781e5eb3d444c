/* An answer of any length, made page by page by a desk while its client reads the page before. */
#ifndef SECKILL_SERVICE_STREAM_H
#define SECKILL_SERVICE_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { STREAMS_MAX = 8 }; /* at a time, in the process: each has one page in memory */

/* The front's between stream_open and stream_close, but while its request is with a desk: then it
 * is the desk's. */
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
void stream_close(struct stream **stream);

/* Begins the next page. */
void stream_clear(struct stream *stream);

/* Appends to the page, as printf does. */
void stream_printf(struct stream *stream, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
