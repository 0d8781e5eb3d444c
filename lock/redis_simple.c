/* The simple Redis lock: one string under prefix{name}:lock; waiters are told of its release. */
#include "lock/redis_string.h"

#define FIELD "lock"

static enum seclock_result simple_acquire(void *self, struct seclock_handle *handle)
{
    return redis_string_acquire(self, handle, FIELD);
}

static void simple_wait(void *self, struct seclock_handle *handle, int wait_ms)
{
    redis_kind_wait(self, handle, FIELD, NULL, wait_ms);
}

static void simple_stop_waiting(void *self, struct seclock_handle *handle, bool acquired)
{
    (void)self;
    (void)acquired;
    redis_kind_stop_waiting(handle);
}

static void renewal(const struct redis_server *server, const struct seclock_handle *handle,
                    struct script_call *call_out)
{
    redis_string_renewal(server, handle, FIELD, call_out);
}

static void simple_renew(void *self, struct seclock_handle *const *handles, size_t count,
                         enum seclock_result *results_out)
{
    redis_kind_renew(self, handles, count, results_out, renewal);
}

static enum seclock_result simple_release(void *self, struct seclock_handle *handle)
{
    return redis_string_release(self, handle, FIELD, "1");
}

static enum seclock_result simple_status(void *self, const char *name,
                                         struct seclock_status *status_out)
{
    return redis_kind_string_status(self, name, FIELD, status_out);
}

static enum seclock_result simple_break(void *self, const char *name)
{
    static const char *const fields[] = {FIELD, NULL};
    return redis_kind_break(self, name, fields, "1");
}

const struct lock_driver lock_simple_driver = {
    .kind = SECLOCK_KIND_SIMPLE,
    .features = LOCK_FENCED | LOCK_RENEWS,
    .open = redis_kind_open,
    .close = redis_kind_close,
    .acquire = simple_acquire,
    .wait = simple_wait,
    .stop_waiting = simple_stop_waiting,
    .renew = simple_renew,
    .release = simple_release,
    .status = simple_status,
    .break_lock = simple_break,
    .check = redis_kind_check,
};
