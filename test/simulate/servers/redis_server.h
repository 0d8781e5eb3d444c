/* The simulated Redis server: requests that travel, are carried out one after the other, and are
 * answered; and all that may go wrong with them. */
#ifndef SIMULATE_REDIS_SERVER_H
#define SIMULATE_REDIS_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redisReply;
struct task;

enum { MESSAGE_COMMANDS_MAX = 64, COMMAND_WORDS_MAX = 128 };

/* One command of a pipeline. */
struct redis_words {
    int count;
    const char *text[COMMAND_WORDS_MAX];
};

/* A pipeline on its way. In the schedule's memory; both ends may forget it. */
struct redis_message {
    struct redis_words commands[MESSAGE_COMMANDS_MAX];
    struct redisReply *replies[MESSAGE_COMMANDS_MAX]; /* NULL: not answered */
    size_t count;
    size_t done;    /* commands carried out */
    size_t keep;    /* commands that arrive: the others are cut off */
    uint32_t epoch; /* of the server's run in which the connection was made */
    bool answer_lost;
    bool closed;         /* the client will hear no more: the connection is lost */
    struct task *waiter; /* woken when replies or the end of the connection arrive */
    uint32_t waiter_tag;
    char sender[24];
};

/* A request that is late arrives at most so long after it was sent. */
enum { REDIS_SERVER_LATE_MS = 900 };

void redis_server_begin(void);

/* Counts the server's runs: a connection made in an earlier run is lost. */
uint32_t redis_server_epoch(void);

/* Sends a message whose commands are set; it arrives, or not, some time later. */
void redis_server_send(struct redis_message *message);

/* Delivers a message of a channel to every process that lives. */
void redis_server_publish(const char *channel, const char *text);

/* The server's clock, in us since 1970. */
int64_t redis_server_us(void);

#endif
