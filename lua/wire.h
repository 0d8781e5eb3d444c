/* Carries the commands and replies of one connection to a Redis server or a sentinel: by TCP, with
 * or without TLS, or by a Unix socket. Every wait has a limit, and a server that has gone raises no
 * signal. After an error the connection is lost: replies carry no id, so none can be told from
 * another. */
#ifndef LUA_WIRE_H
#define LUA_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redisReply;
struct url;
struct url_server;
struct wire;

enum { WIRE_ERROR_SIZE = 256 };

/* Connects to `server`, or if that is NULL to the URL's socket, and makes the TLS handshake if the
 * URL asks for TLS, all until `until_ms` (clock_now_ms); later sends and receives wait up to
 * `timeout_ms` each. NULL with the reason in `error_out`. Belongs to one thread at a time. */
struct wire *wire_open(const struct url *url, const struct url_server *server, int64_t until_ms,
                       int timeout_ms, char error_out[WIRE_ERROR_SIZE]);

/* Closes the connection without telling the server, and sets the caller's pointer to NULL. */
void wire_close(struct wire **wire);

void wire_set_timeout(struct wire *wire, int timeout_ms);

/* Bounds further waits by the time left until `until_ms` (clock_now_ms); at least a moment. */
void wire_set_deadline(struct wire *wire, int64_t until_ms);

/* For poll(2). */
int wire_fd(const struct wire *wire);

/* Queues one command; false when memory ran out, and then nothing of the command is queued.
 * `lengths` may be NULL when all arguments are text. */
bool wire_append(struct wire *wire, int argc, const char *const *argv, const size_t *lengths);

/* Sends the queue; `lazily`: with the next commands, or after 200 ms. False: the connection is
 * lost, and a part may have left. */
bool wire_flush(struct wire *wire, bool lazily);

/* Sends of the queue what the socket takes at once, `lazily` or not; the next call goes on. False:
 * the connection is lost, and a part may have left. wire_unsent tells whether something is left,
 * for which a caller polls with POLLOUT. Between the two, nothing calls wire_flush. */
bool wire_push(struct wire *wire, bool lazily);
bool wire_unsent(const struct wire *wire);

/* Sends the queue and waits for the reply to the oldest command not yet answered, which the caller
 * frees with freeReplyObject: one time-out until it begins to come, and one more until it is
 * complete. NULL: the connection is lost. */
struct redisReply *wire_receive(struct wire *wire);

/* Reads what has arrived, without waiting. False: the connection is lost. */
bool wire_fill(struct wire *wire);

/* Writes the next complete reply among what was read, which the caller frees, or NULL. False: the
 * connection is lost. */
bool wire_parsed(struct wire *wire, struct redisReply **reply_out);

/* True when the connection is lost: further calls fail at once. wire_error says why. */
bool wire_lost(const struct wire *wire);
const char *wire_error(const struct wire *wire);

#endif
