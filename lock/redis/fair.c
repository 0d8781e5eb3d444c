/* The fair lock: first come, first served. A hash under prefix{name}:fair, a list of the waiters,
 * and the time until which each waiter counts as alive, which each of its tries extends. So a dead
 * waiter does not hold up the queue for long: whoever tries next drops it. */
#include <assert.h>
#include <stdio.h>

#include "lock/client.h"
#include "lock/redis/hash.h"

#define FIELD "fair"
#define QUEUE "fair:queue"
#define ALIVE "fair:alive"

enum { ALIVE_MS_MIN = 300, ALIVE_MS_MAX = 1500 };

/* How long a waiter counts as alive after a try: three times as long as until its next one. */
static int alive_ms(const struct seclock_handle *handle)
{
    int alive_ms = 3 * core_context(handle->core, SECLOCK_KIND_FAIR)->poll_ms;
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
    redis_kind_released_key(self, &call, handle->name, handle->request);
    script_text(&call, handle->owner);
    script_text(&call, handle->request);
    script_int(&call, handle->lease_ms);
    script_int(&call, alive_ms(handle));
    script_int(&call, handle->waits);
    return redis_kind_acquire(self, handle, &call);
}

/* Each waiter has a channel of its own, so that a release wakes only the next one. The waiter tries
 * again before it would count as dead, less a bit of jitter. */
static void fair_wait(void *self, struct seclock_handle *handle, int wait_ms)
{
    assert(handle->waits);
    int most_ms = alive_ms(handle) / 3;
    most_ms -= (int)lock_random((unsigned)most_ms / 10 + 1);
    redis_kind_wait_on(self, handle, FIELD, handle->request, wait_ms < most_ms ? wait_ms : most_ms);
}

/* Releases a hold, or leaves the queue; whichever the request has. The script wakes the next waiter
 * if the lock is free for it. */
static enum seclock_result fair_leave(void *self, struct seclock_handle *handle)
{
    struct script_call call;
    script_begin(&call, SCRIPT_lock_fair_leave);
    redis_kind_key(self, &call, handle->name, FIELD);
    redis_kind_key(self, &call, handle->name, QUEUE);
    redis_kind_key(self, &call, handle->name, ALIVE);
    redis_kind_released_key(self, &call, handle->name, handle->request);
    script_text(&call, handle->request);
    return redis_kind_run_publishing(self, handle, &call, SECLOCK_LOST);
}

static void fair_stop_waiting(void *self, struct seclock_handle *handle, bool acquired)
{
    redis_kind_stop_waiting(self, handle, acquired);
    if (!acquired)
        fair_leave(self, handle);
}

static enum seclock_result fair_status(const struct lock_driver *driver, void *self,
                                       const char *name, struct seclock_status *status_out)
{
    char queue[SCRIPT_KEY_MAX];
    struct command command = {.argc = 2, .argv = {"LLEN", queue}};
    redis_server_key(self, name, QUEUE, queue);
    enum seclock_result result = redis_hash_status(driver, self, name, status_out);
    if (result == SECLOCK_OK)
        result = redis_commands(self, &command, 1);
    if (result == SECLOCK_OK)
        status_out->waiting = command_int(&command, -1);
    command_clear(&command, result == SECLOCK_OK);
    return result;
}

/* After a break: wakes the head of the queue, which would otherwise wait until its next try. */
static void wake_head(struct redis_server *server, const char *name)
{
    char queue[SCRIPT_KEY_MAX], channel[SCRIPT_KEY_MAX + SECLOCK_TOKEN_MAX], key[SCRIPT_KEY_MAX];
    struct command ask = {.argc = 3, .argv = {"LINDEX", queue, "0"}};
    struct command wake = {.argc = 3, .argv = {"PUBLISH", channel, "1"}};
    redis_server_key(server, name, QUEUE, queue);
    redis_server_key(server, name, FIELD, key);
    if (redis_commands(server, &ask, 1) == SECLOCK_OK && command_text(&ask, -1, NULL)) {
        snprintf(channel, sizeof channel, "%s:%.*s", key, SECLOCK_TOKEN_MAX - 2,
                 command_text(&ask, -1, NULL));
        redis_commands(server, &wake, 1);
        command_clear(&wake, 1);
    }
    command_clear(&ask, 1);
}

static enum seclock_result fair_break(const struct lock_driver *driver, void *self,
                                      const char *name)
{
    enum seclock_result result = redis_break(driver, self, name);
    if (result == SECLOCK_OK)
        wake_head(self, name);
    return result;
}

const struct lock_driver redis_fair_driver = {
    .kind = SECLOCK_KIND_FAIR,
    .features = LOCK_FENCED | LOCK_RENEWS,
    .row = &(const struct redis_row){.field = FIELD, .message = "1", .renewal = redis_hash_renewal},
    .open = redis_kind_open,
    .close = redis_kind_close,
    .acquire = fair_acquire,
    .wait = fair_wait,
    .stop_waiting = fair_stop_waiting,
    .renew = redis_kind_renew,
    .release = fair_leave,
    .status = fair_status,
    .break_lock = fair_break,
    .check = redis_check,
};
