/* Implements the majority lock: one holder over several independent Redis servers. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/url.h"
#include "lock/client.h"
#include "lock/process.h"
#include "lock/redis/pipeline.h"
#include "lock/text.h"
#include "lua/command.h"
#include "lua/script_each.h"

/* what_it_cannot_promise: the holder of the majority of the configured servers excludes all others
 * while those servers keep their data and clocks run at about one speed. A server that restarts
 * without its data, or a clock that jumps, may give one lock to two holders. Nothing stops a holder
 * that sleeps past its lease: numbers of different servers cannot be compared, so there is no
 * fence. Use it for work that should be done once most of the time. */

enum {
    SERVERS_MIN = 3,
    IDLE_MAX = 8,
    OWED_MAX = 16, /* answers due on one connection, before it is given up */
    URL_SIZE = 1024,
    LEASE_PART = 20, /* a round of calls takes at most this part of the lease */
    TIMEOUT_MS_MIN = 5,
};

struct server {
    char url[URL_SIZE], place[URL_PLACE_SIZE];
    unsigned database;
};

/* One connection to every server, lent to one thread at a time. */
struct connections {
    struct script_line each[SCRIPT_EACH_MAX];
    struct connections *next;
};

/* The answers of the servers to one call. */
struct votes {
    const char *silent_place; /* of the first server that did not answer; NULL: all answered */
    size_t yes, no, silent;
    int64_t left_ms; /* the shortest remaining lease that refusing servers report; -1: unknown */
};

/* The servers and the pool of connections to them; the state of the driver. */
struct redlock {
    size_t count, quorum; /* servers; the smallest majority of them */
    int timeout_ms;       /* of one round of calls */
    char prefix[SECLOCK_PREFIX_MAX];
    struct server *servers;
    struct process_guard guard;
    pthread_mutex_t mutex; /* guards all below */
    struct connections *idle;
    size_t idle_count;
};

/* ---- connections ---- */

static void connections_free(struct redlock *redlock, struct connections *connections)
{
    for (size_t i = 0; i < redlock->count; i++)
        redis_close(&connections->each[i].redis);
    free(connections);
}

static struct connections *connections_new(struct redlock *redlock)
{
    assert(redlock->count >= SERVERS_MIN && redlock->count <= SCRIPT_EACH_MAX);
    char error[160];
    struct connections *connections = calloc(1, sizeof *connections);
    for (size_t i = 0; connections && i < redlock->count; i++) {
        struct redis *redis =
            redis_open(redlock->servers[i].url, redlock->timeout_ms, error, sizeof error);
        connections->each[i].redis = redis;
        if (!redis || redis_cluster(redis)) {
            lock_set_error("server %zu: %s", i + 1,
                           redis ? "a cluster, where a majority lock needs a server by itself"
                                 : error);
            connections_free(redlock, connections);
            return NULL;
        }
    }
    return connections;
}

static struct connections *connections_take(struct redlock *redlock)
{
    pthread_mutex_lock(&redlock->mutex);
    struct connections *connections = redlock->idle;
    if (connections) {
        assert(redlock->idle_count > 0);
        redlock->idle = connections->next;
        redlock->idle_count--;
    }
    pthread_mutex_unlock(&redlock->mutex);
    return connections ? connections : connections_new(redlock);
}

/* why_answers_are_owed: a round does not wait for the last server, so one dead server costs
 * nothing. Late answers are read when they come; when too many are due, a new connection is cheaper
 * than the wait for them. */
static void connections_give(struct redlock *redlock, struct connections *connections)
{
    bool kept = true;
    for (size_t i = 0; i < redlock->count; i++) {
        assert(!connections->each[i].skip);
        kept = kept && connections->each[i].owed < OWED_MAX;
    }
    pthread_mutex_lock(&redlock->mutex);
    kept = kept && redlock->idle_count < IDLE_MAX;
    if (kept) {
        connections->next = redlock->idle;
        redlock->idle = connections;
        redlock->idle_count++;
    }
    pthread_mutex_unlock(&redlock->mutex);
    if (!kept)
        connections_free(redlock, connections);
}

/* ---- open and close ---- */

static struct redlock *redlock_new(const struct lock_core *core, size_t count)
{
    struct redlock *redlock = calloc(1, sizeof *redlock);
    if (redlock)
        redlock->servers = calloc(count, sizeof *redlock->servers);
    if (!redlock || !redlock->servers) {
        free(redlock);
        return NULL;
    }
    char error[URL_ERROR_SIZE];
    struct url parts;
    for (; redlock->count < count; redlock->count++) {
        const char *url = core_server(core, SECLOCK_KIND_RED, redlock->count);
        struct server *server = &redlock->servers[redlock->count];
        if (url_parse(url, "redis", &parts, error, sizeof error))
            server->database = parts.database_number;
        url_place(url, "redis", server->place);
        snprintf(server->url, URL_SIZE, "%s", url);
    }
    redlock->quorum = count / 2 + 1;
    strcpy(redlock->prefix, core->options.prefix);
    /* The holder loses the time that the round takes: most of the lease must be left. */
    int part_ms = core->options.lease_ms / LEASE_PART;
    part_ms = part_ms > TIMEOUT_MS_MIN ? part_ms : TIMEOUT_MS_MIN;
    redlock->timeout_ms = core->options.timeout_ms < part_ms ? core->options.timeout_ms : part_ms;
    process_guard(&redlock->guard, &redlock->mutex);
    return redlock;
}

static void redlock_close(void *self)
{
    struct redlock *redlock = self;
    while (redlock->idle) {
        struct connections *connections = redlock->idle;
        redlock->idle = connections->next;
        connections_free(redlock, connections);
    }
    process_unguard(&redlock->guard);
    free(redlock->servers);
    free(redlock);
}

static enum seclock_result redlock_open(struct lock_core *core, const char *server, void **self_out)
{
    size_t count = 0;
    for (; server; server = core_server(core, SECLOCK_KIND_RED, count))
        count++;
    if (count < SERVERS_MIN || count > SCRIPT_EACH_MAX)
        return lock_fail(
            SECLOCK_CONFIG,
            "a majority lock needs %d to %d redis servers that are independent of each "
            "other (an odd number), not %zu",
            SERVERS_MIN, SCRIPT_EACH_MAX, count);
    struct redlock *redlock = redlock_new(core, count);
    if (!redlock)
        return lock_fail(SECLOCK_FAILED, "out of memory");
    redlock->idle = connections_new(redlock); /* checks the URLs */
    redlock->idle_count = redlock->idle != NULL;
    if (!redlock->idle) {
        redlock_close(redlock);
        return SECLOCK_CONFIG;
    }
    assert(redlock->quorum * 2 > redlock->count);
    *self_out = redlock;
    return SECLOCK_OK;
}

/* Closing a connection sends nothing to its server. */
static void redlock_forget(void *self)
{
    struct redlock *redlock = self;
    for (struct connections *i = redlock->idle; i; i = i->next)
        for (size_t j = 0; j < redlock->count; j++)
            redis_close(&i->each[j].redis);
}

/* ---- votes ---- */

/* False, with the reason in seclock_error, when two connections lead to one database of one server,
 * which would then have two votes.
 *
 * why_by_connections: the URLs of one server may differ in their text. The peer addresses of the
 * connections do not, and comparing them needs no look-up of names. */
static bool servers_distinct(const struct redlock *redlock, const struct connections *connections)
{
    struct sockaddr_storage peers[SCRIPT_EACH_MAX] = {0};
    for (size_t i = 0; i < redlock->count; i++) {
        socklen_t size = sizeof peers[i];
        if (getpeername(redis_fd(connections->each[i].redis), (struct sockaddr *)&peers[i],
                        &size) != 0)
            continue; /* without a connection it has no vote */
        for (size_t j = 0; j < i; j++)
            if (redlock->servers[i].database == redlock->servers[j].database &&
                memcmp(&peers[i], &peers[j], sizeof peers[i]) == 0) {
                lock_set_error("servers %zu and %zu are one (redis %s), where a majority lock "
                               "needs servers that are independent of each other",
                               j + 1, i + 1, redlock->servers[i].place);
                return false;
            }
    }
    return true;
}

/* Sends one call to all servers and waits until `enough` have answered with 1 or `wait_ms` have
 * passed: a wait for the slowest server would only cost the holder lease. Each server's answer is
 * in `calls` (SCRIPT_EACH_MAX). */
static struct votes ask_all(const struct redlock *redlock, struct connections *connections,
                            const struct script_call *call, struct script_call *calls,
                            size_t enough, int wait_ms)
{
    assert(wait_ms >= 0 && enough <= redlock->count);
    struct votes votes = {.left_ms = -1};
    for (size_t i = 0; i < redlock->count; i++)
        calls[i] = *call;
    script_run_each(connections->each, calls, redlock->count, enough, wait_ms);
    for (size_t i = 0; i < redlock->count; i++) {
        bool answered = calls[i].result == REDIS_ANSWERED;
        bool yes = answered && calls[i].values[0] == 1;
        votes.yes += yes;
        votes.no += answered && !yes;
        votes.silent += !answered;
        if (!answered && !votes.silent_place)
            votes.silent_place = redlock->servers[i].place;
        if (answered && !yes && (votes.left_ms < 0 || calls[i].values[1] < votes.left_ms))
            votes.left_ms = calls[i].values[1];
    }
    assert(votes.yes + votes.no + votes.silent == redlock->count);
    return votes;
}

/* ---- calls ---- */

/* Begins the call for all servers, with the lock's key and, unless NULL, a second one. */
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

/* SECLOCK_OK by a majority, `no` when none is possible any more, else SECLOCK_UNKNOWN. */
static enum seclock_result verdict(const struct redlock *redlock, const struct votes *votes,
                                   enum seclock_result no)
{
    assert(votes->yes + votes->no + votes->silent == redlock->count);
    size_t count = redlock->count, quorum = redlock->quorum;
    if (votes->yes >= quorum)
        return SECLOCK_OK;
    if (count - votes->no < quorum)
        return no;
    return lock_fail(SECLOCK_UNKNOWN, "%zu of %zu servers did not answer in %d ms (redis %s first)",
                     votes->silent, count, redlock->timeout_ms, votes->silent_place);
}

/* Runs also after a try without a majority, on the same connections: a server that carries out the
 * acquisition late then carries out this release after it. Only a real release is remembered, for
 * its repeat. */
static struct votes release_all(const struct redlock *redlock, struct connections *connections,
                                const struct seclock_handle *handle, bool remembered, int wait_ms)
{
    assert(connections);
    struct script_call call, calls[SCRIPT_EACH_MAX];
    char released[LOCK_FIELD_MAX];
    size_t enough = remembered ? redlock->quorum : 0;
    lock_redis_released("red-released", handle->request, released);
    call_begin(redlock, &call, SCRIPT_lock_release, handle, remembered ? released : NULL);
    script_text(&call, "");
    return ask_all(redlock, connections, &call, calls, enough, wait_ms);
}

/* ---- acquire ---- */

/* Returns the result of a try. A try without a majority leaves nothing on the servers, and the
 * caller never held the lock, so the outcome is never in doubt. */
static enum seclock_result acquired(const struct redlock *redlock, const struct votes *votes)
{
    enum seclock_result result = verdict(redlock, votes, SECLOCK_BUSY);
    if (result == SECLOCK_UNKNOWN) /* with too few answers no other holder's release would help */
        return redlock->count - votes->silent < redlock->quorum ? SECLOCK_FAILED : SECLOCK_BUSY;
    return result;
}

static enum seclock_result redlock_acquire(void *self, struct seclock_handle *handle)
{
    assert(handle->lease_ms > 0);
    struct redlock *redlock = self;
    struct script_call call, calls[SCRIPT_EACH_MAX];
    struct connections *connections = connections_take(redlock);
    if (!connections)
        return SECLOCK_FAILED;
    int timeout_ms = handle_request_ms(handle, redlock->timeout_ms);
    call_begin(redlock, &call, SCRIPT_lock_red, handle, NULL);
    script_int(&call, handle->lease_ms);
    struct votes votes = ask_all(redlock, connections, &call, calls, redlock->quorum, timeout_ms);
    enum seclock_result result = acquired(redlock, &votes); /* in time or not: see lock.c */
    if (result == SECLOCK_OK && !servers_distinct(redlock, connections))
        result = SECLOCK_CONFIG;
    if (result != SECLOCK_OK)
        release_all(redlock, connections, handle, false, votes.silent > 0 ? 0 : timeout_ms);
    handle->busy_ms = votes.left_ms;
    handle->token = handle->request;
    handle->hold_count = 1;
    connections_give(redlock, connections);
    return result;
}

/* ---- renew, release ---- */

/* why_repair: without it one failure after another would use up the majority. So servers that lost
 * the lock, or never had it, get it again while a majority has it. That includes a server whose
 * answer came too late, because it may have restarted empty, but not one that owes more answers. */
static void repair(const struct redlock *redlock, struct connections *connections,
                   const struct seclock_handle *handle, const struct script_call *renewed)
{
    struct script_call call, calls[SCRIPT_EACH_MAX];
    assert(connections);
    size_t count = redlock->count;
    call_begin(redlock, &call, SCRIPT_lock_red, handle, NULL);
    script_int(&call, handle->lease_ms);
    for (size_t i = 0; i < count; i++)
        connections->each[i].skip = renewed[i].values[0] == 1 || connections->each[i].owed > 1 ||
                                    !redis_connected(connections->each[i].redis);
    ask_all(redlock, connections, &call, calls, 0, 0);
    for (size_t i = 0; i < count; i++)
        connections->each[i].skip = false;
}

static enum seclock_result renew_one(const struct redlock *redlock, struct connections *connections,
                                     const struct seclock_handle *handle)
{
    assert(handle->lease_ms > 0);
    struct script_call call, calls[SCRIPT_EACH_MAX];
    call_begin(redlock, &call, SCRIPT_lock_renew, handle, "red-fence");
    script_int(&call, handle->lease_ms);
    struct votes votes =
        ask_all(redlock, connections, &call, calls, redlock->quorum, redlock->timeout_ms);
    enum seclock_result result = verdict(redlock, &votes, SECLOCK_LOST);
    if (result == SECLOCK_OK && votes.yes < redlock->count)
        repair(redlock, connections, handle, calls);
    return result;
}

/* Renews the holds in turn: in pipelines over several servers a slow one would delay all. */
static void redlock_renew(void *self, struct seclock_handle *const *handles, size_t count,
                          enum seclock_result *results_out)
{
    struct redlock *redlock = self;
    struct connections *connections = connections_take(redlock);
    bool silent = false; /* once the majority is silent, the others wait for the next renewal */
    for (size_t i = 0; i < count; i++) {
        results_out[i] =
            connections && !silent ? renew_one(redlock, connections, handles[i]) : SECLOCK_FAILED;
        silent = silent || results_out[i] == SECLOCK_UNKNOWN;
    }
    if (connections)
        connections_give(redlock, connections);
}

static enum seclock_result redlock_release(void *self, struct seclock_handle *handle)
{
    struct redlock *redlock = self;
    struct connections *connections = connections_take(redlock);
    if (!connections)
        return SECLOCK_FAILED;
    struct votes votes = release_all(redlock, connections, handle, true, redlock->timeout_ms);
    connections_give(redlock, connections);
    return verdict(redlock, &votes, SECLOCK_LOST);
}

/* ---- for operators ---- */

/* One server's answer about the lock. */
struct view {
    char holder[SECLOCK_TOKEN_MAX];
    int64_t left_ms, deleted;
};

/* Asks each server about the lock, by GET, or deletes it there, by DEL. SECLOCK_OK: a majority has
 * answered. Opens new connections, as plain commands must not meet replies due on the others. */
static enum seclock_result ask_views(struct redlock *redlock, const char *name, const char *verb,
                                     struct view views_out[SCRIPT_EACH_MAX])
{
    char key[SCRIPT_KEY_MAX];
    size_t answered = 0;
    struct connections *connections = connections_new(redlock);
    if (!connections)
        return SECLOCK_FAILED;
    lock_redis_key(redlock->prefix, name, "red", key);
    for (size_t i = 0; i < redlock->count; i++) {
        struct command commands[2] = {
            {.argc = 2, .argv = {verb, key}},
            {.argc = 2, .argv = {"PTTL", key}},
        };
        command_run(connections->each[i].redis, commands, 2);
        const char *holder = command_text(&commands[0], -1, NULL);
        views_out[i] = (struct view){.left_ms = command_int(&commands[1], -1),
                                     .deleted = command_int(&commands[0], -1)};
        snprintf(views_out[i].holder, SECLOCK_TOKEN_MAX, "%s", holder ? holder : "");
        answered += commands[0].result == REDIS_ANSWERED;
        command_clear(commands, 2);
    }
    connections_free(redlock, connections);
    if (answered >= redlock->quorum)
        return SECLOCK_OK;
    return lock_fail(SECLOCK_FAILED, "%zu of %zu servers answered", answered, redlock->count);
}

/* The holder is the one that a majority agrees on; the hold ends when the majority's does. */
static enum seclock_result redlock_status(const struct lock_driver *driver, void *self,
                                          const char *name, struct seclock_status *status_out)
{
    struct redlock *redlock = self;
    struct view views[SCRIPT_EACH_MAX];
    (void)driver;
    status_out->remaining_ms = 0;
    enum seclock_result result = ask_views(redlock, name, "GET", views);
    for (size_t i = 0; result == SECLOCK_OK && i < redlock->count; i++) {
        size_t same = 0, longer = 0;
        for (size_t j = 0; j < redlock->count; j++) {
            bool agrees =
                views[i].holder[0] != '\0' && strcmp(views[i].holder, views[j].holder) == 0;
            same += agrees;
            longer += agrees && views[j].left_ms >= views[i].left_ms;
        }
        if (same < redlock->quorum)
            continue;
        status_out->held = true;
        status_out->count = 1;
        memcpy(status_out->holder, views[i].holder, SECLOCK_TOKEN_MAX);
        if (longer >= redlock->quorum && views[i].left_ms > status_out->remaining_ms)
            status_out->remaining_ms = views[i].left_ms;
    }
    return result;
}

static enum seclock_result redlock_break(const struct lock_driver *driver, void *self,
                                         const char *name)
{
    struct redlock *redlock = self;
    struct view views[SCRIPT_EACH_MAX];
    bool deleted = false;
    (void)driver;
    enum seclock_result result = ask_views(redlock, name, "DEL", views);
    for (size_t i = 0; result == SECLOCK_OK && i < redlock->count; i++)
        deleted = deleted || views[i].deleted > 0;
    return result == SECLOCK_OK && !deleted ? SECLOCK_NOT_OWNER : result;
}

static enum seclock_result redlock_check(void *self, char *warning_out, size_t size)
{
    const struct redlock *redlock = self;
    bool even = redlock->count % 2 == 0;
    snprintf(warning_out, size,
             "%sthe red lock has no fence: nothing stops a holder that sleeps past its lease, nor "
             "two holders after a server lost its data",
             even ? "an even number of servers survives no more failures than one server less, and "
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
