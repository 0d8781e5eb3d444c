/* Private to lock/: how a hold is begun and what an answer makes of it. */
#ifndef LOCK_LOCK_HOLD_H
#define LOCK_LOCK_HOLD_H

#include "lock/lock.h"

/* Fills in who wants what for how long, with a fresh random token. */
void lock_hold_init(struct lock_hold *hold, const char *prefix, const char *name, int lease_ms);

/* Sets state and deadline after an acquire or renew that was sent at `sent_ns`. */
void lock_hold_acquired(struct lock_hold *hold, enum lock_result result, int64_t sent_ns);

#endif
