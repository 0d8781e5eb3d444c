/* Private to lock/: several independent Redis servers, asked together. */
#ifndef LOCK_REDIS_REDLOCK_SERVERS_H
#define LOCK_REDIS_REDLOCK_SERVERS_H

#include "lock/driver.h"
#include "lua/script_each.h"

struct redlock_servers;

/* One connection to every server, lent to one thread at a time. */
struct redlock_connections {
    struct script_line each[SCRIPT_EACH_MAX];
    struct redlock_connections *next;
};

/* The answers of the servers to one call. `left_ms` is the rest of the lease that ends first, of
 * those that the servers that said no have told; -1: unknown. */
struct votes {
    const char *silent_place; /* of the first server that did not answer; NULL: all did */
    size_t yes, no, silent;
    int64_t left_ms;
};

/* Makes the pool without connecting. SECLOCK_OK, SECLOCK_CONFIG (too few or too many servers, a bad
 * URL) or SECLOCK_FAILED. */
enum seclock_result redlock_servers_open(const struct lock_context *context,
                                         struct redlock_servers **servers_out);
void redlock_servers_close(struct redlock_servers **servers);

/* In a child of fork: closes the idle connections. That says nothing to the servers. */
void redlock_servers_forget(struct redlock_servers *servers);

size_t redlock_count(const struct redlock_servers *servers);
size_t redlock_quorum(const struct redlock_servers *servers); /* the smallest majority */

/* How long one round of calls waits for the servers. */
int redlock_timeout_ms(const struct redlock_servers *servers);

/* Lends connections, new ones when all are lent; NULL: no memory. The caller gives them back. */
struct redlock_connections *redlock_take(struct redlock_servers *servers);
void redlock_give(struct redlock_servers *servers, struct redlock_connections *connections);

/* Makes connections that the pool does not know, on which no answers are due: for plain commands.
 */
struct redlock_connections *redlock_connections_new(struct redlock_servers *servers);
void redlock_connections_free(struct redlock_servers *servers,
                              struct redlock_connections *connections);

/* False, with the reason in seclock_error, when two of the connections lead to one database of one
 * server, which would then have two votes. */
bool redlock_apart(const struct redlock_servers *servers,
                   const struct redlock_connections *connections);

/* Sends the same call to all servers and waits until `enough` have answered with 1 or `wait_ms`
 * have passed. Each server's answer is in `calls` (SCRIPT_EACH_MAX). */
struct votes redlock_ask(const struct redlock_servers *servers,
                         struct redlock_connections *connections, const struct script_call *call,
                         struct script_call *calls, size_t enough, int wait_ms);

#endif
