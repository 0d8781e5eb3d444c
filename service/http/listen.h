/* Listening sockets: bound here or passed by systemd, shared by HTTP threads, and closed so that no
 * client that has connected is lost. */
#ifndef SECKILL_SERVICE_HTTP_LISTEN_H
#define SECKILL_SERVICE_HTTP_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

enum { LISTENER_SOCKETS_MAX = 64 };

/* The sockets of one address, one for each HTTP thread. The caller owns the descriptors. */
struct listener {
    int fds[LISTENER_SOCKETS_MAX];
    unsigned count;    /* 0: none */
    bool inherited;    /* from systemd, which keeps them open for the next daemon */
    char address[300]; /* as the log names it, with the real port */
};

/* Sockets that may be bound to the same address and port. */
enum listener_share {
    LISTENER_OWN,    /* only this listener's */
    LISTENER_SHARED, /* this user's other processes that share, too (SO_REUSEPORT) */
};

/* Binds `count` sockets to `address` (host:port; port 0: a free one); listener_listen lets clients
 * in. On failure returns false with the reason in `error_out`, and leaves no socket open. */
bool listener_bind(struct listener *listener, const char *address, unsigned count,
                   enum listener_share share, char *error_out, size_t error_size);

/* Binds one socket to the file `path`, with mode 0660 before anybody can connect, and listens.
 * Replaces a socket that nobody listens on; refuses to replace another kind of file or a served
 * socket. If two processes replace it at once, clients reach the later one. False with the
 * reason. */
bool listener_bind_unix(struct listener *listener, const char *path, char *error_out,
                        size_t error_size);

/* Takes the listening sockets that systemd passed under `name` (LISTEN_FDS, LISTEN_FDNAMES; NULL:
 * under every name but "admin") and shares them among `count` threads. True with a count of 0 when
 * there are none; false with the reason in `error_out` when they cannot be used. Main thread, once
 * per name. */
bool listener_inherit(struct listener *listener, const char *name, unsigned count, char *error_out,
                      size_t error_size);

/* Lets clients connect. False with errno; harmless for inherited sockets, which listen already. */
bool listener_listen(const struct listener *listener);

/* Writes why, and returns false. */
bool listener_refuse(char *error_out, size_t error_size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Closes the sockets from number `first` on. */
void listener_close(struct listener *listener, unsigned first);

/* Makes the kernel ignore further attempts to connect, as if their packets were lost: clients try
 * again within a second, and find the socket closed or another daemon. Handshakes under way are
 * completed. False, with nothing changed, where that is impossible (Unix sockets). */
bool listener_ignore_new(int fd);

/* True when a connected client waits to be accepted. */
bool listener_has_waiting(int fd);

#endif
