/* Semaphores: up to N permits, each with an end of its own, in a sorted set; so the permits of a
 * holder that died come back by themselves. Two kinds of the same: those of `semaphore` are renewed
 * while their holder lives, those of `permit` end at a fixed time and can be given back by id. */
#include <stdio.h>
#include <string.h>

#include "lock/lock_core.h"
#include "lock/redis_kind.h"

static const char *field_of(const struct seclock_handle *handle)
{
    return handle->driver->kind == SECLOCK_KIND_PERMIT ? "permit" : "semaphore";
}

static const char *limit_of(const struct seclock_handle *handle)
{
    return handle->driver->kind == SECLOCK_KIND_PERMIT ? "permit:limit" : "semaphore:limit";
}

static enum seclock_result acquire(void *self, struct seclock_handle *handle)
{
    struct script_call call;
    script_begin(&call, SCRIPT_lock_permits);
    redis_kind_key(self, &call, handle->name, field_of(handle));
    redis_kind_key(self, &call, handle->name, limit_of(handle));
    redis_kind_key(self, &call, handle->name, "fence");
    script_text(&call, handle->request);
    script_int(&call, handle->lease_ms);
    script_int(&call, handle->permits);
    script_int(&call, handle->limit);
    handle->token = handle->request;
    enum seclock_result result = redis_kind_acquire(self, handle, &call);
    if (result == SECLOCK_BUSY && call.values[0] == 3) {
        lock_set_error("the semaphore has fewer permits than wanted, or is not set");
        result = SECLOCK_CONFIG;
    }
    handle->hold_count = handle->permits;
    return result;
}

static void wait_for_permit(void *self, struct seclock_handle *handle, int wait_ms)
{
    redis_kind_wait(self, handle, field_of(handle), NULL, wait_ms);
}

static void stop_waiting(void *self, struct seclock_handle *handle, bool acquired)
{
    (void)self;
    (void)acquired;
    redis_kind_stop_waiting(handle);
}

static void renewal_call(const struct redis_server *server, const char *name, const char *field,
                         const char *id, int lease_ms, bool fenced, struct script_call *call_out)
{
    script_begin(call_out, SCRIPT_lock_permits_renew);
    redis_kind_key(server, call_out, name, field);
    redis_kind_key(server, call_out, name, "fence");
    script_text(call_out, id);
    script_int(call_out, lease_ms);
    script_text(call_out, fenced ? "0" : "1");
}

static void renewal(const struct redis_server *server, const struct seclock_handle *handle,
                    struct script_call *call_out)
{
    renewal_call(server, handle->name, field_of(handle), handle->request, handle->lease_ms,
                 handle->fence != 0, call_out);
}

static void renew(void *self, struct seclock_handle *const *handles, size_t count,
                  enum seclock_result *results_out)
{
    redis_kind_renew(self, handles, count, results_out, renewal);
}

static enum seclock_result give_back(struct redis_server *server, const char *name,
                                     const char *field, const char *id)
{
    struct script_call call;
    script_begin(&call, SCRIPT_lock_permits_release);
    redis_kind_key(server, &call, name, field);
    redis_kind_key(server, &call, name, "released");
    script_text(&call, id);
    return redis_kind_tell(server, &call, SECLOCK_LOST);
}

static enum seclock_result release(void *self, struct seclock_handle *handle)
{
    return give_back(self, handle->name, field_of(handle), handle->request);
}

static enum seclock_result status_of(struct redis_server *server, const char *name,
                                     const char *field, struct seclock_status *status_out)
{
    char limit[SCRIPT_KEY_MAX], fence[SCRIPT_KEY_MAX], suffix[32];
    struct command commands[] = {{.argc = 2, .argv = {"GET", limit}},
                                 {.argc = 2, .argv = {"GET", fence}}};
    snprintf(suffix, sizeof suffix, "%s:limit", field);
    redis_server_key(server, name, suffix, limit);
    redis_server_key(server, name, "fence", fence);
    enum seclock_result result = redis_kind_commands(server, commands, 2);
    if (result == SECLOCK_OK) {
        status_out->limit = command_int(&commands[0], -1);
        status_out->fence = (uint64_t)command_int(&commands[1], -1);
    }
    command_clear(commands, 2);
    if (result == SECLOCK_OK)
        result = redis_kind_set_status(server, name, field, '#', status_out);
    return result;
}

static enum seclock_result semaphore_status(void *self, const char *name,
                                            struct seclock_status *status_out)
{
    return status_of(self, name, "semaphore", status_out);
}

static enum seclock_result permit_status(void *self, const char *name,
                                         struct seclock_status *status_out)
{
    return status_of(self, name, "permit", status_out);
}

static enum seclock_result semaphore_break(void *self, const char *name)
{
    static const char *const fields[] = {"semaphore", NULL};
    return redis_kind_break(self, name, fields, "*");
}

static enum seclock_result permit_break(void *self, const char *name)
{
    static const char *const fields[] = {"permit", NULL};
    return redis_kind_break(self, name, fields, "*");
}

/* Those who wait are woken: there may be more permits now. */
static enum seclock_result set_limit(struct redis_server *server, const char *name,
                                     const char *field, int limit)
{
    char permits[SCRIPT_KEY_MAX], key[SCRIPT_KEY_MAX], number[16], suffix[32];
    struct command commands[] = {{.argc = 5, .argv = {"SET", key, number, "EX", "604800"}},
                                 {.argc = 3, .argv = {"PUBLISH", permits, "*"}}};
    snprintf(number, sizeof number, "%d", limit);
    snprintf(suffix, sizeof suffix, "%s:limit", field);
    redis_server_key(server, name, field, permits);
    redis_server_key(server, name, suffix, key);
    enum seclock_result result = redis_kind_commands(server, commands, 2);
    command_clear(commands, 2);
    return result;
}

static enum seclock_result semaphore_set_limit(void *self, const char *name, int limit)
{
    return set_limit(self, name, "semaphore", limit);
}

static enum seclock_result permit_set_limit(void *self, const char *name, int limit)
{
    return set_limit(self, name, "permit", limit);
}

/* ---- permits by their id ---- */

static enum seclock_result by_id(struct seclock_client *client, const char *name, const char *id,
                                 struct redis_server **server_out)
{
    struct lock_core *core = lock_client_core(client);
    *server_out = core ? lock_core_redis(core) : NULL;
    if (!*server_out)
        return core ? SECLOCK_CONFIG : SECLOCK_FAILED;
    if (id[0] == '\0' || strlen(id) >= SECLOCK_TOKEN_MAX) {
        lock_set_error("not the id of a permit");
        return SECLOCK_CONFIG;
    }
    return lock_name_check(name);
}

enum seclock_result seclock_permit_release(struct seclock_client *client, const char *name,
                                           const char *id)
{
    struct redis_server *server;
    enum seclock_result result = by_id(client, name, id, &server);
    return result == SECLOCK_OK ? give_back(server, name, "permit", id) : result;
}

enum seclock_result seclock_permit_extend(struct seclock_client *client, const char *name,
                                          const char *id, int lease_ms)
{
    struct script_call call;
    struct redis_server *server;
    enum seclock_result result = by_id(client, name, id, &server);
    if (result != SECLOCK_OK)
        return result;
    if (lease_ms < SECLOCK_LEASE_MS_MIN || lease_ms > SECLOCK_LEASE_MS_MAX) {
        lock_set_error("lease out of range");
        return SECLOCK_CONFIG;
    }
    renewal_call(server, name, "permit", id, lease_ms, true, &call);
    return redis_kind_run(server, &call, SECLOCK_LOST);
}

const struct lock_driver lock_semaphore_driver = {
    .kind = SECLOCK_KIND_SEMAPHORE,
    .features = LOCK_FENCED | LOCK_RENEWS | LOCK_PERMITTED,
    .open = redis_kind_open,
    .close = redis_kind_close,
    .acquire = acquire,
    .wait = wait_for_permit,
    .stop_waiting = stop_waiting,
    .renew = renew,
    .release = release,
    .status = semaphore_status,
    .break_lock = semaphore_break,
    .set_limit = semaphore_set_limit,
    .check = redis_kind_check,
};

const struct lock_driver lock_permit_driver = {
    .kind = SECLOCK_KIND_PERMIT,
    .features = LOCK_FENCED | LOCK_PERMITTED,
    .open = redis_kind_open,
    .close = redis_kind_close,
    .acquire = acquire,
    .wait = wait_for_permit,
    .stop_waiting = stop_waiting,
    .renew = renew,
    .release = release,
    .status = permit_status,
    .break_lock = permit_break,
    .set_limit = permit_set_limit,
    .check = redis_kind_check,
};
