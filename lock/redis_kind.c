/* What the Redis kinds have in common: calls, renewals in pipelines, waiting, looking, breaking. */
#include "lock/redis_kind.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "lock/waiter.h"

enum {
    RENEW_CHUNK = 32,
    PATIENCE_MS_MIN = 5,
    WAIT_MS_UNTOLD = 50,
    BREAK_FIELDS_MAX = COMMAND_ARGS_MAX - 1
};

enum seclock_result redis_kind_open(const struct lock_context *context, void **self_out)
{
    *self_out = lock_core_redis(context->core);
    return *self_out ? SECLOCK_OK : SECLOCK_CONFIG;
}

void redis_kind_close(void *self)
{
    (void)self; /* the server belongs to the core */
}

void redis_kind_key(const struct redis_server *server, struct script_call *call, const char *name,
                    const char *field)
{
    char key[SCRIPT_KEY_MAX];
    redis_server_key(server, name, field, key);
    script_key(call, key);
}

static enum seclock_result answer(const struct script_call *call, enum seclock_result no)
{
    enum seclock_result result = redis_server_result(call);
    return result == SECLOCK_OK && call->values[0] != 1 ? no : result;
}

enum seclock_result redis_kind_run(struct redis_server *server, struct script_call *call,
                                   enum seclock_result no)
{
    redis_server_run(server, call, 1, true);
    return answer(call, no);
}

enum seclock_result redis_kind_tell(struct redis_server *server, struct script_call *call,
                                    enum seclock_result no)
{
    redis_server_tell(server, call);
    return answer(call, no);
}

enum seclock_result redis_kind_acquire(struct redis_server *server, struct seclock_handle *handle,
                                       struct script_call *call)
{
    enum seclock_result result = redis_kind_run(server, call, SECLOCK_BUSY);
    if (result == SECLOCK_OK) {
        handle->fence = (uint64_t)call->values[1];
        handle->hold_count = (int)call->values[2];
    } else if (result == SECLOCK_BUSY) {
        handle->busy_ms = call->values[1];
    } else if (result == SECLOCK_FAILED && strncmp(seclock_error(), "WRONGTYPE", 9) == 0) {
        result = SECLOCK_CONFIG; /* a key of ours is in use for something else */
    }
    return result;
}

/* An answer that comes after the first of the deadlines is of no use, and meanwhile the watchdog
 * could not tell anybody of a loss. */
static int patience_ms(struct seclock_handle *const *handles, size_t count)
{
    int64_t now_ns = lock_core_now_ns(handles[0]->core);
    int64_t left_ms = SECLOCK_LEASE_MS_MAX;
    for (size_t i = 0; i < count; i++) {
        int64_t of_this_ms = (handles[i]->deadline_ns - now_ns) / 1000000;
        left_ms = of_this_ms < left_ms ? of_this_ms : left_ms;
    }
    return left_ms > PATIENCE_MS_MIN ? (int)left_ms : PATIENCE_MS_MIN;
}

void redis_kind_renew(struct redis_server *server, struct seclock_handle *const *handles,
                      size_t count, enum seclock_result *results_out,
                      void (*fill)(const struct redis_server *server,
                                   const struct seclock_handle *handle,
                                   struct script_call *call_out))
{
    struct script_call calls[RENEW_CHUNK];
    for (size_t done = 0, chunk; done < count; done += chunk) {
        chunk = count - done < RENEW_CHUNK ? count - done : RENEW_CHUNK;
        for (size_t i = 0; i < chunk; i++)
            fill(server, handles[done + i], &calls[i]);
        redis_server_run_within(server, calls, chunk, patience_ms(handles + done, chunk));
        for (size_t i = 0; i < chunk; i++) {
            struct seclock_handle *handle = handles[done + i];
            results_out[done + i] = answer(&calls[i], SECLOCK_LOST);
            uint64_t none = 0; /* the holder's own thread may renew it meanwhile */
            if (results_out[done + i] == SECLOCK_OK)
                atomic_compare_exchange_strong(&handle->fence, &none, (uint64_t)calls[i].values[1]);
        }
    }
}

void redis_kind_wait(struct redis_server *server, struct seclock_handle *handle, const char *field,
                     const char *suffix, int wait_ms)
{
    char channel[SCRIPT_KEY_MAX + SECLOCK_TOKEN_MAX];
    if (!handle->waiting) {
        redis_server_key(server, handle->name, field, channel);
        if (suffix)
            snprintf(channel + strlen(channel), SECLOCK_TOKEN_MAX, ":%s", suffix);
        handle->waiting = waiter_join(redis_server_waiters(server), channel);
    }
    if (handle->waiting)
        waiter_sleep(handle->waiting, wait_ms, handle->cancel_fd);
    else
        lock_sleep_ms(wait_ms < WAIT_MS_UNTOLD ? wait_ms : WAIT_MS_UNTOLD, handle->cancel_fd);
}

void redis_kind_stop_waiting(struct seclock_handle *handle)
{
    struct waiter *waiter = handle->waiting;
    if (waiter)
        waiter_leave(&waiter);
    handle->waiting = NULL;
}

enum seclock_result redis_kind_commands(struct redis_server *server, struct command *commands,
                                        size_t count)
{
    enum seclock_result result = SECLOCK_OK;
    struct redis *redis = redis_server_take(server);
    if (!redis) {
        lock_set_error("out of memory");
        return SECLOCK_FAILED;
    }
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
            lock_set_error("%s", redis_error(redis));
            result = commands[i].result == REDIS_UNKNOWN ? SECLOCK_UNKNOWN : SECLOCK_FAILED;
        }
    redis_server_give(server, redis);
    return result;
}

enum seclock_result redis_kind_break(struct redis_server *server, const char *name,
                                     const char *const *fields, const char *message)
{
    char keys[BREAK_FIELDS_MAX][SCRIPT_KEY_MAX];
    struct command commands[] = {{.argc = 1, .argv = {"DEL"}},
                                 {.argc = 3, .argv = {"PUBLISH", keys[0], message}}};
    for (int i = 0; fields[i]; i++) {
        assert(i < BREAK_FIELDS_MAX);
        redis_server_key(server, name, fields[i], keys[i]);
        commands[0].argv[commands[0].argc++] = keys[i];
    }
    enum seclock_result result = redis_kind_commands(server, commands, 2);
    if (result == SECLOCK_OK && command_int(&commands[0], -1) == 0)
        result = SECLOCK_NOT_OWNER;
    command_clear(commands, 2);
    return result;
}

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

enum seclock_result redis_kind_string_status(struct redis_server *server, const char *name,
                                             const char *field, struct seclock_status *status_out)
{
    char lock[SCRIPT_KEY_MAX], fence[SCRIPT_KEY_MAX];
    struct command commands[] = {{.argc = 2, .argv = {"GET", lock}},
                                 {.argc = 2, .argv = {"PTTL", lock}},
                                 {.argc = 2, .argv = {"GET", fence}}};
    redis_server_key(server, name, field, lock);
    redis_server_key(server, name, "fence", fence);
    enum seclock_result result = redis_kind_commands(server, commands, 3);
    if (result == SECLOCK_OK)
        status_fill(status_out, command_text(&commands[0], -1, NULL), 1, &commands[1],
                    &commands[2]);
    command_clear(commands, 3);
    return result;
}

enum seclock_result redis_kind_hash_status(struct redis_server *server, const char *name,
                                           const char *field, struct seclock_status *status_out)
{
    char lock[SCRIPT_KEY_MAX], fence[SCRIPT_KEY_MAX];
    struct command commands[] = {{.argc = 3, .argv = {"HGET", lock, "o"}},
                                 {.argc = 2, .argv = {"PTTL", lock}},
                                 {.argc = 2, .argv = {"GET", fence}},
                                 {.argc = 2, .argv = {"HLEN", lock}}};
    redis_server_key(server, name, field, lock);
    redis_server_key(server, name, "fence", fence);
    enum seclock_result result = redis_kind_commands(server, commands, 4);
    if (result == SECLOCK_OK)
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

enum seclock_result redis_kind_set_status(struct redis_server *server, const char *name,
                                          const char *field, char mark,
                                          struct seclock_status *status_out)
{
    char holds[SCRIPT_KEY_MAX];
    struct command commands[] = {{.argc = 5, .argv = {"ZRANGE", holds, "-1", "-1", "WITHSCORES"}},
                                 {.argc = 2, .argv = {"ZCARD", holds}},
                                 {.argc = 1, .argv = {"TIME"}}};
    redis_server_key(server, name, field, holds);
    enum seclock_result result = redis_kind_commands(server, commands, 3);
    if (result == SECLOCK_OK)
        set_status_fill(commands, mark, status_out);
    command_clear(commands, 3);
    return result;
}

enum seclock_result redis_kind_check(void *self, char *warning_out, size_t size)
{
    struct command command = {.argc = 3, .argv = {"CONFIG", "GET", "maxmemory-policy"}};
    enum seclock_result result = redis_kind_commands(self, &command, 1);
    const char *policy = command_text(&command, 1, NULL);
    if (policy && strcmp(policy, "noeviction") != 0)
        snprintf(warning_out, size, "Redis may evict locks: maxmemory-policy is %s, not noeviction",
                 policy);
    command_clear(&command, 1);
    return result == SECLOCK_UNKNOWN ? SECLOCK_UNKNOWN : SECLOCK_OK; /* CONFIG may be forbidden */
}
