/* Calls the Redis scripts by EVALSHA in pipelines: one round trip for any number of calls.
 *
 * why_text_first: a server that restarted or failed over knows no script, and in a pipeline the
 * calls behind an unknown script run all the same: a take would run before the acquire that must
 * come first. Hence a script's first use on a connection is an EVAL with the text, which runs in
 * its place and teaches the server the script. A restart ends the connection; what remains is a
 * server that drops its scripts while the connection lives, as by SCRIPT FLUSH, or by the limit of
 * 500 scripts of EVAL that Redis from 7.4 on and Valkey 8 keep. NOSCRIPT means certainly not done,
 * so such a call is sent again, which no unanswered call ever is.
 *
 * why_joined: a batch of many sales takes from as many segments, and of the 6 us that a take or a
 * settle costs the server, 1 us is the call of the script. So neighbouring calls of one of these
 * scripts go as one. They keep their order, each has its own answer, and the error of one does not
 * touch the others. */
#include "lua/script.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lua_scripts.h"

#define SCRIPT_ROW(name) {#name, lua_##name, lua_##name##_sha1},
static const struct {
    const char *name;
    const char *text;
    const char *sha1; /* of the text, in hex: the name EVALSHA calls it by */
} scripts[SCRIPT_COUNT] = {SCRIPTS(SCRIPT_ROW)};
#undef SCRIPT_ROW

/* The server serves nobody else during joined calls: each takes about 5 us. */
enum { JOINED_MAX = 32 };

_Static_assert(SCRIPT_COUNT <= 64, "redis_first_use keeps one bit per script");
_Static_assert(JOINED_MAX *SCRIPT_PARAMETERS_MAX <= SCRIPT_MORE_MAX, "struct words has room");

const char *script_name(const struct script_call *call)
{
    return scripts[call->id].name;
}

void script_begin(struct script_call *call, enum script_id id)
{
    call->id = id;
    call->keys = 0;
    call->parameters = 0;
    call->used = 0;
    call->more = NULL;
}

void script_text(struct script_call *call, const char *text)
{
    size_t length = strlen(text) + 1;
    assert(call->parameters < SCRIPT_PARAMETERS_MAX && call->used + length <= SCRIPT_TEXT_MAX);
    call->offset[call->parameters++] = (uint16_t)call->used;
    memcpy(call->text + call->used, text, length);
    call->used += length;
}

void script_key(struct script_call *call, const char *key)
{
    assert(call->keys == call->parameters && strlen(key) < SCRIPT_KEY_MAX);
    script_text(call, key);
    call->keys++;
}

void script_int(struct script_call *call, int64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    script_text(call, digits);
}

struct words {
    int count;
    const char *text[3 + SCRIPT_MORE_MAX];
    size_t length[3 + SCRIPT_MORE_MAX];
};

static void add_word(struct words *words, const char *text, size_t length)
{
    assert(words->count < 3 + SCRIPT_MORE_MAX);
    words->text[words->count] = text;
    words->length[words->count++] = length;
}

/* Adds the call's parameters from number `first` to before `end`. */
static void add_parameters(struct words *words, const struct script_call *call, int first, int end)
{
    for (int i = first; i < end && call->more; i++)
        add_word(words, call->more[i], strlen(call->more[i]));
    for (int i = first; i < end && !call->more; i++) {
        /* The parameters lie back to back, each with its NUL, which is not sent. */
        size_t next = i + 1 < call->parameters ? call->offset[i + 1] : call->used;
        add_word(words, call->text + call->offset[i], next - call->offset[i] - 1);
    }
}

/* Returns the number of calls, from the first on, that go to the server as one: see why_joined. */
static size_t joined(const struct script_call *calls, size_t count)
{
    size_t n = 1;
    if (calls[0].id != SCRIPT_stock_take && calls[0].id != SCRIPT_stock_settle)
        return 1;
    while (n < count && n < JOINED_MAX && calls[n].id == calls[0].id)
        n++;
    return n;
}

/* Queues EVALSHA sha1 keys key… arg…, or EVAL text … for a server that does not know the script.
 * All calls' keys come first. */
bool script_append(struct redis *redis, const struct script_call *calls, size_t count,
                   bool with_text)
{
    struct words words;
    char keys[12];
    enum script_id id = calls[0].id;
    assert(id < SCRIPT_COUNT);
    words.count = 0;
    snprintf(keys, sizeof keys, "%d", (int)count * calls[0].keys);
    add_word(&words, with_text ? "EVAL" : "EVALSHA", with_text ? 4 : 7);
    const char *script = with_text ? scripts[id].text : scripts[id].sha1;
    add_word(&words, script, strlen(script));
    add_word(&words, keys, strlen(keys));
    for (size_t i = 0; i < count; i++) {
        assert(calls[i].keys == calls[0].keys && calls[i].parameters == calls[0].parameters);
        add_parameters(&words, &calls[i], 0, calls[i].keys);
    }
    for (size_t i = 0; i < count; i++)
        add_parameters(&words, &calls[i], calls[i].keys,
                       calls[i].more ? (int)calls[i].more_count : calls[i].parameters);
    return redis_append(redis, words.count, words.text, words.length);
}

/* Clears the values as well: a call that runs again must not show its earlier values. */
void script_forget(struct script_call *call, enum redis_result result)
{
    call->result = result;
    call->value_count = 0;
    memset(call->values, 0, sizeof call->values);
}

/* Adds a value; false when there is no room for it, because the server sent the count. */
static bool add_value(struct script_call *call, int64_t value)
{
    int64_t *values = call->more ? call->more_values : call->values;
    size_t max = call->more ? call->more_values_max : SCRIPT_VALUES_MAX;
    if ((size_t)call->value_count >= max)
        return false;
    values[call->value_count++] = value;
    return true;
}

static void read_values(struct script_call *call, const redisReply *reply)
{
    script_forget(call, REDIS_ANSWERED);
    for (size_t i = 0; i < reply->elements && add_value(call, reply->element[i]->integer); i++)
        ;
}

/* Takes a text of numbers with spaces between them. */
static void read_numbers(struct script_call *call, const char *text)
{
    char *end;
    script_forget(call, REDIS_ANSWERED);
    for (;; text = end) {
        int64_t value = strtoll(text, &end, 10);
        if (end == text || !add_value(call, value))
            break;
    }
}

/* Handles a reply that no script of ours gives: it answers something else, and so do the replies
 * behind it. See why_drop in redis.c. */
static void take_odd(struct redis *redis, struct script_call *call)
{
    script_forget(call, REDIS_UNKNOWN);
    redis_set_error(redis, "odd reply");
    redis_drop(redis);
}

bool script_take(struct redis *redis, struct script_call *call, const redisReply *reply)
{
    bool unknown_script = false;
    if (!reply) /* sent, and the connection lost before the answer: see why_drop in redis.c */
        script_forget(call, REDIS_UNKNOWN);
    else if (reply->type == REDIS_REPLY_ARRAY)
        read_values(call, reply);
    else if (reply->type == REDIS_REPLY_INTEGER) {
        script_forget(call, REDIS_ANSWERED);
        add_value(call, reply->integer);
    } else if (reply->type == REDIS_REPLY_STRING)
        read_numbers(call, reply->str);
    else if (reply->type == REDIS_REPLY_ERROR) {
        /* Redis refused the call, or the script stopped at an error. */
        script_forget(call, REDIS_FAILED);
        unknown_script = strncmp(reply->str, "NOSCRIPT", 8) == 0;
        if (!unknown_script)
            redis_set_error(redis, reply->str);
    } else {
        take_odd(redis, call);
    }
    return unknown_script;
}

/* Takes the reply to the oldest calls not yet answered, which were sent as one: a table of their
 * replies, or one error for all. True when the server does not know the script. */
static bool receive_joined(struct redis *redis, struct script_call *calls, size_t count)
{
    redis_set_doing(redis, script_name(calls));
    redisReply *reply = redis_receive(redis);
    bool table = count > 1 && reply && reply->type == REDIS_REPLY_ARRAY;
    bool fits = table        ? reply->elements == count
                : count == 1 ? true
                             : !reply || reply->type == REDIS_REPLY_ERROR;
    bool unknown_script = false;
    for (size_t i = 0; i < count; i++) {
        if (fits)
            unknown_script = script_take(redis, &calls[i], table ? reply->element[i] : reply);
        else
            take_odd(redis, &calls[i]);
    }
    freeReplyObject(reply);
    return unknown_script;
}

/* Sends a call again with its text, after NOSCRIPT. If the connection is gone by now, the call
 * keeps its REDIS_FAILED: the server has refused it and was not asked again. */
static void run_with_text(struct redis *redis, struct script_call *call)
{
    if (redis_connected(redis) && script_append(redis, call, 1, true))
        receive_joined(redis, call, 1);
}

/* Makes the calls that it cannot send REDIS_FAILED and returns the number of calls sent, which the
 * caller passes to receive_calls before it uses the connection for anything else. */
static size_t send_calls(struct redis *redis, struct script_call *calls, size_t count)
{
    size_t sent = 0;
    assert(!redis_cluster(redis));
    /* Until a call is sent it is certainly not done, and its result says so on every return. */
    for (size_t i = 0; i < count; i++)
        script_forget(&calls[i], REDIS_FAILED);
    if (redis_connect(redis) != REDIS_ANSWERED)
        return 0;
    /* Stops at the first call that finds no memory, so that the calls sent are the first ones and
     * the n-th reply is the n-th call's. */
    while (sent < count) {
        size_t some = joined(calls + sent, count - sent);
        if (!script_append(redis, calls + sent, some, redis_first_use(redis, calls[sent].id)))
            break;
        sent += some;
    }
    if (sent > 0)
        redis_set_doing(redis, script_name(calls));
    /* The result does not matter here: if the connection is lost now, a part may have left, and
     * receive_calls finds no replies and makes all of the calls REDIS_UNKNOWN. */
    redis_flush(redis);
    return sent;
}

static void receive_calls(struct redis *redis, struct script_call *calls, size_t sent)
{
    bool reload = false;
    /* All replies come before the first call is sent again: a reply to that one would otherwise
     * queue up behind replies that are still due and be read as another call's. */
    for (size_t i = 0, some; i < sent; i += some) {
        some = joined(calls + i, sent - i);
        if (receive_joined(redis, calls + i, some)) {
            for (size_t j = i; j < i + some; j++)
                calls[j].value_count = -1; /* marks it for the second try */
            reload = true;
        }
    }
    for (size_t i = 0; reload && i < sent; i++)
        if (calls[i].value_count < 0) {
            calls[i].value_count = 0;
            run_with_text(redis, &calls[i]);
        }
}

void script_run(struct redis *redis, struct script_call *calls, size_t count)
{
    struct cluster *cluster = redis_cluster(redis);
    if (cluster)
        cluster_hooks.run_scripts(cluster, calls, count);
    else
        receive_calls(redis, calls, send_calls(redis, calls, count));
}

bool script_alive(const struct redis *redis)
{
    const struct cluster *cluster = redis_cluster(redis);
    return cluster ? cluster_hooks.reached(cluster) : redis_connected(redis);
}

void script_run_telling(struct redis *redis, struct script_call *call)
{
    static const char *const ping[] = {"PING"};
    if (redis_cluster(redis)) { /* the nodes pass messages on to each other in their own time */
        script_run(redis, call, 1);
        return;
    }
    script_forget(call, REDIS_FAILED);
    if (redis_connect(redis) != REDIS_ANSWERED || !redis_append(redis, 1, ping, NULL))
        return;
    /* The PING is queued, not sent: one flush sends both commands. Its reply comes first and is
     * taken even when the call could not be queued, because the next command must not find it. */
    size_t sent = send_calls(redis, call, 1);
    freeReplyObject(redis_receive(redis));
    receive_calls(redis, call, sent);
}
