/* Connects a socket to a server, within a time limit. */
#include "lua/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/keepalive.h"
#include "base/resolve.h"
#include "base/url.h"

/* Waits for the end of a connect that is under way. Returns 0, or its errno. */
static int await_connect(int fd, int64_t until_ms)
{
    struct pollfd poller = {.fd = fd, .events = POLLOUT};
    int error = 0, ready;
    socklen_t size = sizeof error;
    do {
        int64_t left_ms = until_ms - clock_now_ms();
        if (left_ms <= 0)
            return ETIMEDOUT;
        ready = poll(&poller, 1, (int)left_ms);
    } while (ready == 0 || (ready < 0 && errno == EINTR));
    if (ready < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        return errno;
    return error;
}

/* Connects without blocking, so that the wait has a limit. Returns 0, or the errno. */
static int connect_to(int fd, const struct sockaddr *address, socklen_t size, int64_t until_ms)
{
    int error = connect(fd, address, size) == 0 ? 0 : errno;
    if (error == EINPROGRESS)
        error = await_connect(fd, until_ms);
    if (error == 0 && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) != 0)
        error = errno;
    return error;
}

static int dial_socket(const struct sockaddr *address, socklen_t size, int64_t until_ms,
                       int *error_out)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *error_out = fd < 0 ? errno : connect_to(fd, address, size, until_ms);
    if (fd >= 0 && *error_out != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void set_options(int fd)
{
    /* A pipeline is sent whole, and its last packet must not wait for an answer. */
    static const int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    keepalive_set(fd); /* a subscriber only listens */
}

static int dial_address(const char *address, unsigned port, int64_t until_ms, int *error_out)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[12];
    snprintf(service, sizeof service, "%u", port);
    *error_out = EADDRNOTAVAIL;
    if (getaddrinfo(address, service, &hints, &found) != 0)
        return -1;
    int fd = dial_socket(found->ai_addr, found->ai_addrlen, until_ms, error_out);
    freeaddrinfo(found);
    if (fd >= 0)
        set_options(fd);
    return fd;
}

static int dial_host(const struct url_server *server, int64_t until_ms, char *error_out,
                     size_t error_size)
{
    struct resolved found = {.count = 0};
    int64_t left_ms = until_ms - clock_now_ms();
    const char *wrong = left_ms > 0 ? resolve_host(server->host, (int)left_ms, &found)
                                    : "no time is left for the connect";
    int fd = -1, error = 0;
    for (size_t i = 0; !wrong && fd < 0 && i < found.count; i++)
        fd = dial_address(found.addresses[i], server->port, until_ms, &error);
    if (fd < 0)
        snprintf(error_out, error_size, "%s", wrong ? wrong : strerror(error));
    return fd;
}

int dial(const struct url_server *server, const char *path, int64_t until_ms, char *error_out,
         size_t error_size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int error = ENAMETOOLONG, fd = -1;
    if (server)
        return dial_host(server, until_ms, error_out, error_size);
    if (strlen(path) < sizeof address.sun_path) {
        strcpy(address.sun_path, path);
        fd = dial_socket((const struct sockaddr *)&address, sizeof address, until_ms, &error);
    }
    if (fd < 0)
        snprintf(error_out, error_size, "%s", strerror(error));
    return fd;
}
