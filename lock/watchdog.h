/* Private to lock/: a client's threads that renew leases, one for each kind of server, and its
 * thread that notifies of holds that were lost. */
#ifndef LOCK_WATCHDOG_H
#define LOCK_WATCHDOG_H

#include "lock/handle.h"

struct watchdog;

/* Counts of one client's holds of one kind. */
struct lock_counters {
    _Atomic uint64_t acquired, busy, waits, renewals, renew_errors, lost;
    _Atomic uint64_t acquire_us[SECLOCK_BUCKETS], hold_us[SECLOCK_BUCKETS];
    _Atomic bool failing; /* the last renewal was not answered, and the log was told */
};

/* Counts a duration in its bucket: see struct seclock_kind_stats. */
static inline void counters_time(_Atomic uint64_t buckets[SECLOCK_BUCKETS], int64_t ns)
{
    uint64_t us = ns > 0 ? (uint64_t)ns / 1000 : 0;
    int bucket = us == 0 ? 0 : 64 - __builtin_clzll(us);
    atomic_fetch_add_explicit(&buckets[bucket < SECLOCK_BUCKETS ? bucket : SECLOCK_BUCKETS - 1], 1,
                              memory_order_relaxed);
}

/* Makes a watchdog, which starts its threads with the first hold. It keeps `options`, of which it
 * uses the clock and the log, and `counters`, one for each kind. NULL: no memory. */
struct watchdog *watchdog_open(const struct seclock_options *options,
                               struct lock_counters *counters);

/* Ends the threads, after the renewals and the on_lost under way. Holds in its care are no longer
 * renewed; each may still be taken out. */
void watchdog_stop(struct watchdog *watchdog);

/* Stops and frees it. No hold may be in its care. */
void watchdog_close(struct watchdog **watchdog);

/* Takes a hold into care, before its acquisition is sent at `sent_ns`, or sent again. The watchdog
 * does nothing for the hold until its state is HELD or UNKNOWN. False: no memory or no thread, and
 * the caller must send nothing. */
bool watchdog_add(struct watchdog *watchdog, struct seclock_handle *handle, int64_t sent_ns);

/* Takes a hold out of care. When this returns true no renewal of the hold is under way and its
 * on_lost does not run, and neither will begin; but on_lost itself may call this. Without `wait`:
 * false, and it stays, when it would have to wait for one of them. */
bool watchdog_remove(struct watchdog *watchdog, struct seclock_handle *handle, bool wait);

/* For a renewal by the hold's owner, sent at `sent_ns`: begin waits for a renewal of the watchdog's
 * that is under way (false without `wait`), and until end the watchdog begins none. */
bool watchdog_renewal_begin(struct watchdog *watchdog, struct seclock_handle *handle, bool wait);
void watchdog_renewal_end(struct watchdog *watchdog, struct seclock_handle *handle,
                          enum seclock_result result, int64_t sent_ns);

/* Looks at a hold now; with NULL, at the clock. */
void watchdog_poke(struct watchdog *watchdog, struct seclock_handle *handle);

/* For drivers that learn it by themselves, on any thread: the hold is lost (the watchdog then calls
 * on_lost), or in doubt for now. SECLOCK_LOSS_NONE: the reason is known already, or its time was
 * over. No effect after seclock_release. */
void watchdog_lost(struct seclock_handle *handle, enum seclock_loss loss);
void watchdog_doubt(struct seclock_handle *handle);

size_t watchdog_count(struct watchdog *watchdog);

#endif
