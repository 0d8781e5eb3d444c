/* What operators ask of the Redis kinds: status, break, check. */
#include "lock/redis/operator.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "lock/text.h"

/* Reading is harmless, and a DEL whose answer is lost finds nothing the second time: so all of
 * these commands may be sent again. */
enum seclock_result redis_commands(struct redis_server *server, struct command *commands,
                                   size_t count)
{
    assert(count > 0);
    enum seclock_result result = SECLOCK_OK;
    struct redis *redis = redis_server_take(server);
    if (!redis)
        return lock_fail(SECLOCK_FAILED, "out of memory");
    command_run(redis, commands, count);
    bool lost = false;
    for (size_t i = 0; i < count; i++)
        lost = lost || commands[i].result == REDIS_UNKNOWN;
    if (lost) {
        command_clear(commands, count);
        command_run(redis, commands, count);
    }
    for (size_t i = 0; i < count && result == SECLOCK_OK; i++)
        if (commands[i].result != REDIS_ANSWERED) {
            redis_server_failed(server, redis);
            result = commands[i].result == REDIS_UNKNOWN ? SECLOCK_UNKNOWN : SECLOCK_FAILED;
        }
    redis_server_give(server, redis);
    return result;
}

enum seclock_result redis_break(const struct lock_driver *driver, void *self, const char *name)
{
    const struct redis_row *row = driver->row;
    enum { OTHERS_MAX = sizeof row->others / sizeof row->others[0] };
    char keys[1 + OTHERS_MAX][SCRIPT_KEY_MAX];
    const char *message = row->message[0] == '*' ? "*" : "1";
    struct command commands[] = {{.argc = 2, .argv = {"DEL", keys[0]}},
                                 {.argc = 3, .argv = {"PUBLISH", keys[0], message}}};
    redis_server_key(self, name, row->field, keys[0]);
    for (int i = 0; i < OTHERS_MAX && row->others[i]; i++) {
        redis_server_key(self, name, row->others[i], keys[1 + i]);
        assert(commands[0].argc < COMMAND_ARGS_MAX);
        commands[0].argv[commands[0].argc++] = keys[1 + i];
    }
    enum seclock_result result = redis_commands(self, commands, 2);
    if (result == SECLOCK_OK && command_int(&commands[0], -1) == 0)
        result = SECLOCK_NOT_OWNER;
    command_clear(commands, 2);
    return result;
}

/* ---- status ---- */

/* The fence outlives the hold, so it is shown for a free lock as well. */
static void status_fill(struct seclock_status *status, const char *holder, int64_t count,
                        const struct command *ttl, const struct command *fence)
{
    status->held = holder != NULL;
    if (holder) {
        snprintf(status->holder, sizeof status->holder, "%s", holder);
        status->count = count;
        status->remaining_ms = command_int(ttl, -1);
    }
    status->fence = (uint64_t)command_int(fence, -1);
}

enum seclock_result redis_string_status(const struct lock_driver *driver, void *self,
                                        const char *name, struct seclock_status *status_out)
{
    const struct redis_row *row = driver->row;
    char lock[SCRIPT_KEY_MAX], fence[SCRIPT_KEY_MAX];
    struct command commands[] = {{.argc = 2, .argv = {"GET", lock}},
                                 {.argc = 2, .argv = {"PTTL", lock}},
                                 {.argc = 2, .argv = {"GET", fence}}};
    redis_server_key(self, name, row->field, lock);
    redis_server_key(self, name, "fence", fence);
    enum seclock_result result = redis_commands(self, commands, 3);
    if (result == SECLOCK_OK)
        status_fill(status_out, command_text(&commands[0], -1, NULL), 1, &commands[1],
                    &commands[2]);
    command_clear(commands, 3);
    return result;
}

/* The commands are not atomic together: an operator sees a lock that changes meanwhile with the
 * one value or the other. */
enum seclock_result redis_hash_status(const struct lock_driver *driver, void *self,
                                      const char *name, struct seclock_status *status_out)
{
    const struct redis_row *row = driver->row;
    char lock[SCRIPT_KEY_MAX], fence[SCRIPT_KEY_MAX];
    struct command commands[] = {{.argc = 3, .argv = {"HGET", lock, "o"}},
                                 {.argc = 2, .argv = {"PTTL", lock}},
                                 {.argc = 2, .argv = {"GET", fence}},
                                 {.argc = 2, .argv = {"HLEN", lock}}};
    redis_server_key(self, name, row->field, lock);
    redis_server_key(self, name, "fence", fence);
    enum seclock_result result = redis_commands(self, commands, 4);
    if (result == SECLOCK_OK) /* all fields but `o` and `f` are holds */
        status_fill(status_out, command_text(&commands[0], -1, NULL),
                    command_int(&commands[3], -1) - 2, &commands[1], &commands[2]);
    command_clear(commands, 4);
    return result;
}

static void set_status_fill(const struct command *commands, char mark,
                            struct seclock_status *status)
{
    size_t length = 0;
    const char *last = command_text(&commands[0], 0, &length);
    int64_t now_ms = command_int(&commands[2], 0) * 1000 + command_int(&commands[2], 1) / 1000;
    int64_t left_ms = command_int(&commands[0], 1) - now_ms;
    if (!last || left_ms <= 0)
        return;
    status->held = true;
    status->remaining_ms = left_ms;
    status->count = command_int(&commands[1], -1);
    for (size_t i = 0; i < length && i + 1 < sizeof status->holder && last[i] != mark; i++)
        status->holder[i] = last[i];
}

enum seclock_result redis_set_status(struct redis_server *server, const char *name,
                                     const char *field, char mark,
                                     struct seclock_status *status_out)
{
    char holds[SCRIPT_KEY_MAX];
    struct command commands[] = {{.argc = 5, .argv = {"ZRANGE", holds, "-1", "-1", "WITHSCORES"}},
                                 {.argc = 2, .argv = {"ZCARD", holds}},
                                 {.argc = 1, .argv = {"TIME"}}};
    redis_server_key(server, name, field, holds);
    enum seclock_result result = redis_commands(server, commands, 3);
    if (result == SECLOCK_OK)
        set_status_fill(commands, mark, status_out);
    command_clear(commands, 3);
    return result;
}

/* ---- check ---- */

/* An evicting server may drop a lock that is held, and nobody would notice until the next
 * renewal. */
enum seclock_result redis_check(void *self, char *warning_out, size_t size)
{
    struct command command = {.argc = 3, .argv = {"CONFIG", "GET", "maxmemory-policy"}};
    enum seclock_result result = redis_commands(self, &command, 1);
    const char *policy = command_text(&command, 1, NULL);
    if (policy && strcmp(policy, "noeviction") != 0)
        snprintf(warning_out, size, "Redis may evict locks: maxmemory-policy is %s, not noeviction",
                 policy);
    command_clear(&command, 1);
    return result == SECLOCK_UNKNOWN ? SECLOCK_UNKNOWN : SECLOCK_OK; /* CONFIG may be forbidden */
}
