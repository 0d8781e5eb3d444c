/* Private to lock/: one Redis server as all threads of a client share it: a pool of connections,
 * and one subscriber (waiter.h). */
#ifndef LOCK_REDIS_SERVER_H
#define LOCK_REDIS_SERVER_H

#include "lock/seclock.h"
#include "lua/redis.h"
#include "lua/script.h"

struct redis_server;

/* Makes a server without connecting. SECLOCK_OK, SECLOCK_CONFIG (bad URL) or SECLOCK_FAILED. */
enum seclock_result redis_server_open(const char *url, const char *prefix, int timeout_ms,
                                      struct redis_server **server_out);
void redis_server_close(struct redis_server **server);

/* In a child of fork: closes the idle connections' descriptors, and leaks the rest. */
void redis_server_forget(struct redis_server *server);

/* Lends a connection to the calling thread, a new one when all are lent; NULL: no memory. The
 * caller gives every connection back, whatever state it is in. */
struct redis *redis_server_take(struct redis_server *server);
void redis_server_give(struct redis_server *server, struct redis *redis);

/* Runs the calls in one pipeline over a lent connection. When `repeatable`, calls left
 * REDIS_UNKNOWN are sent once more over a new connection: the script recognises the request. The
 * last error goes to lock_set_error. */
void redis_server_run(struct redis_server *server, struct script_call *calls, size_t count,
                      bool repeatable);

/* The same for one call that publishes: the message reaches the waiters before the answer reaches
 * the caller. `limit_ms` as below. */
void redis_server_run_publishing(struct redis_server *server, struct script_call *call,
                                 int limit_ms);

/* The time-out of a request. */
int redis_server_timeout_ms(const struct redis_server *server);

/* As redis_server_run, but sends again only within `limit_ms`, which bounds each wait as well; 0:
 * as the time-out says. */
void redis_server_run_within(struct redis_server *server, struct script_call *calls, size_t count,
                             int limit_ms);

/* Keeps why the connection's last call failed, and which server that was, for seclock_error. */
void redis_server_failed(const struct redis_server *server, const struct redis *redis);

/* Writes the key prefix{name}:field, as lock_redis_key does. */
void redis_server_key(const struct redis_server *server, const char *name, const char *field,
                      char *key_out);

/* The outcome of a call: SECLOCK_OK when it was answered, with whatever number. */
enum seclock_result redis_server_result(const struct script_call *call);

struct waiter_hub *redis_server_waiters(struct redis_server *server);

#endif
