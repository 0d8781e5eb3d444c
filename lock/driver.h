/* Private to lock/: the table of functions that each kind of lock fills. */
#ifndef LOCK_DRIVER_H
#define LOCK_DRIVER_H

#include "lock/handle.h"

enum lock_feature {
    LOCK_RENEWS = 1,    /* leases end unless renewed */
    LOCK_READS = 2,     /* knows SECLOCK_MODE_READ */
    LOCK_PERMITTED = 4, /* knows permits and limit */
};

enum {
    LOCK_RENEWALS_MAX = 256, /* holds that are renewed by one call */
    LOCK_CHANNEL_MAX = 240,  /* bytes of a channel's name, with its NUL */
};

struct script_call;

enum lock_step { LOCK_ACQUIRE, LOCK_RENEW, LOCK_RELEASE, LOCK_LEAVE };

/* Several threads may call any function at once, for different handles: renew also while the
 * holder's thread reads the handle, but never twice for one handle. Each function sends one or few
 * requests, each bounded by timeout_ms, and only `wait` waits for a lock. Reasons of failures go to
 * lock_set_error. Functions marked optional may be NULL. */
struct lock_driver {
    enum seclock_kind kind;
    unsigned features;
    int poll_ms_min, poll_ms_max; /* of waiters whom no message wakes: between tries, > 0 */
    const void *row;              /* the differences of kinds that share a file */

    /* Makes the driver's state for the first server of its scheme, without connecting. SECLOCK_OK,
     * SECLOCK_CONFIG or SECLOCK_FAILED. */
    enum seclock_result (*open)(struct lock_core *core, const char *server, void **self_out);
    void (*close)(void *self); /* optional */
    /* Optional. In a child of fork: closes inherited descriptors, and touches nothing that a thread
     * of the parent may have been changing. Memory may leak. */
    void (*forget)(void *self);

    /* Tries once. SECLOCK_OK with fence and hold_count set; SECLOCK_BUSY with busy_ms set;
     * SECLOCK_DEADLOCK, SECLOCK_FAILED, SECLOCK_UNKNOWN, SECLOCK_CONFIG. A call with the same
     * handle after SECLOCK_BUSY, SECLOCK_FAILED or SECLOCK_UNKNOWN has the same request id and must
     * not count twice; after a release and `drop` it has another one. */
    enum seclock_result (*acquire)(void *self, struct seclock_handle *handle);

    /* Optional (NULL: the core sleeps on wait_fd; without that, too, only time ends its sleeps).
     * Sleeps until the lock may be free, `wait_ms` have passed or handle->cancel_fd (if > 0) is
     * readable. May return early for no reason. */
    void (*wait)(void *self, struct seclock_handle *handle, int wait_ms);

    /* Optional. The caller has ended its wait: it has `acquired` the lock, or it must leave the
     * queue. Called once after acquire calls with handle->waits, also without `wait`. */
    void (*stop_waiting)(void *self, struct seclock_handle *handle, bool acquired);

    /* Extends each lease to its full length, in as few round trips as possible. The handles come in
     * the order of their names. Each result is SECLOCK_OK, SECLOCK_LOST, SECLOCK_FAILED or
     * SECLOCK_UNKNOWN; sets the fence of a handle that has none. */
    void (*renew)(void *self, struct seclock_handle *const *handles, size_t count,
                  enum seclock_result *results_out);

    /* Both NULL for kinds that elect nobody. proclaim renews one hold, whose fence is known, and in
     * one atomic step with a look whether the hold still stands makes handle->value the leader's.
     * Results as of `renew`; a sending that comes late must not undo a later proclamation.
     *
     * leader fills in who leads: the holder of the lock, if it has proclaimed a value. SECLOCK_OK;
     * SECLOCK_FAILED or SECLOCK_UNKNOWN: not answered. */
    enum seclock_result (*proclaim)(void *self, struct seclock_handle *handle);
    enum seclock_result (*leader)(const struct lock_driver *driver, void *self, const char *name,
                                  struct seclock_leader *leader_out);

    /* SECLOCK_OK, SECLOCK_LOST, SECLOCK_FAILED, SECLOCK_UNKNOWN. A repeat after SECLOCK_UNKNOWN
     * must not release twice. Also called for a handle whose acquisition is SECLOCK_UNKNOWN. */
    enum seclock_result (*release)(void *self, struct seclock_handle *handle);

    /* Optional, for servers that would keep a hold beyond its lease: gives up a hold there that is
     * lost here, without waiting. Any thread, also while the holder's thread or a renewal uses the
     * handle, but not during release and drop. The handle is in SECLOCK_STATE_LOST. */
    void (*lapse)(void *self, struct seclock_handle *handle);

    /* Optional. Frees handle->driver_data, whether the handle is held or not. */
    void (*drop)(void *self, struct seclock_handle *handle);

    /* Fills in a status that says: not held, no queue, no limit of time. */
    enum seclock_result (*status)(const struct lock_driver *driver, void *self, const char *name,
                                  struct seclock_status *status_out);

    /* SECLOCK_OK or SECLOCK_NOT_OWNER: nobody held it. */
    enum seclock_result (*break_lock)(const struct lock_driver *driver, void *self,
                                      const char *name);

    /* For loops (loop/), which leave to a thread what is NULL. step_call writes a step as one call
     * to the client's Redis server; false: there is no such step. The loop sends it, and sends an
     * unanswered one again. step_answer then does what else `acquire`, `renew` and `release` do. */
    bool (*step_call)(void *self, const struct seclock_handle *handle, enum lock_step step,
                      struct script_call *call_out);
    enum seclock_result (*step_answer)(struct seclock_handle *handle, enum lock_step step,
                                       const struct script_call *call);

    /* What ends a wait early: for loops, and wait_fd for threads, too; without either, in a loop
     * only time does. wait_channel writes the channel whose messages do, wait_fd returns a
     * descriptor that becomes readable, or -1. Both shorten `wait_ms` to what the waiter may
     * sleep. */
    void (*wait_channel)(void *self, const struct seclock_handle *handle, int *wait_ms,
                         char channel_out[LOCK_CHANNEL_MAX]);
    int (*wait_fd)(const struct seclock_handle *handle, int *wait_ms);

    /* Both optional. */
    enum seclock_result (*set_limit)(const struct lock_driver *driver, void *self, const char *name,
                                     int limit);
    enum seclock_result (*check)(void *self, char *warning_out, size_t size);
};

extern const struct lock_driver redis_simple_driver, redis_spin_driver, redis_reentrant_driver,
    redis_fair_driver, redis_rw_driver, redis_semaphore_driver, redis_permit_driver,
    redis_timestamp_driver, redis_latch_driver, redlock_driver, mysql_table_driver,
    mysql_get_lock_driver, zookeeper_queue_driver, etcd_driver;

#endif
