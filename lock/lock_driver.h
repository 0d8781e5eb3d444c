/* Private to lock/: the table of functions that a driver fills, and what the core gives it. */
#ifndef LOCK_LOCK_DRIVER_H
#define LOCK_LOCK_DRIVER_H

#include <stdatomic.h>

#include "lock/due_heap.h"
#include "lock/seclock.h"

struct lock_core;    /* a client's inner part, remade in the child after a fork */
struct redis_server; /* the first Redis server: its connections and its subscriber */

/* What a driver is opened with. Valid until its close or forget. */
struct lock_context {
    struct lock_core *core;
    const char *const *servers; /* all of them; NULL ends */
    size_t server_count;        /* of the driver's scheme */
    const char *server;         /* the first one of the driver's scheme */
    const char *prefix;         /* never NULL */
    const char *id;             /* the client's, 32 digits */
    int lease_ms, timeout_ms, poll_ms;
};

/* One hold. The core fills in the first part before the driver's first call and owns all but what
 * it says. A driver may lengthen or shorten `lease_ms` in acquire (e.g. to its session's). */
struct seclock_handle {
    struct lock_core *core;
    const struct lock_driver *driver;
    void *self; /* the driver's */
    char name[SECLOCK_NAME_MAX];
    char owner[SECLOCK_TOKEN_MAX];   /* who: the same for all holds of one owner; [0-9a-f-] only */
    char request[SECLOCK_TOKEN_MAX]; /* this acquisition: unique; [0-9a-f-] only */
    enum seclock_mode mode;
    int permits, limit, cancel_fd;
    _Atomic int lease_ms;
    bool waits; /* the caller will wait if it is busy: join the queue, if the kind has one */

    /* Set by the driver: */
    _Atomic uint64_t fence;
    int hold_count;  /* the owner's, with this hold; 0 counts as 1 */
    int64_t busy_ms; /* with SECLOCK_BUSY: how long the present holder's lease lasts; -1: unknown */
    const char *token; /* for seclock_token; NULL: `owner` */
    void *driver_data; /* the driver's own; freed by its `drop` */
    void *waiting;     /* the driver's own while it waits; freed by its `stop_waiting` */

    /* The core's and the watchdog's. */
    _Atomic int state; /* enum seclock_state, before the deadline is looked at */
    _Atomic int64_t deadline_ns;
    int64_t acquired_ns;
    int hold_ms_max;
    int generation;           /* of the process: forks so far */
    bool renews;              /* by the watchdog */
    struct due renewal, loss; /* when the watchdog looks at it next, for the one or the other */
    bool renewing, telling;   /* the watchdog uses it outside its mutex */
    bool leaving;             /* somebody waits to take it out of the watchdog's care */
    void (*on_lost)(struct seclock_handle *handle, void *context);
    void *context;
};

enum lock_feature {
    LOCK_FENCED = 1,    /* gives fences */
    LOCK_RENEWS = 2,    /* leases end unless renewed */
    LOCK_READS = 4,     /* knows SECLOCK_MODE_READ */
    LOCK_PERMITTED = 8, /* knows permits and limit */
    LOCK_NO_HOLDS = 16, /* seclock_acquire is not for this kind */
};

/* Any function may be called by several threads at once, for different handles (renew also while
 * the holder's thread asks the handle); each does what it does in one or few requests, each bounded
 * by timeout_ms, and none waits for a lock but `wait`. Reasons of failures go to lock_set_error.
 * Functions marked optional may be NULL. */
struct lock_driver {
    enum seclock_kind kind;
    unsigned features;
    int poll_ms_min, poll_ms_max; /* without `wait`: the core sleeps so long between tries */

    /* Makes the driver's state without connecting. SECLOCK_OK, SECLOCK_CONFIG or SECLOCK_FAILED. */
    enum seclock_result (*open)(const struct lock_context *context, void **self_out);
    void (*close)(void *self);
    /* Optional. In a child of fork: closes inherited descriptors, and touches nothing that a thread
     * of the parent may have been changing. Memory may leak. */
    void (*forget)(void *self);

    /* One try. SECLOCK_OK with fence and hold_count set; SECLOCK_BUSY with busy_ms set; SECLOCK_DEADLOCK,
     * SECLOCK_FAILED, SECLOCK_UNKNOWN, SECLOCK_CONFIG. Called again with the same handle after SECLOCK_BUSY,
     * SECLOCK_FAILED or SECLOCK_UNKNOWN: the request's id is then the same and must not count twice. */
    enum seclock_result (*acquire)(void *self, struct seclock_handle *handle);

    /* Optional (NULL: the core polls). Sleeps until the lock may be free, `wait_ms` have passed or
     * handle->cancel_fd (if > 0) is readable. May return early for no reason. */
    void (*wait)(void *self, struct seclock_handle *handle, int wait_ms);

    /* Optional. The caller waits no more: `acquired`, or it gave up and must leave the queue.
     * Called once after one or more acquire calls with handle->waits, also without `wait`. */
    void (*stop_waiting)(void *self, struct seclock_handle *handle, bool acquired);

    /* Extends each lease to its full length, in as few round trips as can be. SECLOCK_OK, SECLOCK_LOST,
     * SECLOCK_FAILED or SECLOCK_UNKNOWN for each; sets the fence of those that have none. */
    void (*renew)(void *self, struct seclock_handle *const *handles, size_t count,
                  enum seclock_result *results_out);

    /* SECLOCK_OK, SECLOCK_LOST, SECLOCK_FAILED, SECLOCK_UNKNOWN. A repeat after SECLOCK_UNKNOWN must not release
     * twice. Also called for a handle whose acquisition is SECLOCK_UNKNOWN. */
    enum seclock_result (*release)(void *self, struct seclock_handle *handle);

    /* Optional. Frees handle->driver_data, the handle being held or not. */
    void (*drop)(void *self, struct seclock_handle *handle);

    enum seclock_result (*status)(void *self, const char *name, struct seclock_status *status_out);
    enum seclock_result (*break_lock)(void *self,
                                      const char *name); /* SECLOCK_OK or SECLOCK_NOT_OWNER */

    enum seclock_result (*set_limit)(void *self, const char *name, int limit); /* optional */
    enum seclock_result (*check)(void *self, char *warning_out, size_t size);  /* optional */
};

/* All of them; lock.c has the only list. */
extern const struct lock_driver lock_simple_driver;    /* redis_simple.c */
extern const struct lock_driver lock_reentrant_driver; /* redis_reentrant.c */
extern const struct lock_driver lock_timestamp_driver; /* redis_timestamp.c */
extern const struct lock_driver lock_spin_driver;      /* redis_spin.c */
extern const struct lock_driver lock_fair_driver;      /* redis_fair.c */
extern const struct lock_driver lock_rw_driver;        /* redis_rw.c */
extern const struct lock_driver lock_semaphore_driver; /* redis_semaphore.c */
extern const struct lock_driver lock_permit_driver;    /* redis_semaphore.c */
extern const struct lock_driver lock_latch_driver;     /* redis_latch.c */
extern const struct lock_driver lock_red_driver;       /* redlock.c */
extern const struct lock_driver lock_table_driver;     /* mysql_table.c */
extern const struct lock_driver lock_get_lock_driver;  /* mysql_get_lock.c */
extern const struct lock_driver lock_queue_driver;     /* zookeeper_queue.c */

/* Keeps the reason of a failure for seclock_error, for the calling thread. */
void lock_set_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For drivers that learn by themselves, on any thread: the hold is gone (on_lost is then called by
 * the watchdog), or nobody knows for now. Before seclock_release; nothing happens after it. */
void lock_handle_lost(struct seclock_handle *handle);
void lock_handle_doubt(struct seclock_handle *handle);

/* Makes of a renewal sent at `sent_ns` what it means; false when the hold is lost. */
bool lock_handle_extend(struct seclock_handle *handle, enum seclock_result result, int64_t sent_ns,
                        int64_t now_ns);

/* How long a lease counts for its holder: the server's clock may run a little faster than ours, so
 * 1 % and 2 ms are given away. */
int64_t lock_valid_ns(int lease_ms);

/* What the drivers of a kind were opened with. */
const struct lock_context *lock_core_context(const struct lock_core *core, enum seclock_kind kind);

/* The client's clock. */
int64_t lock_core_now_ns(const struct lock_core *core);

/* Sleeps; true when cancel_fd (if > 0) became readable. */
bool lock_sleep_ms(int ms, int cancel_fd);

/* A uniform random number below bound > 0, good enough for jitter. Any thread. */
unsigned lock_random(unsigned bound);

/* 128 random bits as 32 hexadecimal digits and a NUL. */
enum { LOCK_RANDOM_SIZE = 33 };
void lock_random_text(char text_out[LOCK_RANDOM_SIZE]);

/* For functions of the public header that no driver's table has (optimistic.c, redis_latch.c): the
 * client's present context for a kind, remade after a fork; and its first Redis server, NULL when
 * it has none. */
const struct lock_context *lock_client_context(struct seclock_client *client,
                                               enum seclock_kind kind);
struct redis_server *lock_core_redis(struct lock_core *core);

#endif
