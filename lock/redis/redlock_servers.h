/* Private to lock/: several independent Redis servers, asked together. */
#ifndef LOCK_REDIS_REDLOCK_SERVERS_H
#define LOCK_REDIS_REDLOCK_SERVERS_H

#include "lock/driver.h"
#include "lock/process.h"
#include "lua/script_each.h"

/* One connection to every server, lent to one thread at a time. */
struct redlock_connections {
    struct script_line each[SCRIPT_EACH_MAX];
    struct redlock_connections *next;
};

/* The answers of the servers to one call. */
struct votes {
    const char *silent_place; /* of the first server that did not answer; NULL: all did */
    size_t yes, no, silent;
    int64_t left_ms; /* the shortest remaining lease that refusing servers report; -1: unknown */
};

/* The servers and the pool of connections to them; the state of the driver. */
struct redlock {
    size_t count, quorum; /* servers; the smallest majority of them */
    int timeout_ms;       /* of one round of calls */
    char prefix[SECLOCK_PREFIX_MAX];
    struct redlock_server *servers;
    struct process_guard guard;
    pthread_mutex_t mutex; /* guards all below */
    struct redlock_connections *idle;
    size_t idle_count;
};

/* Functions of the driver table. Opening makes the pool without connecting: SECLOCK_OK,
 * SECLOCK_CONFIG (too few or too many servers, a bad URL) or SECLOCK_FAILED. */
enum seclock_result redlock_open(const struct lock_context *context, void **self_out);
void redlock_close(void *self);
void redlock_forget(void *self);

/* Lends connections, new ones when all are lent; NULL: no memory. The caller gives them back. */
struct redlock_connections *redlock_take(struct redlock *redlock);
void redlock_give(struct redlock *redlock, struct redlock_connections *connections);

/* Makes connections that the pool does not know, on which no answers are due: for plain commands.
 */
struct redlock_connections *redlock_connections_new(struct redlock *redlock);
void redlock_connections_free(struct redlock *redlock, struct redlock_connections *connections);

/* False, with the reason in seclock_error, when two of the connections lead to one database of one
 * server, which would then have two votes. */
bool redlock_apart(const struct redlock *redlock, const struct redlock_connections *connections);

/* Sends the same call to all servers and waits until `enough` have answered with 1 or `wait_ms`
 * have passed. Each server's answer is in `calls` (SCRIPT_EACH_MAX). */
struct votes redlock_ask(const struct redlock *redlock, struct redlock_connections *connections,
                         const struct script_call *call, struct script_call *calls, size_t enough,
                         int wait_ms);

#endif
