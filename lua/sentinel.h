/* Which server is the master, by the word of its sentinels. */
#ifndef LUA_SENTINEL_H
#define LUA_SENTINEL_H

#include <stddef.h>
#include <stdint.h>

#include "lua/wire.h"

struct url;

/* Asks the sentinels of `url` in turn, from number `*first` on, for the master, and connects to the
 * one that they name, logs in and sees that it is one: a sentinel may not have heard of the present
 * master yet. A sentinel that does not answer costs half of the time that is left; all is over at
 * `until_ms` (clock_now_ms). Later waits on the connection last up to `timeout_ms`.
 *
 * Returns the connection, with its place in `master_out` and the sentinel that knew it in `*first`;
 * NULL with the last reason in `error_out`, and another sentinel in `*first`. */
struct wire *sentinel_connect(const struct url *url, size_t *first, int64_t until_ms,
                              int timeout_ms, struct url_server *master_out,
                              char error_out[TRANSPORT_ERROR_SIZE]);

#endif
