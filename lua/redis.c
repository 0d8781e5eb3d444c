/* One connection to a Redis server: connects when needed, pipelines, times out.
 *
 * why_drop: replies carry no id. The server answers a connection's commands in their order, so the
 * n-th reply belongs to the n-th command. A reply that is not awaited to its end would be read as
 * the answer to the next command. Therefore every error of the connection, a time-out included,
 * closes it, and every command that was sent and not answered has an unknown outcome: only its
 * caller can tell whether repeating it does harm. This client never sends a command twice.
 *
 * why_leave: a primary that became a replica, or is cut off from its replicas, keeps its clients
 * and refuses their writes, while the URL's name may lead to the new primary by now. Such a refusal
 * closes the connection, but only at the next use: further replies of the pipeline are still due,
 * and each tells what became of its command. The sentinel that named such a server may be cut off
 * together with it, so another one is asked next. */
#include "lua/redis.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fault.h"
#include "base/clock.h"
#include "base/url.h"
#include "lua/connect.h"

/* The first delay is short because a server that restarts is back soon; the longest one bounds how
 * long a process does without a server that is back. */
#define BACKOFF_MS_MIN 20
#define BACKOFF_MS_MAX 1000

enum { PLACES_MAX = 16 };

struct redis {
    struct wire *wire; /* NULL while there is no connection */
    struct url url;
    int timeout_ms;
    struct backoff backoff;
    char error[WIRE_ERROR_SIZE];
    struct redis_stats stats;
    uint64_t scripts_seen; /* one bit per script that this connection has sent with its text */
    bool leaving;          /* the server takes no writes; see why_leave */
    bool never_waits;      /* see redis_never_wait */
    const char *doing;     /* see redis_set_doing */
    struct fault fault;
    _Atomic(const char *) place; /* one of `places`: other threads may ask for it */
    size_t place_count;
    char places[PLACES_MAX][URL_PLACE_SIZE]; /* the URL's own, then the masters of sentinels */
    size_t next_server;                      /* the next server of the URL to ask */
    const char *host;        /* of the last connection, as in the URL; NULL: a socket's path */
    struct cluster *cluster; /* NULL unless the URL is a cluster's */
};

/* Closes this client's own connection; those to the nodes of a cluster stay. */
static void drop(struct redis *redis)
{
    wire_close(&redis->wire);
    redis->scripts_seen = 0;
    redis->leaving = false;
}

/* Sets the server's present address, for redis_place. Never overwrites a text, because another
 * thread may be reading it; without room for one more, the URL's own is shown. */
static void set_place(struct redis *redis, const char *place)
{
    size_t i = 0;
    while (i < redis->place_count && strcmp(redis->places[i], place) != 0)
        i++;
    if (i == redis->place_count && i < PLACES_MAX)
        snprintf(redis->places[redis->place_count++], URL_PLACE_SIZE, "%s", place);
    atomic_store(&redis->place, redis->places[i < PLACES_MAX ? i : 0]);
}

/* NULL: out of memory. */
static struct redis *redis_new(const struct url *url, const char *place, int timeout_ms)
{
    assert(timeout_ms > 0);
    struct redis *redis = calloc(1, sizeof *redis);
    if (!redis)
        return NULL;
    set_place(redis, place);
    redis->url = *url;
    redis->doing = "connect";
    redis->timeout_ms = timeout_ms;
    /* The address tells apart the clients that one process opens in the same millisecond. */
    backoff_init(&redis->backoff, BACKOFF_MS_MIN, BACKOFF_MS_MAX,
                 (unsigned)clock_now_ms() ^ (unsigned)(uintptr_t)redis);
    return redis;
}

struct redis *redis_open(const char *text, int timeout_ms, char *error_out, size_t error_size)
{
    struct url url;
    char place[URL_PLACE_SIZE];
    if (!url_parse(text, "redis", &url, error_out, error_size))
        return NULL;
    url_place(text, "redis", place);
    struct redis *redis = redis_new(&url, place, timeout_ms);
    if (redis && url.kind == URL_CLUSTER) {
        redis->next_server = redis->backoff.random % url.server_count;
        redis->cluster = cluster_hooks.open(redis, &url, timeout_ms);
        if (!redis->cluster)
            redis_close(&redis);
    }
    if (!redis)
        snprintf(error_out, error_size, "out of memory");
    return redis;
}

struct redis *redis_open_node(const struct url *cluster, const char *host, unsigned port,
                              int timeout_ms)
{
    struct url url = *cluster;
    char place[URL_PLACE_SIZE];
    assert(cluster->kind == URL_CLUSTER);
    url_server_place(host, port, place);
    url.server_count = 1;
    url.servers[0].port = port;
    snprintf(url.servers[0].host, sizeof url.servers[0].host, "%s", host);
    return redis_new(&url, place, timeout_ms);
}

const char *redis_host(const struct redis *redis)
{
    return redis->wire ? redis->host : NULL;
}

struct cluster *redis_cluster(const struct redis *redis)
{
    return redis->cluster;
}

void redis_close(struct redis **redis)
{
    if (*redis) {
        if ((*redis)->cluster)
            cluster_hooks.close(&(*redis)->cluster);
        drop(*redis);
    }
    free(*redis);
    *redis = NULL;
}

void redis_set_timeout(struct redis *redis, int timeout_ms)
{
    assert(timeout_ms > 0);
    redis->timeout_ms = timeout_ms;
    if (redis->wire)
        wire_set_timeout(redis->wire, timeout_ms);
    if (redis->cluster)
        cluster_hooks.set_timeout(redis->cluster, timeout_ms);
}

void redis_drop(struct redis *redis)
{
    drop(redis);
    if (redis->cluster)
        cluster_hooks.drop(redis->cluster);
}

/* Closes the connection because of an error. Drops queued commands: on a new connection they would
 * run out of order. `why` may be the connection's own text, so it is copied first. */
static void disconnect(struct redis *redis, const char *why)
{
    if (why != redis->error)
        snprintf(redis->error, sizeof redis->error, "%s", why);
    fault_note(&redis->fault, redis->doing, why);
    redis->stats.failures++;
    drop(redis);
}

/* Connects; on failure the reason is in redis->error. */
static struct wire *open_wire(struct redis *redis, int64_t until_ms)
{
    const struct url *url = &redis->url;
    struct url_server master;
    char place[URL_PLACE_SIZE];
    if (url->kind == URL_SENTINEL) {
        struct wire *wire = connect_master(url, &redis->next_server, until_ms, redis->timeout_ms,
                                           &master, redis->error);
        if (wire) {
            url_server_place(master.host, master.port, place);
            set_place(redis, place);
        }
        return wire;
    }
    /* Any node of a cluster will do: each try takes the next. */
    const struct url_server *server =
        url->server_count > 0 ? &url->servers[redis->next_server++ % url->server_count] : NULL;
    redis->host = server ? server->host : NULL;
    return connect_server(url, server, until_ms, redis->timeout_ms, redis->error);
}

enum redis_result redis_connect(struct redis *redis)
{
    if (redis->wire && !redis->leaving)
        return REDIS_ANSWERED;
    if (redis->leaving) {
        redis->stats.failures++;
        if (redis->url.kind == URL_SENTINEL)
            redis->next_server++;
        drop(redis);
    }
    /* Fails at once instead of waiting: during an outage a caller's queue must not stand still for
     * one time-out per call. redis_error keeps the reason of the last try. */
    redis->doing = "connect";
    if (!backoff_over(&redis->backoff, clock_now_ms())) {
        fault_note(&redis->fault, redis->fault.doing, redis->error);
        return REDIS_FAILED;
    }
    assert(!redis->wire && redis->scripts_seen == 0);
    int64_t until_ms = clock_now_ms() + redis->timeout_ms; /* for all of it */
    redis->wire = open_wire(redis, until_ms);
    /* Only a failed try delays the next one. A lost connection does not: the server may well be
     * there, so the first try comes at once. */
    if (!redis->wire) {
        disconnect(redis, redis->error);
        backoff_fail(&redis->backoff, clock_now_ms());
        return REDIS_FAILED;
    }
    /* Only after the greeting: a server that accepts connections and then refuses the password or
     * the database counts as a failure and is asked more and more rarely. */
    backoff_reset(&redis->backoff);
    redis->stats.connects++;
    return REDIS_ANSWERED;
}

bool redis_connected(const struct redis *redis)
{
    return redis->wire && !redis->leaving;
}

const char *redis_error(const struct redis *redis)
{
    return redis->error;
}

/* An error reply begins with a word for its kind. Servers before Redis 7 put the error that stopped
 * a script behind words of their own. */
static bool takes_no_writes(const char *error)
{
    static const char *const kinds[] = {"READONLY ", "LOADING ", "MASTERDOWN ", "MISCONF ",
                                        "NOREPLICAS "};
    const char *inner = strstr(error, ": -");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(error, kinds[i], strlen(kinds[i])) == 0 ||
            (inner && strncmp(inner + 3, kinds[i], strlen(kinds[i])) == 0))
            return true;
    return false;
}

/* The delay keeps each call from connecting again to a server that still takes no writes. */
void redis_set_error(struct redis *redis, const char *text)
{
    snprintf(redis->error, sizeof redis->error, "%s", text);
    fault_note(&redis->fault, redis->doing, text);
    if (redis->wire && !redis->leaving && takes_no_writes(text)) {
        redis->leaving = true;
        backoff_fail(&redis->backoff, clock_now_ms());
    }
}

struct fault *redis_fault(struct redis *redis)
{
    return &redis->fault;
}

const char *redis_place(const struct redis *redis)
{
    return atomic_load(&redis->place);
}

void redis_set_doing(struct redis *redis, const char *doing)
{
    redis->doing = doing;
}

struct redis_stats redis_stats(const struct redis *redis)
{
    struct redis_stats stats = redis->stats;
    if (redis->cluster)
        cluster_hooks.add_stats(redis->cluster, &stats);
    return stats;
}

bool redis_first_use(struct redis *redis, unsigned script)
{
    assert(script < 64);
    uint64_t bit = UINT64_C(1) << script;
    bool first = (redis->scripts_seen & bit) == 0;
    redis->scripts_seen |= bit;
    return first;
}

void redis_forget_scripts(struct redis *redis)
{
    redis->scripts_seen = 0;
}

bool redis_append(struct redis *redis, int argc, const char *const *argv, const size_t *lengths)
{
    assert(redis->wire);
    return wire_append(redis->wire, argc, argv, lengths);
}

/* Sends the whole queue. An error may come after a part of it has left, and the server may run the
 * complete commands in that part; so callers count queued commands as sent, and redis_receive
 * returns NULL for each. */
static bool flush(struct redis *redis, bool lazily)
{
    bool sent = true;
    if (redis->wire)
        sent =
            redis->never_waits ? wire_push(redis->wire, lazily) : wire_flush(redis->wire, lazily);
    if (!sent)
        disconnect(redis, wire_error(redis->wire));
    return redis->wire != NULL;
}

void redis_never_wait(struct redis *redis)
{
    redis->never_waits = true;
}

bool redis_unsent(const struct redis *redis)
{
    return redis->wire && wire_unsent(redis->wire);
}

bool redis_flush(struct redis *redis)
{
    return flush(redis, false);
}

/* Never connects: a reply that is due can only come on the connection that its command went out on.
 * After a loss each further call returns NULL at once, until the caller connects again. */
struct redisReply *redis_receive(struct redis *redis)
{
    struct redisReply *reply = redis->wire ? wire_receive(redis->wire) : NULL;
    if (redis->wire && !reply)
        disconnect(redis, wire_error(redis->wire));
    return reply;
}

int redis_fd(const struct redis *redis)
{
    return redis->wire ? wire_fd(redis->wire) : -1;
}

bool redis_fill(struct redis *redis)
{
    if (redis->wire && !wire_fill(redis->wire))
        disconnect(redis, wire_error(redis->wire));
    return redis->wire != NULL;
}

struct redisReply *redis_parsed(struct redis *redis)
{
    struct redisReply *reply = NULL;
    if (redis->wire && !wire_parsed(redis->wire, &reply))
        disconnect(redis, wire_error(redis->wire));
    return reply;
}

/* Runs one plain command and checks only whether the reply is an error. An error reply is a
 * refusal, which leaves the connection in step. */
static enum redis_result command(struct redis *redis, int argc, const char *const *argv)
{
    if (redis_connect(redis) != REDIS_ANSWERED || !redis_append(redis, argc, argv, NULL))
        return REDIS_FAILED;
    redis_set_doing(redis, argv[0]);
    redisReply *reply = redis_receive(redis);
    if (!reply)
        return REDIS_UNKNOWN;
    bool ok = reply->type != REDIS_REPLY_ERROR;
    if (!ok)
        redis_set_error(redis, reply->str);
    freeReplyObject(reply);
    return ok ? REDIS_ANSWERED : REDIS_FAILED;
}

enum redis_result redis_ping(struct redis *redis)
{
    const char *argv[] = {"PING"};
    return redis->cluster ? cluster_hooks.ping(redis->cluster) : command(redis, 1, argv);
}

enum redis_result redis_publish(struct redis *redis, const char *channel, const char *message)
{
    const char *argv[] = {"PUBLISH", channel, message};
    return command(redis, 3, argv);
}

enum redis_result redis_subscribe(struct redis *redis, const char *channel)
{
    const char *argv[] = {"SUBSCRIBE", channel};
    return command(redis, 2, argv);
}

bool redis_send_subscribe(struct redis *redis, const char *channel, bool sharded)
{
    const char *argv[] = {sharded ? "SSUBSCRIBE" : "SUBSCRIBE", channel};
    return redis_connected(redis) && redis_append(redis, 2, argv, NULL) && flush(redis, false);
}

/* Sends lazily, because a late UNSUBSCRIBE costs no more than a dropped message, while a late
 * SUBSCRIBE misses messages. */
bool redis_send_unsubscribe(struct redis *redis, const char *channel, bool sharded)
{
    const char *argv[] = {sharded ? "SUNSUBSCRIBE" : "UNSUBSCRIBE", channel};
    return redis_connected(redis) && redis_append(redis, 2, argv, NULL) && flush(redis, true);
}

/* Redis confirms a SUBSCRIBE in the same stream as it delivers messages, so a confirmation stands
 * before the first message of its subscription. */
static enum redis_event classify(const redisReply *reply)
{
    static const struct {
        const char *word;
        enum redis_event event;
    } events[] = {
        {"subscribe", REDIS_EVENT_SUBSCRIBED},     {"ssubscribe", REDIS_EVENT_SUBSCRIBED},
        {"unsubscribe", REDIS_EVENT_UNSUBSCRIBED}, {"sunsubscribe", REDIS_EVENT_UNSUBSCRIBED},
        {"message", REDIS_EVENT_MESSAGE},          {"smessage", REDIS_EVENT_MESSAGE},
    };
    enum redis_event event = REDIS_EVENT_OTHER;
    if (reply->type == REDIS_REPLY_ERROR)
        return REDIS_EVENT_REFUSED;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
        reply->element[0]->type != REDIS_REPLY_STRING)
        return REDIS_EVENT_OTHER;
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (strcasecmp(reply->element[0]->str, events[i].word) == 0)
            event = events[i].event;
    bool named = event == REDIS_EVENT_MESSAGE || event == REDIS_EVENT_UNSUBSCRIBED;
    bool texts = reply->element[1]->type == REDIS_REPLY_STRING &&
                 (event != REDIS_EVENT_MESSAGE || reply->element[2]->type == REDIS_REPLY_STRING);
    return named && !texts ? REDIS_EVENT_OTHER : event;
}

enum redis_event redis_next_event(struct redis *redis, char *channel_out, size_t channel_size,
                                  char *message_out, size_t message_size)
{
    redisReply *reply = redis_parsed(redis);
    enum redis_event event = reply ? classify(reply) : REDIS_EVENT_NONE;
    if (event == REDIS_EVENT_MESSAGE || event == REDIS_EVENT_UNSUBSCRIBED)
        snprintf(channel_out, channel_size, "%s", reply->element[1]->str);
    if (event == REDIS_EVENT_MESSAGE)
        snprintf(message_out, message_size, "%s", reply->element[2]->str);
    if (event == REDIS_EVENT_REFUSED)
        redis_set_error(redis, reply->str);
    freeReplyObject(reply);
    return event;
}
