/* The majority lock: one holder among all callers that ask the same independent Redis servers. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/redis/pipeline.h"
#include "lock/redis/redlock_servers.h"
#include "lock/text.h"
#include "lua/command.h"

/* what_it_cannot_promise: the holder of the majority of the configured servers excludes all others
 * while those servers keep what they were told and clocks run at about one speed. A server that
 * restarts without its data, or a clock that jumps, may give one lock to two holders. Nothing stops
 * a holder that sleeps past its lease: numbers of different servers cannot be compared, and so
 * there is no fence. Use it for work that should be done once most of the time. */

/* ---- calls ---- */

/* The same call for all servers; the second key, where there is one, is beside the lock's. */
static void call_begin(const struct redlock *redlock, struct script_call *call, enum script_id id,
                       const struct seclock_handle *handle, const char *second)
{
    char key[SCRIPT_KEY_MAX];
    script_begin(call, id);
    lock_redis_key(redlock->prefix, handle->name, "red", key);
    script_key(call, key);
    if (second) {
        lock_redis_key(redlock->prefix, handle->name, second, key);
        script_key(call, key);
    }
    script_text(call, handle->request);
}

/* SECLOCK_OK by a majority, `no` when no majority is possible any more, otherwise not known. */
static enum seclock_result verdict(const struct redlock *redlock, const struct votes *votes,
                                   enum seclock_result no)
{
    assert(votes->yes + votes->no + votes->silent == redlock->count);
    size_t count = redlock->count, quorum = redlock->quorum;
    if (votes->yes >= quorum)
        return SECLOCK_OK;
    if (count - votes->no < quorum)
        return no;
    lock_set_error("%zu of %zu servers did not answer in %d ms (redis %s first)", votes->silent,
                   count, redlock->timeout_ms, votes->silent_place);
    return SECLOCK_UNKNOWN;
}

/* Also after a try without a majority, on the same connections: a server that carries out the
 * acquisition late then carries out this release after it. Only a real release is remembered, for
 * its repeat. */
static struct votes release_all(const struct redlock *redlock,
                                struct redlock_connections *connections,
                                const struct seclock_handle *handle, bool remembered, int wait_ms)
{
    struct script_call call, calls[SCRIPT_EACH_MAX];
    char released[LOCK_FIELD_MAX];
    size_t enough = remembered ? redlock->quorum : 0;
    lock_redis_released("red-released", handle->request, released);
    call_begin(redlock, &call, SCRIPT_lock_release, handle, remembered ? released : NULL);
    script_text(&call, "");
    return redlock_ask(redlock, connections, &call, calls, enough, wait_ms);
}

/* ---- acquire ---- */

/* What a try has come to. After a try without a majority nothing stays on the servers, and the
 * caller has never held the lock: so the outcome is never in doubt. */
static enum seclock_result acquired(const struct redlock *redlock, const struct votes *votes)
{
    enum seclock_result result = verdict(redlock, votes, SECLOCK_BUSY);
    if (result ==
        SECLOCK_UNKNOWN) /* with too few to answer, no other holder's release would help */
        return redlock->count - votes->silent < redlock->quorum ? SECLOCK_FAILED : SECLOCK_BUSY;
    return result;
}

static enum seclock_result redlock_acquire(void *self, struct seclock_handle *handle)
{
    assert(handle->lease_ms > 0);
    struct redlock *redlock = self;
    struct script_call call, calls[SCRIPT_EACH_MAX];
    struct redlock_connections *connections = redlock_take(redlock);
    if (!connections)
        return SECLOCK_FAILED;
    int timeout_ms = handle_request_ms(handle, redlock->timeout_ms);
    call_begin(redlock, &call, SCRIPT_lock_red, handle, NULL);
    script_int(&call, handle->lease_ms);
    struct votes votes =
        redlock_ask(redlock, connections, &call, calls, redlock->quorum, timeout_ms);
    enum seclock_result result = acquired(redlock, &votes); /* in time or not: see lock.c */
    if (result == SECLOCK_OK && !redlock_apart(redlock, connections))
        result = SECLOCK_CONFIG;
    if (result != SECLOCK_OK)
        release_all(redlock, connections, handle, false, votes.silent > 0 ? 0 : timeout_ms);
    handle->busy_ms = votes.left_ms;
    handle->token = handle->request;
    handle->hold_count = 1;
    redlock_give(redlock, connections);
    return result;
}

/* ---- renew, release ---- */

/* why_repair: were lost servers left as they are, one failure after another would use the majority
 * up. So servers that have lost the lock, or never had it, get it again while a majority has it. A
 * server that was not heard before the majority agreed is among them, because it may have come back
 * empty; but not one that owes more answers. */
static void repair(const struct redlock *redlock, struct redlock_connections *connections,
                   const struct seclock_handle *handle, const struct script_call *renewed)
{
    struct script_call call, calls[SCRIPT_EACH_MAX];
    size_t count = redlock->count;
    call_begin(redlock, &call, SCRIPT_lock_red, handle, NULL);
    script_int(&call, handle->lease_ms);
    for (size_t i = 0; i < count; i++)
        connections->each[i].skip = renewed[i].values[0] == 1 || connections->each[i].owed > 1 ||
                                    !redis_connected(connections->each[i].redis);
    redlock_ask(redlock, connections, &call, calls, 0, 0);
    for (size_t i = 0; i < count; i++)
        connections->each[i].skip = false;
}

static enum seclock_result renew_one(const struct redlock *redlock,
                                     struct redlock_connections *connections,
                                     const struct seclock_handle *handle)
{
    assert(handle->lease_ms > 0);
    struct script_call call, calls[SCRIPT_EACH_MAX];
    call_begin(redlock, &call, SCRIPT_lock_renew, handle, "red-fence");
    script_int(&call, handle->lease_ms);
    struct votes votes =
        redlock_ask(redlock, connections, &call, calls, redlock->quorum, redlock->timeout_ms);
    enum seclock_result result = verdict(redlock, &votes, SECLOCK_LOST);
    if (result == SECLOCK_OK && votes.yes < redlock->count)
        repair(redlock, connections, handle, calls);
    return result;
}

/* One hold after the other: pipelines over several servers would let a slow one delay all holds. */
static void redlock_renew(void *self, struct seclock_handle *const *handles, size_t count,
                          enum seclock_result *results_out)
{
    struct redlock *redlock = self;
    struct redlock_connections *connections = redlock_take(redlock);
    bool silent = false; /* once the majority is silent, the others wait for the next renewal */
    for (size_t i = 0; i < count; i++) {
        results_out[i] =
            connections && !silent ? renew_one(redlock, connections, handles[i]) : SECLOCK_FAILED;
        silent = silent || results_out[i] == SECLOCK_UNKNOWN;
    }
    if (connections)
        redlock_give(redlock, connections);
}

static enum seclock_result redlock_release(void *self, struct seclock_handle *handle)
{
    struct redlock *redlock = self;
    struct redlock_connections *connections = redlock_take(redlock);
    if (!connections)
        return SECLOCK_FAILED;
    struct votes votes = release_all(redlock, connections, handle, true, redlock->timeout_ms);
    redlock_give(redlock, connections);
    return verdict(redlock, &votes, SECLOCK_LOST);
}

/* ---- for operators ---- */

/* What one server says of the lock. */
struct view {
    char holder[SECLOCK_TOKEN_MAX];
    int64_t left_ms;
};

/* What each server says of the lock; `answered_out` counts the servers that said anything. */
static void read_views(const struct redlock *redlock, struct redlock_connections *connections,
                       const char *name, struct view *views_out, size_t *answered_out)
{
    char key[SCRIPT_KEY_MAX];
    lock_redis_key(redlock->prefix, name, "red", key);
    *answered_out = 0;
    for (size_t i = 0; i < redlock->count; i++) {
        struct command commands[2] = {
            {.argc = 2, .argv = {"GET", key}},
            {.argc = 2, .argv = {"PTTL", key}},
        };
        views_out[i] = (struct view){0};
        command_run(connections->each[i].redis, commands, 2);
        size_t length = 0;
        const char *holder = command_text(&commands[0], -1, &length);
        *answered_out += commands[0].result == REDIS_ANSWERED;
        if (commands[0].result == REDIS_ANSWERED && holder) {
            snprintf(views_out[i].holder, SECLOCK_TOKEN_MAX, "%s", holder);
            views_out[i].left_ms = command_int(&commands[1], -1);
        }
        command_clear(commands, 2);
    }
}

/* The holder is what a majority agrees on; the hold ends when the majority does. */
static void sum_up(const struct redlock *redlock, const struct view *views,
                   struct seclock_status *status_out)
{
    size_t count = redlock->count, quorum = redlock->quorum;
    for (size_t i = 0; i < count; i++) {
        size_t same = 0, longer = 0;
        for (size_t j = 0; j < count; j++) {
            bool agrees =
                views[i].holder[0] != '\0' && strcmp(views[i].holder, views[j].holder) == 0;
            same += agrees;
            longer += agrees && views[j].left_ms >= views[i].left_ms;
        }
        if (same < quorum)
            continue;
        status_out->held = true;
        status_out->count = 1;
        memcpy(status_out->holder, views[i].holder, SECLOCK_TOKEN_MAX);
        if (longer >= quorum && views[i].left_ms > status_out->remaining_ms)
            status_out->remaining_ms = views[i].left_ms;
    }
}

static enum seclock_result too_few(const struct redlock *redlock, size_t answered)
{
    lock_set_error("%zu of %zu servers answered", answered, redlock->count);
    return SECLOCK_FAILED;
}

static enum seclock_result redlock_status(const struct lock_driver *driver, void *self,
                                          const char *name, struct seclock_status *status_out)
{
    struct redlock *redlock = self;
    struct view views[SCRIPT_EACH_MAX] = {0};
    size_t answered;
    (void)driver;
    status_out->remaining_ms = 0;
    /* New connections: plain commands must not meet replies that are owed on the others. */
    struct redlock_connections *connections = redlock_connections_new(redlock);
    if (!connections)
        return SECLOCK_FAILED;
    read_views(redlock, connections, name, views, &answered);
    sum_up(redlock, views, status_out);
    redlock_connections_free(redlock, connections);
    return answered >= redlock->quorum ? SECLOCK_OK : too_few(redlock, answered);
}

static enum seclock_result redlock_break(const struct lock_driver *driver, void *self,
                                         const char *name)
{
    struct redlock *redlock = self;
    char key[SCRIPT_KEY_MAX];
    size_t answered = 0, deleted = 0;
    (void)driver;
    struct redlock_connections *connections = redlock_connections_new(redlock);
    if (!connections)
        return SECLOCK_FAILED;
    lock_redis_key(redlock->prefix, name, "red", key);
    for (size_t i = 0; i < redlock->count; i++) {
        struct command command = {.argc = 2, .argv = {"DEL", key}};
        command_run(connections->each[i].redis, &command, 1);
        answered += command.result == REDIS_ANSWERED;
        deleted += command.result == REDIS_ANSWERED && command_int(&command, -1) > 0;
        command_clear(&command, 1);
    }
    redlock_connections_free(redlock, connections);
    if (answered < redlock->quorum)
        return too_few(redlock, answered);
    return deleted > 0 ? SECLOCK_OK : SECLOCK_NOT_OWNER;
}

static enum seclock_result redlock_check(void *self, char *warning_out, size_t size)
{
    const struct redlock *redlock = self;
    bool even = redlock->count % 2 == 0;
    snprintf(warning_out, size,
             "%sthe red lock has no fence: nothing stops a holder that sleeps past its lease, nor "
             "two holders after a server lost its data",
             even ? "an even number of servers bears no more failures than one server less, and "
                    "may be split in halves; "
                  : "");
    return SECLOCK_OK;
}

const struct lock_driver redlock_driver = {
    .kind = SECLOCK_KIND_RED,
    .features = LOCK_RENEWS,
    .poll_ms_min = 5,
    .poll_ms_max = 100,
    .open = redlock_open,
    .close = redlock_close,
    .forget = redlock_forget,
    .acquire = redlock_acquire,
    .renew = redlock_renew,
    .release = redlock_release,
    .status = redlock_status,
    .break_lock = redlock_break,
    .check = redlock_check,
};
