/* The simulated Redis server: requests that travel, are carried out one after the other, and are
 * answered; and all that may go wrong with them. */
#ifndef SIMULATE_REDIS_SERVER_H
#define SIMULATE_REDIS_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stock/sale_cache.h"

struct process;
struct redisReply;
struct task;

enum { MESSAGE_COMMANDS_MAX = 64, COMMAND_WORDS_MAX = 128 };

/* One command of a pipeline. */
struct redis_words {
    int count;
    const char *text[];
};

/* A message of a channel, as it waits to be read. */
struct redis_news {
    struct redis_news *next;
    char message[SALE_MESSAGE_SIZE];
};

/* A connection that subscribes to the channel. In the schedule's memory. */
struct redis_subscription {
    struct process *process;
    uint32_t incarnation, epoch;
    bool there;         /* at the server */
    bool left;          /* by the client */
    bool closed;        /* the client learns of its end once it has read the news */
    int64_t arrives_ns; /* the last of its news: they keep their order */
    struct redis_news *first, **end;
    const void *signal; /* for task_signal, when there is something to read */
};

/* A pipeline on its way. In the schedule's memory; both ends may forget it. */
struct redis_message {
    struct redis_words *commands[MESSAGE_COMMANDS_MAX];
    struct redisReply *replies[MESSAGE_COMMANDS_MAX]; /* NULL: not answered */
    size_t count;
    size_t done;    /* commands carried out */
    size_t keep;    /* commands that arrive: the others are cut off */
    uint32_t epoch; /* of the server's run in which the connection was made */
    bool answer_lost;
    bool closed; /* the client will hear no more: the connection is lost */
    struct redis_subscription *subscription; /* that it asks for; NULL: none */
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

/* Makes what a message with SUBSCRIBE asks for, over a connection made in that run of the server;
 * notes that the client has the answer; and that it has left the connection. */
struct redis_subscription *redis_server_subscription(struct redis_message *message, uint32_t epoch);
void redis_server_subscribed(struct redis_subscription *subscription);
void redis_server_unsubscribe(struct redis_subscription *subscription);

/* Delivers a message of a channel: to the subscribed connections, and to every process that lives
 * and does not subscribe by itself. */
void redis_server_publish(const char *channel, const char *text);

/* The server's clock, in us since 1970. */
int64_t redis_server_us(void);

#endif
