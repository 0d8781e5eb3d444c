/* One connection to a Redis server: connects when needed, pipelines, times out. */
#include "lua/redis.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/decimal.h"
#include "base/url.h"

#define BACKOFF_MS_MIN 20
#define BACKOFF_MS_MAX 1000

struct redis {
    redisContext *context;
    struct url url;
    struct timeval timeout;
    char *out; /* commands not sent yet; hiredis would send them with SIGPIPE */
    size_t out_used, out_room;
    struct backoff backoff;
    char error[192];
    struct redis_stats stats;
    uint64_t scripts_seen; /* one bit each, on this connection */
};

struct redis *redis_open(const char *url, int timeout_ms, char *error_out, size_t error_size)
{
    assert(timeout_ms > 0);
    struct redis *redis = calloc(1, sizeof *redis);
    if (!redis) {
        snprintf(error_out, error_size, "out of memory");
        return NULL;
    }
    if (!url_parse(url, "redis", &redis->url, error_out, error_size)) {
        free(redis);
        return NULL;
    }
    redis->timeout.tv_sec = timeout_ms / 1000;
    redis->timeout.tv_usec = timeout_ms % 1000 * 1000;
    backoff_init(&redis->backoff, BACKOFF_MS_MIN, BACKOFF_MS_MAX,
                 (unsigned)clock_now_ms() ^ (unsigned)(uintptr_t)redis);
    return redis;
}

void redis_close(struct redis **redis)
{
    if (*redis && (*redis)->context)
        redisFree((*redis)->context);
    if (*redis)
        free((*redis)->out);
    free(*redis);
    *redis = NULL;
}

void redis_set_timeout(struct redis *redis, int timeout_ms)
{
    assert(timeout_ms > 0);
    redis->timeout.tv_sec = timeout_ms / 1000;
    redis->timeout.tv_usec = timeout_ms % 1000 * 1000;
    if (redis->context)
        redisSetTimeout(redis->context, redis->timeout);
}

void redis_drop(struct redis *redis)
{
    if (redis->context)
        redisFree(redis->context);
    redis->context = NULL;
    redis->scripts_seen = 0;
    redis->out_used = 0;
}

static void disconnect(struct redis *redis, const char *why)
{
    snprintf(redis->error, sizeof redis->error, "%s", why);
    redis->stats.failures++;
    if (redis->context)
        redisFree(redis->context);
    redis->context = NULL;
    redis->scripts_seen = 0;
    redis->out_used = 0;
}

/* A failed try delays the next one; a lost connection alone does not: the first try is at once. */
static enum redis_result connect_failed(struct redis *redis, const char *why)
{
    disconnect(redis, why);
    backoff_fail(&redis->backoff, clock_now_ms());
    return REDIS_FAILED;
}

static bool handshake_step(struct redis *redis, int argc, const char **argv)
{
    redisReply *reply = redis_append(redis, argc, argv, NULL) ? redis_receive(redis) : NULL;
    bool ok = reply && reply->type != REDIS_REPLY_ERROR;
    if (reply && !ok)
        snprintf(redis->error, sizeof redis->error, "%s: %s", argv[0], reply->str);
    freeReplyObject(reply);
    return ok;
}

static bool handshake(struct redis *redis)
{
    const struct url *url = &redis->url;
    if (url->password[0] != '\0') {
        const char *full[] = {"AUTH", url->user, url->password};
        const char *old[] = {"AUTH", url->password};
        bool named = url->user[0] != '\0';
        if (!handshake_step(redis, named ? 3 : 2, named ? full : old))
            return false;
    }
    char database[16];
    snprintf(database, sizeof database, "%u", url->database_number);
    const char *select[] = {"SELECT", database};
    return handshake_step(redis, 2, select);
}

enum redis_result redis_connect(struct redis *redis)
{
    if (redis->context)
        return REDIS_ANSWERED;
    if (!backoff_over(&redis->backoff, clock_now_ms()))
        return REDIS_FAILED;
    redis->context = redisConnectWithTimeout(redis->url.host, (int)redis->url.port, redis->timeout);
    if (!redis->context || redis->context->err)
        return connect_failed(redis, redis->context ? redis->context->errstr : "out of memory");
    redisSetTimeout(redis->context, redis->timeout);
    fcntl(redis->context->fd, F_SETFD, FD_CLOEXEC);
    if (!handshake(redis)) {
        char why[sizeof redis->error];
        memcpy(why, redis->error, sizeof why);
        return connect_failed(redis, why);
    }
    backoff_reset(&redis->backoff);
    redis->stats.connects++;
    return REDIS_ANSWERED;
}

bool redis_connected(const struct redis *redis)
{
    return redis->context != NULL;
}

const char *redis_error(const struct redis *redis)
{
    return redis->error;
}

void redis_set_error(struct redis *redis, const char *text)
{
    snprintf(redis->error, sizeof redis->error, "%s", text);
}

struct redis_stats redis_stats(const struct redis *redis)
{
    return redis->stats;
}

void redis_count_reload(struct redis *redis)
{
    redis->stats.reloads++;
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

static bool out_reserve(struct redis *redis, size_t more)
{
    size_t room = redis->out_room ? redis->out_room : 1024;
    while (room < redis->out_used + more)
        room *= 2;
    if (room == redis->out_room)
        return true;
    char *out = realloc(redis->out, room);
    if (!out)
        return false;
    redis->out = out;
    redis->out_room = room;
    return true;
}

static char *put(char *out, const char *bytes, size_t count)
{
    memcpy(out, bytes, count);
    return out + count;
}

/* "*3\r\n" or "$3\r\n": how many words follow, or bytes. */
static char *put_count(char *out, char kind, size_t count)
{
    *out++ = kind;
    return put(decimal_put(out, count), "\r\n", 2);
}

/* As redisFormatCommandArgv does it, but in place. */
bool redis_append(struct redis *redis, int argc, const char *const *argv, const size_t *lengths)
{
    size_t room = DECIMAL_DIGITS_MAX + 3;
    assert(redis->context);
    for (int i = 0; i < argc; i++)
        room += DECIMAL_DIGITS_MAX + 5 + (lengths ? lengths[i] : strlen(argv[i]));
    if (!out_reserve(redis, room))
        return false;
    char *out = put_count(redis->out + redis->out_used, '*', (size_t)argc);
    for (int i = 0; i < argc; i++) {
        size_t length = lengths ? lengths[i] : strlen(argv[i]);
        out = put_count(out, '$', length);
        out = put(out, argv[i], length);
        out = put(out, "\r\n", 2);
    }
    redis->out_used = (size_t)(out - redis->out);
    return true;
}

static bool flush(struct redis *redis, int flags)
{
    size_t sent = 0;
    while (redis->context && sent < redis->out_used) {
        ssize_t count = send(redis->context->fd, redis->out + sent, redis->out_used - sent, flags);
        if (count >= 0)
            sent += (size_t)count;
        else if (errno != EINTR)
            disconnect(redis, strerror(errno));
    }
    redis->out_used = 0;
    return redis->context != NULL;
}

bool redis_flush(struct redis *redis)
{
    return flush(redis, MSG_NOSIGNAL);
}

bool redis_flush_lazily(struct redis *redis)
{
    return flush(redis, MSG_NOSIGNAL | MSG_MORE);
}

struct redisReply *redis_receive(struct redis *redis)
{
    void *reply = NULL;
    if (!redis_flush(redis))
        return NULL;
    if (redisGetReply(redis->context, &reply) != REDIS_OK) {
        bool late = errno == EAGAIN && redis->context->err == REDIS_ERR_IO;
        char why[sizeof redis->error];
        snprintf(why, sizeof why, "%s", late ? "no reply in time" : redis->context->errstr);
        disconnect(redis, why);
        return NULL;
    }
    return reply;
}

int redis_fd(const struct redis *redis)
{
    return redis->context ? redis->context->fd : -1;
}

bool redis_fill(struct redis *redis)
{
    if (redis->context && redisBufferRead(redis->context) != REDIS_OK)
        disconnect(redis, redis->context->errstr);
    return redis->context != NULL;
}

struct redisReply *redis_parsed(struct redis *redis)
{
    void *reply = NULL;
    if (redis->context && redisGetReplyFromReader(redis->context, &reply) != REDIS_OK)
        disconnect(redis, "protocol error");
    return redis->context ? reply : NULL;
}

/* One plain command whose reply's content does not matter. */
static enum redis_result command(struct redis *redis, int argc, const char *const *argv)
{
    if (redis_connect(redis) != REDIS_ANSWERED || !redis_append(redis, argc, argv, NULL))
        return REDIS_FAILED;
    redisReply *reply = redis_receive(redis);
    if (!reply)
        return REDIS_UNKNOWN;
    bool ok = reply->type != REDIS_REPLY_ERROR;
    if (!ok)
        snprintf(redis->error, sizeof redis->error, "%s", reply->str);
    freeReplyObject(reply);
    return ok ? REDIS_ANSWERED : REDIS_FAILED;
}

enum redis_result redis_ping(struct redis *redis)
{
    const char *argv[] = {"PING"};
    return command(redis, 1, argv);
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

/* Waits for bytes without letting hiredis see a timeout, which would end the connection. */
static bool readable(const struct redis *redis, int wait_ms)
{
    struct pollfd poller = {.fd = redis->context->fd, .events = POLLIN};
    return poll(&poller, 1, wait_ms) > 0;
}

enum redis_result redis_next_message(struct redis *redis, int wait_ms, char *message_out,
                                     size_t size)
{
    void *ready = NULL;
    message_out[0] = '\0';
    if (!redis->context)
        return REDIS_UNKNOWN;
    if (redisGetReplyFromReader(redis->context, &ready) != REDIS_OK) {
        disconnect(redis, "protocol error");
        return REDIS_UNKNOWN;
    }
    if (!ready && !readable(redis, wait_ms))
        return REDIS_FAILED;
    redisReply *reply = ready ? ready : redis_receive(redis);
    if (!reply)
        return REDIS_UNKNOWN;
    bool message = reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
                   reply->element[2]->type == REDIS_REPLY_STRING;
    if (message)
        snprintf(message_out, size, "%s", reply->element[2]->str);
    freeReplyObject(reply);
    return message ? REDIS_ANSWERED : REDIS_FAILED;
}
