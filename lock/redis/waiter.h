/* Private to lock/: those who wait for messages of one Redis server, over one subscriber
 * connection: the threads of a client, or the waiters of a loop. No thread serves the connection:
 * one of the waiting threads reads for all, and hands over when it leaves; a loop's own thread
 * reads for its waiters. */
#ifndef LOCK_REDIS_WAITER_H
#define LOCK_REDIS_WAITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many hubs a server has in the life of a client or a loop: one for each node of a cluster. */
enum { WAITER_HUBS_MAX = 256 };

struct redis;
struct url_server;
struct waiter_hub;
struct waiter;

/* Makes a hub without connecting; with `node`, of that node of the cluster that the URL names. With
 * `woken` it is a loop's, and calls woken(context) of a waiter when that is woken. NULL: no memory,
 * or the URL is not of the form. */
struct waiter_hub *waiter_hub_open(const char *url, const struct url_server *node, int timeout_ms,
                                   void (*woken)(void *context));

/* No thread may be waiting. */
void waiter_hub_close(struct waiter_hub **hub);

/* In a child of fork: closes the descriptors of the parent's waiters, and leaks the rest. */
void waiter_hub_forget(struct waiter_hub *hub);

/* True when the hub was opened with this node. */
bool waiter_hub_is_at(const struct waiter_hub *hub, const struct url_server *node);

/* Begins to wait on a channel (shorter than SCRIPT_KEY_MAX + SECLOCK_TOKEN_MAX), with `waiter`
 * NULL, or goes on: call it before each sleep, with the hub of the channel's present owner, or NULL
 * when that is not known. Returns the waiter from now on; NULL: there is no hub, memory or
 * descriptor, and the caller has to poll. The first waiter_sleep in a hub returns as soon as the
 * subscription is in force; the caller then checks whether the event came before. `context` is for
 * the hub of a loop. */
struct waiter *waiter_join(struct waiter *waiter, struct waiter_hub *hub, const char *channel,
                           void *context);

/* Sleeps up to `wait_ms`, or until cancel_fd (if > 0) is readable. True when woken: by a message
 * (its number says how many waiters it wakes, in the order in which they came; "*" wakes all), by
 * the subscription, or because messages may have been missed. */
bool waiter_sleep(struct waiter *waiter, int wait_ms, int cancel_fd);

/* If the last sleep ended by a wake-up, passes the wake-up on to the channel's next later waiter:
 * what was released is not enough for the caller, but may be for that one. */
void waiter_pass(struct waiter *waiter);

/* Ends the waiting and sets the pointer to NULL. A wake-up not yet acted on goes to the channel's
 * next waiter, and so does the last one unless the caller is `content`, having got what it waited
 * for. */
void waiter_leave(struct waiter **waiter, bool content);

/* ---- the hub of a loop: all on one thread; not for waiter_sleep ---- */

/* Begins a sleep; false: do not sleep, it was woken before. And takes the wake-up that `woken` told
 * of, after which the waiter tries. */
bool waiter_doze(struct waiter *waiter);
void waiter_rise(struct waiter *waiter);

/* Reads and sends what the connection has and takes. True: it is to be connected, on a thread that
 * may wait, by waiter_hub_connect, and then told by waiter_hub_connected; until then the hub's
 * other functions leave the connection alone. */
bool waiter_hub_turn(struct waiter_hub *hub);
void waiter_hub_connect(struct waiter_hub *hub);
void waiter_hub_connected(struct waiter_hub *hub);

/* The client to poll: NULL while there is no connection. */
const struct redis *waiter_hub_redis(const struct waiter_hub *hub);

/* When waiter_hub_turn is due although nothing has come; INT64_MAX: never. */
int64_t waiter_hub_due_ms(const struct waiter_hub *hub);

#endif
