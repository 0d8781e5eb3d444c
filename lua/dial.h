/* Connects a socket to a server, within a time limit. */
#ifndef LUA_DIAL_H
#define LUA_DIAL_H

#include <stddef.h>
#include <stdint.h>

struct url_server;

/* Connects to `server`, or if that is NULL to the Unix socket of that path. Tries the addresses of
 * the host's name in turn; everything, with the look-up, ends by `until_ms` (clock_now_ms). Returns
 * a socket that blocks, for the caller to close, or -1 with the reason in `error_out`. A program
 * that this process starts does not get the socket. Keepalive closes a TCP connection whose host
 * has not answered for 20 s, so that a reader who never sends learns of it. Any thread. */
int dial(const struct url_server *server, const char *path, int64_t until_ms, char *error_out,
         size_t error_size);

#endif
