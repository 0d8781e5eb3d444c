/* Room for connections at one listener.
 *
 * A connection that waits for its client stands in a list of its thread, the longest waiting first.
 * Its clock starts when it is accepted and after each answer. Bytes that make no request, such as
 * blank lines, do not set it back.
 *
 * why_strangers_first: a client that comes while all places are taken is let in, and the connection
 * that has waited longest is closed in its stead. As long as strangers are more than half of those
 * on which no request is under way, one of them is closed: connections that never had an answer, or
 * do not take one. A flood of them displaces itself, however fast it comes, and clients that are
 * served stay. Buyers whose first order is under way are no such flood: for the next buyer an idle
 * connection is closed. */
#include "service/http/room.h"

#include <assert.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "service/http/listen.h"
#include "service/http/reply.h"
#include "service/log/log.h"
#include "service/metrics/metrics.h"

enum {
    PASSED_OVER_MAX = 8, /* connections that are looked at before one is closed */
    FREED = 16,          /* places at most, see room_shrink */
    GROWTH = 256,        /* places come back by this part a time */
    LOG_PAUSE_MS = 1000,
};

struct http_room {
    unsigned most; /* places, as configured */
    struct connection_use *use;
    _Atomic unsigned taken;   /* places; a connection that is told to go has none */
    struct http_room *beside; /* the other listener's, with the same descriptors; or NULL */
    struct http_thread *threads[LISTENER_SOCKETS_MAX];
    _Atomic size_t thread_count; /* of those that have joined: the first serve already */
};

struct http_room *room_open(unsigned max, struct connection_use *use)
{
    struct http_room *room = calloc(1, sizeof *room);
    if (!room)
        abort();
    assert(max > 0);
    room->most = max;
    room->use = use;
    atomic_store(&use->max, max);
    return room;
}

void room_close(struct http_room **room_pointer)
{
    struct http_room *room = *room_pointer;
    *room_pointer = NULL;
    if (!room)
        return;
    assert(atomic_load(&room->taken) == 0 && atomic_load(&room->use->open) == 0);
    free(room);
}

void room_join(struct http_room *room, struct http_thread *thread)
{
    size_t count = atomic_load(&room->thread_count);
    assert(count < LISTENER_SOCKETS_MAX);
    room->threads[count] = thread;
    atomic_store(&room->thread_count, count + 1);
}

unsigned room_accept_max(const struct http_room *room)
{
    return room->most + ROOM_EXTRA;
}

void room_pair(struct http_room *one, struct http_room *other)
{
    one->beside = other;
    other->beside = one;
}

/* ---- who may come ---- */

/* Whether a line about refused or closed connections is due. */
static bool may_log(struct http_thread *thread)
{
    if (thread->now_ns < thread->room_log_ns)
        return false;
    thread->room_log_ns = thread->now_ns + LOG_PAUSE_MS * CLOCK_NS_PER_MS;
    return true;
}

bool room_admits(struct http_thread *thread)
{
    struct http_room *room = thread->room;
    if (atomic_load(&room->use->open) < room_accept_max(room))
        return true;
    metrics_count(METRIC_CONNECTIONS_FULL); /* requests are under way on all connections */
    return false;
}

static void go(struct http_thread *thread, struct http_connection *connection)
{
    assert(!connection->told_to_go);
    connection_list_remove(connection);
    connection->told_to_go = true;
    unsigned before = atomic_fetch_sub(&thread->room->taken, 1);
    assert(before > 0);
}

/* libmicrohttpd sees the end of both directions, and closes. */
static void close_waiting(struct http_thread *thread, struct http_connection *connection)
{
    go(thread, connection);
    shutdown(connection->fd, SHUT_RDWR);
}

static bool has_written(const struct http_connection *connection)
{
    char byte;
    return recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* The first connection of a list, but for a few whose request may just have come. */
static struct http_connection *first_quiet(const struct connection_list *list)
{
    struct http_connection *connection = list->first;
    for (int i = 0; connection && i < PASSED_OVER_MAX && has_written(connection); i++)
        connection = connection->next;
    return connection ? connection : list->first;
}

/* The connection that has sent longest at a request. With `strangers` only one that is none. */
static struct http_connection *longest_sending(const struct http_thread *thread, bool strangers)
{
    struct http_connection *connection = thread->sending.first;
    for (int i = 0; connection && i < PASSED_OVER_MAX; i++, connection = connection->next)
        if (!(strangers && connection->known))
            return connection;
    return NULL;
}

static struct http_connection *earlier(struct http_connection *one, struct http_connection *other)
{
    return !other || (one && one->since_ns <= other->since_ns) ? one : other;
}

/* The connection that is closed to make room; see why_strangers_first. NULL: none. */
static struct http_connection *choose(const struct http_thread *thread)
{
    bool strangers = 2 * thread->strangers > atomic_load(&thread->connections) - thread->busy;
    struct http_connection *chosen =
        earlier(first_quiet(&thread->waiting[false]), longest_sending(thread, strangers));
    return strangers && chosen ? chosen : earlier(chosen, first_quiet(&thread->waiting[true]));
}

/* False when requests are under way on all connections of the thread. */
static bool make_room(struct http_thread *thread)
{
    struct http_connection *chosen = choose(thread);
    if (!chosen)
        return false;
    if (chosen->list != &thread->sending) {
        close_waiting(thread, chosen);
    } else {
        go(thread, chosen);
        reply_past_libmicrohttpd(chosen, PROBLEM_OVERLOADED);
    }
    metrics_count(METRIC_CONNECTIONS_ROOM);
    if (may_log(thread))
        log_event(LOG_WARN, "connections_full", "connections_max=%u",
                  atomic_load(&thread->room->use->max));
    return true;
}

/* NULL: no thread serves yet. */
static struct http_thread *most_connections(struct http_room *room)
{
    struct http_thread *most = NULL;
    size_t count = atomic_load(&room->thread_count);
    for (size_t i = 0; i < count; i++)
        if (!most || atomic_load(&room->threads[i]->connections) > atomic_load(&most->connections))
            most = room->threads[i];
    return most;
}

/* The most connections of all listeners, of whose threads one asks. */
static struct http_thread *most_descriptors(struct http_room *room)
{
    struct http_thread *here = most_connections(room);
    struct http_thread *there = room->beside ? most_connections(room->beside) : NULL;
    bool more = there && atomic_load(&there->connections) > atomic_load(&here->connections);
    return more ? there : here;
}

/* Of a thread that may be another one. */
static void ask_for_places(struct http_thread *thread, unsigned count)
{
    atomic_fetch_add(&thread->room_asked, count);
    request_home_wake(&thread->home);
}

void room_enter(struct http_thread *thread, struct http_connection *connection)
{
    struct http_room *room = thread->room;
    connection->thread = thread;
    waiting_add(thread, connection);
    thread->strangers++;
    atomic_fetch_add(&thread->connections, 1);
    atomic_fetch_add(&room->use->open, 1);
    if (atomic_fetch_add(&room->taken, 1) < atomic_load(&room->use->max))
        return;
    struct http_thread *most = most_connections(room);
    if (most == thread)
        make_room(thread);
    else
        ask_for_places(most, 1);
}

/* From now on there are fewer places than descriptors, so that each further client gets that of the
 * connection that has waited longest. Several threads may do so at once: the places come back.
 *
 * The descriptors may be with another thread, or listener. But as long as this thread has
 * connections, libmicrohttpd accepts nobody until one of them has ended. */
void room_shrink(struct http_thread *thread)
{
    if (atomic_load(&thread->room->use->open) >= room_accept_max(thread->room))
        return; /* nobody is accepted because requests are under way on all connections */
    struct http_thread *most = most_descriptors(thread->room);
    unsigned taken = atomic_load(&most->room->taken), half = (taken + 1) / 2;
    unsigned freed = half < FREED ? half : FREED; /* few clients may just be sending a request */
    atomic_store(&most->room->use->max, taken > freed ? taken - freed : 1);
    if (most != thread)
        make_room(thread);
    ask_for_places(most, freed);
}

void room_grow(struct http_thread *thread)
{
    struct http_room *room = thread->room;
    unsigned max = atomic_load(&room->use->max), more = max + max / GROWTH + 1;
    if (max < room->most)
        atomic_store(&room->use->max, more < room->most ? more : room->most);
}

void room_leave(struct http_thread *thread, struct http_connection *connection)
{
    struct http_room *room = thread->room;
    if (!connection->told_to_go)
        go(thread, connection);
    waiting_not_busy(thread, connection);
    thread->strangers -= !connection->known;
    size_t before = atomic_fetch_sub(&thread->connections, 1);
    unsigned connected = atomic_fetch_sub(&room->use->open, 1);
    assert(before > 0 && connected > 0);
}

/* ---- time ---- */

static int64_t idle_ns(const struct http_thread *thread)
{
    return thread->service->config.idle_ms * CLOCK_NS_PER_MS;
}

int64_t room_until_ns(const struct http_thread *thread)
{
    const struct http_connection *first =
        earlier(thread->waiting[false].first, thread->waiting[true].first);
    return first ? first->since_ns + idle_ns(thread) : INT64_MAX;
}

void room_expire(struct http_thread *thread)
{
    unsigned asked = atomic_exchange(&thread->room_asked, 0);
    while (asked > 0 && make_room(thread))
        asked--;
    while (room_until_ns(thread) <= thread->now_ns) {
        metrics_count(METRIC_CONNECTIONS_IDLE);
        close_waiting(thread, earlier(thread->waiting[false].first, thread->waiting[true].first));
    }
}
