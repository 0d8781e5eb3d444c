/* Private to lock/: one Redis server, shared by all threads of a client: a pool of connections, one
 * subscriber for each node (waiter.h), and the calls that are sent to it. */
#ifndef LOCK_REDIS_SERVER_H
#define LOCK_REDIS_SERVER_H

#include "lock/seclock.h"
#include "lua/command.h"
#include "lua/redis.h"
#include "lua/script.h"

struct redis_server;
struct url_server;
struct waiter_hub;

/* Makes a server without connecting. SECLOCK_OK, SECLOCK_CONFIG (bad URL) or SECLOCK_FAILED. */
enum seclock_result redis_server_open(const char *url, const char *prefix, int timeout_ms,
                                      struct redis_server **server_out);
void redis_server_close(struct redis_server **server);

/* In a child of fork: closes the idle connections' descriptors, and leaks the rest. */
void redis_server_forget(struct redis_server *server);

int redis_server_timeout_ms(const struct redis_server *server); /* of a request */
const char *redis_server_url(const struct redis_server *server);

/* Finds the node at which the waiters of a channel subscribe: in a cluster the owner of its slot,
 * as the last calls have learnt it; otherwise `node_out` gets port 0. Asks no server. False: it is
 * not known. */
bool redis_server_node(struct redis_server *server, const char *channel,
                       struct url_server *node_out);

/* Returns the hub for the waiters of a channel, for threads. NULL: its node is not known, it is one
 * of too many, or there is no memory. */
struct waiter_hub *redis_server_waiters(struct redis_server *server, const char *channel);

/* Wakes the waiters of a channel, with a message for waiter_sleep: what scripts do by
 * include/tell.lua. Without an answer they wake when they next try. */
void redis_server_tell(struct redis_server *server, const char *channel, const char *message);

/* Lends a connection to the calling thread, a new one when all are lent; NULL: no memory. The
 * caller gives every connection back, whatever state it is in. */
struct redis *redis_server_take(struct redis_server *server);
void redis_server_give(struct redis_server *server, struct redis *redis);

/* Keeps the reason why the connection's last call failed, and the server, for seclock_error. */
void redis_server_failed(const struct redis_server *server, const struct redis *redis);

/* Writes the key prefix{name}:field, as lock_redis_key does. */
void redis_server_key(const struct redis_server *server, const char *name, const char *field,
                      char *key_out);

/* Begins a call on a lock. `keys` are fields with a space between, of the keys prefix{name}:field.
 * "~" is the key that remembers the release of the request: of a hold, for a repeat, and of a
 * request without a hold, so that it acquires nothing if it comes later. */
void redis_server_begin(const struct redis_server *server, struct script_call *call_out,
                        enum script_id id, const char *name, const char *request, const char *keys);

enum redis_server_way {
    SERVER_PIPELINE,
    SERVER_PUBLISHING, /* one call: its message reaches the waiters before the answer reaches the
                          caller */
    SERVER_ONCE,       /* one call, whose script does not recognise a repeat */
};

/* Runs the calls in one pipeline over a lent connection. Sends calls left REDIS_UNKNOWN once more
 * over a new connection, because the scripts recognise their request. `limit_ms` bounds each wait,
 * and nothing is sent again after it; 0: only the server's time-out counts. The last error goes to
 * lock_set_error. */
void redis_server_run(struct redis_server *server, struct script_call *calls, size_t count,
                      int limit_ms, enum redis_server_way way);

/* Returns the outcome of a call. SECLOCK_OK: answered, and the first number is 1; `no`: the first
 * number is another; SECLOCK_FAILED, SECLOCK_UNKNOWN. */
enum seclock_result redis_server_answer(const struct script_call *call, enum seclock_result no);

/* Runs plain commands that may be repeated, and runs them again when one of them was not answered.
 * SECLOCK_OK when all are answered, else SECLOCK_FAILED or SECLOCK_UNKNOWN by the last sending. The
 * caller clears them in any case. */
enum seclock_result redis_server_commands(struct redis_server *server, struct command *commands,
                                          size_t count);

/* The same for commands that change something: SECLOCK_UNKNOWN as well when they were run again
 * (then `repeated_out` is true) and that failed, because the first sending may have been carried
 * out. */
enum seclock_result redis_server_change(struct redis_server *server, struct command *commands,
                                        size_t count, bool *repeated_out);

#endif
