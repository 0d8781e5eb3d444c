/* Opens connections to Redis servers, logs in and checks the server's kind: of a server at an
 * address, or of the master that sentinels name. */
#ifndef LUA_CONNECT_H
#define LUA_CONNECT_H

#include "lua/wire.h"

/* Connects to `server`, or if that is NULL to the URL's socket, logs in, selects the database and
 * asks for the server's kind, all until `until_ms` (clock_now_ms). Later waits on the connection
 * last up to `timeout_ms`. NULL with the reason in `error_out`: the connection fails, the server
 * refuses, or its kind does not fit the URL's scheme; then the reason names the right scheme. A
 * server that does not tell its kind is accepted. */
struct wire *connect_server(const struct url *url, const struct url_server *server,
                            int64_t until_ms, int timeout_ms, char error_out[WIRE_ERROR_SIZE]);

/* Asks the sentinels of `url` in turn, from number `*first` on, for the master, and connects to it
 * as connect_server does. Skips a server that is not a master: a sentinel may not know the present
 * master yet. A sentinel that does not answer costs half of the time that is left.
 *
 * Returns the connection, with the master's address in `master_out` and the sentinel that knew it
 * in `*first`; NULL with the last reason in `error_out`, and another sentinel in `*first`. */
struct wire *connect_master(const struct url *url, size_t *first, int64_t until_ms, int timeout_ms,
                            struct url_server *master_out, char error_out[WIRE_ERROR_SIZE]);

#endif
