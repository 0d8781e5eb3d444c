/* Locks that are one string, the token of the holder: SET NX PX with a fence, compare and delete.
 *
 * The spin lock differs from the simple one in that a release publishes nothing: its waiters try
 * again, twice as late each time up to a limit, with jitter. */
#include <assert.h>

#include "lock/redis/kind.h"

enum {
    REPEAT_MS_MAX = 5000,    /* within this time a release whose answer is lost is sent again */
    REMEMBER_MS_MAX = 60000, /* and remembered for so long at most */
};

static enum seclock_result string_acquire(void *self, struct seclock_handle *handle)
{
    assert(handle->lease_ms > 0);
    struct script_call call;
    redis_server_begin(self, &call, SCRIPT_lock_acquire, handle->name, redis_row_of(handle)->field,
                       "fence", NULL);
    redis_server_released(self, &call, handle->name, handle->request);
    script_text(&call, handle->request);
    script_int(&call, handle->lease_ms);
    handle->token = handle->request;
    return redis_kind_acquire(self, handle, &call);
}

static void string_renewal(const struct redis_server *server, const struct seclock_handle *handle,
                           struct script_call *call_out)
{
    redis_server_begin(server, call_out, SCRIPT_lock_renew, handle->name,
                       redis_row_of(handle)->field, "fence", NULL);
    script_text(call_out, handle->request);
    script_int(call_out, handle->lease_ms);
}

/* why_the_rest_matters: the script keeps the released token for a repeat of this call. If the lease
 * has some time to go, the script just renames the lock's key, whose time to live then suffices;
 * otherwise it has to write a copy that lives long enough, and no longer. */
static enum seclock_result string_release(void *self, struct seclock_handle *handle)
{
    const struct redis_row *row = redis_row_of(handle);
    assert(row->message);
    struct script_call call;
    int64_t left_ms = seclock_remaining_ms(handle);
    redis_server_begin(self, &call, SCRIPT_lock_release, handle->name, row->field, NULL);
    redis_server_released(self, &call, handle->name, handle->request);
    script_text(&call, handle->request);
    script_text(&call, row->message);
    script_text(&call, left_ms > REPEAT_MS_MAX && left_ms < REMEMBER_MS_MAX ? "1" : "0");
    return row->message[0] ? redis_kind_run_publishing(self, handle, &call, SECLOCK_LOST)
                           : redis_kind_run(self, handle, &call, SECLOCK_LOST);
}

#define STRING_FUNCTIONS                                                                           \
    .open = redis_kind_open, .acquire = string_acquire, .renew = redis_kind_renew,                 \
    .release = string_release, .status = redis_string_status, .break_lock = redis_kind_break,      \
    .check = redis_kind_check

const struct lock_driver redis_simple_driver = {
    .kind = SECLOCK_KIND_SIMPLE,
    .features = LOCK_RENEWS,
    .row = &(const struct redis_row){.field = "lock", .message = "1", .renewal = string_renewal},
    .wait = redis_kind_wait,
    .stop_waiting = redis_kind_stop_waiting,
    STRING_FUNCTIONS,
};

const struct lock_driver redis_spin_driver = {
    .kind = SECLOCK_KIND_SPIN,
    .features = LOCK_RENEWS,
    .poll_ms_min = 1,
    .poll_ms_max = 128,
    .row = &(const struct redis_row){.field = "spin", .message = "", .renewal = string_renewal},
    STRING_FUNCTIONS,
};
