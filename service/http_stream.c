/* Answers of any length: libmicrohttpd asks for the next piece, a desk makes the next page. */
#include <assert.h>
#include <string.h>

#include "service/http_private.h"
#include "service/stream.h"

enum { BLOCK = 8192 };

/* Sends the request to a desk once more, and takes its connection out of the loop until then. A
 * client that reads slowly is not asked for: the next page is made when this one is written. */
static ssize_t next_page(struct request *request)
{
    struct front *front = request->front;
    if (front->ending || !queue_reserve(front->service->calls, request->flow))
        return MHD_CONTENT_READER_END_WITH_ERROR;
    request->ready = false;
    request->arrived_ns = front->now_ns;
    exchange_send(front, request, REQUEST_DONE);
    request->suspended = true;
    MHD_suspend_connection(request->connection->mhd);
    return 0;
}

static ssize_t read_stream(void *cls, uint64_t position, char *out, size_t max)
{
    struct request *request = cls;
    struct stream *stream = request->stream;
    (void)position;
    request->suspended = false;
    if (request->away) /* resumed by its deadline: the desk hangs */
        return MHD_CONTENT_READER_END_WITH_ERROR;
    size_t left = stream->length - stream->sent;
    if (left > 0) {
        size_t count = left < max ? left : max;
        memcpy(out, stream->text + stream->sent, count);
        stream->sent += count;
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
