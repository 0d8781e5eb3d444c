/* Private to lock/: a client's one thread that renews leases, and the one that tells of those that
 * were lost. */
#ifndef LOCK_WATCHDOG_H
#define LOCK_WATCHDOG_H

#include "lock/lock_core.h"

struct watchdog;

/* Makes a watchdog whose threads start with the first hold. `now_ns` is the client's clock; `stats`
 * is counted in. NULL: no memory. */
struct watchdog *watchdog_open(int64_t (*now_ns)(void), struct lock_counters *counters);

/* Ends the threads, after the renewals and the call they are in. No hold may be in its care. */
void watchdog_close(struct watchdog **watchdog);

/* Takes a hold into care, before its acquisition is sent at `sent_ns`, or again before it is sent
 * again. Until the hold's state says HELD or UNKNOWN nothing is done for it. False: no memory or no
 * thread, and nothing must be sent. */
bool watchdog_add(struct watchdog *watchdog, struct seclock_handle *handle, int64_t sent_ns);

/* Takes it out of care. When this returns no renewal of it is under way, nor its on_lost running,
 * and neither will begin; unless called from its on_lost itself. */
void watchdog_remove(struct watchdog *watchdog, struct seclock_handle *handle);

/* Looks at a hold, or with NULL at the clock, now. */
void watchdog_poke(struct watchdog *watchdog, struct seclock_handle *handle);

size_t watchdog_count(struct watchdog *watchdog);

#endif
