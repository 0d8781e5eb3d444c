/* Semaphores: up to N permits in a sorted set, each with an end of its own, so that the permits of
 * a dead holder come back by themselves.
 *
 * Two kinds in two rows: a `semaphore` renews its permits while their holder lives; a `permit`
 * ends at a fixed time, and anybody can release it by id. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "lock/redis/kind.h"
#include "lock/redis/waiter.h"
#include "lock/text.h"

enum { LIMIT_FIELD_MAX = 32 };

/* The number of permits has a key of its own. */
static void limit_field(const struct redis_row *row, char field_out[LIMIT_FIELD_MAX])
{
    snprintf(field_out, LIMIT_FIELD_MAX, "%s:limit", row->field);
}

/* The limit of the request counts only if none is set: the first to come sets it, and later
 * callers agree with that or wait. */
static enum seclock_result permits_acquire(void *self, struct seclock_handle *handle)
{
    assert(handle->permits > 0 && handle->permits <= SECLOCK_PERMITS_MAX);
    struct script_call call;
    char limit[LIMIT_FIELD_MAX];
    limit_field(redis_row_of(handle), limit);
    redis_server_begin(self, &call, SCRIPT_lock_permits, handle->name, redis_row_of(handle)->field,
                       limit, "fence", NULL);
    redis_server_released(self, &call, handle->name, handle->request);
    script_text(&call, handle->request);
    script_int(&call, handle->lease_ms);
    script_int(&call, handle->permits);
    script_int(&call, handle->limit);
    handle->token = handle->request;
    enum seclock_result result = redis_kind_acquire(self, handle, &call);
    if (result == SECLOCK_BUSY && call.values[0] == 3)
        result =
            lock_fail(SECLOCK_CONFIG, "the semaphore has fewer permits than wanted, or is not set");
    handle->hold_count = handle->permits;
    return result;
}

/* A returned permit may wake a waiter that wants several, while it is enough for another one. */
static void permits_wait(void *self, struct seclock_handle *handle, int wait_ms)
{
    if (handle->waiting && handle->permits > 1)
        waiter_pass(handle->waiting);
    redis_kind_wait(self, handle, wait_ms);
}

/* ---- renew, release ---- */

static void renewal_call(const struct redis_server *server, const char *name, const char *field,
                         const char *id, int lease_ms, bool fenced, struct script_call *call_out)
{
    assert(id[0] != '\0' && lease_ms > 0);
    redis_server_begin(server, call_out, SCRIPT_lock_permits_renew, name, field, "fence", NULL);
    script_text(call_out, id);
    script_int(call_out, lease_ms);
    script_text(call_out, fenced ? "0" : "1");
}

static void permits_renewal(const struct redis_server *server, const struct seclock_handle *handle,
                            struct script_call *call_out)
{
    renewal_call(server, handle->name, redis_row_of(handle)->field, handle->request,
                 handle->lease_ms, handle->fence != 0, call_out);
}

/* Publishes how many permits came back, so that as many waiters wake. */
static enum seclock_result release_by_id(struct redis_server *server, const char *name,
                                         const char *field, const char *id)
{
    assert(id[0] != '\0');
    struct script_call call;
    redis_server_begin(server, &call, SCRIPT_lock_permits_release, name, field, NULL);
    redis_server_released(server, &call, name, id);
    script_text(&call, id);
    return redis_kind_run_publishing(server, NULL, &call, SECLOCK_LOST);
}

static enum seclock_result permits_release(void *self, struct seclock_handle *handle)
{
    assert(handle->permits > 0);
    return release_by_id(self, handle->name, redis_row_of(handle)->field, handle->request);
}

/* ---- for operators ---- */

/* The number of permits comes from its own key, the permits taken from the set. */
static enum seclock_result permits_status(const struct lock_driver *driver, void *self,
                                          const char *name, struct seclock_status *status_out)
{
    const struct redis_row *row = driver->row;
    char field[LIMIT_FIELD_MAX], limit[SCRIPT_KEY_MAX], fence[SCRIPT_KEY_MAX];
    struct command commands[] = {{.argc = 2, .argv = {"GET", limit}},
                                 {.argc = 2, .argv = {"GET", fence}}};
    limit_field(row, field);
    redis_server_key(self, name, field, limit);
    redis_server_key(self, name, "fence", fence);
    enum seclock_result result = redis_server_commands(self, commands, 2, NULL);
    if (result == SECLOCK_OK) {
        status_out->limit = command_int(&commands[0], -1);
        status_out->fence = (uint64_t)command_int(&commands[1], -1);
    }
    command_clear(commands, 2);
    if (result == SECLOCK_OK)
        result = redis_set_status(self, name, row->field, '#', status_out);
    return result;
}

/* Wakes all waiters, because there may be more permits now. */
static enum seclock_result permits_set_limit(const struct lock_driver *driver, void *self,
                                             const char *name, int limit)
{
    assert(limit > 0);
    const struct redis_row *row = driver->row;
    char field[LIMIT_FIELD_MAX], permits[SCRIPT_KEY_MAX], key[SCRIPT_KEY_MAX], number[16];
    struct command commands[] = {{.argc = 5, .argv = {"SET", key, number, "EX", "604800"}},
                                 {.argc = 3, .argv = {"PUBLISH", permits, "*"}}};
    snprintf(number, sizeof number, "%d", limit);
    limit_field(row, field);
    redis_server_key(self, name, row->field, permits);
    redis_server_key(self, name, field, key);
    enum seclock_result result = redis_server_commands(self, commands, 2, NULL);
    command_clear(commands, 2);
    return result;
}

#define PERMITS_FUNCTIONS                                                                          \
    .open = redis_kind_open, .acquire = permits_acquire, .wait = permits_wait,                     \
    .stop_waiting = redis_kind_stop_waiting, .renew = redis_kind_renew,                            \
    .release = permits_release, .status = permits_status, .break_lock = redis_kind_break,          \
    .set_limit = permits_set_limit, .check = redis_kind_check

static const struct redis_row semaphore_row = {.field = "semaphore",
                                               .message = "*",
                                               .renewal = permits_renewal};
static const struct redis_row permit_row = {.field = "permit",
                                            .message = "*",
                                            .renewal = permits_renewal};

const struct lock_driver redis_semaphore_driver = {
    .kind = SECLOCK_KIND_SEMAPHORE,
    .features = LOCK_RENEWS | LOCK_PERMITTED,
    .row = &semaphore_row,
    PERMITS_FUNCTIONS,
};

const struct lock_driver redis_permit_driver = {
    .kind = SECLOCK_KIND_PERMIT,
    .features = LOCK_PERMITTED,
    .row = &permit_row,
    PERMITS_FUNCTIONS,
};

/* ---- permits by their id ---- */

/* A permit is released without a handle: its id alone is the right to do so. */
static enum seclock_result server_for_id(struct seclock_client *client, const char *name,
                                         const char *id, struct redis_server **server_out)
{
    enum seclock_result result = redis_kind_server(client, name, server_out);
    if (result == SECLOCK_OK && (id[0] == '\0' || strlen(id) >= SECLOCK_TOKEN_MAX))
        result = lock_fail(SECLOCK_CONFIG, "not the id of a permit");
    return result;
}

enum seclock_result seclock_permit_release(struct seclock_client *client, const char *name,
                                           const char *id)
{
    struct redis_server *server;
    enum seclock_result result = server_for_id(client, name, id, &server);
    return result == SECLOCK_OK ? release_by_id(server, name, permit_row.field, id) : result;
}

enum seclock_result seclock_permit_extend(struct seclock_client *client, const char *name,
                                          const char *id, int lease_ms)
{
    struct script_call call;
    struct redis_server *server;
    enum seclock_result result = server_for_id(client, name, id, &server);
    if (result != SECLOCK_OK)
        return result;
    if (lease_ms < SECLOCK_LEASE_MS_MIN || lease_ms > SECLOCK_LEASE_MS_MAX)
        return lock_fail(SECLOCK_CONFIG, "lease out of range");
    renewal_call(server, name, permit_row.field, id, lease_ms, true, &call);
    return redis_kind_run(server, NULL, &call, SECLOCK_LOST);
}
