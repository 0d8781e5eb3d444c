/* The functions of the driver table that the Redis kinds share. */
#include "lock/redis/kind.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "lock/redis/waiter.h"
#include "lock/text.h"

enum {
    RENEW_CHUNK = 32,
    RENEW_MS_MIN = 5,
    WAIT_MS_UNSUBSCRIBED = 50,
    RELEASED_BEFORE = 4, /* what the scripts answer to a request that was released */
};

const struct redis_row *redis_row_of(const struct seclock_handle *handle)
{
    const struct redis_row *row = handle->driver->row;
    assert(row && row->field);
    return row;
}

/* The server belongs to the core, which also closes it. */
enum seclock_result redis_kind_open(const struct lock_context *context, void **self_out)
{
    *self_out = core_redis(context->core);
    return *self_out ? SECLOCK_OK : SECLOCK_CONFIG;
}

/* ---- calls ---- */

/* 0: as the server's time-out says. */
static int limit_ms(const struct redis_server *server, const struct seclock_handle *handle)
{
    if (!handle || handle->until_ns == 0)
        return 0;
    return handle_request_ms(handle, redis_server_timeout_ms(server));
}

enum seclock_result redis_kind_run(struct redis_server *server, const struct seclock_handle *handle,
                                   struct script_call *call, enum seclock_result no)
{
    redis_server_run(server, call, 1, limit_ms(server, handle));
    return redis_server_answer(call, no);
}

enum seclock_result redis_kind_run_publishing(struct redis_server *server,
                                              const struct seclock_handle *handle,
                                              struct script_call *call, enum seclock_result no)
{
    redis_server_run_publishing(server, call, limit_ms(server, handle));
    return redis_server_answer(call, no);
}

enum seclock_result redis_kind_acquire(struct redis_server *server, struct seclock_handle *handle,
                                       struct script_call *call)
{
    assert(handle->lease_ms > 0);
    enum seclock_result result = redis_kind_run(server, handle, call, SECLOCK_BUSY);
    if (result == SECLOCK_OK) {
        handle->fence = (uint64_t)call->values[1];
        handle->hold_count = (int)call->values[2];
    } else if (call->values[0] == RELEASED_BEFORE) {
        result = lock_fail(SECLOCK_FAILED, "the request was released before it came");
    } else if (result == SECLOCK_BUSY) {
        handle->busy_ms = call->values[1];
    } else if (result == SECLOCK_FAILED && strstr(seclock_error(), ": WRONGTYPE")) {
        result = SECLOCK_CONFIG; /* another program uses one of our keys: waiting would not help */
    }
    return result;
}

/* ---- renewal ---- */

/* A hold whose acquisition was not answered learns its fence from its first renewal. */
static void learn_fence(struct seclock_handle *handle, const struct script_call *call)
{
    assert(call->values[0] == 1);
    if (handle->fence == 0)
        handle->fence = (uint64_t)call->values[1];
}

static void renew_chunk(struct redis_server *server, struct seclock_handle *const *handles,
                        size_t count, enum seclock_result *results_out)
{
    struct script_call calls[RENEW_CHUNK];
    assert(count > 0 && count <= RENEW_CHUNK);
    for (size_t i = 0; i < count; i++)
        redis_row_of(handles[i])->renewal(server, handles[i], &calls[i]);
    redis_server_run(server, calls, count,
                     handle_renewal_ms(handles, count, RENEW_MS_MIN, SECLOCK_LEASE_MS_MAX));
    for (size_t i = 0; i < count; i++) {
        results_out[i] = redis_server_answer(&calls[i], SECLOCK_LOST);
        if (results_out[i] == SECLOCK_OK)
            learn_fence(handles[i], &calls[i]);
    }
}

void redis_kind_renew(void *self, struct seclock_handle *const *handles, size_t count,
                      enum seclock_result *results_out)
{
    for (size_t done = 0, chunk; done < count; done += chunk) {
        chunk = count - done < RENEW_CHUNK ? count - done : RENEW_CHUNK;
        renew_chunk(self, handles + done, chunk, results_out + done);
    }
}

/* ---- waiting ---- */

/* Without memory or descriptors for a subscription the waiter polls every 50 ms. */
void redis_kind_wait_on(struct redis_server *server, struct seclock_handle *handle,
                        const char *field, const char *suffix, int wait_ms)
{
    assert(wait_ms >= 0);
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
        handle_sleep(handle, wait_ms < WAIT_MS_UNSUBSCRIBED ? wait_ms : WAIT_MS_UNSUBSCRIBED);
}

void redis_kind_wait(void *self, struct seclock_handle *handle, int wait_ms)
{
    redis_kind_wait_on(self, handle, redis_row_of(handle)->field, NULL, wait_ms);
}

/* The waiter's channel is unsubscribed with its last waiter. */
void redis_kind_stop_waiting(void *self, struct seclock_handle *handle, bool acquired)
{
    struct waiter *waiter = handle->waiting;
    (void)self;
    if (waiter)
        waiter_leave(&waiter, acquired);
    assert(!waiter);
    handle->waiting = NULL;
}

/* ---- for operators ---- */

enum seclock_result redis_kind_break(const struct lock_driver *driver, void *self, const char *name)
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
    enum seclock_result result = redis_server_commands(self, commands, 2, NULL);
    if (result == SECLOCK_OK && command_int(&commands[0], -1) == 0)
        result = SECLOCK_NOT_OWNER;
    command_clear(commands, 2);
    return result;
}

/* The fence outlives the hold, so it is shown for a free lock as well. */
static void status_fill(struct seclock_status *status, const char *holder, int64_t count,
                        const struct command *ttl, const struct command *fence)
{
    assert(!status->held);
    status->held = holder != NULL;
    if (holder) {
        snprintf(status->holder, sizeof status->holder, "%s", holder);
        status->count = count;
        status->remaining_ms = command_int(ttl, -1);
    }
    status->fence = (uint64_t)command_int(fence, -1);
}

/* The commands are not atomic together: an operator sees a lock that changes meanwhile with the
 * one value or the other. */
static enum seclock_result read_status(const struct lock_driver *driver, void *self,
                                       const char *name, bool hash,
                                       struct seclock_status *status_out)
{
    const struct redis_row *row = driver->row;
    char lock[SCRIPT_KEY_MAX], fence[SCRIPT_KEY_MAX];
    struct command commands[] = {{.argc = 2, .argv = {"GET", lock}},
                                 {.argc = 2, .argv = {"PTTL", lock}},
                                 {.argc = 2, .argv = {"GET", fence}},
                                 {.argc = 2, .argv = {"HLEN", lock}}};
    const size_t count = hash ? 4 : 3;
    if (hash)
        commands[0] = (struct command){.argc = 3, .argv = {"HGET", lock, "o"}};
    redis_server_key(self, name, row->field, lock);
    redis_server_key(self, name, "fence", fence);
    enum seclock_result result = redis_server_commands(self, commands, count, NULL);
    if (result == SECLOCK_OK) /* all fields of a hash but `o` and `f` are holds */
        status_fill(status_out, command_text(&commands[0], -1, NULL),
                    hash ? command_int(&commands[3], -1) - 2 : 1, &commands[1], &commands[2]);
    command_clear(commands, count);
    return result;
}

enum seclock_result redis_string_status(const struct lock_driver *driver, void *self,
                                        const char *name, struct seclock_status *status_out)
{
    return read_status(driver, self, name, false, status_out);
}

enum seclock_result redis_hash_status(const struct lock_driver *driver, void *self,
                                      const char *name, struct seclock_status *status_out)
{
    return read_status(driver, self, name, true, status_out);
}

static void set_status_fill(const struct command *commands, char mark,
                            struct seclock_status *status)
{
    assert(!status->held);
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
    enum seclock_result result = redis_server_commands(server, commands, 3, NULL);
    if (result == SECLOCK_OK)
        set_status_fill(commands, mark, status_out);
    command_clear(commands, 3);
    return result;
}

/* An evicting server may drop a lock that is held, and nobody would notice until the next
 * renewal. */
enum seclock_result redis_kind_check(void *self, char *warning_out, size_t size)
{
    struct command command = {.argc = 3, .argv = {"CONFIG", "GET", "maxmemory-policy"}};
    enum seclock_result result = redis_server_commands(self, &command, 1, NULL);
    const char *policy = command_text(&command, 1, NULL);
    if (policy && strcmp(policy, "noeviction") != 0)
        snprintf(warning_out, size, "Redis may evict locks: maxmemory-policy is %s, not noeviction",
                 policy);
    command_clear(&command, 1);
    return result == SECLOCK_UNKNOWN ? SECLOCK_UNKNOWN : SECLOCK_OK; /* CONFIG may be forbidden */
}

enum seclock_result redis_kind_server(struct seclock_client *client, const char *name,
                                      struct redis_server **server_out)
{
    const struct lock_driver *driver;
    void *server;
    enum seclock_result result = client_driver(client, SECLOCK_KIND_SIMPLE, &driver, &server);
    *server_out = server;
    return result == SECLOCK_OK ? lock_name_check(name) : result;
}
