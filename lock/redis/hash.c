/* The kinds whose lock is one hash, with its owner, its fence and a field for each hold: the
 * re-entrant lock, the fair lock, and the writer of the read-write lock. */
#include <assert.h>
#include <stdio.h>

#include "lock/redis/kind.h"
#include "lock/text.h"

/* ---- what they share ---- */

/* The hash has one time to live for all holds of its owner, so that a renewal only ever
 * lengthens it: another hold may have asked for a longer lease. */
static void hash_renewal(const struct redis_server *server, const struct seclock_handle *handle,
                         struct script_call *call_out)
{
    redis_server_begin(server, call_out, SCRIPT_lock_reenter_renew, handle->name,
                       redis_row_of(handle)->field, NULL);
    script_text(call_out, handle->request);
    script_int(call_out, handle->lease_ms);
}

/* Releases one hold, and with the owner's last one the lock: then sends the row's message, and
 * deletes the key of the field `mark` unless that is NULL. The script remembers the released
 * request, so that a repeat is not taken for the loss of the hold. */
static enum seclock_result hash_release(struct redis_server *server, struct seclock_handle *handle,
                                        const char *mark)
{
    const struct redis_row *row = redis_row_of(handle);
    struct script_call call;
    char key[SCRIPT_KEY_MAX];
    assert(row->message);
    redis_server_begin(server, &call, SCRIPT_lock_reenter_release, handle->name, row->field, NULL);
    redis_server_released(server, &call, handle->name, handle->request);
    if (mark) {
        redis_server_key(server, handle->name, mark, key);
        script_key(&call, key);
    }
    script_text(&call, handle->request);
    script_text(&call, row->message);
    return redis_kind_run_publishing(server, handle, &call, SECLOCK_LOST);
}

/* ---- the re-entrant lock ---- */

/* A re-entry keeps the fence of the first hold: the owner writes with one fence, however deep
 * its calls nest. */
static enum seclock_result reentrant_acquire(void *self, struct seclock_handle *handle)
{
    assert(handle->mode == SECLOCK_MODE_WRITE);
    struct script_call call;
    redis_server_begin(self, &call, SCRIPT_lock_reenter, handle->name, redis_row_of(handle)->field,
                       "fence", NULL);
    redis_server_released(self, &call, handle->name, handle->request);
    script_text(&call, handle->owner);
    script_text(&call, handle->request);
    script_int(&call, handle->lease_ms);
    return redis_kind_acquire(self, handle, &call);
}

static enum seclock_result reentrant_release(void *self, struct seclock_handle *handle)
{
    return hash_release(self, handle, NULL);
}

const struct lock_driver redis_reentrant_driver = {
    .kind = SECLOCK_KIND_REENTRANT,
    .features = LOCK_RENEWS,
    .row = &(const struct redis_row){.field = "reentrant", .message = "1", .renewal = hash_renewal},
    .open = redis_kind_open,
    .acquire = reentrant_acquire,
    .wait = redis_kind_wait,
    .stop_waiting = redis_kind_stop_waiting,
    .renew = redis_kind_renew,
    .release = reentrant_release,
    .status = redis_hash_status,
    .break_lock = redis_kind_break,
    .check = redis_kind_check,
};

/* ---- the fair lock ----
 *
 * First come, first served. A hash under prefix{name}:fair, a list of the waiters,
 * and the time until which each waiter counts as alive, which each of its tries extends. So a dead
 * waiter does not hold up the queue for long: whoever tries next drops it. */

#define FAIR "fair"
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
    assert(handle->mode == SECLOCK_MODE_WRITE);
    struct script_call call;
    redis_server_begin(self, &call, SCRIPT_lock_fair, handle->name, FAIR, QUEUE, ALIVE, "fence",
                       NULL);
    redis_server_released(self, &call, handle->name, handle->request);
    script_text(&call, handle->owner);
    script_text(&call, handle->request);
    script_int(&call, handle->lease_ms);
    script_int(&call, alive_ms(handle));
    script_int(&call, handle->waits);
    return redis_kind_acquire(self, handle, &call);
}

/* Each waiter has a channel of its own, so that a release wakes only the next one. The waiter tries
 * again before the others would count it as dead, a little earlier by random jitter. */
static void fair_wait(void *self, struct seclock_handle *handle, int wait_ms)
{
    assert(handle->waits);
    int most_ms = alive_ms(handle) / 3;
    most_ms -= (int)lock_random((unsigned)most_ms / 10 + 1);
    redis_kind_wait_on(self, handle, FAIR, handle->request, wait_ms < most_ms ? wait_ms : most_ms);
}

/* Releases a hold, or leaves the queue; whichever the request has. The script wakes the next waiter
 * if the lock is free for it. */
static enum seclock_result fair_leave(void *self, struct seclock_handle *handle)
{
    struct script_call call;
    redis_server_begin(self, &call, SCRIPT_lock_fair_leave, handle->name, FAIR, QUEUE, ALIVE, NULL);
    redis_server_released(self, &call, handle->name, handle->request);
    script_text(&call, handle->request);
    return redis_kind_run_publishing(self, handle, &call, SECLOCK_LOST);
}

static void fair_stop_waiting(void *self, struct seclock_handle *handle, bool acquired)
{
    redis_kind_stop_waiting(self, handle, acquired);
    assert(!handle->waiting);
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
        result = redis_server_commands(self, &command, 1, NULL);
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
    redis_server_key(server, name, FAIR, key);
    if (redis_server_commands(server, &ask, 1, NULL) == SECLOCK_OK &&
        command_text(&ask, -1, NULL)) {
        snprintf(channel, sizeof channel, "%s:%.*s", key, SECLOCK_TOKEN_MAX - 2,
                 command_text(&ask, -1, NULL));
        redis_server_commands(server, &wake, 1, NULL);
        command_clear(&wake, 1);
    }
    command_clear(&ask, 1);
}

static enum seclock_result fair_break(const struct lock_driver *driver, void *self,
                                      const char *name)
{
    enum seclock_result result = redis_kind_break(driver, self, name);
    if (result == SECLOCK_OK)
        wake_head(self, name);
    return result;
}

const struct lock_driver redis_fair_driver = {
    .kind = SECLOCK_KIND_FAIR,
    .features = LOCK_RENEWS,
    .row = &(const struct redis_row){.field = FAIR, .message = "1", .renewal = hash_renewal},
    .open = redis_kind_open,
    .acquire = fair_acquire,
    .wait = fair_wait,
    .stop_waiting = fair_stop_waiting,
    .renew = redis_kind_renew,
    .release = fair_leave,
    .status = fair_status,
    .break_lock = fair_break,
    .check = redis_kind_check,
};

/* ---- the read-write lock ----
 *
 * Many readers or one writer. The writer is a hash as in the re-entrant lock,
 * under prefix{name}:write; the readers are a sorted set in which each hold has its own end. */

#define WRITER "write"
#define READERS "readers"
#define OWNERS "readers:owners"
#define MARK "write:waits"

/* A waiting writer keeps new readers out for so long after its last try. */
enum { MARK_MS = 3000 };

/* A reader that asks to write would wait for its own read hold to end: refused as
 * SECLOCK_DEADLOCK. */
static enum seclock_result rw_acquire(void *self, struct seclock_handle *handle)
{
    struct script_call call;
    bool write = handle->mode == SECLOCK_MODE_WRITE;
    redis_server_begin(self, &call, write ? SCRIPT_lock_write : SCRIPT_lock_read, handle->name,
                       WRITER, READERS, OWNERS, MARK, "fence", NULL);
    redis_server_released(self, &call, handle->name, handle->request);
    script_text(&call, handle->owner);
    script_text(&call, handle->request);
    script_int(&call, handle->lease_ms);
    if (write)
        script_int(&call, handle->waits ? MARK_MS : 0);
    enum seclock_result result = redis_kind_acquire(self, handle, &call);
    if (result == SECLOCK_BUSY && call.values[0] == 2)
        return lock_fail(SECLOCK_DEADLOCK, "the owner reads: to write it would wait for itself");
    return result;
}

/* A waiting writer tries again well before its mark ends, so that no reader slips in between. */
static void rw_wait(void *self, struct seclock_handle *handle, int wait_ms)
{
    assert(handle->waits);
    int most_ms = MARK_MS / 3 - (int)lock_random(MARK_MS / 30);
    redis_kind_wait_on(self, handle, WRITER, NULL, wait_ms < most_ms ? wait_ms : most_ms);
}

/* A writer that gives up takes its mark away, which wakes the readers that it kept out. */
static void rw_stop_waiting(void *self, struct seclock_handle *handle, bool acquired)
{
    struct script_call call;
    redis_kind_stop_waiting(self, handle, acquired);
    assert(!handle->waiting);
    if (acquired || handle->mode != SECLOCK_MODE_WRITE)
        return;
    redis_server_begin(self, &call, SCRIPT_lock_write_leave, handle->name, WRITER, MARK, NULL);
    script_text(&call, handle->request);
    redis_kind_run(self, handle, &call, SECLOCK_LOST);
}

/* Each read hold has a lease of its own, so that a dead reader does not outlive it while others
 * renew theirs. */
static void rw_renewal(const struct redis_server *server, const struct seclock_handle *handle,
                       struct script_call *call_out)
{
    if (handle->mode == SECLOCK_MODE_WRITE) {
        hash_renewal(server, handle, call_out);
        return;
    }
    redis_server_begin(server, call_out, SCRIPT_lock_read_renew, handle->name, READERS, OWNERS,
                       "fence", NULL);
    script_text(call_out, handle->owner);
    script_text(call_out, handle->request);
    script_int(call_out, handle->lease_ms);
}

/* The writer's release takes its mark away with the lock, so that waiting readers have their
 * turn before the next writer. */
static enum seclock_result rw_release(void *self, struct seclock_handle *handle)
{
    struct script_call call;
    if (handle->mode == SECLOCK_MODE_WRITE)
        return hash_release(self, handle, MARK);
    redis_server_begin(self, &call, SCRIPT_lock_read_release, handle->name, WRITER, READERS, OWNERS,
                       NULL);
    redis_server_released(self, &call, handle->name, handle->request);
    script_text(&call, handle->owner);
    script_text(&call, handle->request);
    return redis_kind_run_publishing(self, handle, &call, SECLOCK_LOST);
}

/* A writer excludes readers of other owners, so a writer is shown first. */
static enum seclock_result rw_status(const struct lock_driver *driver, void *self, const char *name,
                                     struct seclock_status *status_out)
{
    enum seclock_result result = redis_hash_status(driver, self, name, status_out);
    if (result != SECLOCK_OK || status_out->held)
        return result;
    result = redis_set_status(self, name, READERS, '/', status_out);
    if (status_out->held)
        status_out->mode = SECLOCK_MODE_READ;
    return result;
}

const struct lock_driver redis_rw_driver = {
    .kind = SECLOCK_KIND_READ_WRITE,
    .features = LOCK_RENEWS | LOCK_READS,
    .row = &(const struct redis_row){.field = WRITER,
                                     .message = "*",
                                     .others = {READERS, OWNERS, MARK},
                                     .renewal = rw_renewal},
    .open = redis_kind_open,
    .acquire = rw_acquire,
    .wait = rw_wait,
    .stop_waiting = rw_stop_waiting,
    .renew = redis_kind_renew,
    .release = rw_release,
    .status = rw_status,
    .break_lock = redis_kind_break,
    .check = redis_kind_check,
};
