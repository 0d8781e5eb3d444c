/* Reads the headers of the PROXY protocol.
 *
 * why_peek: the header is looked at where the kernel has it, and taken away once it is complete.
 * So nothing of it is kept here while it comes in pieces, and not one byte of the client's is read.
 *
 * why_no_answer: who sends no header is no client but a proxy that is set up otherwise, or somebody
 * who went around it. An answer could be taken for one to a request of a client. */
#define _GNU_SOURCE /* accept4 */
#include "service/http/proxied.h"

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/http/proxy_header.h"
#include "service/http/room.h"
#include "service/http/thread.h"
#include "service/log.h"
#include "service/metrics.h"

enum {
    EVENTS_MAX = 64,        /* headers read in one turn */
    ACCEPTS_MIN = 10,       /* of one turn */
    ACCEPTS_MAX = 80,       /* likewise, where there are places enough */
    PLACES_PER_ACCEPT = 32, /* a turn gives no larger part of them away */
    LOG_PAUSE_MS = 1000,
};

/* A connection whose header is not complete. */
struct newcomer {
    struct newcomer *prev, *next;
    int fd;
    int64_t until_ns;
    struct sockaddr_storage from; /* the proxy */
    socklen_t from_length;
};

struct proxied {
    struct http_thread *thread;
    int epoll_fd;                  /* of the listening socket, and of newcomers; by edges */
    struct newcomer *first, *last; /* in order of until_ns */
    size_t count;
    bool may_accept; /* the listening socket was not found empty since the last edge */
    bool at_once;    /* and only the bound of a turn kept clients waiting */
    int64_t log_ns;  /* when the next line may be logged */
};

int proxied_fd(const struct proxied *proxied)
{
    return proxied->epoll_fd;
}

size_t proxied_waiting(const struct proxied *proxied)
{
    return proxied->count;
}

int64_t proxied_until_ns(const struct proxied *proxied)
{
    if (proxied->at_once)
        return proxied->thread->now_ns;
    return proxied->first ? proxied->first->until_ns : INT64_MAX;
}

static bool watch(const struct proxied *proxied, int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = what};
    return epoll_ctl(proxied->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

struct proxied *proxied_open(struct http_thread *thread)
{
    struct proxied *proxied = calloc(1, sizeof *proxied);
    if (!proxied)
        abort();
    proxied->thread = thread;
    proxied->may_accept = true;
    proxied->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (proxied->epoll_fd >= 0 && watch(proxied, thread->listen_fd, NULL))
        return proxied;
    int error = errno;
    proxied_close(&proxied);
    errno = error;
    return NULL;
}

/* ---- newcomers ---- */

static void forget(struct proxied *proxied, struct newcomer *newcomer)
{
    assert(proxied->count > 0 && (newcomer->prev || proxied->first == newcomer));
    *(newcomer->prev ? &newcomer->prev->next : &proxied->first) = newcomer->next;
    *(newcomer->next ? &newcomer->next->prev : &proxied->last) = newcomer->prev;
    proxied->count--;
    free(newcomer);
}

void proxied_close(struct proxied **proxied_pointer)
{
    struct proxied *proxied = *proxied_pointer;
    *proxied_pointer = NULL;
    if (!proxied)
        return;
    while (proxied->first) {
        close(proxied->first->fd);
        forget(proxied, proxied->first);
    }
    if (proxied->epoll_fd >= 0)
        close(proxied->epoll_fd);
    free(proxied);
}

static void tell(struct proxied *proxied, const struct sockaddr *from, const char *why)
{
    struct address address;
    char text[NETWORKS_TEXT_SIZE] = "unix";
    if (proxied->thread->now_ns < proxied->log_ns)
        return;
    proxied->log_ns = proxied->thread->now_ns + LOG_PAUSE_MS * CLOCK_NS_PER_MS;
    if (address_of(from, &address))
        address_text(&address, text);
    log_event(LOG_WARN, "proxy_header_refused", "address=%s error=%s", text, LOG_QUOTE(why));
}

static void refuse(struct proxied *proxied, struct newcomer *newcomer, const char *why)
{
    metrics_count(METRIC_CONNECTIONS_HEADER);
    tell(proxied, (const struct sockaddr *)&newcomer->from, why);
    close(newcomer->fd);
    forget(proxied, newcomer);
}

/* ---- headers ---- */

/* libmicrohttpd closes the socket if it does not take it. */
static void hand_over(struct proxied *proxied, struct newcomer *newcomer,
                      const struct proxy_header *header)
{
    static const struct sockaddr_un nowhere = {.sun_family = AF_UNIX};
    const struct sockaddr *from = (const struct sockaddr *)&header->address;
    socklen_t length = header->address.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                             : sizeof(struct sockaddr_in);
    if (header->source == PROXY_SOURCE_PROXY) {
        from = (const struct sockaddr *)&newcomer->from;
        length = newcomer->from_length;
    } else if (header->source == PROXY_SOURCE_UNKNOWN) {
        from = (const struct sockaddr *)&nowhere;
        length = sizeof nowhere;
    }
    epoll_ctl(proxied->epoll_fd, EPOLL_CTL_DEL, newcomer->fd, NULL);
    MHD_add_connection(proxied->thread->daemon, newcomer->fd, from, length);
    forget(proxied, newcomer);
}

static void take_header(struct proxied *proxied, struct newcomer *newcomer,
                        const struct proxy_header *header)
{
    unsigned char bytes[PROXY_HEADER_MAX];
    if (recv(newcomer->fd, bytes, header->length, MSG_DONTWAIT) == (ssize_t)header->length)
        hand_over(proxied, newcomer, header);
    else
        refuse(proxied, newcomer, "the connection broke");
}

/* A proxy that only looks whether somebody listens closes the connection without a byte. */
static void read_header(struct proxied *proxied, struct newcomer *newcomer)
{
    unsigned char bytes[PROXY_HEADER_MAX];
    struct proxy_header header;
    ssize_t got = recv(newcomer->fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        close(newcomer->fd);
        forget(proxied, newcomer);
        return;
    }
    switch (proxy_header_read(bytes, (size_t)got, &header)) {
    case PROXY_HEADER_OK:
        take_header(proxied, newcomer, &header);
        break;
    case PROXY_HEADER_BAD:
        refuse(proxied, newcomer, "what came is no header of the PROXY protocol");
        break;
    case PROXY_HEADER_MORE:
        break;
    }
}

/* ---- accepting ---- */

static bool is_proxy(const struct http_thread *thread, const struct sockaddr *from)
{
    struct address address;
    if (from->sa_family == AF_UNIX) /* whoever may open the file */
        return true;
    return address_of(from, &address) &&
           networks_hold(&atomic_load(&thread->service->proxies)->networks, &address);
}

static void welcome(struct proxied *proxied, int fd, const struct newcomer *from)
{
    struct newcomer *newcomer = malloc(sizeof *newcomer);
    if (!newcomer)
        abort();
    assert(proxied->count == 0 || proxied->first);
    if (proxied->count == PROXIED_MAX)
        refuse(proxied, proxied->first, "too many connections have sent no header");
    *newcomer = *from;
    newcomer->fd = fd;
    newcomer->until_ns = proxied->thread->now_ns + PROXIED_MS_MAX * CLOCK_NS_PER_MS;
    newcomer->prev = proxied->last;
    newcomer->next = NULL;
    *(proxied->last ? &proxied->last->next : &proxied->first) = newcomer;
    proxied->last = newcomer;
    proxied->count++;
    if (!watch(proxied, fd, newcomer))
        refuse(proxied, newcomer, "the kernel watches no further connection");
    else
        read_header(proxied, newcomer); /* it mostly comes along with the connection */
}

/* False: nobody waits, or nobody can be accepted now. */
static bool accept_one(struct proxied *proxied)
{
    struct http_thread *thread = proxied->thread;
    struct newcomer newcomer = {.from_length = sizeof newcomer.from};
    struct sockaddr *from = (struct sockaddr *)&newcomer.from;
    int fd = accept4(thread->listen_fd, from, &newcomer.from_length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        proxied->may_accept = false;
    if (fd < 0) /* of a client that has gone already, go on with the next one */
        return errno == ECONNABORTED || errno == EINTR;
    thread->accepts_seen++;
    if (is_proxy(thread, from)) {
        welcome(proxied, fd, &newcomer);
        return true;
    }
    metrics_count(METRIC_CONNECTIONS_NO_PROXY);
    tell(proxied, from, "the address is none of trusted_proxies");
    close(fd);
    return true;
}

static bool has_places(const struct proxied *proxied)
{
    struct room_use use;
    room_use(proxied->thread->room, &use);
    return use.connected + proxied->count < room_accept_max(proxied->thread->room);
}

static void accept_some(struct proxied *proxied)
{
    unsigned most = room_accept_max(proxied->thread->room) / PLACES_PER_ACCEPT, count = 0;
    most = most < ACCEPTS_MIN ? ACCEPTS_MIN : most > ACCEPTS_MAX ? ACCEPTS_MAX : most;
    while (proxied->may_accept && count < most && has_places(proxied) && accept_one(proxied))
        count++;
    proxied->at_once = proxied->may_accept && count == most;
}

void proxied_turn(struct proxied *proxied)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(proxied->epoll_fd, events, EVENTS_MAX, 0);
    for (int i = 0; i < count; i++) {
        struct newcomer *newcomer = events[i].data.ptr;
        if (newcomer)
            read_header(proxied, newcomer);
        else
            proxied->may_accept = true;
    }
    while (proxied->first && proxied->first->until_ns <= proxied->thread->now_ns) {
        assert(!proxied->first->prev);
        refuse(proxied, proxied->first, "no header came in time");
    }
    if (proxied->may_accept && proxied->thread->listen_fd >= 0)
        accept_some(proxied);
}
