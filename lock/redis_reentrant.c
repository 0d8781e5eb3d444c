/* The re-entrant Redis lock: a hash under prefix{name}:reentrant. */
#include "lock/redis_hash.h"

#define FIELD "reentrant"

static enum seclock_result reentrant_acquire(void *self, struct seclock_handle *handle)
{
    struct script_call call;
    script_begin(&call, SCRIPT_lock_reenter);
    redis_kind_key(self, &call, handle->name, FIELD);
    redis_kind_key(self, &call, handle->name, "fence");
    script_text(&call, handle->owner);
    script_text(&call, handle->request);
    script_int(&call, handle->lease_ms);
    return redis_kind_acquire(self, handle, &call);
}

static void reentrant_wait(void *self, struct seclock_handle *handle, int wait_ms)
{
    redis_kind_wait(self, handle, FIELD, NULL, wait_ms);
}

static void reentrant_stop_waiting(void *self, struct seclock_handle *handle, bool acquired)
{
    (void)self;
    (void)acquired;
    redis_kind_stop_waiting(handle);
}

static void renewal(const struct redis_server *server, const struct seclock_handle *handle,
                    struct script_call *call_out)
{
    redis_hash_renewal(server, handle, FIELD, call_out);
}

static void reentrant_renew(void *self, struct seclock_handle *const *handles, size_t count,
                            enum seclock_result *results_out)
{
    redis_kind_renew(self, handles, count, results_out, renewal);
}

static enum seclock_result reentrant_release(void *self, struct seclock_handle *handle)
{
    return redis_hash_release(self, handle, FIELD, NULL, "1");
}

static enum seclock_result reentrant_status(void *self, const char *name,
                                            struct seclock_status *status_out)
{
    return redis_kind_hash_status(self, name, FIELD, status_out);
}

static enum seclock_result reentrant_break(void *self, const char *name)
{
    static const char *const fields[] = {FIELD, NULL};
    return redis_kind_break(self, name, fields, "1");
}

const struct lock_driver lock_reentrant_driver = {
    .kind = SECLOCK_KIND_REENTRANT,
    .features = LOCK_FENCED | LOCK_RENEWS,
    .open = redis_kind_open,
    .close = redis_kind_close,
    .acquire = reentrant_acquire,
    .wait = reentrant_wait,
    .stop_waiting = reentrant_stop_waiting,
    .renew = reentrant_renew,
    .release = reentrant_release,
    .status = reentrant_status,
    .break_lock = reentrant_break,
    .check = redis_kind_check,
};
