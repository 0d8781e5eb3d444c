/* The HTTP threads: each drives a libmicrohttpd of its own from an epoll loop.
 *
 * The thread's epoll set holds libmicrohttpd's epoll descriptor and an eventfd. A turn of the loop:
 * wait; take the requests that workers returned; MHD_run, which reads new requests and polls the
 * waiting ones; hand the new orders to the order workers; MHD_run again to write the answers. */
#define _GNU_SOURCE /* ppoll */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "service/http/http.h"
#include "service/log/log.h"

enum {
    TURN_MS_MAX = 1000, /* connections are checked for time-outs at least this often */
    BUSY_TURN_MS = 2,   /* while complete requests wait, see libmicrohttpd_ms */
    FEED_TURN_MS = 20,  /* while nothing but readers of the feed waits */
    BUSY_PER_MS = 1000,
    RUNS_AFTER_REPLY = 3, /* see run */
    NAP_BUSY = 16,        /* see nap */
    NAP_NS = 2500000,
    HANGUPS_MAX = 1024,  /* clients that closed their side, read in one turn; */
    HANGUPS_MS = 50,     /* then not again for so long */
    ACCEPTS_OF_RUN = 10, /* libmicrohttpd accepts no more clients in one run */
    ACCEPT_RUNS_MAX = 8, /* further runs of a turn for clients that wait to be accepted */
    PLACES_PER_ACCEPT = 32,
    STUCK_MS = 250,        /* between checks for clients that nobody accepts, see unstick */
    DRAIN_QUIET_TURNS = 3, /* turns without events after which a draining thread is done */
    DRAIN_TURN_MS = 10,
    HANDSHAKE_MS = 100,   /* for clients that were connecting, see stop_accepting */
    IDLE_GRACE_MS = 1000, /* for a connection without a request, see all_answered */
};

/* ---- requests that come back ---- */

static void take_returned(struct http_thread *thread)
{
    struct request *request =
        atomic_exchange_explicit(&thread->home.returned, NULL, memory_order_acquire);
    while (request) {
        struct request *next = request->queue_next;
        exchange_return(thread, request);
        request = next;
    }
}

/* ---- time limits ---- */

/* Clients that wait for an answer; not readers of the feed, whose answers are seldom near. */
static size_t count_busy(const struct http_thread *thread)
{
    size_t busy = thread->lists[CONNECTION_BUSY].count;
    return busy > thread->readers ? busy - thread->readers : 0;
}

/* libmicrohttpd may have work that no event will announce, such as input beyond one read: then it
 * asks not to wait. It asks the same while complete requests wait; then its answer is ignored, and
 * it runs soon anyway to poll them and their deadlines. The more there are, the longer a run takes,
 * and the less often it runs. */
static int64_t libmicrohttpd_ms(const struct http_thread *thread, int64_t ms)
{
    MHD_UNSIGNED_LONG_LONG wanted = 0;
    size_t busy = count_busy(thread);
    int64_t busy_ms = busy > 0 ? BUSY_TURN_MS + (int64_t)(busy / BUSY_PER_MS) : FEED_TURN_MS;
    if (thread->lists[CONNECTION_BUSY].count > 0)
        return ms < busy_ms ? ms : busy_ms;
    bool limited = MHD_get_timeout(thread->daemon, &wanted) == MHD_YES;
    return limited && wanted < (MHD_UNSIGNED_LONG_LONG)ms ? (int64_t)wanted : ms;
}

/* Milliseconds from now to `then_ns`, or `ms` if that is less. */
static int64_t sooner_ms(const struct http_thread *thread, int64_t then_ns, int64_t ms)
{
    int64_t left_ms = (then_ns - thread->now_ns) / CLOCK_NS_PER_MS + 1;
    return left_ms < ms ? left_ms : ms;
}

static int wait_ms(const struct http_thread *thread)
{
    int64_t ms = thread->closing ? DRAIN_TURN_MS : TURN_MS_MAX;
    if (thread->runs_due > 0)
        return 0;
    if (thread->stuck)
        ms = sooner_ms(thread, thread->stuck_look_ns, ms);
    if (thread->hangups_unseen)
        ms = sooner_ms(thread, thread->hangups_due_ns, ms);
    ms = libmicrohttpd_ms(thread, ms);
    ms = sooner_ms(thread, connection_due_ns(thread), ms);
    return ms > 0 ? (int)ms : 0;
}

/* ---- the loop ---- */

/* With other daemons orders wait longer for a whole batch (order_patience_ns), while further orders
 * arrive in ones and twos and each turn polls every waiting order. So a thread with many waiting
 * requests naps between turns; an answer ends the nap. */
static void nap(const struct http_thread *thread)
{
    if (count_busy(thread) < NAP_BUSY || thread->runs_due > 0 || thread->closing ||
        atomic_load_explicit(&thread->service->other_daemons, memory_order_relaxed) == 0)
        return;
    struct pollfd answers = {.fd = thread->home.wake_fd, .events = POLLIN};
    const struct timespec most = {.tv_nsec = NAP_NS};
    ppoll(&answers, 1, &most, NULL);
}

static bool wait_for_events(struct http_thread *thread)
{
    nap(thread);
    struct epoll_event events[4];
    uint64_t wakes;
    int count = epoll_wait(thread->loop_fd, events, 4, wait_ms(thread));
    for (int i = 0; i < count; i++)
        if (events[i].data.fd == thread->home.wake_fd &&
            read(thread->home.wake_fd, &wakes, sizeof wakes) != sizeof wakes)
            assert(errno == EAGAIN);
    return count > 0;
}

static void submit_orders(struct http_thread *thread)
{
    struct order_list *list = &thread->orders;
    if (list->first)
        queue_push(thread->service->orders, list->first, list->last);
    *list = (struct order_list){.first = NULL};
}

/* libmicrohttpd 0.9.75 misses that a client has closed its side when the close arrived together
 * with the data it has just read: one epoll edge announced both. Shutting the closed side down
 * makes another edge, also for this watch. So it is repeated while the connection is open, but
 * seldom: a client that waits for its answer must not keep the thread busy. */
static void repeat_hangups(struct http_thread *thread)
{
    struct epoll_event events[HANGUPS_MAX];
    thread->hangups_unseen = thread->now_ns < thread->hangups_due_ns;
    if (thread->hangups_unseen)
        return;
    thread->hangups_due_ns = thread->now_ns + HANGUPS_MS * CLOCK_NS_PER_MS;
    int count = epoll_wait(thread->hangup_fd, events, HANGUPS_MAX, 0);
    for (int i = 0; i < count; i++)
        shutdown(events[i].data.fd, SHUT_RD);
}

/* A queued answer needs further runs of libmicrohttpd: to write it, to finish it, and to read input
 * that arrived meanwhile, which epoll has announced and will not announce again. */
static void run(struct http_thread *thread)
{
    thread->replies = thread->answers = thread->accepts = 0;
    MHD_run(thread->daemon);
    thread->accepts_seen += thread->accepts;
    if (thread->runs_due > 0)
        thread->runs_due--;
    if (thread->replies > 0)
        thread->runs_due = RUNS_AFTER_REPLY;
    submit_orders(thread);
}

/* A turn under load takes some ms. With ten clients accepted in each, a crowd would fill the
 * listening socket's queue, and a client that finds it full waits a second. But with few places,
 * clients accepted that fast would lose them before they have sent anything. */
static void accept_more(struct http_thread *thread)
{
    int most = (int)(room_accept_max(thread->room) / PLACES_PER_ACCEPT / ACCEPTS_OF_RUN);
    most = most < ACCEPT_RUNS_MAX ? most : ACCEPT_RUNS_MAX;
    for (int i = 0; i < most && thread->accepts >= ACCEPTS_OF_RUN; i++) {
        fair_count_anew(thread);
        run(thread);
    }
}

/* Once the process or the machine has no descriptor left, libmicrohttpd accepts nobody until one of
 * its own connections ends. To keep idle clients from locking out the others, the limit is then
 * lowered to the descriptors available. */
static void unstick(struct http_thread *thread)
{
    bool accepts = thread->accepts_seen > 0;
    if (thread->now_ns < thread->stuck_look_ns)
        return;
    thread->stuck_look_ns = thread->now_ns + STUCK_MS * CLOCK_NS_PER_MS;
    thread->accepts_seen = 0;
    bool waiting = !accepts && listener_has_waiting(thread->listen_fd);
    if (waiting && thread->stuck)
        room_shrink(thread);
    else if (!waiting)
        room_grow(thread->room);
    thread->stuck = waiting;
}

/* One turn of the loop. True when there were events. */
static bool turn(struct http_thread *thread)
{
    bool events = wait_for_events(thread);
    thread->now_ns = clock_now_ns();
    atomic_store_explicit(&thread->turned_ns, thread->now_ns, memory_order_relaxed);
    thread->closing = atomic_load(&thread->service->phase) >= SERVICE_CLOSES;
    take_returned(thread);
    connection_expire(thread);
    fair_begin_turn(thread);
    run(thread);
    if (thread->answers > 0) /* the next run writes answers to waiting requests */
        run(thread);
    accept_more(thread);
    unstick(thread);
    repeat_hangups(thread);
    return events;
}

/* A connected client must not be reset: the kernel ignores new attempts, handshakes under way end,
 * and all waiting clients are accepted before the socket is closed. A socket of systemd's stays
 * open: its clients wait for the next daemon. */
static void stop_accepting(struct http_thread *thread, int64_t until_ns)
{
    int64_t handshakes_ns = thread->now_ns + HANDSHAKE_MS * CLOCK_NS_PER_MS;
    if (!thread->room->inherited && listener_ignore_new(thread->listen_fd))
        while (thread->now_ns < handshakes_ns && thread->now_ns < until_ns)
            turn(thread);
    while (!thread->room->inherited && thread->now_ns < until_ns &&
           listener_has_waiting(thread->listen_fd))
        turn(thread);
    MHD_socket listener = MHD_quiesce_daemon(thread->daemon);
    assert(listener == thread->listen_fd);
    close(thread->listen_fd);
    thread->listen_fd = -1;
}

/* True when nothing is under way. A connection without a request gets a grace: its client may be
 * sending one, and would take the close for a lost answer. */
static bool all_answered(const struct http_thread *thread, int quiet, int64_t grace_ns)
{
    return (thread->connections == 0 && thread->in_flight == 0) ||
           (quiet >= DRAIN_QUIET_TURNS && thread->now_ns >= grace_ns);
}

/* Answers requests under way and new ones on open connections, and closes these connections; ends
 * when no request arrives any more. */
static void drain(struct http_thread *thread)
{
    int64_t until_ns = clock_now_ns() + (int64_t)thread->service->config.drain_ms * CLOCK_NS_PER_MS;
    stop_accepting(thread, until_ns);
    int64_t grace_ns = thread->now_ns + IDLE_GRACE_MS * CLOCK_NS_PER_MS;
    for (int quiet = 0; !all_answered(thread, quiet, grace_ns) && thread->now_ns < until_ns;) {
        bool events = turn(thread);
        bool waiting = thread->in_flight > 0 || thread->lists[CONNECTION_BUSY].count > 0 ||
                       thread->lists[CONNECTION_SENDING].count > 0;
        quiet = events || waiting ? 0 : quiet + 1;
    }
    thread->ending = true; /* time is up: treat every deadline as passed */
    for (int i = 0; i < DRAIN_QUIET_TURNS; i++)
        turn(thread);
}

static void thread_main(void *context)
{
    struct http_thread *thread = context;
    prctl(PR_SET_NAME, thread->room->thread_name);
    thread->now_ns = clock_now_ns();
    while (atomic_load(&thread->service->phase) < SERVICE_DRAINS)
        turn(thread);
    drain(thread);
    MHD_stop_daemon(thread->daemon);
    assert(thread->connections == 0);
}

/* ---- start and stop ---- */

static void mhd_log(void *cls, const char *format, va_list arguments)
{
    (void)cls;
    char text[256];
    vsnprintf(text, sizeof text, format, arguments);
    text[strcspn(text, "\n")] = '\0';
    /* The refused client learns nothing, so the operator must. */
    if (strstr(text, "accepting") || strstr(text, "resource limit")) {
        log_failure(LOG_WARN, "not_accepting", "http", "error=%s effect=%s", LOG_QUOTE(text),
                    LOG_QUOTE("new clients wait or are refused; raise the limit of open files, or "
                              "lower connections_max"));
        return;
    }
    log_event(LOG_DEBUG, "http", "message=%s", LOG_QUOTE(text));
}

/* Sets no time limit in libmicrohttpd: a byte now and then would restart it. */
static struct MHD_Daemon *daemon_start(struct http_thread *thread)
{
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_ERROR_LOG | MHD_USE_TURBO, 0, exchange_accept, thread,
        exchange_access, thread, MHD_OPTION_EXTERNAL_LOGGER, mhd_log, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, exchange_connection, thread, MHD_OPTION_LISTEN_SOCKET,
        thread->listen_fd, MHD_OPTION_URI_LOG_CALLBACK, exchange_begin, thread,
        MHD_OPTION_NOTIFY_COMPLETED, exchange_end, thread, MHD_OPTION_UNESCAPE_CALLBACK,
        exchange_unescape, thread, MHD_OPTION_CONNECTION_LIMIT, room_accept_max(thread->room),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_ARRAY,
        head_options(), MHD_OPTION_END);
}

static bool watch(struct http_thread *thread, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(thread->loop_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* Makes the thread's descriptors; libmicrohttpd has made its own. False with errno. */
static bool open_files(struct http_thread *thread)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(thread->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    assert(info);
    thread->home.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    thread->loop_fd = epoll_create1(EPOLL_CLOEXEC);
    thread->hangup_fd = epoll_create1(EPOLL_CLOEXEC);
    return thread->home.wake_fd >= 0 && thread->loop_fd >= 0 && thread->hangup_fd >= 0 &&
           watch(thread, info->epoll_fd) && watch(thread, thread->home.wake_fd);
}

static void close_files(struct http_thread *thread)
{
    const int fds[] = {thread->home.wake_fd, thread->hangup_fd, thread->loop_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* After a failed http_start: gives the listening socket back to the caller. */
static void undo_start(struct http_thread *thread)
{
    if (thread->daemon) {
        MHD_quiesce_daemon(thread->daemon);
        MHD_stop_daemon(thread->daemon);
    }
    close_files(thread);
    free(thread);
}

struct http_thread *http_start(struct service *service, struct http_room *room, int listen_fd)
{
    struct http_thread *thread = memory_must(calloc(1, sizeof *thread));
    thread->service = service;
    thread->room = room;
    thread->home.wake_fd = thread->loop_fd = thread->hangup_fd = -1;
    thread->listen_fd = listen_fd;
    for (int state = 0; state < CONNECTION_STATES; state++)
        TAILQ_INIT(&thread->lists[state].all);
    thread->queue = refusal_library_queue();
    thread->daemon = daemon_start(thread);
    if (!thread->daemon || !open_files(thread)) {
        snprintf(service->error, REASON_SIZE, "%s",
                 thread->daemon ? strerror(errno) : "libmicrohttpd does not start");
        undo_start(thread);
        return NULL;
    }
    atomic_store(&thread->turned_ns, clock_now_ns());
    reply_prepare(thread);
    size_t count = atomic_load(&room->thread_count);
    assert(count < LISTENER_SOCKETS_MAX);
    room->threads[count] = thread;
    atomic_store(&room->thread_count, count + 1);
    if (!worker_start(&thread->worker, thread_main, thread))
        abort();
    return thread;
}

void http_join(struct http_thread *thread)
{
    worker_join(&thread->worker);
}

void http_close(struct http_thread **thread_pointer)
{
    struct http_thread *thread = *thread_pointer;
    *thread_pointer = NULL;
    if (!thread)
        return;
    take_returned(thread); /* requests that outlasted the drain */
    assert(thread->in_flight == 0);
    exchange_free_requests(thread);
    reply_discard(thread);
    close_files(thread);
    free(thread);
}
