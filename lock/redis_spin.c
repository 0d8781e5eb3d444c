/* The spin lock: as the simple one, but nobody is told of its release. Waiters ask again, twice as
 * late each time up to a limit, with jitter: for clusters, where every message goes to every
 * node. */
#include "lock/redis_string.h"

#define FIELD "spin"

static enum seclock_result spin_acquire(void *self, struct seclock_handle *handle)
{
    return redis_string_acquire(self, handle, FIELD);
}

static void renewal(const struct redis_server *server, const struct seclock_handle *handle,
                    struct script_call *call_out)
{
    redis_string_renewal(server, handle, FIELD, call_out);
}

static void spin_renew(void *self, struct seclock_handle *const *handles, size_t count,
                       enum seclock_result *results_out)
{
    redis_kind_renew(self, handles, count, results_out, renewal);
}

static enum seclock_result spin_release(void *self, struct seclock_handle *handle)
{
    return redis_string_release(self, handle, FIELD, "");
}

static enum seclock_result spin_status(void *self, const char *name,
                                       struct seclock_status *status_out)
{
    return redis_kind_string_status(self, name, FIELD, status_out);
}

static enum seclock_result spin_break(void *self, const char *name)
{
    static const char *const fields[] = {FIELD, NULL};
    return redis_kind_break(self, name, fields, "1");
}

const struct lock_driver lock_spin_driver = {
    .kind = SECLOCK_KIND_SPIN,
    .features = LOCK_FENCED | LOCK_RENEWS,
    .poll_ms_min = 1,
    .poll_ms_max = 128,
    .open = redis_kind_open,
    .close = redis_kind_close,
    .acquire = spin_acquire,
    .renew = spin_renew,
    .release = spin_release,
    .status = spin_status,
    .break_lock = spin_break,
    .check = redis_kind_check,
};
