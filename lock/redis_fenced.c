/* The fenced Redis lock: SET with a lease and a fence in one script, compare and delete. */
#include <stdio.h>
#include <stdlib.h>

#include "lock/lock_driver.h"
#include "lock/lock_hold.h"
#include "lock/redis_pipeline.h"
#include "lua/script.h"

struct redis_fenced {
    struct redis *redis;
};

void lock_redis_key(const char *prefix, const char *name, const char *field, char *key_out)
{
    snprintf(key_out, SCRIPT_KEY_MAX, "%s{%s}:%s", prefix, name, field);
}

static void call_on_lock(struct script_call *call, enum script_id id, const struct lock_hold *hold)
{
    char key[SCRIPT_KEY_MAX];
    script_begin(call, id);
    lock_redis_key(hold->prefix, hold->name, "lock", key);
    script_key(call, key);
}

static void acquire_call(const struct lock_hold *hold, struct script_call *call)
{
    char fence[SCRIPT_KEY_MAX];
    call_on_lock(call, SCRIPT_lock_acquire, hold);
    lock_redis_key(hold->prefix, hold->name, "fence", fence);
    script_key(call, fence);
    script_text(call, hold->token);
    script_int(call, hold->lease_ms);
}

/* values[0] is 1 for yes, 0 for no in all three scripts of the lock. */
static enum lock_result lock_answer(const struct script_call *call, enum lock_result no)
{
    if (call->result == REDIS_ANSWERED)
        return call->values[0] == 1 ? LOCK_OK : no;
    return call->result == REDIS_UNKNOWN ? LOCK_UNKNOWN : LOCK_FAILED;
}

void lock_redis_begin(struct lock_hold *hold, const char *prefix, const char *name, int lease_ms,
                      struct script_call *call_out)
{
    lock_hold_init(hold, prefix, name, lease_ms);
    acquire_call(hold, call_out);
}

enum lock_result lock_redis_acquired(struct lock_hold *hold, const struct script_call *call,
                                     int64_t sent_ns)
{
    enum lock_result result = lock_answer(call, LOCK_BUSY);
    if (result == LOCK_OK)
        hold->fence = (uint64_t)call->values[1];
    lock_hold_acquired(hold, result, sent_ns);
    return result;
}

void lock_redis_end(struct lock_hold *hold, struct script_call *call_out)
{
    call_on_lock(call_out, SCRIPT_lock_release, hold);
    script_text(call_out, hold->token);
    hold->state = LOCK_RELEASED;
}

static void *fenced_open(const struct lock_options *options, char *error_out, size_t error_size)
{
    struct redis_fenced *fenced = calloc(1, sizeof *fenced);
    if (!fenced) {
        snprintf(error_out, error_size, "out of memory");
        return NULL;
    }
    fenced->redis = redis_open(options->url, options->timeout_ms, error_out, error_size);
    if (!fenced->redis) {
        free(fenced);
        return NULL;
    }
    return fenced;
}

static void fenced_close(void *self)
{
    struct redis_fenced *fenced = self;
    redis_close(&fenced->redis);
    free(fenced);
}

static enum lock_result fenced_acquire(void *self, struct lock_hold *hold)
{
    struct redis_fenced *fenced = self;
    struct script_call call;
    acquire_call(hold, &call);
    script_run(fenced->redis, &call, 1);
    if (call.result == REDIS_UNKNOWN) /* the same token again gives the same answer, so ask again */
        script_run(fenced->redis, &call, 1);
    if (call.result == REDIS_ANSWERED && call.values[0] == 1)
        hold->fence = (uint64_t)call.values[1];
    return lock_answer(&call, LOCK_BUSY);
}

static enum lock_result fenced_renew(void *self, const struct lock_hold *hold)
{
    struct redis_fenced *fenced = self;
    struct script_call call;
    call_on_lock(&call, SCRIPT_lock_renew, hold);
    script_text(&call, hold->token);
    script_int(&call, hold->lease_ms);
    script_run(fenced->redis, &call, 1);
    return lock_answer(&call, LOCK_LOST);
}

static enum lock_result fenced_release(void *self, const struct lock_hold *hold)
{
    struct redis_fenced *fenced = self;
    struct script_call call;
    call_on_lock(&call, SCRIPT_lock_release, hold);
    script_text(&call, hold->token);
    script_run(fenced->redis, &call, 1);
    return lock_answer(&call, LOCK_LOST);
}

static const char *fenced_error(const void *self)
{
    return redis_error(((const struct redis_fenced *)self)->redis);
}

const struct lock_driver lock_redis_driver = {
    .kind = "redis",
    .open = fenced_open,
    .close = fenced_close,
    .acquire = fenced_acquire,
    .renew = fenced_renew,
    .release = fenced_release,
    .error = fenced_error,
};
