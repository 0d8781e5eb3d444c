/* The project's Redis scripts, unchanged, in Lua 5.1 as Redis runs them. */
#ifndef SIMULATE_REDIS_LUA_H
#define SIMULATE_REDIS_LUA_H

#include <stddef.h>
#include <stdint.h>

struct redisReply;

/* Compiles all scripts, once per process. */
void redis_lua_open(void);

/* Receives the messages that scripts publish. */
void redis_lua_on_publish(void (*publish)(const char *channel, const char *text));

/* The script that an EVALSHA or an EVAL names by digest or text; -1: none has that. */
int redis_lua_find(const char *name);
const char *redis_lua_name(int script);

/* Runs a script at a time of the server's clock. The reply is as redis_reply_* make it. */
struct redisReply *redis_lua_run(int script, const char *const *keys, size_t key_count,
                                 const char *const *args, size_t arg_count, int64_t now_us);

/* Replies in the schedule's memory, for which freeReplyObject does nothing. */
struct redisReply *redis_reply_text(int type, const char *text);
struct redisReply *redis_reply_int(int64_t number);
struct redisReply *redis_reply_array(size_t count);

#endif
