/* The read-write lock: many readers or one writer. The writer is a hash as in the re-entrant lock,
 * under prefix{name}:write; the readers are a sorted set in which each hold has its own end. */
#include "lock/redis/hash.h"

#include <assert.h>

#include "lock/identity.h"
#include "lock/text.h"

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
    script_begin(&call, write ? SCRIPT_lock_write : SCRIPT_lock_read);
    redis_kind_key(self, &call, handle->name, WRITER);
    redis_kind_key(self, &call, handle->name, READERS);
    redis_kind_key(self, &call, handle->name, OWNERS);
    redis_kind_key(self, &call, handle->name, MARK);
    redis_kind_key(self, &call, handle->name, "fence");
    redis_kind_released_key(self, &call, handle->name, handle->request);
    script_text(&call, handle->owner);
    script_text(&call, handle->request);
    script_int(&call, handle->lease_ms);
    if (write)
        script_int(&call, handle->waits ? MARK_MS : 0);
    enum seclock_result result = redis_kind_acquire(self, handle, &call);
    if (result == SECLOCK_BUSY && call.values[0] == 2) {
        result = lock_fail(SECLOCK_DEADLOCK, "the owner reads: to write it would wait for itself");
    }
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
    if (acquired || handle->mode != SECLOCK_MODE_WRITE)
        return;
    script_begin(&call, SCRIPT_lock_write_leave);
    redis_kind_key(self, &call, handle->name, WRITER);
    redis_kind_key(self, &call, handle->name, MARK);
    script_text(&call, handle->request);
    redis_server_run_within(self, &call, 1, redis_kind_limit_ms(self, handle));
}

/* Each read hold has a lease of its own, so that a dead reader does not outlive it while others
 * renew theirs. */
static void rw_renewal(const struct redis_server *server, const struct seclock_handle *handle,
                       struct script_call *call_out)
{
    if (handle->mode == SECLOCK_MODE_WRITE) {
        redis_hash_renewal(server, handle, call_out);
        return;
    }
    script_begin(call_out, SCRIPT_lock_read_renew);
    redis_kind_key(server, call_out, handle->name, READERS);
    redis_kind_key(server, call_out, handle->name, OWNERS);
    redis_kind_key(server, call_out, handle->name, "fence");
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
        return redis_hash_release(self, handle, MARK);
    script_begin(&call, SCRIPT_lock_read_release);
    redis_kind_key(self, &call, handle->name, WRITER);
    redis_kind_key(self, &call, handle->name, READERS);
    redis_kind_key(self, &call, handle->name, OWNERS);
    redis_kind_released_key(self, &call, handle->name, handle->request);
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
    .features = LOCK_FENCED | LOCK_RENEWS | LOCK_READS,
    .row = &(const struct redis_row){.field = WRITER,
                                     .message = "*",
                                     .others = {READERS, OWNERS, MARK},
                                     .renewal = rw_renewal},
    .open = redis_kind_open,
    .close = redis_kind_close,
    .acquire = rw_acquire,
    .wait = rw_wait,
    .stop_waiting = rw_stop_waiting,
    .renew = redis_kind_renew,
    .release = rw_release,
    .status = rw_status,
    .break_lock = redis_break,
    .check = redis_check,
};
