/* An answer of any length: libmicrohttpd asks for the next piece, a call worker makes the next
 * page. */
#include "service/http/stream.h"

#include <assert.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/http/thread.h"

enum {
    BLOCK = 8192, /* bytes that libmicrohttpd asks for at a time */
    PIECE_MAX = 512,
};

/* ---- the page, for whoever has the request ---- */

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
        int active = atomic_fetch_sub((*stream)->active, 1);
        assert(active > 0);
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

/* ---- the response, for the HTTP thread ---- */

/* Sends the request to a call worker once more, and takes its connection out of the loop until
 * then. A page is only made when the page before is written, so a client that reads slowly costs
 * one page of memory and no worker. */
static ssize_t next_page(struct request *request)
{
    struct http_thread *thread = request->http_thread;
    if (thread->ending || !queue_reserve(request_queue(thread->service, request), request->flow))
        return MHD_CONTENT_READER_END_WITH_ERROR;
    request_arrives(thread, request); /* each page has a deadline of its own */
    request_send(thread, request, REQUEST_DONE);
    connection_list_remove(request->http.connection);
    request_suspend_answer(request);
    return 0;
}

static ssize_t read_stream(void *cls, uint64_t position, char *out, size_t max)
{
    struct request *request = cls;
    struct stream *stream = request->call.stream;
    (void)position;
    if (request->http.phase != PHASE_READY) /* resumed by its deadline: the worker hangs */
        return MHD_CONTENT_READER_END_WITH_ERROR;
    size_t left = stream->length - stream->sent;
    if (left > 0) {
        size_t count = left < max ? left : max;
        memcpy(out, stream->text + stream->sent, count);
        stream->sent += count;
        waiting_add(request->http_thread, request->http.connection); /* it has taken a piece */
        return (ssize_t)count;
    }
    if (stream->failed)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    return stream->ended ? MHD_CONTENT_READER_END_OF_STREAM : next_page(request);
}

struct MHD_Response *stream_response(struct request *request)
{
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, request, NULL);
    assert(response);
    return response;
}
