/* Shares one Redis server among all threads of a client. */
#include "lock/redis/server.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/url.h"
#include "lock/process.h"
#include "lock/redis/pipeline.h"
#include "lock/redis/waiter.h"
#include "lock/text.h"
#include "lua/cluster/cluster.h"

enum { IDLE_MAX = 64 };

struct redis_server {
    pthread_mutex_t mutex; /* guards the idle connections and the list of hubs */
    struct process_guard guard;
    size_t idle_count;
    struct redis *idle[IDLE_MAX];
    char *url;
    char place[URL_PLACE_SIZE];
    char prefix[SECLOCK_PREFIX_MAX];
    int timeout_ms;
    bool clustered;
    size_t hub_count;
    struct waiter_hub *hubs[WAITER_HUBS_MAX]; /* each is kept until the server is closed */
};

/* Opening the first connection here checks the URL; it connects when first used. */
enum seclock_result redis_server_open(const char *url, const char *prefix, int timeout_ms,
                                      struct redis_server **server_out)
{
    assert(timeout_ms > 0);
    char error[128];
    struct redis_server *server = calloc(1, sizeof *server);
    *server_out = NULL;
    if (!server)
        return SECLOCK_FAILED;
    process_guard(&server->guard, &server->mutex);
    snprintf(server->prefix, sizeof server->prefix, "%s", prefix);
    server->timeout_ms = timeout_ms;
    server->url = strdup(url);
    server->idle[0] = redis_open(url, timeout_ms, error, sizeof error);
    if (!server->url || !server->idle[0]) {
        lock_set_error("%s", error);
        redis_server_close(&server);
        return SECLOCK_CONFIG;
    }
    url_place(url, "redis", server->place);
    server->idle_count = 1;
    server->clustered = redis_cluster(server->idle[0]) != NULL;
    *server_out = server;
    return SECLOCK_OK;
}

void redis_server_close(struct redis_server **server)
{
    struct redis_server *old = *server;
    *server = NULL;
    if (!old)
        return;
    assert(old->idle_count <= IDLE_MAX);
    while (old->hub_count > 0)
        waiter_hub_close(&old->hubs[--old->hub_count]);
    while (old->idle_count > 0)
        redis_close(&old->idle[--old->idle_count]);
    process_unguard(&old->guard);
    free(old->url);
    free(old);
}

/* Only the child runs this, where no other thread exists, so it needs no mutex. The fork has waited
 * for the lists to be whole; lent connections stay open, as threads may have been changing them. */
void redis_server_forget(struct redis_server *server)
{
    for (size_t i = 0; i < server->hub_count; i++)
        waiter_hub_forget(server->hubs[i]);
    for (size_t i = 0; i < server->idle_count; i++)
        redis_drop(server->idle[i]);
}

struct redis *redis_server_take(struct redis_server *server)
{
    char error[128];
    pthread_mutex_lock(&server->mutex);
    assert(server->idle_count <= IDLE_MAX);
    struct redis *redis = server->idle_count > 0 ? server->idle[--server->idle_count] : NULL;
    pthread_mutex_unlock(&server->mutex);
    if (!redis)
        redis = redis_open(server->url, server->timeout_ms, error, sizeof error);
    if (!redis)
        lock_set_error("out of memory");
    return redis;
}

/* Keeps a connection in a bad state as well: it reconnects when next used. */
void redis_server_give(struct redis_server *server, struct redis *redis)
{
    assert(redis);
    pthread_mutex_lock(&server->mutex);
    if (server->idle_count < IDLE_MAX) {
        server->idle[server->idle_count++] = redis;
        redis = NULL;
    }
    pthread_mutex_unlock(&server->mutex);
    redis_close(&redis);
}

int redis_server_timeout_ms(const struct redis_server *server)
{
    return server->timeout_ms;
}

const char *redis_server_url(const struct redis_server *server)
{
    return server->url;
}

/* ---- waiters ---- */

/* The connection given back last is likely to have run the caller's own call. */
bool redis_server_node(struct redis_server *server, const char *channel,
                       struct url_server *node_out)
{
    bool known = !server->clustered;
    node_out->port = 0;
    node_out->host[0] = '\0';
    if (known)
        return true;
    pthread_mutex_lock(&server->mutex);
    for (size_t i = server->idle_count; i > 0 && !known; i--)
        known = cluster_owner(redis_cluster(server->idle[i - 1]), channel, node_out);
    pthread_mutex_unlock(&server->mutex);
    return known;
}

/* Returns the hub at that node, which may be one to add; NULL: there is none. */
static struct waiter_hub *hub_at(struct redis_server *server, const struct url_server *node,
                                 struct waiter_hub **added)
{
    struct waiter_hub *hub = NULL;
    pthread_mutex_lock(&server->mutex);
    for (size_t i = 0; i < server->hub_count && !hub; i++)
        if (waiter_hub_is_at(server->hubs[i], node))
            hub = server->hubs[i];
    if (!hub && *added && server->hub_count < WAITER_HUBS_MAX) {
        hub = server->hubs[server->hub_count++] = *added;
        *added = NULL;
    }
    pthread_mutex_unlock(&server->mutex);
    return hub;
}

/* Opens a hub without the mutex, which a fork takes after the mutex of the list of guards. */
struct waiter_hub *redis_server_waiters(struct redis_server *server, const char *channel)
{
    struct url_server node;
    struct waiter_hub *made = NULL;
    if (!redis_server_node(server, channel, &node))
        return NULL;
    struct waiter_hub *hub = hub_at(server, &node, &made);
    if (hub)
        return hub;
    made = waiter_hub_open(server->url, server->clustered ? &node : NULL, server->timeout_ms, NULL);
    hub = hub_at(server, &node, &made);
    waiter_hub_close(&made); /* another thread was first, or there are too many */
    return hub;
}

void redis_server_failed(const struct redis_server *server, const struct redis *redis)
{
    lock_set_error("redis %s: %s", server->place, redis_error(redis));
}

/* ---- keys ---- */

void redis_server_key(const struct redis_server *server, const char *name, const char *field,
                      char *key_out)
{
    lock_redis_key(server->prefix, name, field, key_out);
}

void redis_server_begin(const struct redis_server *server, struct script_call *call_out,
                        enum script_id id, const char *name, const char *request, const char *keys)
{
    char field[LOCK_FIELD_MAX], key[SCRIPT_KEY_MAX];
    script_begin(call_out, id);
    for (size_t length; *keys != '\0'; keys += length + (keys[length] == ' ')) {
        length = strcspn(keys, " ");
        assert(length > 0 && length < LOCK_FIELD_MAX);
        if (keys[0] == '~')
            lock_redis_released("released", request, field);
        else
            snprintf(field, sizeof field, "%.*s", (int)length, keys);
        redis_server_key(server, name, field, key);
        script_key(call_out, key);
    }
}

/* ---- calls ---- */

/* Sends unanswered calls once more, unchanged: the script recognises the request and repeats its
 * first answer, whether it was executed or not. In a pipeline the unanswered calls come last. */
static void run_again(struct redis *redis, struct script_call *calls, size_t count)
{
    assert(count > 0);
    size_t answered = 0;
    while (answered < count && calls[answered].result != REDIS_UNKNOWN)
        answered++;
    if (answered == count)
        return;
    script_run(redis, calls + answered, count - answered);
    for (size_t i = answered; i < count; i++)
        if (calls[i].result == REDIS_FAILED)
            calls[i].result = REDIS_UNKNOWN; /* the server may have executed it the first time */
}

/* Sets the connection's timeout for these calls only, and restores it before the connection is lent
 * again. With a limit, a silent server leaves no time to send anything again. Without memory for a
 * connection the calls have certainly failed. */
void redis_server_run(struct redis_server *server, struct script_call *calls, size_t count,
                      int limit_ms, enum redis_server_way way)
{
    assert(count > 0 && limit_ms >= 0 && (way == SERVER_PIPELINE || count == 1));
    struct redis *redis = redis_server_take(server);
    bool shorter = limit_ms > 0 && limit_ms < server->timeout_ms;
    int64_t until_ms = clock_now_ms() + limit_ms;
    size_t answered = 0;
    for (size_t i = 0; !redis && i < count; i++)
        calls[i].result = REDIS_FAILED;
    if (!redis)
        return;
    if (shorter)
        redis_set_timeout(redis, limit_ms);
    if (way == SERVER_PUBLISHING)
        script_run_telling(redis, calls);
    else
        script_run(redis, calls, count);
    if (way != SERVER_ONCE && (limit_ms == 0 || clock_now_ms() < until_ms))
        run_again(redis, calls, count);
    if (shorter)
        redis_set_timeout(redis, server->timeout_ms);
    while (answered < count && calls[answered].result == REDIS_ANSWERED)
        answered++;
    if (answered < count)
        redis_server_failed(server, redis);
    redis_server_give(server, redis);
}

static enum seclock_result outcome(enum redis_result result)
{
    if (result == REDIS_ANSWERED)
        return SECLOCK_OK;
    return result == REDIS_UNKNOWN ? SECLOCK_UNKNOWN : SECLOCK_FAILED;
}

enum seclock_result redis_server_answer(const struct script_call *call, enum seclock_result no)
{
    assert(no != SECLOCK_OK);
    enum seclock_result result = outcome(call->result);
    return result == SECLOCK_OK && call->values[0] != 1 ? no : result;
}

/* Tells whether they were run again. */
static enum seclock_result run_commands(struct redis_server *server, struct command *commands,
                                        size_t count, bool *repeated_out)
{
    assert(count > 0);
    enum seclock_result result = SECLOCK_OK;
    struct redis *redis = redis_server_take(server);
    *repeated_out = false;
    if (!redis)
        return SECLOCK_FAILED;
    command_run(redis, commands, count);
    for (size_t i = 0; i < count; i++)
        *repeated_out = *repeated_out || commands[i].result == REDIS_UNKNOWN;
    if (*repeated_out) {
        command_clear(commands, count);
        command_run(redis, commands, count);
    }
    for (size_t i = 0; i < count && result == SECLOCK_OK; i++)
        result = outcome(commands[i].result);
    if (result != SECLOCK_OK)
        redis_server_failed(server, redis);
    redis_server_give(server, redis);
    return result;
}

enum seclock_result redis_server_commands(struct redis_server *server, struct command *commands,
                                          size_t count)
{
    bool repeated;
    return run_commands(server, commands, count, &repeated);
}

void redis_server_tell(struct redis_server *server, const char *channel, const char *message)
{
    struct command tell = {.argc = 3, .argv = {"SPUBLISH", channel, message}};
    enum seclock_result result = redis_server_commands(server, &tell, 1);
    command_clear(&tell, 1);
    if (result == SECLOCK_OK)
        return;
    tell.argv[0] = "PUBLISH";
    redis_server_commands(server, &tell, 1);
    command_clear(&tell, 1);
}

enum seclock_result redis_server_change(struct redis_server *server, struct command *commands,
                                        size_t count, bool *repeated_out)
{
    enum seclock_result result = run_commands(server, commands, count, repeated_out);
    return result == SECLOCK_FAILED && *repeated_out ? SECLOCK_UNKNOWN : result;
}
