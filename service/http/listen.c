/* Listening sockets, which several HTTP threads share by SO_REUSEPORT. */
#include "service/http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/config/endpoint.h"

enum { BACKLOG = 4096 };

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
    if (shared) /* the kernel spreads new connections over the threads */
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    if (bind(fd, where->ai_addr, where->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int error = errno; /* of bind or listen, for the caller: close may set another */
    close(fd);
    errno = error;
    return -1;
}

int http_listen(const char *address, bool shared, char *address_out, size_t address_size,
                char *error_out, size_t error_size)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    struct endpoint endpoint;
    int fd = -1;
    if (!endpoint_parse(address, &endpoint)) {
        snprintf(error_out, error_size, "not of the form host:port");
        return -1;
    }
    int failed = getaddrinfo(endpoint.host, endpoint.port, &hints, &found);
    if (failed != 0) {
        snprintf(error_out, error_size, "%s", gai_strerror(failed));
        return -1;
    }
    /* A name may have several addresses: the first one that can be bound is served. */
    for (struct addrinfo *where = found; where && fd < 0; where = where->ai_next)
        fd = bind_one(where, shared);
    if (fd < 0)
        snprintf(error_out, error_size, "%s", strerror(errno));
    else
        write_address(fd, address_out, address_size);
    freeaddrinfo(found);
    return fd;
}
