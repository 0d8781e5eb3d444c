/* Private to lock/: one hold of one lock, and the states that it goes through:
 *
 *   RELEASED ──► HELD       acquired
 *   RELEASED ──► UNKNOWN    the acquisition was not answered
 *   HELD ──► UNKNOWN        the server is silent
 *   UNKNOWN ──► HELD        a renewal was answered
 *   HELD, UNKNOWN ──► LOST  the deadline has passed, a renewal was refused, or the lock was broken
 *   any ──► RELEASED        released
 *
 * A hold that one thread has seen as LOST never becomes HELD again. */
#ifndef LOCK_HANDLE_H
#define LOCK_HANDLE_H

#include <stdatomic.h>

#include "lock/due_heap.h"
#include "lock/seclock.h"

struct lock_core;
struct lock_driver;
struct operation;
struct watchdog;

/* The core fills in the first part before the driver's first call and owns all parts but the
 * driver's. A driver may shorten `lease_ms` in acquire (e.g. to its session's). */
struct seclock_handle {
    struct lock_core *core;
    struct watchdog *watchdog;
    int64_t (*now_ns)(void); /* the client's clock */
    const struct lock_driver *driver;
    void *self; /* the driver's */
    char name[SECLOCK_NAME_MAX];
    char owner[SECLOCK_TOKEN_MAX];   /* the same for all holds of one owner; [0-9a-f-] only */
    char request[SECLOCK_TOKEN_MAX]; /* this acquisition: unique; [0-9a-f-] only */
    enum seclock_mode mode;
    int permits, limit, cancel_fd;
    uint64_t latch_generation; /* 0: any */
    _Atomic int lease_ms;
    _Atomic int64_t until_ns; /* last moment of its acquisition's requests; 0: not bounded */
    bool waits;               /* the caller will wait if the lock is busy: join the queue, if any */
    bool polls;               /* no message ends the caller's sleeps, only time */
    bool given_back;          /* the request was released during its acquisition */

    /* Set by the driver: */
    _Atomic uint64_t fence;
    _Atomic int hold_count; /* the owner's, with this hold; 0 counts as 1 */
    int64_t busy_ms;        /* with SECLOCK_BUSY: the rest of the holder's lease; -1: unknown */
    const char *token;      /* for seclock_token; NULL: `owner` */
    void *driver_data;      /* the driver's own; freed by its `drop` */
    void *waiting;          /* the driver's own while it waits; freed by its `stop_waiting` */

    /* What the holder proclaims. Set and read as a renewal: by one thread at a time. */
    char *value;           /* NULL: nothing */
    char *former_value;    /* the one before, while `proclaims`; NULL: none */
    uint64_t value_number; /* grows with each proclamation of an owner */
    bool proclaims;        /* the renewal under way is to tell the server of `value` */
    bool observes;         /* not a hold: its caller waits for news of the leader */

    /* The core's and the watchdog's: */
    _Atomic int state; /* enum seclock_state, before a look at the deadline */
    _Atomic int64_t deadline_ns;
    _Atomic int why_lost; /* enum seclock_loss; see seclock_loss for NONE */
    int64_t acquired_ns;
    int hold_ms_max;
    int generation;           /* of the process that made the handle */
    enum seclock_kind family; /* the first kind that uses servers of the same scheme */
    bool renews;              /* by the watchdog */
    bool lapses;              /* by the watchdog, when it is lost: see lock_driver.lapse */
    bool logs;                /* its loss */
    struct due renewal, loss; /* when the watchdog next renews it, or looks whether it is lost */
    bool renewing, notifying; /* the watchdog uses the handle outside its mutex */
    bool leaving;             /* a thread waits to take it out of the watchdog's care */
    void (*on_lost)(struct seclock_handle *handle, void *context);
    void *context;
    struct operation *operation; /* of a loop (loop/); NULL: the hold belongs to none */
    void (*leave_loop)(struct seclock_handle *handle); /* before it is freed; NULL: see above */
};

/* True when the handle belongs to a parent of this process. */
bool handle_inherited(const struct seclock_handle *handle);

/* True when the watchdog must act on a loss: call on_lost, lock_driver.lapse or the log. */
bool handle_reports_loss(const struct seclock_handle *handle);

/* True when the watchdog has the hold in its care, to renew it or to act on its loss. */
bool handle_watched(const struct seclock_handle *handle);

/* Keeps why the hold is lost, before it becomes so; the first reason stays. */
void handle_keep_loss(struct seclock_handle *handle, enum seclock_loss loss);

/* How long a holder may rely on a lease. The server's clock may run a little faster than ours, so
 * the holder forgoes 1 % and 2 ms of the lease. */
int64_t handle_valid_ns(int lease_ms);

/* Applies the answer to a renewal sent at `sent_ns`; false when the hold is lost. */
bool handle_extend(struct seclock_handle *handle, enum seclock_result result, int64_t sent_ns,
                   int64_t now_ns);

/* How long a request may take, at most `timeout_ms`. During an acquisition the time ends with the
 * caller's wait, but leaves a healthy server enough time to answer. */
int handle_request_ms(const struct seclock_handle *handle, int timeout_ms);

/* How long the renewal of these holds of one client may wait for its answer, from `least_ms` to
 * `most_ms`: until the first of their deadlines, because a later answer is useless and the
 * watchdog's other holds wait behind these. */
int handle_renewal_ms(struct seclock_handle *const *handles, size_t count, int least_ms,
                      int most_ms);

/* Sleeps; true when the caller has cancelled the wait. */
bool handle_sleep(const struct seclock_handle *handle, int ms);

#endif
