/* An answer of any length, made page by page by a desk while its client reads the page before. */
#include "service/http/stream.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { PIECE_MAX = 512 };

struct stream *stream_open(_Atomic int *active)
{
    if (atomic_fetch_add(active, 1) >= STREAMS_MAX) {
        atomic_fetch_sub(active, 1);
        return NULL;
    }
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        abort();
    stream->active = active;
    return stream;
}

void stream_close(struct stream **stream)
{
    if (*stream) {
        atomic_fetch_sub((*stream)->active, 1);
        free((*stream)->text);
    }
    free(*stream);
    *stream = NULL;
}

void stream_clear(struct stream *stream)
{
    stream->length = stream->sent = 0;
}

void stream_printf(struct stream *stream, const char *format, ...)
{
    va_list arguments;
    if (stream->size < stream->length + PIECE_MAX) {
        stream->size = 2 * stream->size + PIECE_MAX;
        stream->text = realloc(stream->text, stream->size);
        if (!stream->text)
            abort();
    }
    va_start(arguments, format);
    int written = vsnprintf(stream->text + stream->length, PIECE_MAX, format, arguments);
    va_end(arguments);
    assert(written >= 0 && written < PIECE_MAX);
    stream->length += (size_t)written;
}
