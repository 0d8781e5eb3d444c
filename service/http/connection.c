/* Connections of the HTTP threads, and the limit of them at one listener.
 *
 * Each thread lists its connections by state, the longest waiting first. Bytes that do not make a
 * request, such as blank lines, do not restart a connection's time.
 *
 * why_strangers_first: a client that arrives when all places are taken is let in, and another
 * connection is closed: normally the one that has waited longest. While strangers plus connections
 * that are sending a request outnumber the served ones, it is the oldest of the more numerous of
 * these two kinds. So a flood of connections that never complete a request, or never read their
 * answers, displaces itself, while clients that are served, or send a request at once, stay. Buyers
 * whose orders are under way are no such flood: an idle connection makes room for the next
 * buyer. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/memory.h"
#include "service/http/http.h"
#include "service/http/server.h"
#include "service/log/log.h"
#include "service/metrics/metrics.h"

enum {
    ROOM_EXTRA = 32,     /* connections above the limit while others are being closed */
    PASSED_OVER_MAX = 8, /* connections skipped at most, see first_quiet */
    FREED = 16,          /* places given up at most at a time, see room_shrink */
    GROWTH = 256,        /* 1/256 of the places comes back at a time */
};

static_assert(2 * (int)ROOM_EXTRA <= (int)HTTP_FILES_EXTRA, "two listeners have a room each");

/* ---- lists ---- */

static void list_remove(struct connection_list *list, struct http_connection *connection)
{
    assert(list->count > 0);
    list->count--;
    TAILQ_REMOVE(&list->all, connection, in_list);
}

static void list_add(struct connection_list *list, struct http_connection *connection)
{
    connection->since_ns = connection->thread->now_ns;
    TAILQ_INSERT_TAIL(&list->all, connection, in_list);
    list->count++;
}

void connection_move(struct http_connection *connection, enum connection_state state)
{
    struct connection_list *lists = connection->thread->lists;
    if (connection->state == CONNECTION_GOING)
        return;
    list_remove(&lists[connection->state], connection);
    connection->state = state;
    list_add(&lists[state], connection);
}

/* ---- making room ---- */

/* libmicrohttpd sees both directions shut down, and closes. */
static void close_waiting(struct http_connection *connection)
{
    connection_move(connection, CONNECTION_GOING);
    shutdown(connection->fd, SHUT_RDWR);
}

static void refuse_sending(struct http_connection *connection, enum problem problem)
{
    connection_move(connection, CONNECTION_GOING);
    reply_past_libmicrohttpd(connection, problem);
}

ssize_t connection_peek(const struct http_connection *connection)
{
    char byte;
    return recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
}

/* The first connection in the list, skipping a few whose request may just have arrived. */
static struct http_connection *first_quiet(const struct connection_list *list)
{
    struct http_connection *connection = TAILQ_FIRST(&list->all);
    for (int i = 0; connection && i < PASSED_OVER_MAX && connection_peek(connection) > 0; i++)
        connection = TAILQ_NEXT(connection, in_list);
    return connection ? connection : TAILQ_FIRST(&list->all);
}

static struct http_connection *earlier(struct http_connection *one, struct http_connection *other)
{
    return !other || (one && one->since_ns <= other->since_ns) ? one : other;
}

/* Chooses the connection to close for a newcomer, see why_strangers_first; or NULL. */
static struct http_connection *choose(const struct http_thread *thread)
{
    const struct connection_list *strangers = &thread->lists[CONNECTION_STRANGER];
    const struct connection_list *sending = &thread->lists[CONNECTION_SENDING];
    const struct connection_list *served = &thread->lists[CONNECTION_SERVED];
    if (strangers->count + sending->count <= served->count)
        return earlier(first_quiet(strangers), first_quiet(served));
    return sending->count > strangers->count ? TAILQ_FIRST(&sending->all) : first_quiet(strangers);
}

/* Closes one connection; false when all have complete requests under way. */
static bool make_room(struct http_thread *thread)
{
    struct http_connection *chosen = choose(thread);
    if (!chosen)
        return false;
    if (chosen->state == CONNECTION_SENDING)
        refuse_sending(chosen, PROBLEM_OVERLOADED);
    else
        close_waiting(chosen);
    metrics_count(METRIC_CONNECTIONS_ROOM);
    log_failure(LOG_WARN, "connections_full", "http", "connections_max=%u",
                atomic_load(&thread->room->use->max));
    return true;
}

/* ---- room ---- */

unsigned room_accept_max(const struct http_room *room)
{
    return room->most + ROOM_EXTRA;
}

bool room_admits(const struct http_room *room)
{
    if (atomic_load(&room->use->open) < room_accept_max(room))
        return true;
    metrics_count(METRIC_CONNECTIONS_FULL); /* all connections have requests under way */
    return false;
}

/* The thread with most connections, among those of the room and `most`. NULL: `most` is NULL and no
 * thread of the room serves yet, or there is no room. */
static struct http_thread *most_connections(struct http_room *room, struct http_thread *most)
{
    size_t count = room ? atomic_load(&room->thread_count) : 0;
    for (size_t i = 0; i < count; i++)
        if (!most || atomic_load(&room->threads[i]->connections) > atomic_load(&most->connections))
            most = room->threads[i];
    return most;
}

/* `thread` may be another one than the caller's. */
static void ask_for_places(struct http_thread *thread, unsigned count)
{
    atomic_fetch_add(&thread->room_asked, count);
    request_home_wake(&thread->home);
}

/* Lowers the limit below the open connections, so that each newcomer displaces the connection that
 * has waited longest. Several threads may do so at once: the places come back.
 *
 * The descriptors may be with another thread or listener. But while this thread has connections,
 * its libmicrohttpd accepts nobody until one of them ends. */
void room_shrink(struct http_thread *thread)
{
    if (atomic_load(&thread->room->use->open) >= room_accept_max(thread->room))
        return; /* the cause is the limit: all connections have requests under way */
    struct http_thread *most =
        most_connections(thread->room->beside, most_connections(thread->room, NULL));
    unsigned open = atomic_load(&most->room->use->open), half = (open + 1) / 2;
    unsigned freed = half < FREED ? half : FREED; /* few clients may just be sending a request */
    atomic_store(&most->room->use->max, open > freed ? open - freed : 1);
    if (most != thread)
        make_room(thread);
    ask_for_places(most, freed);
}

void room_grow(struct http_room *room)
{
    unsigned max = atomic_load(&room->use->max), more = max + max / GROWTH + 1;
    if (max < room->most)
        atomic_store(&room->use->max, more < room->most ? more : room->most);
}

/* ---- the life of a connection ---- */

/* If the kernel cannot watch it, shuts the connection down for libmicrohttpd to close. */
static void watch_hangup(struct http_thread *thread, const struct http_connection *connection)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.fd = connection->fd};
    if (epoll_ctl(thread->hangup_fd, EPOLL_CTL_ADD, connection->fd, &event) == 0)
        return;
    metrics_count(METRIC_CONNECTIONS_FULL);
    log_event(LOG_WARN, "connection_refused", "error=%s", LOG_QUOTE(strerror(errno)));
    shutdown(connection->fd, SHUT_RDWR);
}

struct http_connection *connection_open(struct http_thread *thread, struct MHD_Connection *mhd)
{
    struct http_room *room = thread->room;
    struct http_connection *connection = memory_must(calloc(1, sizeof *connection));
    connection->thread = thread;
    connection->mhd = mhd;
    connection->fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    watch_hangup(thread, connection);
    connection->state = CONNECTION_STRANGER;
    list_add(&thread->lists[CONNECTION_STRANGER], connection);
    atomic_fetch_add(&thread->connections, 1);
    if (atomic_fetch_add(&room->use->open, 1) < atomic_load(&room->use->max))
        return connection;
    struct http_thread *most = most_connections(room, NULL);
    if (most == thread)
        make_room(thread);
    else
        ask_for_places(most, 1);
    return connection;
}

void connection_close(struct http_connection *connection)
{
    struct http_thread *thread = connection->thread;
    assert(!connection->request);
    list_remove(&thread->lists[connection->state], connection);
    size_t before = atomic_fetch_sub(&thread->connections, 1);
    unsigned open = atomic_fetch_sub(&thread->room->use->open, 1);
    assert(before > 0 && open > 0);
    free(connection); /* closing the socket removes it from every epoll set */
}

/* ---- time ---- */

static struct http_connection *longest_idle(const struct http_thread *thread)
{
    return earlier(TAILQ_FIRST(&thread->lists[CONNECTION_STRANGER].all),
                   TAILQ_FIRST(&thread->lists[CONNECTION_SERVED].all));
}

static int64_t idle_due_ns(const struct http_thread *thread)
{
    const struct http_connection *first = longest_idle(thread);
    return first ? first->since_ns + thread->service->config.idle_ms * CLOCK_NS_PER_MS : INT64_MAX;
}

static int64_t sending_due_ns(const struct http_thread *thread)
{
    const struct http_connection *first = TAILQ_FIRST(&thread->lists[CONNECTION_SENDING].all);
    if (!first)
        return INT64_MAX;
    return thread->ending ? 0 : first->request->http.until_ns;
}

int64_t connection_due_ns(const struct http_thread *thread)
{
    int64_t idle_ns = idle_due_ns(thread), sending_ns = sending_due_ns(thread);
    return idle_ns < sending_ns ? idle_ns : sending_ns;
}

void connection_expire(struct http_thread *thread)
{
    unsigned asked = atomic_exchange(&thread->room_asked, 0);
    while (sending_due_ns(thread) <= thread->now_ns)
        refuse_sending(TAILQ_FIRST(&thread->lists[CONNECTION_SENDING].all),
                       PROBLEM_REQUEST_TIMEOUT);
    while (asked > 0 && make_room(thread))
        asked--;
    while (idle_due_ns(thread) <= thread->now_ns) {
        metrics_count(METRIC_CONNECTIONS_IDLE);
        close_waiting(longest_idle(thread));
    }
}
