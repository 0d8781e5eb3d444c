/* One connection of bytes to a server: by TCP, with TLS or without, or by a Unix socket. Every wait
 * has a limit, and a server that has gone raises no signal. */
#ifndef LUA_TRANSPORT_H
#define LUA_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct transport;
struct url;
struct url_server;

enum { TRANSPORT_ERROR_SIZE = 256 };

/* Connects to `server`, or where it is NULL to the URL's socket, and shakes hands where the URL
 * says so, all until `until_ms` (clock_now_ms); later sends and receives wait up to `timeout_ms`
 * each. NULL with the reason in `error_out`. Belongs to one thread at a time. */
struct transport *transport_open(const struct url *url, const struct url_server *server,
                                 int64_t until_ms, int timeout_ms,
                                 char error_out[TRANSPORT_ERROR_SIZE]);

/* Closes the connection, without a word to the server, and sets the caller's pointer to NULL. */
void transport_close(struct transport **transport);

void transport_set_timeout(struct transport *transport, int timeout_ms);

/* For poll(2). */
int transport_fd(const struct transport *transport);

/* Sends all of the bytes; `more`: the kernel may keep them back for up to 200 ms, to send them with
 * what follows. False: the connection is lost, and a part may have left. */
bool transport_send(struct transport *transport, const char *bytes, size_t count, bool more);

/* Reads what has come, up to `size` bytes; with `wait` it waits for the first of them. Returns how
 * many; 0: none came in time, or none is there; -1: the connection is lost. */
ptrdiff_t transport_receive(struct transport *transport, char *bytes, size_t size, bool wait);

/* True when bytes are there that poll(2) knows nothing of. */
bool transport_pending(const struct transport *transport);

/* Why the connection is lost. */
const char *transport_error(const struct transport *transport);

#endif
