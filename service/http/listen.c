/* Listening sockets, which several fronts share by SO_REUSEPORT. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/http/loop.h"

enum { BACKLOG = 4096, HOST_MAX = 256 };

/* Splits host:port or [host]:port. */
static bool split(const char *address, char *host, const char **port_out)
{
    const char *colon = strrchr(address, ':');
    size_t length = colon ? (size_t)(colon - address) : 0;
    if (!colon || length >= HOST_MAX)
        return false;
    if (length >= 2 && address[0] == '[' && address[length - 1] == ']') {
        address++;
        length -= 2;
    }
    memcpy(host, address, length);
    host[length] = '\0';
    *port_out = colon + 1;
    return true;
}

static void write_address(int fd, char *out, size_t size)
{
    struct sockaddr_storage storage;
    socklen_t length = sizeof storage;
    char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
    getsockname(fd, (struct sockaddr *)&storage, &length);
    getnameinfo((struct sockaddr *)&storage, length, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(out, size, storage.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

static int bind_one(const struct addrinfo *where, bool shared)
{
    int one = 1;
    int fd = socket(where->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (shared)
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    if (bind(fd, where->ai_addr, where->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

int http_listen(const char *address, bool shared, char *address_out, size_t address_size,
                char *error_out, size_t error_size)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    char host[HOST_MAX];
    const char *port = NULL;
    int fd = -1;
    if (!split(address, host, &port)) {
        snprintf(error_out, error_size, "not of the form host:port");
        return -1;
    }
    int failed = getaddrinfo(host[0] != '\0' ? host : NULL, port, &hints, &found);
    if (failed != 0) {
        snprintf(error_out, error_size, "%s", gai_strerror(failed));
        return -1;
    }
    for (struct addrinfo *where = found; where && fd < 0; where = where->ai_next)
        fd = bind_one(where, shared);
    if (fd < 0)
        snprintf(error_out, error_size, "%s", strerror(errno));
    else
        write_address(fd, address_out, address_size);
    freeaddrinfo(found);
    return fd;
}
