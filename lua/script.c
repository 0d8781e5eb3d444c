/* The Redis scripts, called by EVALSHA in pipelines: one round trip for any number of calls. */
#include "lua/script.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lua_scripts.h"

#define SCRIPT_ROW(name) {lua_##name, lua_##name##_sha1},
static const struct {
    const char *text;
    const char *sha1; /* of the text, in hex: the name EVALSHA calls it by */
} scripts[SCRIPT_COUNT] = {SCRIPTS(SCRIPT_ROW)};
#undef SCRIPT_ROW

void script_begin(struct script_call *call, enum script_id id)
{
    call->id = id;
    call->keys = 0;
    call->parameters = 0;
    call->used = 0;
    call->more = NULL;
}

static void append_parameter(struct script_call *call, const char *text)
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
    append_parameter(call, key);
    call->keys++;
}

void script_text(struct script_call *call, const char *text)
{
    append_parameter(call, text);
}

void script_int(struct script_call *call, int64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    append_parameter(call, digits);
}

/* EVALSHA sha1 keys key… arg…, or EVAL text … for a server that does not know the script. */
bool script_append(struct redis *redis, const struct script_call *call, bool with_text)
{
    const char *argv[3 + SCRIPT_MORE_MAX];
    size_t lengths[3 + SCRIPT_MORE_MAX];
    int count = call->more ? (int)call->more_count : call->parameters;
    char keys[12];
    assert(count <= SCRIPT_MORE_MAX && call->keys <= count);
    snprintf(keys, sizeof keys, "%d", call->keys);
    argv[0] = with_text ? "EVAL" : "EVALSHA";
    argv[1] = with_text ? scripts[call->id].text : scripts[call->id].sha1;
    argv[2] = keys;
    for (int i = 0; i < 3; i++)
        lengths[i] = strlen(argv[i]);
    for (int i = 0; i < count && call->more; i++) {
        argv[3 + i] = call->more[i];
        lengths[3 + i] = strlen(call->more[i]);
    }
    for (int i = 0; i < count && !call->more; i++) {
        size_t end = i + 1 < call->parameters ? call->offset[i + 1] : call->used;
        argv[3 + i] = call->text + call->offset[i];
        lengths[3 + i] = end - call->offset[i] - 1;
    }
    return redis_append(redis, 3 + count, argv, lengths);
}

void script_forget(struct script_call *call, enum redis_result result)
{
    call->result = result;
    call->value_count = 0;
    memset(call->values, 0, sizeof call->values);
}

static void read_values(struct script_call *call, const redisReply *reply)
{
    script_forget(call, REDIS_ANSWERED);
    int64_t *values = call->more ? call->more_values : call->values;
    size_t max = call->more ? call->more_values_max : SCRIPT_VALUES_MAX;
    for (size_t i = 0; i < reply->elements && i < max; i++)
        values[call->value_count++] = reply->element[i]->integer;
}

static void read_numbers(struct script_call *call, const char *text)
{
    char *end;
    script_forget(call, REDIS_ANSWERED);
    for (; call->value_count < SCRIPT_VALUES_MAX; text = end) {
        int64_t value = strtoll(text, &end, 10);
        if (end == text)
            break;
        call->values[call->value_count++] = value;
    }
}

bool script_take(struct redis *redis, struct script_call *call, redisReply *reply)
{
    bool unknown_script = false;
    if (!reply)
        script_forget(call, REDIS_UNKNOWN);
    else if (reply->type == REDIS_REPLY_ARRAY)
        read_values(call, reply);
    else if (reply->type == REDIS_REPLY_INTEGER) {
        script_forget(call, REDIS_ANSWERED);
        call->values[call->value_count++] = reply->integer;
    } else if (reply->type == REDIS_REPLY_STRING)
        read_numbers(call, reply->str);
    else {
        script_forget(call, REDIS_FAILED);
        unknown_script =
            reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOSCRIPT", 8) == 0;
        if (!unknown_script)
            redis_set_error(redis, reply->type == REDIS_REPLY_ERROR ? reply->str : "odd reply");
    }
    freeReplyObject(reply);
    return unknown_script;
}

/* Takes one reply; true when the server does not know the script. */
static bool receive_call(struct redis *redis, struct script_call *call)
{
    return script_take(redis, call, redis_receive(redis));
}

static void run_with_text(struct redis *redis, struct script_call *call)
{
    redis_count_reload(redis);
    if (redis_connected(redis) && script_append(redis, call, true))
        receive_call(redis, call);
}

size_t script_send(struct redis *redis, struct script_call *calls, size_t count)
{
    size_t sent = 0;
    for (size_t i = 0; i < count; i++)
        script_forget(&calls[i], REDIS_FAILED);
    if (redis_connect(redis) != REDIS_ANSWERED)
        return 0;
    while (sent < count &&
           script_append(redis, &calls[sent], redis_first_use(redis, calls[sent].id)))
        sent++;
    redis_flush(redis);
    return sent;
}

void script_receive(struct redis *redis, struct script_call *calls, size_t sent)
{
    bool reload = false;
    for (size_t i = 0; i < sent; i++)
        if (receive_call(redis, &calls[i])) {
            calls[i].value_count = -1; /* marks it for the second try */
            reload = true;
        }
    for (size_t i = 0; reload && i < sent; i++)
        if (calls[i].value_count < 0) {
            calls[i].value_count = 0;
            run_with_text(redis, &calls[i]);
        }
}

void script_run(struct redis *redis, struct script_call *calls, size_t count)
{
    script_receive(redis, calls, script_send(redis, calls, count));
}

void script_run_telling(struct redis *redis, struct script_call *call)
{
    static const char *const ping[] = {"PING"};
    script_forget(call, REDIS_FAILED);
    if (redis_connect(redis) != REDIS_ANSWERED || !redis_append(redis, 1, ping, NULL))
        return;
    size_t sent = script_send(redis, call, 1);
    freeReplyObject(redis_receive(redis));
    script_receive(redis, call, sent);
}
