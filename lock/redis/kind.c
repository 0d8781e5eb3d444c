/* What the Redis kinds have in common: calls, renewals in pipelines, waiting. */
#include "lock/redis/kind.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "lock/client.h"
#include "lock/redis/key.h"
#include "lock/redis/waiter.h"
#include "lock/text.h"

enum {
    RENEW_CHUNK = 32,
    RENEW_MS_MIN = 5,
    WAIT_MS_UNSUBSCRIBED = 50,
    RELEASED_BEFORE = 4, /* what the scripts answer to a request that was released */
};

const struct redis_row *redis_row_of(const struct seclock_handle *handle)
{
    const struct redis_row *row = handle->driver->row;
    assert(row && row->field);
    return row;
}

enum seclock_result redis_kind_open(const struct lock_context *context, void **self_out)
{
    *self_out = core_redis(context->core);
    return *self_out ? SECLOCK_OK : SECLOCK_CONFIG;
}

void redis_kind_close(void *self)
{
    (void)self; /* the server belongs to the core */
}

/* ---- calls ---- */

void redis_kind_key(const struct redis_server *server, struct script_call *call, const char *name,
                    const char *field)
{
    char key[SCRIPT_KEY_MAX];
    redis_server_key(server, name, field, key);
    script_key(call, key);
}

void redis_kind_released_key(const struct redis_server *server, struct script_call *call,
                             const char *name, const char *request)
{
    char field[LOCK_FIELD_MAX];
    lock_redis_released("released", request, field);
    redis_kind_key(server, call, name, field);
}

static enum seclock_result answer(const struct script_call *call, enum seclock_result no)
{
    assert(no != SECLOCK_OK);
    enum seclock_result result = redis_server_result(call);
    return result == SECLOCK_OK && call->values[0] != 1 ? no : result;
}

enum seclock_result redis_kind_run(struct redis_server *server, struct script_call *call,
                                   enum seclock_result no)
{
    redis_server_run(server, call, 1, true);
    return answer(call, no);
}

int redis_kind_limit_ms(const struct redis_server *server, const struct seclock_handle *handle)
{
    if (!handle || handle->until_ns == 0)
        return 0;
    return handle_request_ms(handle, redis_server_timeout_ms(server));
}

enum seclock_result redis_kind_run_publishing(struct redis_server *server,
                                              const struct seclock_handle *handle,
                                              struct script_call *call, enum seclock_result no)
{
    redis_server_run_publishing(server, call, redis_kind_limit_ms(server, handle));
    return answer(call, no);
}

enum seclock_result redis_kind_acquire(struct redis_server *server, struct seclock_handle *handle,
                                       struct script_call *call)
{
    assert(handle->lease_ms > 0);
    redis_server_run_within(server, call, 1, redis_kind_limit_ms(server, handle));
    enum seclock_result result = answer(call, SECLOCK_BUSY);
    if (result == SECLOCK_OK) {
        handle->fence = (uint64_t)call->values[1];
        handle->hold_count = (int)call->values[2];
    } else if (call->values[0] == RELEASED_BEFORE) {
        result = lock_fail(SECLOCK_FAILED, "the request was released before it came");
    } else if (result == SECLOCK_BUSY) {
        handle->busy_ms = call->values[1];
    } else if (result == SECLOCK_FAILED && strstr(seclock_error(), ": WRONGTYPE")) {
        result = SECLOCK_CONFIG; /* another program uses one of our keys: waiting would not help */
    }
    return result;
}

/* ---- renewal ---- */

/* How long the renewal of some holds may wait for its answer. After the first of their deadlines
 * the answer is of no use, and the other holds of the watchdog wait behind this one. */
static int renewal_ms(struct seclock_handle *const *handles, size_t count)
{
    assert(count > 0);
    int64_t now_ns = handles[0]->now_ns();
    int64_t least_ms = SECLOCK_LEASE_MS_MAX;
    for (size_t i = 0; i < count; i++) {
        int64_t left_ms = (handles[i]->deadline_ns - now_ns) / 1000000;
        least_ms = left_ms < least_ms ? left_ms : least_ms;
    }
    return least_ms > RENEW_MS_MIN ? (int)least_ms : RENEW_MS_MIN;
}

/* A hold whose acquisition was not answered learns its fence from its first renewal. */
static void learn_fence(struct seclock_handle *handle, const struct script_call *call)
{
    if (handle->fence == 0)
        handle->fence = (uint64_t)call->values[1];
}

static void renew_chunk(struct redis_server *server, struct seclock_handle *const *handles,
                        size_t count, enum seclock_result *results_out)
{
    struct script_call calls[RENEW_CHUNK];
    assert(count > 0 && count <= RENEW_CHUNK);
    for (size_t i = 0; i < count; i++)
        redis_row_of(handles[i])->renewal(server, handles[i], &calls[i]);
    redis_server_run_within(server, calls, count, renewal_ms(handles, count));
    for (size_t i = 0; i < count; i++) {
        results_out[i] = answer(&calls[i], SECLOCK_LOST);
        if (results_out[i] == SECLOCK_OK)
            learn_fence(handles[i], &calls[i]);
    }
}

void redis_kind_renew(void *self, struct seclock_handle *const *handles, size_t count,
                      enum seclock_result *results_out)
{
    for (size_t done = 0, chunk; done < count; done += chunk) {
        chunk = count - done < RENEW_CHUNK ? count - done : RENEW_CHUNK;
        renew_chunk(self, handles + done, chunk, results_out + done);
    }
}

/* ---- waiting ---- */

/* Without memory or descriptors for a subscription the waiter polls, and a bit more often. */
void redis_kind_wait_on(struct redis_server *server, struct seclock_handle *handle,
                        const char *field, const char *suffix, int wait_ms)
{
    assert(wait_ms >= 0);
    char channel[SCRIPT_KEY_MAX + SECLOCK_TOKEN_MAX];
    if (!handle->waiting) {
        redis_server_key(server, handle->name, field, channel);
        if (suffix)
            snprintf(channel + strlen(channel), SECLOCK_TOKEN_MAX, ":%s", suffix);
        handle->waiting = waiter_join(redis_server_waiters(server), channel);
    }
    if (handle->waiting)
        waiter_sleep(handle->waiting, wait_ms, handle->cancel_fd);
    else
        handle_sleep(handle, wait_ms < WAIT_MS_UNSUBSCRIBED ? wait_ms : WAIT_MS_UNSUBSCRIBED);
}

void redis_kind_wait(void *self, struct seclock_handle *handle, int wait_ms)
{
    redis_kind_wait_on(self, handle, redis_row_of(handle)->field, NULL, wait_ms);
}

/* The waiter's channel is unsubscribed with its last waiter. */
void redis_kind_stop_waiting(void *self, struct seclock_handle *handle, bool acquired)
{
    struct waiter *waiter = handle->waiting;
    (void)self;
    if (waiter)
        waiter_leave(&waiter, acquired);
    handle->waiting = NULL;
}
