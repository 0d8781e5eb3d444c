/* Implements the timestamp lock: the classic lock of older clients, whose value is its expiry time,
 * made correct by the server's clock, the holder's token, and changes only by WATCH and MULTI. It
 * needs no server scripts. Each change takes two round trips:
 *
 *   WATCH, GET, TIME ─► decide ─► MULTI, SET or DEL, EXEC (refused if the value has changed)
 *
 * A full Redis refuses every command between MULTI and EXEC. Then a script renews and releases;
 * where scripts are forbidden as well, the hold ends with its lease. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lock/redis/kind.h"
#include "lock/redis/pipeline.h"
#include "lock/text.h"

#define FIELD "timestamp"

enum { TRIES_MAX = 4, UNANSWERED_MAX = 2, FENCE_SECONDS = 604800 };

/* The answers of the first round trip. */
struct seen {
    int64_t left_ms;     /* of the holder's lease; 0 or less: nobody holds the lock */
    bool mine, released; /* this request's token holds it, or was the last to release it */
    bool unheld;         /* this request was released when it held nothing */
    bool sharded;        /* the server knows sharded channels: see include/tell.lua */
    int64_t now_us;      /* by the server's clock */
    int64_t fence;       /* the last one given */
};

/* The state of a change that is tried until it is done. */
struct attempt {
    const struct redis_server *server;
    struct redis *redis;
    char lock[SCRIPT_KEY_MAX], fence[SCRIPT_KEY_MAX], released[SCRIPT_KEY_MAX];
    char leader[SCRIPT_KEY_MAX];
    bool doubtful; /* a change was not answered (a look leaves no doubt) */
};

static enum seclock_result result_of(const struct attempt *attempt, const struct command *commands,
                                     int count)
{
    for (int i = 0; i < count; i++)
        if (commands[i].result != REDIS_ANSWERED) {
            redis_server_failed(attempt->server, attempt->redis);
            return commands[i].result == REDIS_UNKNOWN ? SECLOCK_UNKNOWN : SECLOCK_FAILED;
        }
    return SECLOCK_OK;
}

/* Sends UNWATCH first, because an earlier round may have ended without EXEC. Only an acquisition
 * watches the fence, since it alone sets it, and other kinds of lock of this name share that key.
 * It also watches for its own release, which may overtake a slow change. The first command is there
 * for its error alone, from a server without sharded channels; an acquisition tells nobody. */
static enum seclock_result look(struct attempt *attempt, const char *token, bool acquires,
                                struct seen *seen_out)
{
    assert(attempt->redis);
    struct command commands[] = {
        {.argc = 3, .argv = {"PUBSUB", "SHARDNUMSUB", attempt->lock}},
        {.argc = 1, .argv = {"UNWATCH"}},
        {.argc = acquires ? 4 : 2,
         .argv = {"WATCH", attempt->lock, attempt->fence, attempt->released}},
        {.argc = 2, .argv = {"GET", attempt->lock}},
        {.argc = 2, .argv = {"GET", attempt->fence}},
        {.argc = 2, .argv = {"GET", attempt->released}},
        {.argc = 1, .argv = {"TIME"}},
    };
    const int first = acquires ? 1 : 0;
    command_run(attempt->redis, commands + first, (size_t)(7 - first));
    enum seclock_result result = result_of(attempt, commands + 1, 6);
    const char *value = command_text(&commands[3], -1, NULL);
    const char *colon = value ? strchr(value, ':') : NULL;
    const char *released = command_text(&commands[5], -1, NULL);
    seen_out->sharded = !acquires && commands[0].result == REDIS_ANSWERED;
    seen_out->now_us = command_int(&commands[6], 0) * 1000000 + command_int(&commands[6], 1);
    seen_out->left_ms = command_int(&commands[3], -1) - seen_out->now_us / 1000;
    seen_out->mine = seen_out->left_ms > 0 && colon && strcmp(colon + 1, token) == 0;
    seen_out->released = released && strcmp(released, token) == 0;
    seen_out->unheld = released && released[0] == '-' && strcmp(released + 1, token) == 0;
    seen_out->fence = command_int(&commands[4], -1);
    command_clear(commands + first, (size_t)(7 - first));
    return result;
}

/* Runs commands that end in EXEC. SECLOCK_BUSY: refused, because a watched key has changed, or a
 * cluster moves its slot. */
static enum seclock_result change(struct attempt *attempt, struct command *commands, int count)
{
    assert(strcmp(commands[count - 1].argv[0], "EXEC") == 0);
    command_run(attempt->redis, commands, (size_t)count);
    enum seclock_result result = result_of(attempt, commands, count);
    attempt->doubtful = attempt->doubtful || result == SECLOCK_UNKNOWN;
    bool moving = result == SECLOCK_FAILED && command_moving(attempt->redis);
    if (moving || (result == SECLOCK_OK && command_count(&commands[count - 1]) < 0))
        result = SECLOCK_BUSY;
    command_clear(commands, (size_t)count);
    return result;
}

/* Makes by script the change that a full server refused as a transaction; a lease of 0 releases. */
static enum seclock_result change_by_script(struct attempt *attempt,
                                            const struct seclock_handle *handle, int lease_ms)
{
    struct script_call call;
    assert(lease_ms >= 0);
    script_begin(&call, SCRIPT_lock_timestamp);
    script_key(&call, attempt->lock);
    script_key(&call, attempt->released);
    script_text(&call, handle->request);
    script_int(&call, lease_ms);
    script_run(attempt->redis, &call, 1);
    enum seclock_result result = redis_server_answer(&call, SECLOCK_LOST);
    if (call.result != REDIS_ANSWERED)
        redis_server_failed(attempt->server, attempt->redis);
    attempt->doubtful = attempt->doubtful || result == SECLOCK_UNKNOWN;
    return result;
}

/* True when a full server aborted the transaction because it refused one of its commands. */
static bool was_aborted(const struct attempt *attempt, enum seclock_result result)
{
    return result == SECLOCK_FAILED && strstr(redis_error(attempt->redis), "EXECABORT");
}

/* Writes the lock; with a fence of 0 the stored one stays. With a value also the record of the
 * leader, as lock_proclaim.lua does. Of a sending that comes late, this lock's changes since then
 * make EXEC do nothing. */
static enum seclock_result write_lock(struct attempt *attempt, const struct seclock_handle *handle,
                                      const struct seen *seen, int64_t fence)
{
    assert(fence >= 0 && handle->lease_ms > 0);
    char value[32 + SECLOCK_TOKEN_MAX], lease[16], number[24], seconds[16], term[24];
    int count = 3;
    snprintf(value, sizeof value, "%" PRId64 ":%s", seen->now_us / 1000 + handle->lease_ms,
             handle->request);
    snprintf(lease, sizeof lease, "%d", handle->lease_ms);
    snprintf(number, sizeof number, "%" PRId64, fence);
    snprintf(seconds, sizeof seconds, "%d", FENCE_SECONDS);
    snprintf(term, sizeof term, "%" PRIu64, handle->fence);
    struct command commands[7] = {
        {.argc = 1, .argv = {"MULTI"}},
        {.argc = 5, .argv = {"SET", attempt->lock, value, "PX", lease}},
        {.argc = 5, .argv = {"SET", attempt->fence, number, "EX", seconds}},
    };
    if (fence == 0)
        commands[2] = (struct command){.argc = 3, .argv = {"EXPIRE", attempt->fence, seconds}};
    if (handle->value) {
        commands[count++] = (struct command){
            .argc = 8,
            .argv = {"HSET", attempt->leader, "f", term, "t", handle->request, "v", handle->value}};
        commands[count++] =
            (struct command){.argc = 3, .argv = {"PEXPIRE", attempt->leader, lease}};
    }
    if (handle->proclaims)
        commands[count++] = (struct command){
            .argc = 3, .argv = {seen->sharded ? "SPUBLISH" : "PUBLISH", attempt->leader, "*"}};
    commands[count++] = (struct command){.argc = 1, .argv = {"EXEC"}};
    return change(attempt, commands, count);
}

/* Treats a lock whose time is over as free: its expiry in Redis is only the backstop. */
static enum seclock_result acquire_once(struct attempt *attempt, struct seclock_handle *handle)
{
    struct seen seen;
    enum seclock_result result = look(attempt, handle->request, true, &seen);
    if (result != SECLOCK_OK)
        return result;
    if (seen.released || seen.unheld)
        return lock_fail(SECLOCK_FAILED, "the request was released before it came");
    if (seen.left_ms > 0 && !seen.mine) {
        handle->busy_ms = seen.left_ms;
        return SECLOCK_BUSY;
    }
    if (seen.fence == INT64_MAX) /* written by another program: no fence comes after it */
        return lock_fail(SECLOCK_CONFIG, "the fence in Redis has no next number");
    bool fenced = seen.mine && seen.fence > 0;
    int64_t fence = seen.fence;
    if (!fenced)
        fence = seen.now_us > seen.fence ? seen.now_us : seen.fence + 1;
    result = write_lock(attempt, handle, &seen, fenced ? 0 : fence);
    if (result == SECLOCK_OK)
        handle->fence = (uint64_t)fence;
    handle->busy_ms = 0;
    return result;
}

/* Looks for a request that should hold the lock: SECLOCK_LOST when it does not. */
static enum seclock_result look_for_mine(struct attempt *attempt,
                                         const struct seclock_handle *handle, struct seen *seen_out)
{
    enum seclock_result result = look(attempt, handle->request, false, seen_out);
    return result == SECLOCK_OK && !seen_out->mine ? SECLOCK_LOST : result;
}

static enum seclock_result renew_once(struct attempt *attempt, struct seclock_handle *handle)
{
    struct seen seen;
    enum seclock_result result = look_for_mine(attempt, handle, &seen);
    if (result == SECLOCK_LOST && seen.left_ms > 0)
        handle_keep_loss(handle, SECLOCK_LOSS_TAKEN);
    if (result != SECLOCK_OK)
        return result;
    if (handle->fence == 0)
        handle->fence = (uint64_t)seen.fence;
    result = write_lock(attempt, handle, &seen, 0);
    return was_aborted(attempt, result) && !handle->proclaims
               ? change_by_script(attempt, handle, handle->lease_ms)
               : result;
}

/* Keeps a request that is released without a hold, as the scripts of other kinds do, so that it
 * acquires nothing if it is still on its way. */
static enum seclock_result keep_unheld(struct attempt *attempt, const struct seclock_handle *handle)
{
    assert(attempt->redis);
    char value[1 + SECLOCK_TOKEN_MAX];
    snprintf(value, sizeof value, "-%s", handle->request);
    struct command commands[] = {
        {.argc = 1, .argv = {"MULTI"}},
        {.argc = 5, .argv = {"SET", attempt->released, value, "PX", "60000"}},
        {.argc = 1, .argv = {"EXEC"}},
    };
    enum seclock_result result = change(attempt, commands, 3);
    return result == SECLOCK_OK ? SECLOCK_LOST : result;
}

/* Changes the lock and the memory of its release at once, so that a repeat finds one of the two. */
static enum seclock_result give_back(struct attempt *attempt, const struct seclock_handle *handle,
                                     bool sharded)
{
    assert(attempt->redis);
    struct command commands[] = {
        {.argc = 1, .argv = {"MULTI"}},
        {.argc = 2, .argv = {"DEL", attempt->lock}},
        {.argc = 5, .argv = {"SET", attempt->released, handle->request, "PX", "60000"}},
        {.argc = 3, .argv = {sharded ? "SPUBLISH" : "PUBLISH", attempt->lock, "1"}},
        {.argc = 1, .argv = {"EXEC"}},
    };
    return change(attempt, commands, 5);
}

static enum seclock_result release_once(struct attempt *attempt, struct seclock_handle *handle)
{
    struct seen seen;
    enum seclock_result result = look_for_mine(attempt, handle, &seen);
    if (result == SECLOCK_LOST && (seen.released || seen.unheld))
        return seen.released ? SECLOCK_OK : SECLOCK_LOST;
    if (result != SECLOCK_OK && result != SECLOCK_LOST)
        return result;
    result = result == SECLOCK_OK ? give_back(attempt, handle, seen.sharded)
                                  : keep_unheld(attempt, handle);
    return was_aborted(attempt, result) ? change_by_script(attempt, handle, 0) : result;
}

/* Repeats a change after another client's change, or after a lost answer: the token in the value
 * tells whether the change is done. */
static enum seclock_result repeat(void *self, struct seclock_handle *handle,
                                  enum seclock_result (*once)(struct attempt *attempt,
                                                              struct seclock_handle *handle))
{
    assert(once);
    struct attempt attempt = {.server = self, .redis = redis_server_take(self)};
    char released[LOCK_FIELD_MAX];
    enum seclock_result result = SECLOCK_FAILED;
    int unanswered = 0;
    int timeout_ms = redis_server_timeout_ms(self);
    if (!attempt.redis)
        return SECLOCK_FAILED;
    lock_redis_released("released", handle->request, released);
    redis_server_key(self, handle->name, FIELD, attempt.lock);
    redis_server_key(self, handle->name, "fence", attempt.fence);
    redis_server_key(self, handle->name, released, attempt.released);
    redis_kind_leader_key(handle->driver->row, self, handle->name, attempt.leader);
    handle->busy_ms = -1;
    for (int tries = 0; tries < TRIES_MAX && unanswered < UNANSWERED_MAX; tries++) {
        redis_set_timeout(attempt.redis, handle_request_ms(handle, timeout_ms));
        result = once(&attempt, handle);
        unanswered += result == SECLOCK_UNKNOWN;
        if (result != SECLOCK_UNKNOWN && (result != SECLOCK_BUSY || handle->busy_ms > 0))
            break;
        if (handle->until_ns != 0 && handle->now_ns() >= handle->until_ns)
            break;
    }
    redis_set_timeout(attempt.redis, timeout_ms);
    redis_server_give(self, attempt.redis);
    if (result == SECLOCK_FAILED || result == SECLOCK_UNKNOWN)
        return attempt.doubtful ? SECLOCK_UNKNOWN : SECLOCK_FAILED;
    return result;
}

static enum seclock_result timestamp_acquire(void *self, struct seclock_handle *handle)
{
    handle->token = handle->request;
    return repeat(self, handle, acquire_once);
}

static void timestamp_renew(void *self, struct seclock_handle *const *handles, size_t count,
                            enum seclock_result *results_out)
{
    bool silent = false; /* once the server is silent, the others wait for the next renewal */
    for (size_t i = 0; i < count; i++) {
        results_out[i] = silent ? SECLOCK_FAILED : repeat(self, handles[i], renew_once);
        silent = results_out[i] == SECLOCK_FAILED || results_out[i] == SECLOCK_UNKNOWN;
        if (results_out[i] == SECLOCK_BUSY)
            results_out[i] = SECLOCK_FAILED;
    }
}

static enum seclock_result timestamp_proclaim(void *self, struct seclock_handle *handle)
{
    enum seclock_result result;
    timestamp_renew(self, &handle, 1, &result);
    return result;
}

static enum seclock_result timestamp_release(void *self, struct seclock_handle *handle)
{
    enum seclock_result result = repeat(self, handle, release_once);
    return result == SECLOCK_BUSY ? SECLOCK_FAILED : result;
}

static enum seclock_result timestamp_status(const struct lock_driver *driver, void *self,
                                            const char *name, struct seclock_status *status_out)
{
    enum seclock_result result = redis_kind_status(driver, self, name, status_out);
    const char *colon = strchr(status_out->holder, ':');
    if (colon) /* the lock's value is expiry:token */
        memmove(status_out->holder, colon + 1, strlen(colon));
    return result;
}

const struct lock_driver redis_timestamp_driver = {
    .kind = SECLOCK_KIND_TIMESTAMP,
    .features = LOCK_RENEWS,
    .row = &(const struct redis_row){.field = FIELD, .message = "1"},
    .open = redis_kind_open,
    .acquire = timestamp_acquire,
    .wait = redis_kind_wait,
    .stop_waiting = redis_kind_stop_waiting,
    .wait_channel = redis_kind_channel,
    .renew = timestamp_renew,
    .proclaim = timestamp_proclaim,
    .leader = redis_kind_leader,
    .release = timestamp_release,
    .status = timestamp_status,
    .break_lock = redis_kind_break,
    .check = redis_kind_check,
};
