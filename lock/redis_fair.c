/* The fair lock: first come, first served. A hash under prefix{name}:fair, a list of who waits, and
 * signs of life, which a waiter gives by asking. The dead do not hold up the queue: the next one
 * finds them without one. */
#include <stdio.h>

#include "lock/redis_hash.h"

#define FIELD "fair"
#define QUEUE "fair:queue"
#define ALIVE "fair:alive"

enum { ALIVE_MS_MIN = 300, ALIVE_MS_MAX = 1500 };

/* How long a waiter counts as alive after it has asked: three times as long as until it asks again.
 * */
static int alive_ms(const struct seclock_handle *handle)
{
    int alive_ms = 3 * lock_core_context(handle->core, SECLOCK_KIND_FAIR)->poll_ms;
    alive_ms = alive_ms < ALIVE_MS_MIN ? ALIVE_MS_MIN : alive_ms;
    return alive_ms > ALIVE_MS_MAX ? ALIVE_MS_MAX : alive_ms;
}

static enum seclock_result fair_acquire(void *self, struct seclock_handle *handle)
{
    struct script_call call;
    script_begin(&call, SCRIPT_lock_fair);
    redis_kind_key(self, &call, handle->name, FIELD);
    redis_kind_key(self, &call, handle->name, QUEUE);
    redis_kind_key(self, &call, handle->name, ALIVE);
    redis_kind_key(self, &call, handle->name, "fence");
    script_text(&call, handle->owner);
    script_text(&call, handle->request);
    script_int(&call, handle->lease_ms);
    script_int(&call, alive_ms(handle));
    script_int(&call, handle->waits);
    return redis_kind_acquire(self, handle, &call);
}

/* Each waiter has a channel of its own, so that a release wakes the next one and nobody else. */
static void fair_wait(void *self, struct seclock_handle *handle, int wait_ms)
{
    int most_ms = alive_ms(handle) / 3;
    most_ms -= (int)lock_random((unsigned)most_ms / 10 + 1);
    redis_kind_wait(self, handle, FIELD, handle->request, wait_ms < most_ms ? wait_ms : most_ms);
}

static enum seclock_result fair_leave(void *self, struct seclock_handle *handle)
{
    struct script_call call;
    script_begin(&call, SCRIPT_lock_fair_leave);
    redis_kind_key(self, &call, handle->name, FIELD);
    redis_kind_key(self, &call, handle->name, QUEUE);
    redis_kind_key(self, &call, handle->name, ALIVE);
    redis_kind_key(self, &call, handle->name, "released");
    script_text(&call, handle->request);
    return redis_kind_tell(self, &call, SECLOCK_LOST);
}

static void fair_stop_waiting(void *self, struct seclock_handle *handle, bool acquired)
{
    redis_kind_stop_waiting(handle);
    if (!acquired)
        fair_leave(self, handle);
}

static void renewal(const struct redis_server *server, const struct seclock_handle *handle,
                    struct script_call *call_out)
{
    redis_hash_renewal(server, handle, FIELD, call_out);
}

static void fair_renew(void *self, struct seclock_handle *const *handles, size_t count,
                       enum seclock_result *results_out)
{
    redis_kind_renew(self, handles, count, results_out, renewal);
}

static enum seclock_result fair_status(void *self, const char *name,
                                       struct seclock_status *status_out)
{
    char queue[SCRIPT_KEY_MAX];
    struct command command = {.argc = 2, .argv = {"LLEN", queue}};
    redis_server_key(self, name, QUEUE, queue);
    enum seclock_result result = redis_kind_hash_status(self, name, FIELD, status_out);
    if (result == SECLOCK_OK)
        result = redis_kind_commands(self, &command, 1);
    if (result == SECLOCK_OK)
        status_out->waiting = command_int(&command, -1);
    command_clear(&command, result == SECLOCK_OK);
    return result;
}

static void tell_head(struct redis_server *server, const char *name)
{
    char queue[SCRIPT_KEY_MAX], channel[SCRIPT_KEY_MAX + SECLOCK_TOKEN_MAX], key[SCRIPT_KEY_MAX];
    struct command ask = {.argc = 3, .argv = {"LINDEX", queue, "0"}};
    struct command tell = {.argc = 3, .argv = {"PUBLISH", channel, "1"}};
    redis_server_key(server, name, QUEUE, queue);
    redis_server_key(server, name, FIELD, key);
    if (redis_kind_commands(server, &ask, 1) == SECLOCK_OK && command_text(&ask, -1, NULL)) {
        snprintf(channel, sizeof channel, "%s:%.*s", key, SECLOCK_TOKEN_MAX - 2,
                 command_text(&ask, -1, NULL));
        redis_kind_commands(server, &tell, 1);
        command_clear(&tell, 1);
    }
    command_clear(&ask, 1);
}

static enum seclock_result fair_break(void *self, const char *name)
{
    static const char *const fields[] = {FIELD, NULL};
    enum seclock_result result = redis_kind_break(self, name, fields, "1");
    if (result == SECLOCK_OK)
        tell_head(self, name);
    return result;
}

const struct lock_driver lock_fair_driver = {
    .kind = SECLOCK_KIND_FAIR,
    .features = LOCK_FENCED | LOCK_RENEWS,
    .open = redis_kind_open,
    .close = redis_kind_close,
    .acquire = fair_acquire,
    .wait = fair_wait,
    .stop_waiting = fair_stop_waiting,
    .renew = fair_renew,
    .release = fair_leave,
    .status = fair_status,
    .break_lock = fair_break,
    .check = redis_kind_check,
};
