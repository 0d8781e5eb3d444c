/* Plain Redis commands in a pipeline, for what needs no script, and their replies of any shape. */
#ifndef LUA_COMMAND_H
#define LUA_COMMAND_H

#include <stddef.h>
#include <stdint.h>

#include "lua/redis.h"

enum { COMMAND_ARGS_MAX = 8 };

/* One command. The caller sets argc, argv and, for arguments that are not NUL-terminated text,
 * their lengths; the texts are its own and must last until command_run returns. */
struct command {
    int argc;
    const char *argv[COMMAND_ARGS_MAX];
    size_t lengths[COMMAND_ARGS_MAX]; /* 0: that of the text */

    enum redis_result result;
    struct redisReply *reply; /* NULL unless REDIS_ANSWERED; freed by command_clear */
};

/* Sends all commands in one pipeline, connecting first when needed, and takes their replies, each
 * on its own: after a lost connection those not yet answered are REDIS_UNKNOWN. An error reply is
 * REDIS_FAILED, with its text in redis_error. */
void command_run(struct redis *redis, struct command *commands, size_t count);

/* Frees the replies. */
void command_clear(struct command *commands, size_t count);

/* The reply, or its element i of an array (-1: the reply itself), as a number: 0 when it is neither
 * an integer nor text that is one. */
int64_t command_int(const struct command *command, int i);

/* The same as text; NULL when it is nil or no text. Valid until command_clear. */
const char *command_text(const struct command *command, int i, size_t *length_out);

/* Elements of an array reply; -1 when it is nil (an EXEC that was refused) or no array. */
int command_count(const struct command *command);

#endif
