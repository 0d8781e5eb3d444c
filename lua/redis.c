/* One connection to a Redis server: connects when needed, pipelines, times out.
 *
 * why_drop: replies carry no id. The server answers a connection's commands in their order, so the
 * n-th reply belongs to the n-th command and to nothing else. A reply that is not awaited to its
 * end would be read as the answer to the next command. Therefore every error of the connection, a
 * time-out included, closes it, and every command that was sent and not answered has an unknown
 * outcome: only its caller can tell whether repeating it does harm. Nothing here sends a command
 * twice.
 *
 * why_leave: a primary that became a replica, or is cut off from its replicas, keeps its clients
 * and refuses their writes, while the URL's name may lead to the new primary by now. Such a refusal
 * closes the connection, but only at the next use: further replies of the pipeline are still due,
 * and each tells what became of its command. */
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
#include "base/fault.h"
#include "base/resolve.h"
#include "base/url.h"
#include "lua/cluster_hooks.h"

/* The first delay is short because a server that restarts is back soon; the longest bounds how long
 * a process goes on without a server that is back. */
#define BACKOFF_MS_MIN 20
#define BACKOFF_MS_MAX 1000

struct redis {
    redisContext *context; /* NULL while there is no connection */
    struct url url;
    struct timeval timeout;
    char *out; /* commands queued; hiredis would send without MSG_NOSIGNAL and raise SIGPIPE */
    size_t out_used, out_room; /* out_used is 0 while there is no connection */
    struct backoff backoff;
    char error[192];
    struct redis_stats stats;
    uint64_t scripts_seen; /* one bit per script that this connection has sent with its text */
    bool selects;          /* the database: a cluster has none to select */
    bool leaving;          /* the server takes no writes; see why_leave */
    const char *doing;     /* see redis_set_doing */
    struct fault fault;
    char place[URL_PLACE_SIZE];
    size_t next_server;      /* of a cluster: its node to try next */
    struct cluster *cluster; /* NULL unless the URL is a cluster's */
};

/* Closes this client's own connection; those to the nodes of a cluster stay. */
static void drop(struct redis *redis)
{
    if (redis->context)
        redisFree(redis->context);
    redis->context = NULL;
    redis->scripts_seen = 0;
    redis->out_used = 0;
    redis->leaving = false;
}

static struct timeval timeval_of(int64_t ms)
{
    return (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
}

/* A client of no URL yet; NULL: out of memory. */
static struct redis *redis_new(int timeout_ms)
{
    assert(timeout_ms > 0);
    struct redis *redis = calloc(1, sizeof *redis);
    if (!redis)
        return NULL;
    redis->doing = "connect";
    redis->timeout = timeval_of(timeout_ms);
    /* The address tells apart the clients that one process opens in the same millisecond. */
    backoff_init(&redis->backoff, BACKOFF_MS_MIN, BACKOFF_MS_MAX,
                 (unsigned)clock_now_ms() ^ (unsigned)(uintptr_t)redis);
    return redis;
}

static const char *open_url(struct redis *redis, const char *url, int timeout_ms)
{
    url_place(url, "redis", redis->place);
    redis->selects = redis->url.kind != URL_CLUSTER;
    redis->next_server = redis->backoff.random % URL_SERVERS_MAX;
    if (redis->url.kind == URL_CLUSTER)
        redis->cluster = cluster_hooks.open(redis, &redis->url, timeout_ms);
    if (redis->url.tls || redis->url.socket[0] != '\0' ||
        (redis->url.kind != URL_SINGLE && !redis->cluster))
        return "servers of this scheme are not supported yet";
    return NULL;
}

struct redis *redis_open(const char *url, int timeout_ms, char *error_out, size_t error_size)
{
    struct redis *redis = redis_new(timeout_ms);
    if (!redis) {
        snprintf(error_out, error_size, "out of memory");
        return NULL;
    }
    if (!url_parse(url, "redis", &redis->url, error_out, error_size)) {
        redis_close(&redis);
        return NULL;
    }
    const char *wrong = open_url(redis, url, timeout_ms);
    if (wrong) {
        snprintf(error_out, error_size, "%s", wrong);
        redis_close(&redis);
    }
    return redis;
}

struct redis *redis_open_server(const struct url *like, const char *host, unsigned port,
                                int timeout_ms)
{
    struct redis *redis = redis_new(timeout_ms);
    if (!redis)
        return NULL;
    redis->url = *like;
    redis->url.kind = URL_SINGLE;
    redis->url.server_count = 1;
    redis->url.socket[0] = '\0';
    redis->url.servers[0].port = port;
    snprintf(redis->url.servers[0].host, sizeof redis->url.servers[0].host, "%s", host);
    redis->selects = like->kind != URL_CLUSTER;
    url_server_place(host, port, redis->place);
    return redis;
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
        free((*redis)->out);
    }
    free(*redis);
    *redis = NULL;
}

void redis_set_timeout(struct redis *redis, int timeout_ms)
{
    assert(timeout_ms > 0);
    redis->timeout = timeval_of(timeout_ms);
    if (redis->context)
        redisSetTimeout(redis->context, redis->timeout);
    if (redis->cluster)
        cluster_hooks.set_timeout(redis->cluster, timeout_ms);
}

void redis_drop(struct redis *redis)
{
    drop(redis);
    if (redis->cluster)
        cluster_hooks.drop(redis->cluster);
}

/* Closes the connection because of an error. What is still queued is dropped: on a new connection
 * it would run out of its order. `why` may be the context's own text, so it is copied first. */
static void disconnect(struct redis *redis, const char *why)
{
    snprintf(redis->error, sizeof redis->error, "%s", why);
    fault_note(&redis->fault, redis->doing, why);
    redis->stats.failures++;
    drop(redis);
}

/* Only a failed try delays the next one. A lost connection does not: the server may well be there,
 * so the first try comes at once. */
static enum redis_result connect_failed(struct redis *redis, const char *why)
{
    disconnect(redis, why);
    backoff_fail(&redis->backoff, clock_now_ms());
    return REDIS_FAILED;
}

/* Sends one command and waits for its reply. These waits cost a round trip each, once per
 * connection; in return no command runs as the wrong user or on the wrong database. */
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
        /* A password alone logs in the default user; servers before Redis 6 take no other form. */
        const char *full[] = {"AUTH", url->user, url->password};
        const char *old[] = {"AUTH", url->password};
        bool named = url->user[0] != '\0';
        if (!handshake_step(redis, named ? 3 : 2, named ? full : old))
            return false;
    }
    if (!redis->selects)
        return true;
    char database[16];
    snprintf(database, sizeof database, "%u", url->database_number);
    const char *select[] = {"SELECT", database};
    return handshake_step(redis, 2, select);
}

/* Tries the addresses of the server's name in turn. NULL, or why none could be connected to; the
 * text may be that of redis->context. */
static const char *connect_server(struct redis *redis, const struct url_server *server,
                                  int64_t until_ms)
{
    struct resolved found = {.count = 0};
    int64_t left_ms = until_ms - clock_now_ms();
    const char *wrong = left_ms > 0 ? resolve_host(server->host, (int)left_ms, &found) : "no time";
    for (size_t i = 0; i < found.count; i++) {
        left_ms = until_ms - clock_now_ms();
        if (left_ms <= 0)
            return wrong ? wrong : "the look-up of the name took too long";
        if (redis->context)
            redisFree(redis->context);
        redis->context =
            redisConnectWithTimeout(found.addresses[i], (int)server->port, timeval_of(left_ms));
        if (!redis->context)
            return "out of memory";
        if (!redis->context->err)
            return NULL;
        wrong = redis->context->errstr;
    }
    return wrong;
}

/* Of a cluster any node will do: each try begins with another one. */
static const char *connect_any(struct redis *redis)
{
    int64_t until_ms =
        clock_now_ms() + redis->timeout.tv_sec * 1000 + redis->timeout.tv_usec / 1000;
    const struct url *url = &redis->url;
    return connect_server(redis, &url->servers[redis->next_server++ % url->server_count], until_ms);
}

enum redis_result redis_connect(struct redis *redis)
{
    if (redis->context && !redis->leaving)
        return REDIS_ANSWERED;
    if (redis->leaving) {
        redis->stats.failures++;
        drop(redis);
    }
    /* Fails at once instead of waiting: during an outage a caller's queue must not stand still for
     * one time-out per call. redis_error keeps the reason of the last try. */
    redis->doing = "connect";
    if (!backoff_over(&redis->backoff, clock_now_ms())) {
        fault_note(&redis->fault, redis->fault.doing, redis->error);
        return REDIS_FAILED;
    }
    assert(redis->out_used == 0 && redis->scripts_seen == 0);
    const char *wrong = connect_any(redis);
    if (wrong)
        return connect_failed(redis, wrong);
    assert(redis->context);
    redisSetTimeout(redis->context, redis->timeout);
    /* A program that this process starts must not keep the connection open. */
    fcntl(redis->context->fd, F_SETFD, FD_CLOEXEC);
    if (!handshake(redis)) {
        /* A copy, because disconnect writes to redis->error what it is given. */
        char why[sizeof redis->error];
        memcpy(why, redis->error, sizeof why);
        return connect_failed(redis, why);
    }
    /* Only after the handshake: a server that accepts connections and then refuses the password or
     * the database counts as a failure and is asked more and more rarely. */
    assert(redis->out_used == 0);
    backoff_reset(&redis->backoff);
    redis->stats.connects++;
    return REDIS_ANSWERED;
}

bool redis_connected(const struct redis *redis)
{
    return redis->context && !redis->leaving;
}

const char *redis_error(const struct redis *redis)
{
    return redis->error;
}

/* An error reply begins with a word for its kind. Servers before Redis 7 put what stopped a script
 * behind words of their own. */
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

/* The delay keeps a server that stays as it is from being connected to for every call. */
void redis_set_error(struct redis *redis, const char *text)
{
    snprintf(redis->error, sizeof redis->error, "%s", text);
    fault_note(&redis->fault, redis->doing, text);
    if (redis->context && !redis->leaving && takes_no_writes(text)) {
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
    return redis->place;
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

/* The buffer doubles and never shrinks, so after the first few pipelines nothing is allocated. */
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

/* Writes the head of an array or of a string: "*3\r\n" says that 3 strings follow, "$3\r\n" that 3
 * bytes do. */
static char *put_count(char *out, char kind, size_t count)
{
    *out++ = kind;
    return put(decimal_put(out, count), "\r\n", 2);
}

/* Writes what redisFormatCommandArgv would, but into the buffer, which spares an allocation and a
 * copy per command. Room is reserved for the whole command first: a command is queued completely or
 * not at all, so running out of memory never leaves half a command on the wire. */
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
    assert(redis->out_used <= redis->out_room); /* the sum above and the writing agree */
    return true;
}

/* Sends the whole queue. An error may come after a part of it has left, and the server may run the
 * complete commands in that part; so callers take what they queued as sent, and redis_receive then
 * gives NULL for each. */
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

/* Never connects: a reply that is due can only come on the connection that its command went out on.
 * After a loss each further call returns NULL at once, until the caller connects again. */
struct redisReply *redis_receive(struct redis *redis)
{
    void *reply = NULL;
    if (!redis_flush(redis))
        return NULL;
    if (redisGetReply(redis->context, &reply) != REDIS_OK) {
        /* hiredis reports a time-out only as errno's text, "Resource temporarily unavailable". */
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

/* Runs one plain command whose reply's content does not matter. An error reply is a refusal, which
 * leaves the connection in step: it answers this command and no other. */
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

/* Waits for bytes with poll, because a subscriber may wait for longer than the client's time-out,
 * and a time-out in hiredis would end the connection. */
static bool readable(const struct redis *redis, int wait_ms)
{
    struct pollfd poller = {.fd = redis->context->fd, .events = POLLIN};
    return poll(&poller, 1, wait_ms) > 0;
}

enum redis_result redis_next_message(struct redis *redis, int wait_ms, char *message_out,
                                     size_t size)
{
    void *ready = NULL;
    assert(size > 0);
    message_out[0] = '\0';
    if (!redis->context) /* no silent reconnect: the subscription is gone with the connection */
        return REDIS_UNKNOWN;
    /* One read may have brought several messages. The reader keeps the rest, and poll would wait
     * for new bytes while they lie there; so the reader comes first. */
    if (redisGetReplyFromReader(redis->context, &ready) != REDIS_OK) {
        disconnect(redis, "protocol error");
        return REDIS_UNKNOWN;
    }
    if (!ready && !readable(redis, wait_ms))
        return REDIS_FAILED;
    redisReply *reply = ready ? ready : redis_receive(redis);
    if (!reply)
        return REDIS_UNKNOWN;
    /* "message", the channel, the text. The confirmation of a SUBSCRIBE ends with a number. */
    bool message = reply->type == REDIS_REPLY_ARRAY && reply->elements == 3 &&
                   reply->element[2]->type == REDIS_REPLY_STRING;
    if (message)
        snprintf(message_out, size, "%s", reply->element[2]->str);
    freeReplyObject(reply);
    return message ? REDIS_ANSWERED : REDIS_FAILED;
}
