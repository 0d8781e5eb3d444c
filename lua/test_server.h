/* For unit tests: the real Redis that they run against, and a fake that sends scripted answers. */
#ifndef LUA_TEST_SERVER_H
#define LUA_TEST_SERVER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/test_range.h"
#include "lua/redis.h"

/* For an answer of the real server: only a bound for hangs, as a machine may stand still. */
enum { REDIS_SERVER_MS = 30000 };

/* The server's url; fails the test when the environment does not say it. */
static inline const char *redis_server_url(void)
{
    const char *url = getenv("SECKILL_REDIS_URL");
    if (!url)
        fail_msg("SECKILL_REDIS_URL is not set: these tests need a Redis of their own "
                 "(deploy/stack up DIR prints its address)");
    return url;
}

static inline struct redis *redis_server_open(int timeout_ms)
{
    char error[128];
    struct redis *redis = redis_open(redis_server_url(), timeout_ms, error, sizeof error);
    assert_non_null(redis);
    return redis;
}

/* Sends one command, given as words with single spaces between them; '' is an empty word. */
static inline redisReply *redis_server_send(struct redis *redis, char *command)
{
    const char *words[16];
    int count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(command, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        assert_true(count < 16);
        words[count++] = strcmp(word, "''") == 0 ? "" : word;
    }
    if (redis_connect(redis) != REDIS_ANSWERED)
        fail_msg("Redis does not answer: %s", redis_error(redis));
    assert_true(redis_append(redis, count, words, NULL));
    redisReply *reply = redis_receive(redis);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", command, reply->str);
    return reply;
}

/* Runs one command on a connection of its own and returns the reply as a number; -1 for nil. */
static inline int64_t __attribute__((format(printf, 1, 2))) redis_server_do(const char *format, ...)
{
    char command[512];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    struct redis *redis = redis_server_open(REDIS_SERVER_MS);
    redisReply *reply = redis_server_send(redis, command);
    int64_t number = reply->type == REDIS_REPLY_INTEGER  ? reply->integer
                     : reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10)
                                                         : -1;
    freeReplyObject(reply);
    redis_close(&redis);
    return number;
}

/* Waits up to `wait_ms` for the next message to a subscribed connection. REDIS_ANSWERED with the
 * text cut to size, REDIS_FAILED when none came in time, REDIS_UNKNOWN when the connection is lost.
 */
static inline enum redis_result redis_server_message(struct redis *redis, int wait_ms,
                                                     char *message_out, size_t size)
{
    char channel[64];
    int64_t until_ms = clock_now_ms() + wait_ms;
    message_out[0] = '\0';
    while (redis_next_event(redis, channel, sizeof channel, message_out, size) !=
           REDIS_EVENT_MESSAGE) {
        int64_t left_ms = until_ms - clock_now_ms();
        struct pollfd poller = {.fd = redis_fd(redis), .events = POLLIN};
        if (!redis_connected(redis))
            return REDIS_UNKNOWN;
        if (poll(&poller, 1, left_ms > 0 ? (int)left_ms : 0) <= 0)
            return REDIS_FAILED;
        redis_fill(redis);
    }
    return REDIS_ANSWERED;
}

/* A socket on a free port of the loopback, which refuses connections until it listens. */
static inline int bind_anywhere(int *port_out)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    *port_out = ntohs(address.sin_port);
    return listener;
}

static inline int listen_anywhere(int *port_out)
{
    int listener = bind_anywhere(port_out);
    assert_int_equal(listen(listener, 8), 0);
    return listener;
}

/* A server that accepts one connection, answers its SELECT and HELLO, and sends one answer to
 * whatever comes next. */
struct fake_redis {
    int listener;
    pthread_t thread;
    const char *welcome; /* to SELECT and HELLO; "": it hangs up */
    const char *answer;  /* NULL: silence until the client hangs up */
};

static inline void *fake_redis_serve(void *argument)
{
    struct fake_redis *fake = argument;
    char bytes[8192];
    int client = accept(fake->listener, NULL, NULL);
    if (client < 0)
        return NULL;
    if (recv(client, bytes, sizeof bytes, 0) > 0)
        send(client, fake->welcome, strlen(fake->welcome), MSG_NOSIGNAL);
    if (fake->welcome[0] == '\0')
        shutdown(client, SHUT_WR);
    if (fake->answer && recv(client, bytes, sizeof bytes, 0) > 0) {
        send(client, fake->answer, strlen(fake->answer), MSG_NOSIGNAL);
        shutdown(client, SHUT_WR);
    }
    while (recv(client, bytes, sizeof bytes, 0) > 0)
        continue;
    close(client);
    return NULL;
}

/* Opens a client of the fake. */
static inline struct redis *fake_redis_welcome(struct fake_redis *fake, const char *welcome,
                                               const char *answer, int timeout_ms)
{
    char url[64], error[128];
    int port = 0;
    fake->listener = listen_anywhere(&port);
    fake->welcome = welcome;
    fake->answer = answer;
    assert_int_equal(pthread_create(&fake->thread, NULL, fake_redis_serve, fake), 0);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d/1", port);
    struct redis *redis = redis_open(url, timeout_ms, error, sizeof error);
    assert_non_null(redis);
    return redis;
}

static inline struct redis *fake_redis_open(struct fake_redis *fake, const char *answer,
                                            int timeout_ms)
{
    return fake_redis_welcome(fake, "+OK\r\n-ERR unknown command 'HELLO'\r\n", answer, timeout_ms);
}

static inline void fake_redis_close(struct fake_redis *fake, struct redis **redis)
{
    redis_close(redis);
    shutdown(fake->listener, SHUT_RDWR); /* ends accept when no client connected */
    pthread_join(fake->thread, NULL);
    close(fake->listener);
}

#endif
