/* One connection of bytes to a server. */
#include "lua/transport.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/url.h"
#include "lua/dial.h"
#include "lua/tls.h"

/* Without TLS the socket blocks, with the time-out set on it: one system call per send or receive.
 * With TLS lua/tls.c waits by itself. */
struct transport {
    int fd;
    struct tls *tls; /* NULL: plain */
    int timeout_ms;
    char error[TRANSPORT_ERROR_SIZE];
};

struct transport *transport_open(const struct url *url, const struct url_server *server,
                                 int64_t until_ms, int timeout_ms,
                                 char error_out[TRANSPORT_ERROR_SIZE])
{
    int fd = server
                 ? dial_host(server->host, server->port, until_ms, error_out, TRANSPORT_ERROR_SIZE)
                 : dial_path(url->socket, until_ms, error_out, TRANSPORT_ERROR_SIZE);
    if (fd < 0)
        return NULL;
    struct transport *transport = calloc(1, sizeof *transport);
    if (!transport) {
        snprintf(error_out, TRANSPORT_ERROR_SIZE, "out of memory");
        close(fd);
        return NULL;
    }
    transport->fd = fd;
    transport_set_timeout(transport, timeout_ms);
    if (url->tls && server)
        transport->tls = tls_open(fd, url, server->host, until_ms, error_out, TRANSPORT_ERROR_SIZE);
    if (url->tls && !transport->tls)
        transport_close(&transport);
    return transport;
}

void transport_close(struct transport **transport)
{
    if (*transport) {
        tls_close(&(*transport)->tls);
        close((*transport)->fd);
    }
    free(*transport);
    *transport = NULL;
}

void transport_set_timeout(struct transport *transport, int timeout_ms)
{
    const struct timeval timeout = {.tv_sec = timeout_ms / 1000,
                                    .tv_usec = timeout_ms % 1000 * 1000};
    assert(timeout_ms > 0);
    transport->timeout_ms = timeout_ms;
    setsockopt(transport->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(transport->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
}

int transport_fd(const struct transport *transport)
{
    return transport->fd;
}

static void lost(struct transport *transport, const char *why)
{
    snprintf(transport->error, sizeof transport->error, "%s", why);
}

static int64_t deadline(const struct transport *transport)
{
    return clock_now_ms() + transport->timeout_ms;
}

bool transport_send(struct transport *transport, const char *bytes, size_t count, bool more)
{
    if (transport->tls) {
        bool sent = tls_send(transport->tls, bytes, count, more, deadline(transport));
        if (!sent)
            lost(transport, tls_error(transport->tls));
        return sent;
    }
    for (size_t sent = 0; sent < count;) {
        ssize_t done =
            send(transport->fd, bytes + sent, count - sent, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
        if (done >= 0) {
            sent += (size_t)done;
        } else if (errno != EINTR) {
            lost(transport, strerror(errno));
            return false;
        }
    }
    return true;
}

static ptrdiff_t receive_tls(struct transport *transport, char *bytes, size_t size, bool wait)
{
    int64_t until_ms = wait ? deadline(transport) : 0;
    ptrdiff_t count = tls_receive(transport->tls, bytes, size, until_ms);
    if (count < 0)
        lost(transport, tls_error(transport->tls));
    return count;
}

ptrdiff_t transport_receive(struct transport *transport, char *bytes, size_t size, bool wait)
{
    ssize_t count;
    if (transport->tls)
        return receive_tls(transport, bytes, size, wait);
    do
        count = recv(transport->fd, bytes, size, wait ? 0 : MSG_DONTWAIT);
    while (count < 0 && errno == EINTR);
    if (count > 0)
        return count;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    lost(transport, count == 0 ? "Server closed the connection" : strerror(errno));
    return -1;
}

bool transport_pending(const struct transport *transport)
{
    return transport->tls && tls_pending(transport->tls);
}

const char *transport_error(const struct transport *transport)
{
    return transport->error;
}
