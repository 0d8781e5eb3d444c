/* Plain Redis commands in a pipeline, for what needs no script, and their replies of any shape. */
#include "lua/command.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

/* Queues one command; a length of 0 stands for the length of the text. */
static bool append(struct redis *redis, const struct command *command)
{
    size_t lengths[COMMAND_ARGS_MAX];
    assert(command->argc > 0 && command->argc <= COMMAND_ARGS_MAX);
    for (int i = 0; i < command->argc; i++)
        lengths[i] = command->lengths[i] > 0 ? command->lengths[i] : strlen(command->argv[i]);
    return redis_append(redis, command->argc, command->argv, lengths);
}

/* Takes the reply to the oldest command not yet answered. An error reply is not kept: its text goes
 * to redis_error, so that `reply` is NULL unless the command is REDIS_ANSWERED. */
static void receive(struct redis *redis, struct command *command)
{
    redis_set_doing(redis, command->argv[0]);
    command->reply = redis_receive(redis);
    command->result = command->reply ? REDIS_ANSWERED : REDIS_UNKNOWN;
    if (command->reply && command->reply->type == REDIS_REPLY_ERROR) {
        redis_set_error(redis, command->reply->str);
        command->result = REDIS_FAILED;
        command_clear(command, 1);
    }
}

void command_run(struct redis *redis, struct command *commands, size_t count)
{
    size_t sent = 0;
    /* Until a command is sent it is certainly not done. */
    for (size_t i = 0; i < count; i++) {
        commands[i].result = REDIS_FAILED;
        commands[i].reply = NULL;
    }
    if (redis_connect(redis) != REDIS_ANSWERED)
        return;
    while (sent < count && append(redis, &commands[sent]))
        sent++;
    /* The first redis_receive sends the whole pipeline. After a lost connection each further one
     * returns NULL at once: those commands may have run. */
    for (size_t i = 0; i < sent; i++)
        receive(redis, &commands[i]);
}

void command_clear(struct command *commands, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        freeReplyObject(commands[i].reply);
        commands[i].reply = NULL;
    }
}

/* The reply, or one element of it; NULL when there is none. */
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
