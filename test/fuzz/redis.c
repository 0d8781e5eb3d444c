/* Fuzzes what a Redis server answers. First the calls, a byte each up to a '.'; the rest is what
 * the server sends on the connection, to whatever it is asked, before it closes it.
 *
 * hiredis itself reads the same bytes beside the connection, reply for reply, and says what each
 * call must have come to: answered by a reply; failed, certainly not done, by an error and by
 * nothing else; unknown without a reply that can be read, and by one that no script gives. Texts
 * fit their buffers. */
#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lua/command.h"
#include "lua/dial.h"
#include "lua/redis.h"
#include "lua/script.h"
#include "lua/script_each.h"
#include "lua/wire.h"
#include "test/fuzz/fuzz.h"

enum { CALLS_MAX = 4, OPERATIONS_MAX = 8, TEXT_SIZE = 32 };

/* An array's head may promise elements without end; the memory for them is refused. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=128";
}

/* ---- the server ---- */

static struct {
    const uint8_t *bytes;
    size_t size;
    unsigned connects;
    redisReader *reader; /* of the same bytes */
    bool lost;           /* the last reply has been read */
    bool refused;        /* by an error that may make the client leave the server */
    bool unclear;        /* from here on who reads what depends on that */
} server;

/* In place of that of lua/dial.c: the server is at the other end already, and has said all it has
 * to say. */
int dial(const struct url_server *to, const char *path, int64_t until_ms, char *error_out,
         size_t error_size)
{
    int fds[2];
    (void)to, (void)path, (void)until_ms, (void)error_out, (void)error_size;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        abort();
    if (server.connects++ == 0 && server.size > 0 &&
        send(fds[1], server.bytes, server.size, MSG_NOSIGNAL) != (ssize_t)server.size)
        abort();
    shutdown(fds[1], SHUT_WR);
    /* The other end stays open, so that what is sent arrives: then an answer may be missing. */
    static int present = -1;
    if (present >= 0)
        close(present);
    present = fds[1];
    return fds[0];
}

/* The next reply that the client must have read, for the caller to free; NULL: none. */
static redisReply *next_reply(void)
{
    void *reply = NULL;
    if (!server.lost && redisReaderGetReply(server.reader, &reply) != REDIS_OK)
        reply = NULL;
    server.lost |= !reply;
    return reply;
}

static bool is_noscript(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOSCRIPT", 8) == 0;
}

/* ---- scripts ---- */

static void check_values(const struct script_call *call, const redisReply *reply)
{
    assert(call->value_count >= 0 && call->value_count <= SCRIPT_VALUES_MAX);
    if (reply->type == REDIS_REPLY_INTEGER)
        assert(call->value_count == 1 && call->values[0] == reply->integer);
    if (reply->type == REDIS_REPLY_ARRAY)
        assert((size_t)call->value_count ==
               (reply->elements < SCRIPT_VALUES_MAX ? reply->elements : SCRIPT_VALUES_MAX));
    for (int i = 0; reply->type == REDIS_REPLY_ARRAY && i < call->value_count; i++)
        assert(call->values[i] == reply->element[i]->integer);
    for (int i = call->value_count; i < SCRIPT_VALUES_MAX; i++)
        assert(call->values[i] == 0);
}

/* Asserts the result that the reply must give the call. True when the call is sent again. */
static bool check_reply(const struct script_call *call, bool again)
{
    redisReply *reply = next_reply();
    bool repeat = reply && is_noscript(reply) && !again;
    bool value = reply && (reply->type == REDIS_REPLY_INTEGER || reply->type == REDIS_REPLY_ARRAY ||
                           reply->type == REDIS_REPLY_STRING);
    if (!reply) {
        assert(call->result == REDIS_UNKNOWN && call->value_count == 0);
    } else if (value) {
        assert(call->result == REDIS_ANSWERED);
        check_values(call, reply);
    } else if (reply->type != REDIS_REPLY_ERROR) { /* it is no script's, nor is what follows */
        assert(call->result == REDIS_UNKNOWN && call->value_count == 0);
        server.lost = true;
    } else if (!repeat) {
        assert(call->result == REDIS_FAILED && call->value_count == 0);
        server.refused |= !is_noscript(reply);
    }
    if (reply)
        freeReplyObject(reply);
    return repeat;
}

static void check_scripts(const struct script_call *calls, size_t count)
{
    bool again[CALLS_MAX];
    for (size_t i = 0; i < count; i++)
        again[i] = check_reply(&calls[i], false);
    for (size_t i = 0; i < count; i++) {
        if (!again[i])
            continue;
        if (!server.lost && !server.refused) {
            check_reply(&calls[i], true);
            continue;
        }
        assert(calls[i].result != REDIS_ANSWERED || !server.lost);
        server.unclear = true;
    }
}

static void make_call(struct script_call *call, unsigned id)
{
    script_begin(call, id % SCRIPT_COUNT);
    script_key(call, "k");
    script_int(call, 7);
}

static void run_scripts(struct redis *redis, unsigned what)
{
    struct script_call calls[CALLS_MAX];
    size_t count = what % CALLS_MAX + 1;
    for (size_t i = 0; i < count; i++)
        make_call(&calls[i], what / CALLS_MAX + (unsigned)i % 2);
    script_run(redis, calls, count);
    check_scripts(calls, count);
}

/* With a PING before the call, whatever that is answered by. */
static void run_telling(struct redis *redis, unsigned what)
{
    struct script_call call;
    make_call(&call, what);
    script_run_telling(redis, &call);
    redisReply *reply = next_reply();
    if (reply)
        freeReplyObject(reply);
    check_scripts(&call, 1);
}

/* A call whose parameters and values the caller keeps. */
static void run_more(struct redis *redis, unsigned what)
{
    const char *const more[] = {"k", "a", "b"};
    int64_t values[TEXT_SIZE];
    struct script_call call;
    script_begin(&call, SCRIPT_rate_limit);
    call.keys = 1;
    call.more = more;
    call.more_count = 3;
    call.more_values = values;
    call.more_values_max = what % TEXT_SIZE;
    script_run(redis, &call, 1);
    assert(call.value_count >= 0 &&
           (size_t)call.value_count <=
               (call.result == REDIS_ANSWERED ? call.more_values_max + SCRIPT_VALUES_MAX : 0));
}

static void run_each(struct redis *redis, unsigned what)
{
    struct script_line line = {.redis = redis, .owed = what % 2};
    struct script_call call;
    make_call(&call, what);
    script_run_each(&line, &call, 1, 0, 1);
    assert(call.result != REDIS_ANSWERED || call.value_count >= 0);
}

/* ---- plain commands ---- */

static void check_command(const struct command *command, const redisReply *reply)
{
    if (!reply) {
        assert(command->result == REDIS_UNKNOWN && !command->reply);
        return;
    }
    bool error = reply->type == REDIS_REPLY_ERROR;
    assert(command->result == (error ? REDIS_FAILED : REDIS_ANSWERED));
    int count = command_count(command);
    assert(count >= -1 &&
           (error || count == (reply->type == REDIS_REPLY_ARRAY ? (int)reply->elements : -1)));
    for (int i = -1; i <= count && i < TEXT_SIZE; i++) {
        size_t length = 0;
        const char *text = command_text(command, i, &length);
        assert(text ? text[length] == '\0' : length == 0);
        command_int(command, i);
    }
}

static void run_commands(struct redis *redis, unsigned what)
{
    struct command commands[CALLS_MAX];
    size_t count = what % CALLS_MAX + 1;
    memset(commands, 0, sizeof commands);
    for (size_t i = 0; i < count; i++) {
        commands[i].argc = 2;
        commands[i].argv[0] = "GET";
        commands[i].argv[1] = "k";
    }
    command_run(redis, commands, count);
    for (size_t i = 0; i < count; i++) {
        redisReply *reply = next_reply();
        check_command(&commands[i], reply);
        if (reply)
            freeReplyObject(reply);
    }
    command_clear(commands, count);
}

static void run_plain(struct redis *redis, unsigned what)
{
    enum redis_result result = what % 3 == 0   ? redis_ping(redis)
                               : what % 3 == 1 ? redis_publish(redis, "c", "m")
                                               : redis_subscribe(redis, "c");
    redisReply *reply = next_reply();
    assert(result == (!reply                             ? REDIS_UNKNOWN
                      : reply->type == REDIS_REPLY_ERROR ? REDIS_FAILED
                                                         : REDIS_ANSWERED));
    if (reply)
        freeReplyObject(reply);
}

/* ---- messages ---- */

static void ask(struct redis *redis, bool subscribe)
{
    if (subscribe)
        redis_send_subscribe(redis, "c", true);
    else
        redis_send_unsubscribe(redis, "c", false);
}

/* Takes every event of what was read: most of it came with the answers to AUTH and SELECT. */
static void take_events(struct redis *redis)
{
    char channel[TEXT_SIZE], message[TEXT_SIZE];
    for (int i = 0; i < TEXT_SIZE; i++) {
        memset(channel, 'x', sizeof channel);
        memset(message, 'x', sizeof message);
        enum redis_event event =
            redis_next_event(redis, channel, sizeof channel, message, sizeof message);
        if (event == REDIS_EVENT_NONE)
            return;
        assert((memchr(message, '\0', sizeof message) != NULL) == (event == REDIS_EVENT_MESSAGE));
        assert((memchr(channel, '\0', sizeof channel) != NULL) ==
               (event == REDIS_EVENT_MESSAGE || event == REDIS_EVENT_UNSUBSCRIBED));
    }
}

static void run_messages(struct redis *redis, unsigned what)
{
    (void)what;
    if (redis_subscribe(redis, "c") == REDIS_ANSWERED)
        do
            take_events(redis);
        while (redis_fill(redis));
}

static void run_subscriber(struct redis *redis, unsigned what)
{
    char channel[TEXT_SIZE], message[TEXT_SIZE];
    ask(redis, what % 2);
    while (redis_fill(redis))
        ;
    /* The connection is lost with what was read; on the next one nothing is left of it. */
    assert(redis_next_event(redis, channel, sizeof channel, message, sizeof message) ==
           REDIS_EVENT_NONE);
}

static void run_events(struct redis *redis, unsigned what)
{
    ask(redis, what % 2);
    if (what % 4 == 3)
        redis_fill(redis);
    take_events(redis);
}

/* ---- one connection ---- */

static const struct {
    void (*run)(struct redis *redis, unsigned what);
    bool last; /* it leaves the reader behind */
} operations[] = {
    {run_scripts, false}, {run_commands, false},  {run_plain, false}, {run_telling, false},
    {run_more, true},     {run_messages, true},   {run_events, true}, {run_each, true},
    {run_scripts, false}, {run_subscriber, true},
};

enum { OPERATIONS = sizeof operations / sizeof *operations };

static void run_operations(struct redis *redis, const uint8_t *codes, size_t count)
{
    for (size_t i = 0; i < count && i < OPERATIONS_MAX && redis_connected(redis); i++) {
        unsigned code = codes[i];
        operations[code % OPERATIONS].run(redis, code / OPERATIONS);
        assert(strlen(redis_error(redis)) < WIRE_ERROR_SIZE);
        if (operations[code % OPERATIONS].last || server.unclear)
            return;
    }
}

static bool is_text(const redisReply *reply, const char *text)
{
    return reply->type == REDIS_REPLY_STRING && strcmp(reply->str, text) == 0;
}

/* True when the reply to HELLO lets the client in: the first mode that it names counts. */
static bool let_in(const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR)
        return strncmp(reply->str, "NOAUTH", 6) != 0 && strncmp(reply->str, "DENIED", 6) != 0 &&
               strncmp(reply->str, "ERR max number of clients", 25) != 0;
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2) {
        const redisReply *value = reply->element[i + 1];
        if (is_text(reply->element[i], "mode") && value->type == REDIS_REPLY_STRING)
            return !is_text(value, "cluster") && !is_text(value, "sentinel");
    }
    return true;
}

/* True when the replies to AUTH, SELECT and HELLO let the client in. */
static bool welcome(void)
{
    bool good = server.size == 0 || server.bytes[0] != 0x15; /* the alert of TLS */
    for (int i = 0; i < 3 && good; i++) {
        redisReply *reply = next_reply();
        good = reply && (i == 2 ? let_in(reply) : reply->type != REDIS_REPLY_ERROR);
        if (reply)
            freeReplyObject(reply);
    }
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[256];
    const uint8_t *dot = size > 0 ? memchr(data, '.', size) : NULL;
    if (!dot)
        return 0;
    struct redis *redis = redis_open("redis://:p@127.0.0.1/1", 1000, error, sizeof error);
    server.bytes = dot + 1;
    server.size = (size_t)(data + size - dot) - 1;
    server.connects = 0;
    server.lost = server.refused = server.unclear = false;
    server.reader = redisReaderCreate();
    assert(redis && server.reader);
    redisReaderFeed(server.reader, (const char *)server.bytes, server.size);
    assert(redis_connect(redis) == (welcome() ? REDIS_ANSWERED : REDIS_FAILED));
    run_operations(redis, data, (size_t)(dot - data));
    redisReaderFree(server.reader);
    redis_close(&redis);
    return 0;
}
