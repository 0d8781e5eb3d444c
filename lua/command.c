/* Runs plain Redis commands, for what needs no script, in pipelines, and reads their replies. */
#include "lua/command.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

/* Queues one command; a length of 0 stands for the length of the text. */
bool command_append(struct redis *redis, const struct command *command)
{
    size_t lengths[COMMAND_ARGS_MAX];
    assert(command->argc > 0 && command->argc <= COMMAND_ARGS_MAX);
    for (int i = 0; i < command->argc; i++)
        lengths[i] = command->lengths[i] > 0 ? command->lengths[i] : strlen(command->argv[i]);
    return redis_append(redis, command->argc, command->argv, lengths);
}

/* An error reply is not kept: its text goes to redis_error, so that `reply` is NULL unless the
 * command is REDIS_ANSWERED. */
void command_take(struct redis *redis, struct command *command, redisReply *reply)
{
    command->reply = reply;
    command->result = reply ? REDIS_ANSWERED : REDIS_UNKNOWN;
    if (reply && reply->type == REDIS_REPLY_ERROR) {
        redis_set_error(redis, reply->str);
        command->result = REDIS_FAILED;
        command_clear(command, 1);
    }
}

static bool is_one_of(const char *word, const char *const *words)
{
    while (*words && strcmp(word, *words) != 0)
        words++;
    return *words;
}

const char *command_key(const struct command *command, size_t *length_out)
{
    static const char *const keyless[] = {
        "PING", "TIME",   "INFO",  "CONFIG", "PUBLISH", "CLUSTER", "PUBSUB",  "DBSIZE",
        "SCAN", "SCRIPT", "MULTI", "EXEC",   "DISCARD", "CLIENT",  "UNWATCH", NULL};
    static const char *const scripts[] = {"EVAL", "EVALSHA", NULL};
    bool script = is_one_of(command->argv[0], scripts);
    int at = script ? 3 : 1;
    if (is_one_of(command->argv[0], keyless) || command->argc <= at ||
        (script && strcmp(command->argv[2], "0") == 0))
        return NULL;
    *length_out = command->lengths[at] > 0 ? command->lengths[at] : strlen(command->argv[at]);
    return command->argv[at];
}

bool command_moving(const struct redis *redis)
{
    const struct cluster *cluster = redis_cluster(redis);
    return cluster && cluster_hooks.moving(cluster);
}

void command_run(struct redis *redis, struct command *commands, size_t count)
{
    struct cluster *cluster = redis_cluster(redis);
    size_t sent = 0;
    if (cluster) {
        cluster_hooks.run_commands(cluster, commands, count);
        return;
    }
    /* Until a command is sent it is certainly not done. */
    for (size_t i = 0; i < count; i++) {
        commands[i].result = REDIS_FAILED;
        commands[i].reply = NULL;
    }
    if (redis_connect(redis) != REDIS_ANSWERED)
        return;
    while (sent < count && command_append(redis, &commands[sent]))
        sent++;
    /* The first redis_receive sends the whole pipeline. After a lost connection each further one
     * returns NULL at once: those commands may have run. */
    for (size_t i = 0; i < sent; i++) {
        redis_set_doing(redis, commands[i].argv[0]);
        command_take(redis, &commands[i], redis_receive(redis));
    }
}

void command_clear(struct command *commands, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        freeReplyObject(commands[i].reply);
        commands[i].reply = NULL;
    }
}

static const redisReply *part(const struct command *command, int i)
{
    const redisReply *reply = command->reply;
    if (reply && i >= 0)
        reply = (size_t)i < reply->elements ? reply->element[i] : NULL;
    return reply;
}

int64_t command_int(const struct command *command, int i)
{
    const redisReply *reply = part(command, i);
    if (reply && reply->type == REDIS_REPLY_STRING)
        return strtoll(reply->str, NULL, 10);
    return reply && reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
}

const char *command_text(const struct command *command, int i, size_t *length_out)
{
    const redisReply *reply = part(command, i);
    bool text = reply && (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS);
    if (length_out)
        *length_out = text ? (size_t)reply->len : 0;
    return text ? reply->str : NULL;
}

int command_count(const struct command *command)
{
    const redisReply *reply = command->reply;
    return reply && reply->type == REDIS_REPLY_ARRAY ? (int)reply->elements : -1;
}
