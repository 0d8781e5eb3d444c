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
#include <strings.h>
#include <sys/socket.h>
#include <time.h>

#define BACKOFF_MS_MIN 20
#define BACKOFF_MS_MAX 1000
#define COUNT_DIGITS 20

struct redis {
    redisContext *context;
    char host[256];
    int port;
    int database;
    char user[128];
    char password[256];
    struct timeval timeout;
    char *out; /* commands not sent yet; hiredis would send them with SIGPIPE */
    size_t out_used, out_room;
    int64_t retry_at_ms;
    int backoff_ms;
    unsigned jitter;
    char error[192];
    struct redis_stats stats;
    uint64_t scripts_seen; /* one bit each, on this connection */
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Copies the percent-encoded text [from, to) decoded; false when malformed or too long. */
static bool url_decode(const char *from, const char *to, char *out, size_t size)
{
    size_t used = 0;
    for (; from < to; from++) {
        char c = *from;
        if (c == '%') {
            if (to - from < 3 || hex_digit(from[1]) < 0 || hex_digit(from[2]) < 0)
                return false;
            c = (char)(hex_digit(from[1]) * 16 + hex_digit(from[2]));
            from += 2;
        }
        if (c == '\0' || used + 1 >= size)
            return false;
        out[used++] = c;
    }
    out[used] = '\0';
    return true;
}

static bool parse_number(const char *text, long max, int *out)
{
    char *end = NULL;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value > max)
        return false;
    *out = (int)value;
    return true;
}

static bool parse_credentials(struct redis *redis, const char *from, const char *at)
{
    const char *colon = memchr(from, ':', (size_t)(at - from));
    if (!colon)
        return url_decode(from, at, redis->user, sizeof redis->user);
    return url_decode(from, colon, redis->user, sizeof redis->user) &&
           url_decode(colon + 1, at, redis->password, sizeof redis->password);
}

/* host[:port][/db]; an IPv6 host stands in brackets. */
static bool parse_place(struct redis *redis, const char *text)
{
    char place[320];
    if (snprintf(place, sizeof place, "%s", text) >= (int)sizeof place)
        return false;
    char *slash = strchr(place, '/');
    if (slash) {
        *slash = '\0';
        if (slash[1] != '\0' && !parse_number(slash + 1, 1 << 20, &redis->database))
            return false;
    }
    char *host = place;
    char *rest = place;
    if (place[0] == '[') {
        host = place + 1;
        rest = strchr(place, ']');
        if (!rest)
            return false;
        *rest++ = '\0';
        if (*rest != ':' && *rest != '\0')
            return false;
    }
    char *colon = strchr(rest, ':');
    if (colon) {
        *colon = '\0';
        if (!parse_number(colon + 1, 65535, &redis->port) || redis->port == 0)
            return false;
    }
    if (host[0] == '\0' || strlen(host) >= sizeof redis->host)
        return false;
    strcpy(redis->host, host);
    return true;
}

static bool parse_url(struct redis *redis, const char *url)
{
    static const char scheme[] = "redis://";
    if (strncasecmp(url, scheme, sizeof scheme - 1) != 0)
        return false;
    const char *place = url + sizeof scheme - 1;
    const char *at = strrchr(place, '@');
    redis->port = 6379;
    if (at && !parse_credentials(redis, place, at))
        return false;
    return parse_place(redis, at ? at + 1 : place);
}

struct redis *redis_open(const char *url, int timeout_ms, char *error_out, size_t error_size)
{
    assert(timeout_ms > 0);
    struct redis *redis = calloc(1, sizeof *redis);
    if (!redis || !parse_url(redis, url)) {
        snprintf(error_out, error_size, "%s",
                 redis ? "not of the form redis://[user:password@]host[:port][/db]"
                       : "out of memory");
        free(redis);
        return NULL;
    }
    redis->timeout.tv_sec = timeout_ms / 1000;
    redis->timeout.tv_usec = timeout_ms % 1000 * 1000;
    redis->jitter = (unsigned)now_ms() ^ (unsigned)(uintptr_t)redis;
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
    int delay = redis->backoff_ms < BACKOFF_MS_MIN ? BACKOFF_MS_MIN : redis->backoff_ms;
    redis->backoff_ms = delay * 2 > BACKOFF_MS_MAX ? BACKOFF_MS_MAX : delay * 2;
    redis->retry_at_ms = now_ms() + delay / 2 + rand_r(&redis->jitter) % (delay / 2 + 1);
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
    if (redis->password[0] != '\0') {
        const char *full[] = {"AUTH", redis->user, redis->password};
        const char *old[] = {"AUTH", redis->password};
        bool named = redis->user[0] != '\0';
        if (!handshake_step(redis, named ? 3 : 2, named ? full : old))
            return false;
    }
    char database[16];
    snprintf(database, sizeof database, "%d", redis->database);
    const char *select[] = {"SELECT", database};
    return handshake_step(redis, 2, select);
}

enum redis_result redis_connect(struct redis *redis)
{
    if (redis->context)
        return REDIS_ANSWERED;
    if (now_ms() < redis->retry_at_ms)
        return REDIS_FAILED;
    redis->context = redisConnectWithTimeout(redis->host, redis->port, redis->timeout);
    if (!redis->context || redis->context->err)
        return connect_failed(redis, redis->context ? redis->context->errstr : "out of memory");
    redisSetTimeout(redis->context, redis->timeout);
    fcntl(redis->context->fd, F_SETFD, FD_CLOEXEC);
    if (!handshake(redis)) {
        char why[sizeof redis->error];
        memcpy(why, redis->error, sizeof why);
        return connect_failed(redis, why);
    }
    redis->backoff_ms = 0;
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
    char digits[COUNT_DIGITS];
    int used = 0;
    do
        digits[used++] = (char)('0' + count % 10);
    while ((count /= 10) > 0);
    *out++ = kind;
    while (used > 0)
        *out++ = digits[--used];
    return put(out, "\r\n", 2);
}

/* As redisFormatCommandArgv does it, but in place. */
bool redis_append(struct redis *redis, int argc, const char *const *argv, const size_t *lengths)
{
    size_t room = COUNT_DIGITS + 3;
    assert(redis->context);
    for (int i = 0; i < argc; i++)
        room += COUNT_DIGITS + 5 + (lengths ? lengths[i] : strlen(argv[i]));
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
