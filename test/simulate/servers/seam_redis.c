/* lua/redis.h over the simulated server: what takes the place of lua/redis.c. */
#include "lua/redis.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/clock.h"
#include "lua/script.h"
#include "test/simulate/machine/loop.h"
#include "test/simulate/servers/redis_server.h"
#include "test/simulate/servers/seam_redis.h"

enum { BACKOFF_MS_MIN = 20, BACKOFF_MS_MAX = 1000, CONNECT_NS = 200000, FDS_MAX = 256 };

struct redis {
    bool connected;
    uint32_t epoch; /* of the server's run in which it connected */
    int timeout_ms;
    struct backoff backoff;
    uint64_t scripts_seen;
    struct redis_stats stats;
    const char *error;
    struct fault fault;
    struct redis_message *out; /* queued; NULL: nothing is */
    struct redis_message *in;  /* sent; its replies are due from `next` on */
    size_t next;
    struct redis_subscription *subscription; /* NULL: none */
    struct redis_news *read;                 /* from its socket, and not asked for yet */
    int fd;                                  /* of a subscribed connection */
};

/* The connections that have subscribed, by descriptor. */
static struct redis *subscribed[FDS_MAX];
static int fd_count;

void seam_redis_begin(void)
{
    fd_count = 0;
}

struct redis *redis_open(const char *url, int timeout_ms, char *error_out, size_t error_size)
{
    struct redis *redis = calloc(1, sizeof *redis);
    (void)url, (void)error_out, (void)error_size;
    redis->timeout_ms = timeout_ms;
    redis->error = "";
    backoff_init(&redis->backoff, BACKOFF_MS_MIN, BACKOFF_MS_MAX, 1);
    return redis;
}

const struct cluster_hooks cluster_hooks;

struct cluster *redis_cluster(const struct redis *redis)
{
    (void)redis;
    return NULL;
}

void redis_close(struct redis **redis)
{
    *redis = NULL;
}

void redis_set_timeout(struct redis *redis, int timeout_ms)
{
    redis->timeout_ms = timeout_ms;
}

void redis_drop(struct redis *redis)
{
    redis->connected = false;
    redis->scripts_seen = 0;
    redis->out = redis->in = NULL;
    if (redis->subscription)
        redis_server_unsubscribe(redis->subscription);
    redis->subscription = NULL;
    redis->read = NULL;
}

static void disconnect(struct redis *redis, const char *why)
{
    redis_drop(redis);
    redis->error = why;
    redis->stats.failures++;
    redis->fault.count++;
}

enum redis_result redis_connect(struct redis *redis)
{
    if (redis->connected)
        return REDIS_ANSWERED;
    if (!backoff_over(&redis->backoff, clock_now_ms()))
        return REDIS_FAILED;
    task_sleep(CONNECT_NS);
    redis->connected = true;
    redis->epoch = redis_server_epoch();
    redis->stats.connects++;
    return REDIS_ANSWERED;
}

const char *redis_place(const struct redis *redis)
{
    (void)redis;
    return "redis";
}

bool redis_connected(const struct redis *redis)
{
    return redis->connected;
}

const char *redis_error(const struct redis *redis)
{
    return redis->error;
}

void redis_set_error(struct redis *redis, const char *text)
{
    redis->error = text;
}

struct fault *redis_fault(struct redis *redis)
{
    return &redis->fault;
}

void redis_set_doing(struct redis *redis, const char *doing)
{
    (void)redis, (void)doing;
}

struct redis_stats redis_stats(const struct redis *redis)
{
    return redis->stats;
}

bool redis_first_use(struct redis *redis, unsigned script)
{
    uint64_t bit = UINT64_C(1) << script;
    bool first = (redis->scripts_seen & bit) == 0;
    redis->scripts_seen |= bit;
    return first;
}

void redis_forget_scripts(struct redis *redis)
{
    redis->scripts_seen = 0;
}

static const char *copy(const char *text, size_t length)
{
    char *to = malloc(length + 1);
    memcpy(to, text, length);
    to[length] = '\0';
    return to;
}

bool redis_append(struct redis *redis, int argc, const char *const *argv, const size_t *lengths)
{
    assert(redis->connected && argc <= COMMAND_WORDS_MAX);
    if (!redis->out) {
        redis->out = calloc(1, sizeof *redis->out);
        redis->out->epoch = redis->epoch;
        snprintf(redis->out->sender, sizeof redis->out->sender, "%s",
                 task_current() ? task_current()->name : "nobody");
    }
    assert(redis->out->count < MESSAGE_COMMANDS_MAX);
    struct redis_words *words = malloc(sizeof *words + (size_t)argc * sizeof *words->text);
    redis->out->commands[redis->out->count++] = words;
    words->count = argc;
    for (int i = 0; i < argc; i++) /* the text of a script is long, and stays where it is */
        words->text[i] = i == 1 && strcmp(argv[0], "EVAL") == 0
                             ? argv[i]
                             : copy(argv[i], lengths ? lengths[i] : strlen(argv[i]));
    return true;
}

bool redis_flush(struct redis *redis)
{
    if (!redis->connected || !redis->out)
        return redis->connected;
    assert(!redis->in || redis->next == redis->in->count);
    redis->in = redis->out;
    redis->out = NULL;
    redis->next = 0;
    redis_server_send(redis->in);
    return true;
}

/* All replies of a message arrive together. */
struct redisReply *redis_receive(struct redis *redis)
{
    if (!redis_flush(redis) || !redis->in)
        return NULL;
    struct redis_message *message = redis->in;
    assert(redis->next < message->count);
    if (redis->next == 0) {
        message->waiter = task_current();
        message->waiter_tag = task_waits();
        if (!task_await(loop_now_ns() + redis->timeout_ms * LOOP_MS)) {
            message->waiter = NULL;
            disconnect(redis, "no reply in time");
            return NULL;
        }
        message->waiter = NULL;
    }
    if (message->closed) {
        disconnect(redis, "Server closed the connection");
        return NULL;
    }
    return message->replies[redis->next++];
}

static enum redis_result command(struct redis *redis, int argc, const char *const *argv)
{
    if (redis_connect(redis) != REDIS_ANSWERED || !redis_append(redis, argc, argv, NULL))
        return REDIS_FAILED;
    struct redisReply *reply = redis_receive(redis);
    return !reply                             ? REDIS_UNKNOWN
           : reply->type == REDIS_REPLY_ERROR ? REDIS_FAILED
                                              : REDIS_ANSWERED;
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

/* ---- subscriptions ---- */

enum redis_result redis_subscribe(struct redis *redis, const char *channel)
{
    const char *argv[] = {"SUBSCRIBE", channel};
    redis_drop(redis);
    if (redis_connect(redis) != REDIS_ANSWERED)
        return REDIS_FAILED;
    if (redis->fd == 0) {
        assert(fd_count < FDS_MAX);
        redis->fd = ++fd_count;
    }
    subscribed[redis->fd - 1] = redis;
    redis_append(redis, 2, argv, NULL);
    redis->subscription = redis_server_subscription(redis->out, redis->epoch);
    if (!redis_receive(redis))
        return REDIS_UNKNOWN;
    redis_server_subscribed(redis->subscription);
    redis_fill(redis); /* what came with the answer */
    return REDIS_ANSWERED;
}

int redis_fd(const struct redis *redis)
{
    return redis->fd;
}

bool seam_redis_readable(int fd, const void *signal)
{
    struct redis_subscription *subscription = subscribed[fd - 1]->subscription;
    subscription->signal = signal;
    return subscription->first || subscription->closed;
}

/* One read takes all that has come: then the socket has nothing, until more comes. Messages that
 * came before the end of the connection are read first. */
bool redis_fill(struct redis *redis)
{
    struct redis_subscription *subscription = redis->subscription;
    struct redis_news **end = &redis->read;
    if (!subscription->first && subscription->closed) {
        disconnect(redis, "Server closed the connection");
        return false;
    }
    while (*end)
        end = &(*end)->next;
    *end = subscription->first;
    subscription->first = NULL;
    return true;
}

enum redis_event redis_next_event(struct redis *redis, char *channel_out, size_t channel_size,
                                  char *message_out, size_t message_size)
{
    (void)channel_out, (void)channel_size;
    if (!redis->read)
        return REDIS_EVENT_NONE;
    snprintf(message_out, message_size, "%s", redis->read->message);
    redis->read = redis->read->next;
    return REDIS_EVENT_MESSAGE;
}

/* In place of hiredis: replies are the schedule's memory. */
void freeReplyObject(void *reply)
{
    (void)reply;
}

void seam_redis_post(struct redis *redis, struct script_call *call)
{
    redis->connected = true;
    redis->epoch = redis_server_epoch();
    script_append(redis, call, 1, true);
    redis_server_send(redis->out);
    redis->out = NULL;
}
