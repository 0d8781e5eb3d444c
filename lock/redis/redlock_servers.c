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

struct redlock_servers {
    size_t count, quorum;
    char (*url)[URL_SIZE];
    char (*place)[URL_PLACE_SIZE];
    unsigned database[SCRIPT_EACH_MAX];
    int timeout_ms;
    struct process_guard guard;
    pthread_mutex_t mutex; /* guards all below */
    struct redlock_connections *idle;
    size_t idle_count;
};

/* ---- connections ---- */

void redlock_connections_free(struct redlock_servers *servers,
                              struct redlock_connections *connections)
{
    for (size_t i = 0; i < servers->count; i++)
        redis_close(&connections->each[i].redis);
    free(connections);
}

struct redlock_connections *redlock_connections_new(struct redlock_servers *servers)
{
    char error[160];
    struct redlock_connections *connections = calloc(1, sizeof *connections);
    for (size_t i = 0; connections && i < servers->count; i++) {
        struct redis *redis = redis_open(servers->url[i], servers->timeout_ms, error, sizeof error);
        connections->each[i].redis = redis;
        if (!redis || redis_cluster(redis)) {
            lock_set_error("server %zu: %s", i + 1,
                           redis ? "a cluster, where a majority lock needs a server by itself"
                                 : error);
            redlock_connections_free(servers, connections);
            return NULL;
        }
    }
    return connections;
}

struct redlock_connections *redlock_take(struct redlock_servers *servers)
{
    pthread_mutex_lock(&servers->mutex);
    struct redlock_connections *connections = servers->idle;
    if (connections) {
        assert(servers->idle_count > 0);
        servers->idle = connections->next;
        servers->idle_count--;
    }
    pthread_mutex_unlock(&servers->mutex);
    return connections ? connections : redlock_connections_new(servers);
}

/* why_answers_are_owed: a round does not wait for the last server, so that one dead server costs
 * nothing. Its answers come later and are read then; where too many are due, a new connection is
 * cheaper than to wait for them. */
void redlock_give(struct redlock_servers *servers, struct redlock_connections *connections)
{
    bool kept = true;
    for (size_t i = 0; i < servers->count; i++) {
        assert(!connections->each[i].skip);
        kept = kept && connections->each[i].owed < OWED_MAX;
    }
    pthread_mutex_lock(&servers->mutex);
    kept = kept && servers->idle_count < IDLE_MAX;
    if (kept) {
        connections->next = servers->idle;
        servers->idle = connections;
        servers->idle_count++;
    }
    pthread_mutex_unlock(&servers->mutex);
    if (!kept)
        redlock_connections_free(servers, connections);
}

/* ---- open and close ---- */

static struct redlock_servers *servers_new(const struct lock_context *context)
{
    struct redlock_servers *servers = calloc(1, sizeof *servers);
    if (servers) {
        servers->url = calloc(context->server_count, sizeof *servers->url);
        servers->place = calloc(context->server_count, sizeof *servers->place);
    }
    if (!servers || !servers->url || !servers->place) {
        if (servers) {
            free(servers->url);
            free(servers->place);
        }
        free(servers);
        return NULL;
    }
    char error[URL_ERROR_SIZE];
    struct url parts;
    for (const char *const *url = context->servers; *url; url++)
        if (driver_serves(SECLOCK_KIND_RED, *url)) {
            if (url_parse(*url, "redis", &parts, error, sizeof error))
                servers->database[servers->count] = parts.database_number;
            url_place(*url, "redis", servers->place[servers->count]);
            snprintf(servers->url[servers->count++], URL_SIZE, "%s", *url);
        }
    assert(servers->count == context->server_count);
    servers->quorum = servers->count / 2 + 1;
    /* The time that the round takes is lost for the holder: most of the lease must be left. */
    int part_ms = context->lease_ms / LEASE_PART;
    part_ms = part_ms > TIMEOUT_MS_MIN ? part_ms : TIMEOUT_MS_MIN;
    servers->timeout_ms = context->timeout_ms < part_ms ? context->timeout_ms : part_ms;
    pthread_mutex_init(&servers->mutex, NULL);
    process_guard(&servers->guard, &servers->mutex);
    return servers;
}

enum seclock_result redlock_servers_open(const struct lock_context *context,
                                         struct redlock_servers **servers_out)
{
    *servers_out = NULL;
    if (context->server_count < SERVERS_MIN || context->server_count > SCRIPT_EACH_MAX) {
        lock_set_error("a majority lock needs %d to %d redis servers that are independent of each "
                       "other (an odd number), not %zu",
                       SERVERS_MIN, SCRIPT_EACH_MAX, context->server_count);
        return SECLOCK_CONFIG;
    }
    struct redlock_servers *servers = servers_new(context);
    if (!servers)
        return lock_fail(SECLOCK_FAILED, "out of memory");
    servers->idle = redlock_connections_new(servers); /* finds out whether the URLs are right */
    servers->idle_count = servers->idle != NULL;
    if (!servers->idle) {
        redlock_servers_close(&servers);
        return SECLOCK_CONFIG;
    }
    *servers_out = servers;
    return SECLOCK_OK;
}

void redlock_servers_close(struct redlock_servers **servers)
{
    struct redlock_servers *old = *servers;
    *servers = NULL;
    while (old->idle) {
        struct redlock_connections *connections = old->idle;
        old->idle = connections->next;
        redlock_connections_free(old, connections);
    }
    process_unguard(&old->guard);
    pthread_mutex_destroy(&old->mutex);
    free(old->url);
    free(old->place);
    free(old);
}

void redlock_servers_forget(struct redlock_servers *servers)
{
    for (struct redlock_connections *i = servers->idle; i; i = i->next)
        for (size_t j = 0; j < servers->count; j++)
            redis_close(&i->each[j].redis);
}

size_t redlock_count(const struct redlock_servers *servers)
{
    return servers->count;
}

size_t redlock_quorum(const struct redlock_servers *servers)
{
    return servers->quorum;
}

int redlock_timeout_ms(const struct redlock_servers *servers)
{
    return servers->timeout_ms;
}

/* ---- calls ---- */

/* why_by_connections: the URLs of one server may differ in their text. The addresses to which the
 * connections lead do not, and to compare them costs no look-up of names. */
bool redlock_apart(const struct redlock_servers *servers,
                   const struct redlock_connections *connections)
{
    struct sockaddr_storage peers[SCRIPT_EACH_MAX] = {0};
    for (size_t i = 0; i < servers->count; i++) {
        socklen_t size = sizeof peers[i];
        if (getpeername(redis_fd(connections->each[i].redis), (struct sockaddr *)&peers[i],
                        &size) != 0)
            continue; /* without a connection it has no vote */
        for (size_t j = 0; j < i; j++)
            if (servers->database[i] == servers->database[j] &&
                memcmp(&peers[i], &peers[j], sizeof peers[i]) == 0) {
                lock_set_error("servers %zu and %zu are one (redis %s), where a majority lock "
                               "needs servers that are independent of each other",
                               j + 1, i + 1, servers->place[i]);
                return false;
            }
    }
    return true;
}

/* Stops at `enough` yes answers: waiting for the slowest server would cost the holder lease for
 * nothing. */
struct votes redlock_ask(const struct redlock_servers *servers,
                         struct redlock_connections *connections, const struct script_call *call,
                         struct script_call *calls, size_t enough, int wait_ms)
{
    assert(wait_ms >= 0 && enough <= servers->count);
    struct votes votes = {.left_ms = -1};
    for (size_t i = 0; i < servers->count; i++)
        calls[i] = *call;
    script_run_each(connections->each, calls, servers->count, enough, wait_ms);
    for (size_t i = 0; i < servers->count; i++) {
        bool answered = calls[i].result == REDIS_ANSWERED;
        bool yes = answered && calls[i].values[0] == 1;
        votes.yes += yes;
        votes.no += answered && !yes;
        votes.silent += !answered;
        if (!answered && !votes.silent_place)
            votes.silent_place = servers->place[i];
        if (answered && !yes && (votes.left_ms < 0 || calls[i].values[1] < votes.left_ms))
            votes.left_ms = calls[i].values[1];
    }
    assert(votes.yes + votes.no + votes.silent == servers->count);
    return votes;
}
