/* Several independent Redis servers, asked together. */
#include "lock/redis/redlock_servers.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/url.h"
#include "lock/process.h"
#include "lock/text.h"

enum {
    SERVERS_MIN = 3,
    IDLE_MAX = 8,
    OWED_MAX = 16, /* answers due on one connection, before it is given up */
    URL_SIZE = 1024,
    LEASE_PART = 20, /* a round of calls takes at most this part of the lease */
    TIMEOUT_MS_MIN = 5,
};

struct redlock_server {
    char url[URL_SIZE], place[URL_PLACE_SIZE];
    unsigned database;
};

/* ---- connections ---- */

void redlock_connections_free(struct redlock *redlock, struct redlock_connections *connections)
{
    for (size_t i = 0; i < redlock->count; i++)
        redis_close(&connections->each[i].redis);
    free(connections);
}

struct redlock_connections *redlock_connections_new(struct redlock *redlock)
{
    char error[160];
    struct redlock_connections *connections = calloc(1, sizeof *connections);
    for (size_t i = 0; connections && i < redlock->count; i++) {
        struct redis *redis =
            redis_open(redlock->servers[i].url, redlock->timeout_ms, error, sizeof error);
        connections->each[i].redis = redis;
        if (!redis || redis_cluster(redis)) {
            lock_set_error("server %zu: %s", i + 1,
                           redis ? "a cluster, where a majority lock needs a server by itself"
                                 : error);
            redlock_connections_free(redlock, connections);
            return NULL;
        }
    }
    return connections;
}

struct redlock_connections *redlock_take(struct redlock *redlock)
{
    pthread_mutex_lock(&redlock->mutex);
    struct redlock_connections *connections = redlock->idle;
    if (connections) {
        assert(redlock->idle_count > 0);
        redlock->idle = connections->next;
        redlock->idle_count--;
    }
    pthread_mutex_unlock(&redlock->mutex);
    return connections ? connections : redlock_connections_new(redlock);
}

/* why_answers_are_owed: a round does not wait for the last server, so that one dead server costs
 * nothing. Its answers come later and are read then; where too many are due, a new connection is
 * cheaper than to wait for them. */
void redlock_give(struct redlock *redlock, struct redlock_connections *connections)
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
        redlock_connections_free(redlock, connections);
}

/* ---- open and close ---- */

static struct redlock *redlock_new(const struct lock_context *context)
{
    struct redlock *redlock = calloc(1, sizeof *redlock);
    if (redlock)
        redlock->servers = calloc(context->server_count, sizeof *redlock->servers);
    if (!redlock || !redlock->servers) {
        free(redlock);
        return NULL;
    }
    char error[URL_ERROR_SIZE];
    struct url parts;
    for (const char *const *url = context->servers; *url; url++)
        if (driver_serves(SECLOCK_KIND_RED, *url)) {
            struct redlock_server *server = &redlock->servers[redlock->count++];
            if (url_parse(*url, "redis", &parts, error, sizeof error))
                server->database = parts.database_number;
            url_place(*url, "redis", server->place);
            snprintf(server->url, URL_SIZE, "%s", *url);
        }
    assert(redlock->count == context->server_count);
    redlock->quorum = redlock->count / 2 + 1;
    strcpy(redlock->prefix, context->prefix);
    /* The time that the round takes is lost for the holder: most of the lease must be left. */
    int part_ms = context->lease_ms / LEASE_PART;
    part_ms = part_ms > TIMEOUT_MS_MIN ? part_ms : TIMEOUT_MS_MIN;
    redlock->timeout_ms = context->timeout_ms < part_ms ? context->timeout_ms : part_ms;
    pthread_mutex_init(&redlock->mutex, NULL);
    process_guard(&redlock->guard, &redlock->mutex);
    return redlock;
}

enum seclock_result redlock_open(const struct lock_context *context, void **self_out)
{
    if (context->server_count < SERVERS_MIN || context->server_count > SCRIPT_EACH_MAX) {
        lock_set_error("a majority lock needs %d to %d redis servers that are independent of each "
                       "other (an odd number), not %zu",
                       SERVERS_MIN, SCRIPT_EACH_MAX, context->server_count);
        return SECLOCK_CONFIG;
    }
    struct redlock *redlock = redlock_new(context);
    if (!redlock)
        return lock_fail(SECLOCK_FAILED, "out of memory");
    redlock->idle = redlock_connections_new(redlock); /* finds out whether the URLs are right */
    redlock->idle_count = redlock->idle != NULL;
    if (!redlock->idle) {
        redlock_close(redlock);
        return SECLOCK_CONFIG;
    }
    *self_out = redlock;
    return SECLOCK_OK;
}

void redlock_close(void *self)
{
    struct redlock *redlock = self;
    while (redlock->idle) {
        struct redlock_connections *connections = redlock->idle;
        redlock->idle = connections->next;
        redlock_connections_free(redlock, connections);
    }
    process_unguard(&redlock->guard);
    pthread_mutex_destroy(&redlock->mutex);
    free(redlock->servers);
    free(redlock);
}

/* To close a connection says nothing to its server. */
void redlock_forget(void *self)
{
    struct redlock *redlock = self;
    for (struct redlock_connections *i = redlock->idle; i; i = i->next)
        for (size_t j = 0; j < redlock->count; j++)
            redis_close(&i->each[j].redis);
}

/* ---- calls ---- */

/* why_by_connections: the URLs of one server may differ in their text. The addresses to which the
 * connections lead do not, and to compare them costs no look-up of names. */
bool redlock_apart(const struct redlock *redlock, const struct redlock_connections *connections)
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

/* Stops at `enough` yes answers: waiting for the slowest server would cost the holder lease for
 * nothing. */
struct votes redlock_ask(const struct redlock *redlock, struct redlock_connections *connections,
                         const struct script_call *call, struct script_call *calls, size_t enough,
                         int wait_ms)
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
