/* The live page's streams of events on one HTTP thread.
 *
 * A stream's connection is suspended until there is an event, then waits for its client like any
 * other until that has taken the event. So a stream without an event is no idle connection, and one
 * whose client does not read is displaced first. */
#include "service/http/live_stream.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "service/live_feed.h"

enum { BLOCK = 16384 }; /* bytes that libmicrohttpd asks for at a time, at most */

struct live_stream {
    struct live_stream *prev, *next;
    struct http_connection *connection;
    struct live_event *event; /* that is being sent, or NULL */
    size_t sent;              /* bytes of it */
    uint64_t seen;            /* number of the last event that was begun */
    int64_t since_ns;         /* when it was begun */
};

static void unlink_stream(struct http_thread *thread, struct live_stream *stream)
{
    if (stream->prev)
        stream->prev->next = stream->next;
    else
        thread->live_streams = stream->next;
    if (stream->next)
        stream->next->prev = stream->prev;
}

void live_stream_close(struct http_connection *connection)
{
    struct live_stream *stream = connection->live;
    struct http_thread *thread = connection->thread;
    connection->live = NULL;
    if (!stream)
        return;
    unlink_stream(thread, stream);
    if (!thread->live_streams)
        live_feed_unwatch(thread->service->live_feed, thread->wake_fd);
    live_event_release(&stream->event);
    live_feed_leave(thread->service->live_feed);
    free(stream);
}

/* ---- the response ---- */

/* Copies what fits of the present event. */
static ssize_t copy(struct http_thread *thread, struct live_stream *stream, char *out, size_t max)
{
    size_t left = stream->event->length - stream->sent, count = left < max ? left : max;
    memcpy(out, stream->event->text + stream->sent, count);
    stream->sent += count;
    if (stream->sent == stream->event->length)
        live_event_release(&stream->event);
    waiting_add(thread, stream->connection); /* for its client, to take this piece */
    return (ssize_t)count;
}

static ssize_t read_events(void *cls, uint64_t position, char *out, size_t max)
{
    struct http_connection *connection = cls;
    struct http_thread *thread = connection->thread;
    struct live_stream *stream = connection->live;
    (void)position;
    if (!stream)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (stream->event)
        return copy(thread, stream, out, max);
    if (thread->closing)
        return MHD_CONTENT_READER_END_OF_STREAM;
    stream->event = live_feed_latest(thread->service->live_feed, stream->seen);
    if (stream->event) {
        stream->seen = stream->event->number;
        stream->sent = 0;
        stream->since_ns = thread->now_ns;
        return copy(thread, stream, out, max);
    }
    waiting_served(thread, connection); /* it has taken all, so it is known, */
    connection_list_remove(connection); /* and from now on waits for us */
    request_suspend_answer(connection->request);
    return 0;
}

static unsigned places(const struct http_thread *thread)
{
    const struct service *service = thread->service;
    return thread->room == service->admin_room ? service->operators_max : service->connections_max;
}

struct MHD_Response *live_stream_open(struct http_thread *thread,
                                      struct http_connection *connection)
{
    struct live_feed *feed = thread->service->live_feed;
    assert(!connection->live);
    if (!live_feed_enter(feed, places(thread)))
        return NULL;
    struct live_stream *stream = calloc(1, sizeof *stream);
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_events, connection, NULL);
    if (!stream || !response)
        abort();
    stream->connection = connection;
    stream->next = thread->live_streams;
    if (stream->next)
        stream->next->prev = stream;
    thread->live_streams = stream;
    connection->live = stream;
    live_feed_watch(feed, thread->wake_fd);
    return response;
}

/* ---- the turn ---- */

/* libmicrohttpd sees the end of both directions, and closes. */
static void drop(struct live_stream *stream)
{
    shutdown(stream->connection->fd, SHUT_RDWR);
}

void live_stream_turn(struct http_thread *thread)
{
    struct live_stream *stream = thread->live_streams;
    if (!stream)
        return;
    struct live_event *latest = live_feed_latest(thread->service->live_feed, 0);
    uint64_t number = latest ? latest->number : 0;
    live_event_release(&latest);
    for (; stream; stream = stream->next) {
        if (stream->event && thread->now_ns - stream->since_ns > LIVE_STALL_MS * CLOCK_NS_PER_MS)
            drop(stream);
        else if (!stream->event && (thread->closing || stream->seen < number))
            request_resume(stream->connection->request);
    }
}
