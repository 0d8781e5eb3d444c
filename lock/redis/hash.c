/* The re-entrant Redis lock, and the functions of all locks that are one hash. */
#include "lock/redis/hash.h"

#include <assert.h>

/* The hash has one time to live for all holds of its owner, so that a renewal only ever
 * lengthens it: another hold may have asked for a longer lease. */
void redis_hash_renewal(const struct redis_server *server, const struct seclock_handle *handle,
                        struct script_call *call_out)
{
    script_begin(call_out, SCRIPT_lock_reenter_renew);
    redis_kind_key(server, call_out, handle->name, redis_row_of(handle)->field);
    script_text(call_out, handle->request);
    script_int(call_out, handle->lease_ms);
}

/* Publishes only with the last hold, hence a call that may publish. The script remembers the
 * released request, so that a repeat is not taken for the loss of the hold. */
enum seclock_result redis_hash_release(struct redis_server *server, struct seclock_handle *handle,
                                       const char *mark)
{
    const struct redis_row *row = redis_row_of(handle);
    struct script_call call;
    script_begin(&call, SCRIPT_lock_reenter_release);
    redis_kind_key(server, &call, handle->name, row->field);
    redis_kind_released_key(server, &call, handle->name, handle->request);
    if (mark)
        redis_kind_key(server, &call, handle->name, mark);
    script_text(&call, handle->request);
    script_text(&call, row->message);
    return redis_kind_run_publishing(server, handle, &call, SECLOCK_LOST);
}

/* A re-entry keeps the fence of the first hold: the owner writes with one fence, however deep
 * its calls nest. */
static enum seclock_result reentrant_acquire(void *self, struct seclock_handle *handle)
{
    struct script_call call;
    script_begin(&call, SCRIPT_lock_reenter);
    redis_kind_key(self, &call, handle->name, redis_row_of(handle)->field);
    redis_kind_key(self, &call, handle->name, "fence");
    redis_kind_released_key(self, &call, handle->name, handle->request);
    script_text(&call, handle->owner);
    script_text(&call, handle->request);
    script_int(&call, handle->lease_ms);
    return redis_kind_acquire(self, handle, &call);
}

static enum seclock_result reentrant_release(void *self, struct seclock_handle *handle)
{
    return redis_hash_release(self, handle, NULL);
}

const struct lock_driver redis_reentrant_driver = {
    .kind = SECLOCK_KIND_REENTRANT,
    .features = LOCK_FENCED | LOCK_RENEWS,
    .row = &(const struct redis_row){.field = "reentrant",
                                     .message = "1",
                                     .renewal = redis_hash_renewal},
    .open = redis_kind_open,
    .close = redis_kind_close,
    .acquire = reentrant_acquire,
    .wait = redis_kind_wait,
    .stop_waiting = redis_kind_stop_waiting,
    .renew = redis_kind_renew,
    .release = reentrant_release,
    .status = redis_hash_status,
    .break_lock = redis_break,
    .check = redis_check,
};
