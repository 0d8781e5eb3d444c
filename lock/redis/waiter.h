/* Private to lock/: the threads of a client that wait for messages of one Redis server, over one
 * subscriber connection. No thread serves that connection: one of the waiting threads reads for
 * all, and hands over when it leaves. */
#ifndef LOCK_REDIS_WAITER_H
#define LOCK_REDIS_WAITER_H

#include <stdbool.h>
#include <stddef.h>

struct waiter_hub;
struct waiter;

/* Makes a hub without connecting. NULL: no memory, or the URL is not of the form. */
struct waiter_hub *waiter_hub_open(const char *url, int timeout_ms);

/* No thread may be waiting. */
void waiter_hub_close(struct waiter_hub **hub);

/* In a child of fork: closes the descriptors of the parent's waiters, and leaks the rest. */
void waiter_hub_forget(struct waiter_hub *hub);

/* Begins to wait on a channel (shorter than SCRIPT_KEY_MAX + SECLOCK_TOKEN_MAX). The first
 * waiter_sleep returns as soon as the subscription is in force; the caller then checks whether the
 * event came before. NULL: no memory or descriptors; the caller has to poll. */
struct waiter *waiter_join(struct waiter_hub *hub, const char *channel);

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

#endif
