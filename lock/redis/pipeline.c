/* Writes the keys of locks, writes the calls of the simple lock and reads their answers; the caller
 * sends them. */
#include "lock/redis/pipeline.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "lock/driver.h"
#include "lock/process.h"

/* ---- keys ---- */

void lock_redis_key(const char *prefix, const char *name, const char *field, char *key_out)
{
    assert(strlen(prefix) + strlen(name) + strlen(field) + sizeof "{}:" <= SCRIPT_KEY_MAX);
    char *end = stpcpy(key_out, prefix);
    *end++ = '{';
    end = stpcpy(stpcpy(end, name), "}:");
    stpcpy(end, field);
}

/* why_four: an owner may release other holds of the name before it repeats a release, so each hold
 * has a number. When two releases share a key, the key keeps the later one; its value is the
 * request, so that nobody mistakes it for another's. */
void lock_redis_released(const char *base, const char *request, char field_out[LOCK_FIELD_MAX])
{
    enum { KEYS_OF_OWNER = 4 };
    char owner[SECLOCK_TOKEN_MAX];
    snprintf(owner, sizeof owner, "%s", request);
    char *number = strrchr(owner, '-'); /* OWNER-NUMBER; else the whole id */
    unsigned turn = 0;
    if (number) {
        turn = (unsigned)(strtoull(number + 1, NULL, 16) % KEYS_OF_OWNER);
        *number = '\0';
    }
    uint64_t hash = hash_text(owner) & 0xffffffff;
    int used = snprintf(field_out, LOCK_FIELD_MAX, "%s:%08" PRIx64 "%u", base, hash, turn);
    assert(used < LOCK_FIELD_MAX);
}

/* ---- the lock in halves ---- */

static void begin_call(struct script_call *call, enum script_id id, const struct lock_hold *hold)
{
    char key[SCRIPT_KEY_MAX];
    script_begin(call, id);
    lock_redis_key(hold->prefix, hold->name, "lock", key);
    script_key(call, key);
}

/* Each hold has its own token: two batches of one thread must not take each other's segment. */
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

/* Counts the deadline from the sending: the server's lease began no earlier. */
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

/* The token, not the caller's state, decides on the server, so releasing a hold that was lost or
 * never acquired does no harm. */
void lock_redis_end(struct lock_hold *hold, struct script_call *call_out)
{
    assert(hold->token[0] != '\0'); /* begun, or copied */
    begin_call(call_out, SCRIPT_lock_release, hold);
    script_text(call_out, hold->token);
    script_text(call_out, "1");
    hold->state = SECLOCK_STATE_RELEASED;
}

void lock_redis_copy(const struct seclock_handle *handle, const char *prefix,
                     struct lock_hold *hold_out)
{
    assert(handle->driver->kind == SECLOCK_KIND_SIMPLE && strlen(prefix) < SECLOCK_PREFIX_MAX);
    *hold_out = (struct lock_hold){
        .state = seclock_state(handle),
        .fence = handle->fence,
        .lease_ms = handle->lease_ms,
        .deadline_ns = clock_now_ns() + handle->deadline_ns - handle->now_ns(),
    };
    strcpy(hold_out->name, handle->name);
    strcpy(hold_out->prefix, prefix);
    strcpy(hold_out->token, handle->request);
}
