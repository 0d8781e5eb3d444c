/* Calls the Redis scripts by EVALSHA in pipelines: one round trip for any number of calls. */
#ifndef LUA_SCRIPT_H
#define LUA_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lua/redis.h"
#include "lua_script_names.h"

/* The scripts of lua/scripts/, by their names. Each file opens with its keys, its arguments and the
 * numbers that it returns: as a table, as one number, or as a text with spaces between the numbers,
 * which costs the server least. */
#define SCRIPT_ENUM(name) SCRIPT_##name,
enum script_id { SCRIPTS(SCRIPT_ENUM) SCRIPT_COUNT };
#undef SCRIPT_ENUM

enum {
    SCRIPT_PARAMETERS_MAX = 12, /* keys and arguments of one call */
    SCRIPT_TEXT_MAX = 1100,     /* bytes of all of them, with their NULs */
    SCRIPT_VALUES_MAX = 5,      /* numbers that a script returns */
    SCRIPT_KEY_MAX = 160,       /* bytes of one key, with its NUL */
    SCRIPT_MORE_MAX = 1040,     /* parameters of a call that the caller keeps */
};

/* One call: script_begin, script_key, script_text and script_int fill it (keys before arguments),
 * and script_run sets its result. It may be copied and kept, unless it has `more`. */
struct script_call {
    enum script_id id;
    int keys;
    int parameters;
    size_t used;
    uint16_t offset[SCRIPT_PARAMETERS_MAX];
    char text[SCRIPT_TEXT_MAX];

    /* For a call that is too large for `text`: all parameters, the first `keys` of them keys, and
     * room for the numbers that the script returns. The caller owns both and keeps them until the
     * call is answered. NULL for any other call. */
    const char *const *more;
    size_t more_count;
    int64_t *more_values;
    size_t more_values_max;

    enum redis_result result;
    int value_count; /* 0 unless REDIS_ANSWERED; of more_values, if the call has `more` */
    int64_t values[SCRIPT_VALUES_MAX]; /* the script's values; 0 beyond value_count */
};

/* script_begin starts a call of this script without parameters; the others append one parameter
 * each, which they copy. */
void script_begin(struct script_call *call, enum script_id id);
void script_key(struct script_call *call, const char *key);
void script_text(struct script_call *call, const char *text);
void script_int(struct script_call *call, int64_t value);

/* Sends all calls in one pipeline, connecting first when needed, and sets the result of each call:
 * after a lost connection the calls not yet answered are REDIS_UNKNOWN. The calls run in order,
 * because a script's first use on a connection carries its text, so that a server that has just
 * started knows the script. The exception is a SCRIPT FLUSH while the connection lives: calls whose
 * script the server forgot are sent again and run after the rest of their pipeline. Callers must
 * bear that. Neighbouring calls of stock_take or of stock_settle go as one, which the server runs
 * without another client's commands in between; each gets its own result. In a cluster every call
 * goes by itself, to its node, and only those of one slot run in order, see
 * lua/cluster/cluster.h; each call has a key. */
void script_run(struct redis *redis, struct script_call *calls, size_t count);

/* False when the last script_run or command_run lost Redis, or did not reach it. In a cluster: when
 * no node answered it or is connected; the result of each call says more. */
bool script_alive(const struct redis *redis);

/* Does script_run for one call whose script publishes, with a PING before it, so that Redis
 * delivers the message to subscribers before it replies here: Redis serves the connection first to
 * which it owed output last. */
void script_run_telling(struct redis *redis, struct script_call *call);

/* For script_each.c and lua/cluster/. script_append queues calls of one script as one command;
 * false: out of memory. script_take sets the call's result from its reply (NULL: the connection is
 * lost), and returns true when the server does not know the script. script_forget sets a result
 * without values. script_name is the name of the call's script. */
bool script_append(struct redis *redis, const struct script_call *calls, size_t count,
                   bool with_text);
bool script_take(struct redis *redis, struct script_call *call, const struct redisReply *reply);
void script_forget(struct script_call *call, enum redis_result result);
const char *script_name(const struct script_call *call);

#endif
