/* The Redis scripts, called by EVALSHA in pipelines: one round trip for any number of calls. */
#ifndef LUA_SCRIPT_H
#define LUA_SCRIPT_H

#include <stddef.h>
#include <stdint.h>

#include "lua/redis.h"

/* Every script lua/NAME.lua; each file opens with its keys, arguments and returned numbers: a table
 * of them, one alone, or a text with spaces between them (which costs the server least). */
#define SCRIPTS(X)                                                                                 \
    X(lock_acquire)                                                                                \
    X(lock_release)                                                                                \
    X(lock_renew)                                                                                  \
    X(lock_red)                                                                                    \
    X(lock_reenter)                                                                                \
    X(lock_reenter_renew)                                                                          \
    X(lock_reenter_release)                                                                        \
    X(lock_fair)                                                                                   \
    X(lock_fair_leave)                                                                             \
    X(lock_read)                                                                                   \
    X(lock_read_renew)                                                                             \
    X(lock_read_release)                                                                           \
    X(lock_write)                                                                                  \
    X(lock_write_leave)                                                                            \
    X(lock_permits)                                                                                \
    X(lock_permits_renew)                                                                          \
    X(lock_permits_release)                                                                        \
    X(lock_latch_set)                                                                              \
    X(lock_latch_down)                                                                             \
    X(rate_limit)                                                                                  \
    X(fence_raise)                                                                                 \
    X(stock_take)                                                                                  \
    X(stock_settle)                                                                                \
    X(stock_load)                                                                                  \
    X(stock_read)                                                                                  \
    X(stock_drop)                                                                                  \
    X(stock_count)                                                                                 \
    X(stock_return)

#define SCRIPT_ENUM(name) SCRIPT_##name,
enum script_id { SCRIPTS(SCRIPT_ENUM) SCRIPT_COUNT };
#undef SCRIPT_ENUM

enum {
    SCRIPT_PARAMETERS_MAX = 12, /* keys and arguments of one call */
    SCRIPT_TEXT_MAX = 1100,     /* bytes of all of them, with their NULs */
    SCRIPT_VALUES_MAX = 5,      /* numbers that a script returns */
    SCRIPT_KEY_MAX = 144,       /* bytes of one key, with its NUL */
    SCRIPT_MORE_MAX = 1040,     /* parameters of a call that the caller keeps */
};

/* One call: filled by script_begin, script_key, script_text and script_int (keys before arguments),
 * answered by script_run. Self-contained: it may be copied and kept, unless it has `more`. */
struct script_call {
    enum script_id id;
    int keys;
    int parameters;
    size_t used;
    uint16_t offset[SCRIPT_PARAMETERS_MAX];
    char text[SCRIPT_TEXT_MAX];

    /* NULL, or in place of the above, for a call that is too large for it: the parameters, of which
     * the first `keys` are keys, and room for as many numbers. They stay the caller's, until the
     * call was answered. */
    const char *const *more;
    size_t more_count;
    int64_t *more_values;
    size_t more_values_max;

    enum redis_result result;
    int value_count;                   /* 0 unless REDIS_ANSWERED; those of `more`, if it has */
    int64_t values[SCRIPT_VALUES_MAX]; /* what the script returned; 0 beyond value_count */
};

void script_begin(struct script_call *call, enum script_id id);
void script_key(struct script_call *call, const char *key);
void script_text(struct script_call *call, const char *text);
void script_int(struct script_call *call, int64_t value);

/* Sends all calls in one pipeline, connecting first when needed, and fills in their results, each
 * on its own: after a lost connection the calls not yet answered are REDIS_UNKNOWN. The calls run
 * in order: a script's first use on a connection carries its text, so that a server that has just
 * started knows it. Only after a SCRIPT FLUSH on a live connection may calls run late, after others
 * of their pipeline: those whose script it forgot are sent again. Callers must bear that. */
void script_run(struct redis *redis, struct script_call *calls, size_t count);

/* script_run for one call that publishes, with a PING before it: Redis writes first to whom it came
 * to owe something last, so that who is told need not wait until this connection has its answer. */
void script_run_telling(struct redis *redis, struct script_call *call);

/* The two halves of script_run, to ask several servers at once: sends, then takes the answers. Send
 * leaves calls that could not be sent REDIS_FAILED and returns how many were; the connection may be
 * used for nothing else before script_receive was called with that number. */
size_t script_send(struct redis *redis, struct script_call *calls, size_t count);
void script_receive(struct redis *redis, struct script_call *calls, size_t sent);

/* For script_each.c: queues one call (false: out of memory); takes its reply, which it frees, and
 * says true when the server does not know the script; sets a result without an answer. */
bool script_append(struct redis *redis, const struct script_call *call, bool with_text);
bool script_take(struct redis *redis, struct script_call *call, struct redisReply *reply);
void script_forget(struct script_call *call, enum redis_result result);

#endif
