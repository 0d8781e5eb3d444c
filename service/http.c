/* Fronts: threads that speak HTTP, each with libmicrohttpd in an epoll loop of its own.
 *
 * libmicrohttpd's own threads lose wake-ups when connections are resumed from elsewhere, so a front
 * drives it from outside: its epoll descriptor and an eventfd stand in the front's epoll set. A
 * turn of the loop: wait; take what lanes and desks gave back; MHD_run (new requests are read,
 * waiting ones asked after), hand the new orders to the lanes; MHD_run again to write what was
 * answered. */
#include "service/http.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/http_private.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/stream.h"

enum {
    TURN_MS_MAX = 1000,    /* libmicrohttpd looks for idle connections at least this often */
    PARKED_TURN_MS = 2,    /* while requests are parked, see wait_ms */
    RUNS_AFTER_REPLY = 3,  /* see run */
    HANGUPS_MAX = 64,      /* looked at in one turn */
    DRAIN_QUIET_TURNS = 3, /* turns without anything new after which a draining front is done */
    DRAIN_TURN_MS = 10,
};

/* ---- requests ---- */

void front_list_add(struct front *front, enum wait_list which, struct request *request)
{
    struct request_list *list = &front->lists[which];
    assert(!request->list);
    request->list = list;
    request->next = NULL;
    request->prev = list->last;
    if (list->last)
        list->last->next = request;
    else
        list->first = request;
    list->last = request;
}

void front_list_remove(struct request *request)
{
    struct request_list *list = request->list;
    if (!list)
        return;
    if (request->prev)
        request->prev->next = request->next;
    else
        list->first = request->next;
    if (request->next)
        request->next->prev = request->prev;
    else
        list->last = request->prev;
    request->list = NULL;
}

struct request *front_request_new(struct front *front, struct http_connection *connection)
{
    struct request *request = front->spare;
    if (request) {
        front->spare = request->next;
    } else {
        request = calloc(1, sizeof *request);
        if (!request)
            abort();
        request->front = front;
        request->body = request->inline_body;
    }
    atomic_store_explicit(&request->state, REQUEST_RECEIVING, memory_order_relaxed);
    request->refusal = PROBLEM_NONE;
    request->allow = NULL;
    request->begun = request->away = request->ready = request->expired = false;
    request->parked = request->suspended = request->changes = false;
    request->expire = NULL;
    atomic_store_explicit(&request->progress, 0, memory_order_relaxed);
    request->body_length = 0;
    assert(!connection->request);
    request->connection = connection;
    connection->request = request;
    return request;
}

void front_request_free(struct front *front, struct request *request)
{
    assert(!request->connection && !request->away && !request->parked);
    front_list_remove(request);
    answer_clear(&request->answer);
    stream_close(&request->stream);
    if (request->body != request->inline_body)
        free(request->body);
    request->body = request->inline_body;
    request->next = front->spare;
    front->spare = request;
}

/* ---- what comes back ---- */

void http_wake(struct front *front)
{
    uint64_t one = 1;
    ssize_t written = write(front->wake_fd, &one, sizeof one);
    assert(written == sizeof one || errno == EAGAIN);
}

void http_return(struct front *front, struct request *list)
{
    struct request *last = list;
    while (last->queue_next)
        last = last->queue_next;
    struct request *head = atomic_load_explicit(&front->returned, memory_order_relaxed);
    do
        last->queue_next = head;
    while (!atomic_compare_exchange_weak_explicit(&front->returned, &head, list,
                                                  memory_order_release, memory_order_relaxed));
    if (!head) /* else the front was woken for those before, and has not looked yet */
        http_wake(front);
}

static void take_one(struct front *front, struct request *request)
{
    request->away = false;
    front->away--;
    front_list_remove(request);
    if (!request->connection) {
        front_request_free(front, request);
        return;
    }
    assert(request->connection->request == request);
    request->ready = true;
    if (request->suspended)
        MHD_resume_connection(request->connection->mhd);
}

static void take_returned(struct front *front)
{
    struct request *request =
        atomic_exchange_explicit(&front->returned, NULL, memory_order_acquire);
    while (request) {
        struct request *next = request->queue_next;
        take_one(front, request);
        request = next;
    }
}

/* ---- time limits ---- */

static void expire(struct front *front, struct request *request)
{
    bool receiving = request->list == &front->lists[LIST_RECEIVING];
    front_list_remove(request);
    if (receiving) {
        reply_past_libmicrohttpd(request->connection, PROBLEM_REQUEST_TIMEOUT);
        return;
    }
    request->expired = true; /* its handler answers */
    if (request->suspended)
        MHD_resume_connection(request->connection->mhd);
}

static void expire_due(struct front *front)
{
    for (int i = 0; i < LIST_COUNT; i++)
        while (front->lists[i].first && front->lists[i].first->until_ns <= front->now_ns)
            expire(front, front->lists[i].first);
}

/* libmicrohttpd may have work left that no event will announce, such as more input than one read
 * took: then it wants no waiting at all. It says the same of parked requests, so with these it is
 * not asked, but runs soon anyway. */
static int64_t libmicrohttpd_ms(const struct front *front, int64_t ms)
{
    MHD_UNSIGNED_LONG_LONG wanted = 0;
    if (front->parked > 0)
        return ms < PARKED_TURN_MS ? ms : PARKED_TURN_MS;
    bool limited = MHD_get_timeout(front->daemon, &wanted) == MHD_YES;
    return limited && wanted < (MHD_UNSIGNED_LONG_LONG)ms ? (int64_t)wanted : ms;
}

static int wait_ms(const struct front *front)
{
    int64_t ms = front->draining ? DRAIN_TURN_MS : TURN_MS_MAX;
    if (front->runs_due > 0)
        return 0;
    ms = libmicrohttpd_ms(front, ms);
    for (int i = 0; i < LIST_COUNT; i++) {
        if (!front->lists[i].first)
            continue;
        int64_t left_ms = (front->lists[i].first->until_ns - front->now_ns) / 1000000 + 1;
        ms = left_ms < ms ? left_ms : ms;
    }
    return ms > 0 ? (int)ms : 0;
}

/* ---- the loop ---- */

static bool wait_for_events(struct front *front)
{
    struct epoll_event events[3];
    uint64_t wakes;
    int count = epoll_wait(front->loop_fd, events, 3, wait_ms(front));
    for (int i = 0; i < count; i++)
        if (events[i].data.fd == front->wake_fd &&
            read(front->wake_fd, &wakes, sizeof wakes) != sizeof wakes)
            assert(errno == EAGAIN);
    return count > 0;
}

static void submit_orders(struct front *front)
{
    if (front->orders_first)
        queue_push(front->service->orders, front->orders_first, front->orders_last);
    front->orders_first = front->orders_last = NULL;
}

/* libmicrohttpd 0.9.75 does not notice that a client has closed its side when that came together
 * with the end of a request: one edge of epoll told of both, and it has read only the one. Shutting
 * the side that is closed already makes another edge, after the request was read. */
static void tell_hangups(struct front *front)
{
    struct epoll_event events[HANGUPS_MAX];
    int count = epoll_wait(front->hangup_fd, events, HANGUPS_MAX, 0);
    for (int i = 0; i < count; i++)
        shutdown(events[i].data.fd, SHUT_RD);
}

/* A queued answer needs further runs of libmicrohttpd: to be written, to be finished, and to read
 * what came meanwhile, of which epoll has told already and will not tell again. */
static void run(struct front *front)
{
    front->replies = front->answers = 0;
    MHD_run(front->daemon);
    if (front->runs_due > 0)
        front->runs_due--;
    if (front->replies > 0)
        front->runs_due = RUNS_AFTER_REPLY;
    submit_orders(front);
}

/* Returns true when anything happened. */
static bool turn(struct front *front)
{
    bool events = wait_for_events(front);
    front->now_ns = clock_now_ns();
    take_returned(front);
    expire_due(front);
    run(front);
    if (front->answers > 0) /* those queued for waiting requests are written in the next run */
        run(front);
    if (events)
        tell_hangups(front);
    return events;
}

static void begin_draining(struct front *front)
{
    front->draining = true;
    MHD_socket listener = MHD_quiesce_daemon(front->daemon);
    assert(listener == front->listen_fd);
    close(front->listen_fd);
}

/* Answers what is under way. New requests on connections that are open are answered as well, and
 * their connections closed; when nothing comes any more, the front is done. */
static void drain(struct front *front)
{
    int64_t until_ns = clock_now_ns() + (int64_t)front->service->config.drain_ms * 1000000;
    begin_draining(front);
    for (int quiet = 0; quiet < DRAIN_QUIET_TURNS && front->now_ns < until_ns;) {
        bool events = turn(front);
        bool waiting = front->away > 0 || front->lists[LIST_RECEIVING].first;
        quiet = events || waiting ? 0 : quiet + 1;
    }
    front->ending = true;
    for (int i = 0; i < LIST_COUNT; i++) /* out of time: answer the rest as they stand */
        for (struct request *request = front->lists[i].first; request; request = request->next)
            request->until_ns = 0;
    for (int i = 0; i < DRAIN_QUIET_TURNS; i++)
        turn(front);
}

static void *front_main(void *context)
{
    struct front *front = context;
    front->now_ns = clock_now_ns();
    while (!atomic_load(&front->service->draining))
        turn(front);
    drain(front);
    MHD_stop_daemon(front->daemon);
    assert(front->connections == 0);
    return NULL;
}

/* ---- start and stop ---- */

static void mhd_log(void *cls, const char *format, va_list arguments)
{
    (void)cls;
    char text[256];
    vsnprintf(text, sizeof text, format, arguments);
    log_event(LOG_DEBUG, "http", "message=%s", LOG_QUOTE(text));
}

static struct MHD_Daemon *daemon_start(struct front *front)
{
    const struct config *config = &front->service->config;
    unsigned limit = config->connections_max / config->fronts;
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | MHD_USE_TURBO, 0, NULL, NULL,
        exchange_access, front, MHD_OPTION_EXTERNAL_LOGGER, mhd_log, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, exchange_connection, front, MHD_OPTION_LISTEN_SOCKET,
        front->listen_fd, MHD_OPTION_URI_LOG_CALLBACK, exchange_begin, front,
        MHD_OPTION_NOTIFY_COMPLETED, exchange_end, front, MHD_OPTION_UNESCAPE_CALLBACK,
        exchange_unescape, front, MHD_OPTION_CONNECTION_LIMIT, limit > 0 ? limit : 1,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_CONNECTION_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_END);
}

static void watch(struct front *front, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    int added = epoll_ctl(front->loop_fd, EPOLL_CTL_ADD, fd, &event);
    assert(added == 0);
}

struct front *http_start(struct service *service, int listen_fd, char *error_out, size_t error_size)
{
    struct front *front = calloc(1, sizeof *front);
    if (!front)
        abort();
    front->service = service;
    front->listen_fd = listen_fd;
    front->daemon = daemon_start(front);
    if (!front->daemon) {
        snprintf(error_out, error_size, "libmicrohttpd does not start");
        free(front);
        return NULL;
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(front->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    front->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    front->loop_fd = epoll_create1(EPOLL_CLOEXEC);
    front->hangup_fd = epoll_create1(EPOLL_CLOEXEC);
    assert(info && front->wake_fd >= 0 && front->loop_fd >= 0 && front->hangup_fd >= 0);
    watch(front, info->epoll_fd);
    watch(front, front->hangup_fd);
    watch(front, front->wake_fd);
    reply_prepare(front);
    if (pthread_create(&front->thread, NULL, front_main, front) != 0)
        abort();
    return front;
}

void http_join(struct front *front)
{
    pthread_join(front->thread, NULL);
}

void http_close(struct front **front_pointer)
{
    struct front *front = *front_pointer;
    *front_pointer = NULL;
    if (!front)
        return;
    take_returned(front); /* what outlasted the drain */
    while (front->spare) {
        struct request *request = front->spare;
        front->spare = request->next;
        free(request);
    }
    reply_discard(front);
    close(front->wake_fd);
    close(front->hangup_fd);
    close(front->loop_fd);
    free(front);
}
