/* Runs plain Redis commands in a pipeline, where no script is needed; replies have any shape. */
#ifndef LUA_COMMAND_H
#define LUA_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lua/redis.h"

enum { COMMAND_ARGS_MAX = 8 };

/* One command. The caller sets argc, argv and, for arguments that are not NUL-terminated text,
 * lengths. The caller owns the texts and keeps them until command_run returns. */
struct command {
    int argc;
    const char *argv[COMMAND_ARGS_MAX];
    size_t lengths[COMMAND_ARGS_MAX]; /* 0: the length of the text */

    enum redis_result result;
    struct redisReply *reply; /* NULL unless REDIS_ANSWERED; freed by command_clear */
};

/* Sends all commands in one pipeline, connecting first when needed, and sets the result of each:
 * after a lost connection the commands not yet answered are REDIS_UNKNOWN. An error reply makes a
 * command REDIS_FAILED and leaves its text in redis_error. In a cluster the commands are split by
 * their nodes, see lua/cluster/cluster.h. */
void command_run(struct redis *redis, struct command *commands, size_t count);

/* For lua/cluster/. command_append queues one command; false: out of memory. command_take sets
 * its result from its reply, NULL when the connection is lost, and keeps or frees the reply.
 * command_key returns the first key, or NULL when the command has none. */
bool command_append(struct redis *redis, const struct command *command);
void command_take(struct redis *redis, struct command *command, struct redisReply *reply);
const char *command_key(const struct command *command, size_t *length_out);

/* True when the last commands were refused, and not done, because a cluster moves their slot: they
 * may be tried again from the WATCH on. */
bool command_moving(const struct redis *redis);

/* Frees the replies. */
void command_clear(struct command *commands, size_t count);

/* The reply, or its element i of an array (-1: the reply itself), as a number: 0 when it is neither
 * an integer nor text with one. */
int64_t command_int(const struct command *command, int i);

/* The reply, or its element i, as text; NULL for nil or another type. Valid until command_clear. */
const char *command_text(const struct command *command, int i, size_t *length_out);

/* The number of elements of an array reply; -1 when the reply is no array, or nil, as from an EXEC
 * that Redis refused. */
int command_count(const struct command *command);

#endif
