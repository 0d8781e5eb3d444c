/* The smallest epoll server: parses one request, writes one static 201. No HTTP library.
 *
 * usage: bare_epoll [--listen 127.0.0.1:0]
 *
 * Beside bare_httpd it shows what the HTTP library costs. It reads the request line, the headers'
 * end and Content-Length, and waits for the whole body; it knows neither chunks nor timeouts. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    DESCRIPTORS_MAX = 20000,
    REQUEST_SIZE = 4096,
    EVENTS_MAX = 256,
    LISTEN_BACKLOG = 4096,
};

/* bare_httpd's answer byte by byte, except the date. */
static const char answer[] =
    "HTTP/1.1 201 Created\r\nDate: Fri, 20 Nov 2026 21:30:00 GMT\r\n"
    "Content-Type: application/json\r\nCache-Control: no-store\r\n"
    "Location: /order/251726847769837568\r\nContent-Length: 201\r\n\r\n"
    "{\"order_id\":\"251726847769837568\",\"sku\":\"sale-0\",\"round\":1,\"user_id\":\"u00123456\","
    "\"qty\":1,\"segment\":17,\"status\":\"reserved\",\"created_at\":\"2026-11-20T21:30:00.123Z\","
    "\"expires_at\":\"2026-11-20T21:31:00.123Z\"}";

struct connection {
    size_t bytes;
    char request[REQUEST_SIZE];
};

static struct connection *connections[DESCRIPTORS_MAX]; /* by descriptor; kept when it is closed */

static void fail(const char *what)
{
    fprintf(stderr, "bare_epoll: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* The length of the first request in the text with its body, 0 while it is incomplete. */
static size_t request_length(const char *text, size_t bytes)
{
    const char *end = memmem(text, bytes, "\r\n\r\n", 4);
    if (end == NULL)
        return 0;
    size_t length = (size_t)(end - text) + 4;
    for (const char *line = text; line < end; line = (const char *)memchr(line, '\n', bytes) + 1)
        if (strncasecmp(line, "Content-Length:", 15) == 0)
            length += strtoul(line + 15, NULL, 10);
    return length <= bytes ? length : 0;
}

static void hang_up(int fd)
{
    connections[fd]->bytes = 0;
    close(fd);
}

static bool is_post(const struct connection *connection)
{
    return connection->bytes > 5 && memcmp(connection->request, "POST ", 5) == 0;
}

static void serve(int fd)
{
    struct connection *connection = connections[fd];
    size_t room = REQUEST_SIZE - 1 - connection->bytes, length;
    ssize_t bytes = recv(fd, connection->request + connection->bytes, room, 0);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (bytes <= 0) {
        hang_up(fd);
        return;
    }
    connection->bytes += (size_t)bytes;
    connection->request[connection->bytes] = '\0';
    while ((length = request_length(connection->request, connection->bytes)) > 0) {
        ssize_t sent = is_post(connection) ? send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL) : -1;
        if (sent != (ssize_t)sizeof answer - 1) {
            hang_up(fd);
            return;
        }
        connection->bytes -= length;
        memmove(connection->request, connection->request + length, connection->bytes + 1);
    }
    if (connection->bytes == REQUEST_SIZE - 1)
        hang_up(fd);
}

static void accept_all(int listener, int loop)
{
    int fd, yes = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        if (fd >= DESCRIPTORS_MAX) {
            close(fd);
            continue;
        }
        if (connections[fd] == NULL && (connections[fd] = calloc(1, sizeof **connections)) == NULL)
            fail("memory");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        if (epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) != 0)
            fail("epoll_ctl");
    }
}

static bool parse_listen(const char *text, struct sockaddr_in *address_out)
{
    char host[INET_ADDRSTRLEN], rest;
    unsigned port;

    *address_out = (struct sockaddr_in){.sin_family = AF_INET};
    if (sscanf(text, "%15[0-9.]:%5u%c", host, &port, &rest) != 2 || port > 65535)
        return false;
    address_out->sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, host, &address_out->sin_addr) == 1;
}

static int listen_at(struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), yes = 1;
    socklen_t size = sizeof *address;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(fd, (struct sockaddr *)address, size) != 0 || listen(fd, LISTEN_BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)address, &size) != 0)
        fail("cannot listen");
    return fd;
}

static void announce(const struct sockaddr_in *address)
{
    char host[INET_ADDRSTRLEN], now[32];
    time_t seconds = time(NULL);

    strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%S.000Z", gmtime(&seconds));
    inet_ntop(AF_INET, &address->sin_addr, host, sizeof host);
    fprintf(stderr, "ts=%s level=info event=listening address=%s:%u\n", now, host,
            (unsigned)ntohs(address->sin_port));
}

int main(int argc, char **argv)
{
    const char *listen_on = argc == 3 ? argv[2] : "127.0.0.1:0";
    struct epoll_event events[EVENTS_MAX], event = {.events = EPOLLIN};
    struct sockaddr_in address;

    if ((argc != 1 && (argc != 3 || strcmp(argv[1], "--listen") != 0)) ||
        !parse_listen(listen_on, &address)) {
        fprintf(stderr, "usage: bare_epoll [--listen 127.0.0.1:0]\n");
        return 2;
    }
    int listener = listen_at(&address), loop = epoll_create1(EPOLL_CLOEXEC);
    event.data.fd = listener;
    if (loop < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, listener, &event) != 0)
        fail("epoll");
    announce(&address);
    for (;;) {
        int count = epoll_wait(loop, events, EVENTS_MAX, -1);
        if (count < 0 && errno != EINTR)
            fail("epoll_wait");
        for (int i = 0; i < count; i++)
            if (events[i].data.fd == listener)
                accept_all(listener, loop);
            else
                serve(events[i].data.fd);
    }
}
