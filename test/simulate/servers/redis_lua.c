/* The project's Redis scripts, unchanged, in Lua 5.1 as Redis runs them.
 *
 * Only the commands that the scripts use are here; any other one stops the simulation. */
#include "test/simulate/servers/redis_lua.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lua/script.h"
#include "lua_scripts.h"
#include "test/simulate/servers/redis_store.h"

enum { ARGS_MAX = 32, TEXT_MAX = 64 };

#define SCRIPT_ROW(name) {#name, lua_##name, lua_##name##_sha1},
static const struct {
    const char *name;
    const char *text;
    const char *sha1;
} scripts[SCRIPT_COUNT] = {SCRIPTS(SCRIPT_ROW)};
#undef SCRIPT_ROW

static lua_State *lua;
static int functions[SCRIPT_COUNT];
static int keys_table, args_table;
static size_t keys_filled, args_filled;
static int64_t server_us;
static void (*on_publish)(const char *channel, const char *text);

/* ---- replies ---- */

struct redisReply *redis_reply_text(int type, const char *text)
{
    redisReply *reply = calloc(1, sizeof *reply);
    reply->type = type;
    reply->str = strdup(text);
    reply->len = strlen(text);
    return reply;
}

struct redisReply *redis_reply_int(int64_t number)
{
    redisReply *reply = calloc(1, sizeof *reply);
    reply->type = REDIS_REPLY_INTEGER;
    reply->integer = number;
    return reply;
}

struct redisReply *redis_reply_array(size_t count)
{
    redisReply *reply = calloc(1, sizeof *reply);
    reply->type = REDIS_REPLY_ARRAY;
    reply->elements = count;
    reply->element = calloc(count + 1, sizeof *reply->element);
    return reply;
}

/* ---- commands ---- */

struct command_args {
    const char *text[ARGS_MAX];
    char numbers[ARGS_MAX][TEXT_MAX];
    int count;
};

static int64_t now_ms(void)
{
    return server_us / 1000;
}

static bool is(const char *text, const char *word)
{
    return strcmp(text, word) == 0;
}

static void push_text(const char *text)
{
    if (text)
        lua_pushstring(lua, text);
    else
        lua_pushboolean(lua, false);
}

static const char *string_of(const char *key)
{
    const struct store_value *value = store_get(key, now_ms());
    if (value->kind == STORE_HASH)
        luaL_error(lua, "WRONGTYPE %s", key);
    return value->kind == STORE_STRING ? value->fields[0].text : NULL;
}

static const struct store_value *hash_of(const char *key)
{
    const struct store_value *value = store_get(key, now_ms());
    if (value->kind == STORE_STRING)
        luaL_error(lua, "WRONGTYPE %s", key);
    return value;
}

/* SET key value [NX] [GET] [PX ms | EX s] */
static int do_set(const struct command_args *args)
{
    bool absent_only = false, get = false;
    int64_t lives_ms = 0;
    for (int i = 3; i < args->count; i++) {
        absent_only |= is(args->text[i], "NX");
        get |= is(args->text[i], "GET");
        if (is(args->text[i], "PX"))
            lives_ms = strtoll(args->text[++i], NULL, 10);
        else if (is(args->text[i], "EX"))
            lives_ms = strtoll(args->text[++i], NULL, 10) * 1000;
    }
    const char *before = string_of(args->text[1]);
    if (get)
        push_text(before);
    if (absent_only && before) {
        lua_pushboolean(lua, false);
        return 1;
    }
    struct store_value *value = store_change(args->text[1], now_ms());
    value->kind = STORE_STRING;
    value->count = 0;
    store_field_set(value, "", args->text[2]);
    value->expires_ms = lives_ms > 0 ? now_ms() + lives_ms : 0;
    if (!get) { /* a status, which Lua sees as a table */
        lua_createtable(lua, 0, 1);
        lua_pushliteral(lua, "OK");
        lua_setfield(lua, -2, "ok");
    }
    return 1;
}

static int do_get(const struct command_args *args)
{
    push_text(string_of(args->text[1]));
    return 1;
}

static int do_del(const struct command_args *args)
{
    int deleted = 0;
    for (int i = 1; i < args->count; i++)
        if (store_get(args->text[i], now_ms())->kind != STORE_NOTHING) {
            store_change(args->text[i], now_ms())->kind = STORE_NOTHING;
            deleted++;
        }
    lua_pushnumber(lua, deleted);
    return 1;
}

/* A segment has no time to live that could be taken away. */
static int do_persist(const struct command_args *args)
{
    (void)args;
    lua_pushnumber(lua, 0);
    return 1;
}

static int do_exists(const struct command_args *args)
{
    lua_pushnumber(lua, store_get(args->text[1], now_ms())->kind != STORE_NOTHING);
    return 1;
}

static int do_pexpire(const struct command_args *args)
{
    bool there = store_get(args->text[1], now_ms())->kind != STORE_NOTHING;
    if (there)
        store_change(args->text[1], now_ms())->expires_ms =
            now_ms() + strtoll(args->text[2], NULL, 10);
    lua_pushnumber(lua, there);
    return 1;
}

static int do_pttl(const struct command_args *args)
{
    const struct store_value *value = store_get(args->text[1], now_ms());
    int64_t left = value->kind == STORE_NOTHING ? -2
                   : value->expires_ms == 0     ? -1
                                                : value->expires_ms - now_ms();
    lua_pushnumber(lua, (lua_Number)left);
    return 1;
}

static int do_time(const struct command_args *args)
{
    char text[TEXT_MAX];
    (void)args;
    lua_createtable(lua, 2, 0);
    snprintf(text, sizeof text, "%lld", (long long)(server_us / 1000000));
    lua_pushstring(lua, text);
    lua_rawseti(lua, -2, 1);
    snprintf(text, sizeof text, "%lld", (long long)(server_us % 1000000));
    lua_pushstring(lua, text);
    lua_rawseti(lua, -2, 2);
    return 1;
}

static int do_hget(const struct command_args *args)
{
    const struct store_value *value = hash_of(args->text[1]);
    push_text(value->kind == STORE_HASH ? store_field(value, args->text[2]) : NULL);
    return 1;
}

static int do_hmget(const struct command_args *args)
{
    const struct store_value *value = hash_of(args->text[1]);
    lua_createtable(lua, args->count - 2, 0);
    for (int i = 2; i < args->count; i++) {
        push_text(value->kind == STORE_HASH ? store_field(value, args->text[i]) : NULL);
        lua_rawseti(lua, -2, i - 1);
    }
    return 1;
}

static struct store_value *change_hash(const char *key)
{
    hash_of(key);
    struct store_value *value = store_change(key, now_ms());
    if (value->kind == STORE_NOTHING)
        *value = (struct store_value){.kind = STORE_HASH};
    return value;
}

static int do_hset(const struct command_args *args)
{
    int added = 0;
    struct store_value *value = change_hash(args->text[1]);
    for (int i = 2; i + 1 < args->count; i += 2) {
        added += !store_field(value, args->text[i]);
        store_field_set(value, args->text[i], args->text[i + 1]);
    }
    lua_pushnumber(lua, added);
    return 1;
}

static int do_hincrby(const struct command_args *args)
{
    char text[TEXT_MAX];
    struct store_value *value = change_hash(args->text[1]);
    const char *before = store_field(value, args->text[2]);
    long long sum = (before ? strtoll(before, NULL, 10) : 0) + strtoll(args->text[3], NULL, 10);
    snprintf(text, sizeof text, "%lld", sum);
    store_field_set(value, args->text[2], text);
    lua_pushnumber(lua, (lua_Number)sum);
    return 1;
}

static int do_rename(const struct command_args *args)
{
    struct store_value value = *store_get(args->text[1], now_ms());
    if (value.kind == STORE_NOTHING)
        return luaL_error(lua, "ERR no such key");
    *store_change(args->text[2], now_ms()) = value;
    store_change(args->text[1], now_ms())->kind = STORE_NOTHING;
    lua_pushboolean(lua, true);
    return 1;
}

static int do_publish(const struct command_args *args)
{
    on_publish(args->text[1], args->text[2]);
    lua_pushnumber(lua, 1);
    return 1;
}

static const struct {
    const char *name;
    int (*run)(const struct command_args *args);
} commands[] = {
    {"GET", do_get},       {"HMGET", do_hmget},     {"HSET", do_hset},
    {"SET", do_set},       {"DEL", do_del},         {"UNLINK", do_del},
    {"TIME", do_time},     {"HGET", do_hget},       {"HINCRBY", do_hincrby},
    {"PTTL", do_pttl},     {"PEXPIRE", do_pexpire}, {"EXISTS", do_exists},
    {"RENAME", do_rename}, {"PUBLISH", do_publish}, {"PERSIST", do_persist},
};

/* redis.call. Numbers become text as Redis writes them. */
static int call(lua_State *state)
{
    struct command_args args = {.count = lua_gettop(state)};
    assert(args.count > 0 && args.count <= ARGS_MAX);
    for (int i = 0; i < args.count; i++) {
        if (lua_type(state, i + 1) == LUA_TNUMBER) {
            snprintf(args.numbers[i], TEXT_MAX, "%.17g", lua_tonumber(state, i + 1));
            args.text[i] = args.numbers[i];
        } else {
            args.text[i] = luaL_checkstring(state, i + 1);
        }
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (is(commands[i].name, args.text[0]))
            return commands[i].run(&args);
    fprintf(stderr, "simulate: the simulated Redis has no %s\n", args.text[0]);
    abort();
}

static int set_repl(lua_State *state)
{
    (void)state;
    return 0;
}

/* ---- scripts ---- */

void redis_lua_on_publish(void (*publish)(const char *channel, const char *text))
{
    on_publish = publish;
}

void redis_lua_open(void)
{
    lua = luaL_newstate();
    if (!lua)
        abort();
    luaL_openlibs(lua);
    lua_newtable(lua);
    lua_pushcfunction(lua, call);
    lua_pushvalue(lua, -1);
    lua_setfield(lua, -3, "call");
    lua_setfield(lua, -2, "pcall"); /* it fails as "call" does: no simulated key changes its type */
    lua_pushcfunction(lua, set_repl);
    lua_setfield(lua, -2, "set_repl");
    lua_pushnumber(lua, 0);
    lua_setfield(lua, -2, "REPL_NONE");
    lua_setglobal(lua, "redis");
    lua_newtable(lua);
    lua_pushvalue(lua, -1);
    lua_setglobal(lua, "KEYS");
    keys_table = luaL_ref(lua, LUA_REGISTRYINDEX);
    lua_newtable(lua);
    lua_pushvalue(lua, -1);
    lua_setglobal(lua, "ARGV");
    args_table = luaL_ref(lua, LUA_REGISTRYINDEX);
    for (int i = 0; i < SCRIPT_COUNT; i++) {
        if (luaL_loadbuffer(lua, scripts[i].text, strlen(scripts[i].text), scripts[i].name) != 0) {
            fprintf(stderr, "simulate: %s\n", lua_tostring(lua, -1));
            abort();
        }
        functions[i] = luaL_ref(lua, LUA_REGISTRYINDEX);
    }
}

int redis_lua_find(const char *name)
{
    for (int i = 0; i < SCRIPT_COUNT; i++)
        if (is(scripts[i].sha1, name) || is(scripts[i].text, name))
            return i;
    return -1;
}

const char *redis_lua_name(int script)
{
    return scripts[script].name;
}

static void fill(int table, const char *const *texts, size_t count, size_t *filled)
{
    lua_rawgeti(lua, LUA_REGISTRYINDEX, table);
    for (size_t i = 0; i < count; i++) {
        lua_pushstring(lua, texts[i]);
        lua_rawseti(lua, -2, (int)i + 1);
    }
    for (size_t i = *filled; i > count; i--) { /* the last first, so that # is never misled */
        lua_pushnil(lua);
        lua_rawseti(lua, -2, (int)i);
    }
    *filled = count;
    lua_pop(lua, 1);
}

/* Pops a Lua value and converts it to a reply, as Redis does. */
static redisReply *reply_of_top(void) /* NOLINT: to the depth of a reply, which scripts build */
{
    redisReply *reply = NULL;
    switch (lua_type(lua, -1)) {
    case LUA_TNUMBER:
        reply = redis_reply_int((int64_t)lua_tonumber(lua, -1));
        break;
    case LUA_TSTRING:
        reply = redis_reply_text(REDIS_REPLY_STRING, lua_tostring(lua, -1));
        break;
    case LUA_TBOOLEAN:
        reply = lua_toboolean(lua, -1) ? redis_reply_int(1) : redis_reply_text(REDIS_REPLY_NIL, "");
        break;
    case LUA_TTABLE: {
        size_t count = 0, length = lua_objlen(lua, -1);
        reply = redis_reply_array(length);
        for (; count < length; count++) {
            lua_rawgeti(lua, -1, (int)count + 1);
            reply->element[count] = reply_of_top();
        }
        break;
    }
    default:
        reply = redis_reply_text(REDIS_REPLY_NIL, "");
        break;
    }
    lua_pop(lua, 1);
    return reply;
}

struct redisReply *redis_lua_run(int script, const char *const *keys, size_t key_count,
                                 const char *const *args, size_t arg_count, int64_t now_us)
{
    assert(script >= 0 && script < SCRIPT_COUNT);
    server_us = now_us;
    fill(keys_table, keys, key_count, &keys_filled);
    fill(args_table, args, arg_count, &args_filled);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, functions[script]);
    if (lua_pcall(lua, 0, 1, 0) == 0)
        return reply_of_top();
    redisReply *reply = redis_reply_text(REDIS_REPLY_ERROR, lua_tostring(lua, -1));
    lua_pop(lua, 1);
    return reply;
}
