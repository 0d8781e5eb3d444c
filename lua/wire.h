/* The commands and replies of one connection to a Redis server or a sentinel. Whoever holds it
 * drops it at the first error: replies carry no id, so none can be told from another after that. */
#ifndef LUA_WIRE_H
#define LUA_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lua/transport.h"

struct redisReply;
struct wire;

/* As transport_open. */
struct wire *wire_open(const struct url *url, const struct url_server *server, int64_t until_ms,
                       int timeout_ms, char error_out[TRANSPORT_ERROR_SIZE]);

/* As transport_close. */
void wire_close(struct wire **wire);

void wire_set_timeout(struct wire *wire, int timeout_ms);

/* Bounds further waits by what is left until then, by clock_now_ms; at least a moment. */
void wire_set_deadline(struct wire *wire, int64_t until_ms);
int wire_fd(const struct wire *wire);

/* Queues one command; false when memory ran out, and then nothing of the command is queued.
 * `lengths` may be NULL when all arguments are text. */
bool wire_append(struct wire *wire, int argc, const char *const *argv, const size_t *lengths);

/* Sends what is queued; `lazily`: with what comes next, or after 200 ms. False: the connection is
 * lost. */
bool wire_flush(struct wire *wire, bool lazily);

/* Sends what is queued and waits for the reply to the oldest command not yet answered, which the
 * caller frees with freeReplyObject: for one time-out until it begins to come, and for one more
 * until it is there. NULL: the connection is lost. */
struct redisReply *wire_receive(struct wire *wire);

/* Reads what has come, without waiting. False: the connection is lost. */
bool wire_fill(struct wire *wire);

/* The next complete reply among what was read, which the caller frees. False: the connection is
 * lost; else NULL in `reply_out` means that there is none. */
bool wire_parsed(struct wire *wire, struct redisReply **reply_out);

/* wire_receive for the reply to `command`, which is no error. NULL when there is none, or an error,
 * whose text is in wire_error behind the command's name; then `lost` tells them apart. */
struct redisReply *wire_answer(struct wire *wire, const char *command, bool *lost_out);

/* Sends one command and waits for its reply as wire_answer does. */
struct redisReply *wire_ask(struct wire *wire, int argc, const char *const *argv, bool *lost_out);

/* Logs in with what is not empty; wire_append_login only queues the command, and returns true
 * without one when there is no password. False: the connection is lost or the server refuses, or
 * memory ran out. */
bool wire_append_login(struct wire *wire, const char *user, const char *password);
bool wire_login(struct wire *wire, const char *user, const char *password);

/* Whether the server has said anything yet, and whether the last answer did not come in time. */
bool wire_answered(const struct wire *wire);
bool wire_late(const struct wire *wire);

/* Why the connection is lost, or what the server refused. Valid until the next call. */
const char *wire_error(const struct wire *wire);

#endif
