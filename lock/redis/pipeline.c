/* The simple lock in halves: writes its calls and reads their answers, and lets the caller send
 * them. */
#include "lock/redis/pipeline.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "lock/client.h"

static void begin_call(struct script_call *call, enum script_id id, const struct lock_hold *hold)
{
    char key[SCRIPT_KEY_MAX];
    script_begin(call, id);
    lock_redis_key(hold->prefix, hold->name, "lock", key);
    script_key(call, key);
}

/* A token of its own for each hold, not the owner's: two batches of one thread must not take
 * each other's segment. */
void lock_redis_prepare(struct lock_hold *hold, const char *prefix, const char *name, int lease_ms)
{
    assert(strlen(name) < SECLOCK_NAME_MAX && strlen(prefix) < SECLOCK_PREFIX_MAX);
    assert(lease_ms > 0);
    *hold = (struct lock_hold){.state = SECLOCK_STATE_RELEASED, .lease_ms = lease_ms};
    strcpy(hold->name, name);
    strcpy(hold->prefix, prefix);
    lock_random_text(hold->token);
}

void lock_redis_begin(struct lock_hold *hold, const char *prefix, const char *name, int lease_ms,
                      struct script_call *call_out)
{
    char fence[SCRIPT_KEY_MAX];
    lock_redis_prepare(hold, prefix, name, lease_ms);
    begin_call(call_out, SCRIPT_lock_acquire, hold);
    lock_redis_key(prefix, name, "fence", fence);
    script_key(call_out, fence);
    script_text(call_out, hold->token);
    script_int(call_out, lease_ms);
}

/* The deadline counts from the sending: the server's lease began no earlier than that. */
enum seclock_result lock_redis_acquired(struct lock_hold *hold, const struct script_call *call,
                                        int64_t sent_ns)
{
    assert(hold->state == SECLOCK_STATE_RELEASED && hold->token[0] != '\0');
    if (call->result != REDIS_ANSWERED) {
        bool doubt = call->result == REDIS_UNKNOWN;
        hold->state = doubt ? SECLOCK_STATE_UNKNOWN : SECLOCK_STATE_RELEASED;
        return doubt ? SECLOCK_UNKNOWN : SECLOCK_FAILED;
    }
    if (call->values[0] != 1)
        return SECLOCK_BUSY;
    hold->state = SECLOCK_STATE_HELD;
    hold->fence = (uint64_t)call->values[1];
    hold->deadline_ns = sent_ns + handle_valid_ns(hold->lease_ms);
    return SECLOCK_OK;
}

/* The token, not the caller's state, decides on the server: releasing a hold that was lost, or
 * never acquired, does no harm. */
void lock_redis_end(struct lock_hold *hold, struct script_call *call_out)
{
    assert(hold->token[0] != '\0'); /* begun, or copied */
    begin_call(call_out, SCRIPT_lock_release, hold);
    script_text(call_out, hold->token);
    script_text(call_out, "1");
    hold->state = SECLOCK_STATE_RELEASED;
}

void lock_redis_copy(const struct seclock_handle *handle, struct lock_hold *hold_out)
{
    assert(handle->driver->kind == SECLOCK_KIND_SIMPLE);
    *hold_out = (struct lock_hold){
        .state = seclock_state(handle),
        .fence = handle->fence,
        .lease_ms = handle->lease_ms,
        .deadline_ns = clock_now_ns() + handle->deadline_ns - handle->now_ns(),
    };
    strcpy(hold_out->name, handle->name);
    strcpy(hold_out->prefix, core_context(handle->core, SECLOCK_KIND_SIMPLE)->prefix);
    strcpy(hold_out->token, handle->request);
}
