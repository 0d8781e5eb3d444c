/* Distributed locks: leases with fencing tokens, over Redis, MySQL and ZooKeeper.
 *
 * A lock is named, leased and fenced. Its holder may die, sleep or lose its connection at any time:
 * the lease then ends by itself, and whoever takes the lock next gets a greater fence. What the
 * lock guards must refuse a fence smaller than one it has seen; without that no lock can promise
 * exclusion (see README.md).
 *
 * Threads: a client and its owners may be used by any number of threads at once. A handle belongs
 * to one thread at a time, but for lock_state, lock_remaining_ms, lock_fence and the other
 * questions that only read it, which any thread may ask. No call is safe in a signal handler.
 *
 * Fork: in the child every client is as if just opened, with a new id; the parent's handles are not
 * the child's: there they are LOCK_STATE_LOST (on_lost is not called), and releasing one sends
 * nothing.
 *
 * The library never logs, reads no configuration and does not exit. */
#ifndef LOCK_LOCK_H
#define LOCK_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LOCK_API __attribute__((visibility("default")))
#else
#define LOCK_API
#endif

enum {
    LOCK_NAME_MAX = 96,   /* bytes of a name, with its NUL */
    LOCK_PREFIX_MAX = 32, /* bytes of a key prefix, with its NUL */
    LOCK_TOKEN_MAX = 80,  /* bytes of an owner's or a request's text, with its NUL */
    LOCK_MULTI_MAX = 4096,
    LOCK_PERMITS_MAX = 1000, /* permits of one acquisition */
    LOCK_LEASE_MS_MIN = 10,
    LOCK_LEASE_MS_MAX = 86400000,
    LOCK_FOREVER = -1, /* as a wait_ms */
};

/* The kinds of lock: identifier, its name in text, the scheme of the servers it uses, and what it
 * does. README.md says when to use which. */
#define LOCK_KINDS(X)                                                                              \
    X(SIMPLE, "simple", "redis", "one holder; not re-entrant")                                     \
    X(REENTRANT, "reentrant", "redis", "one owner, who may take it several times")                 \
    X(TIMESTAMP, "timestamp", "redis", "one holder, without server scripts (WATCH and MULTI)")     \
    X(SPIN, "spin", "redis", "one holder; waits without publish and subscribe")                    \
    X(FAIR, "fair", "redis", "one owner, first come first served; re-entrant")                     \
    X(READ_WRITE, "read-write", "redis", "many readers or one writer; re-entrant")                 \
    X(SEMAPHORE, "semaphore", "redis", "up to N permits, renewed while their holder lives")        \
    X(PERMIT, "permit", "redis", "up to N permits of fixed lease, given back by anybody by id")    \
    X(LATCH, "latch", "redis", "count-down latch: lock_latch_... only")                            \
    X(RED, "red", "redis", "one holder by the majority of several independent servers; no fence")  \
    X(TABLE, "table", "mysql", "a row of the table distributed_lock; re-entrant")                  \
    X(GET_LOCK, "get-lock", "mysql", "MySQL's GET_LOCK; as long as the connection; no fence")      \
    X(QUEUE, "queue", "zookeeper", "first come first served; as long as the session")

#define LOCK_KIND_ENUM(id, name, scheme, what) LOCK_KIND_##id,
enum lock_kind { LOCK_KINDS(LOCK_KIND_ENUM) LOCK_KIND_COUNT };
#undef LOCK_KIND_ENUM

/* What became of a call. Only LOCK_OK means done; only LOCK_UNKNOWN may be done nevertheless. */
#define LOCK_RESULTS(X)                                                                            \
    X(OK, "ok")                   /* done */                                                       \
    X(BUSY, "busy")               /* somebody else holds it, or changed it meanwhile */            \
    X(TIMEOUT, "timeout")         /* ... for as long as the caller would wait */                   \
    X(CANCELLED, "cancelled")     /* ... until the caller's cancel_fd became readable */           \
    X(DEADLOCK, "deadlock")       /* refused: the caller would wait for itself */                  \
    X(NOT_OWNER, "not owner")     /* it was never this caller's, or is already given back */       \
    X(LOST, "lost")               /* it was this caller's and is no more: expired or broken */     \
    X(UNKNOWN, "unknown")         /* sent and not answered: it may be done */                      \
    X(FAILED, "failed")           /* certainly not done: no server, no memory, refused */          \
    X(UNSUPPORTED, "unsupported") /* this kind cannot do that, or is not built in */               \
    X(CONFIG, "config")           /* an argument or the server's state makes it impossible */

#define LOCK_RESULT_ENUM(id, name) LOCK_##id,
enum lock_result { LOCK_RESULTS(LOCK_RESULT_ENUM) LOCK_RESULT_COUNT };
#undef LOCK_RESULT_ENUM

enum lock_state {
    LOCK_STATE_RELEASED, /* given back, or never had */
    LOCK_STATE_HELD,     /* mine until the local deadline, which renewal moves */
    LOCK_STATE_UNKNOWN, /* may be mine: the acquisition was not answered, or the server is silent */
    LOCK_STATE_LOST,    /* was mine: ran out, or was broken */
};

enum lock_mode { LOCK_MODE_WRITE, LOCK_MODE_READ };

struct lock_client; /* the servers as one process sees them: connections, the watchdog */
struct lock_owner;  /* who takes re-entrant locks: by default each thread is one */
struct lock_handle; /* one hold of one lock */

/* ---- client ---- */

struct lock_options {
    /* URLs, ended by NULL: redis://[user:password@]host[:port][/db],
     * mysql://user@host/db[?socket=], zookeeper://host:port[,host:port...][/path]. A kind uses
     * those of its scheme: "red" all of them, the others the first. Copied. */
    const char *const *servers;
    const char *prefix;      /* of every key, e.g. "shop:"; NULL: none */
    int lease_ms;            /* of holds that do not say theirs; 0: 30000 */
    int timeout_ms;          /* of one request to a server; 0: 1000 */
    int poll_ms;             /* a waiter asks at least this often, woken or not; 0: 1000 */
    int outage_ms;           /* a waiter bears unreachable servers for so long; 0: 1000 */
    int64_t (*now_ns)(void); /* monotonic clock for tests; NULL: CLOCK_MONOTONIC. See lock_poke */
    void *reserved[4];       /* NULL */
};

/* Makes a client; connects when first used. LOCK_OK, LOCK_CONFIG or LOCK_FAILED (no memory), with
 * the reason in lock_error. The caller closes it; *client_out is NULL unless LOCK_OK. */
LOCK_API enum lock_result lock_open(const struct lock_options *options,
                                    struct lock_client **client_out);

/* Stops the watchdog, closes every connection and sets the pointer to NULL. Holds are not released:
 * their leases end them (ZooKeeper's and GET_LOCK's end at once). All handles and owners must have
 * been freed before, and no thread may be in a call. */
LOCK_API void lock_close(struct lock_client **client);

/* The client's random id, 32 hexadecimal digits: every owner's text begins with it. Valid until the
 * process forks or the client is closed. */
LOCK_API const char *lock_client_id(struct lock_client *client);

/* Makes the client's watchdog look at the clock now: for tests, after moving an injected clock. */
LOCK_API void lock_poke(struct lock_client *client);

/* Counted since lock_open, over all threads. */
struct lock_stats {
    uint64_t acquired, busy, waits; /* tries that got the lock, that did not; sleeps of waiters */
    uint64_t renewals, renew_errors, lost;
    uint64_t watched; /* holds in the watchdog's care now */
};
LOCK_API struct lock_stats lock_client_stats(struct lock_client *client);

/* ---- owners ---- */

/* Makes an owner apart from the threads, for coroutines or thread pools, to be named in requests.
 * NULL: no memory. The caller frees it, after the handles taken for it. */
LOCK_API struct lock_owner *lock_owner_new(struct lock_client *client);
LOCK_API void lock_owner_free(struct lock_owner **owner);

/* ---- holds ---- */

struct lock_request {
    const char *name; /* 1 .. LOCK_NAME_MAX - 1 bytes, not beginning with '}' */
    enum lock_kind kind;
    enum lock_mode mode; /* of LOCK_KIND_READ_WRITE */
    int permits;         /* of semaphores; 0: 1 */
    int limit;           /* of semaphores: makes one with so many permits if there is none; 0: no */
    int wait_ms;         /* 0: one try; LOCK_FOREVER */
    int lease_ms;        /* 0: the client's */
    bool fixed_lease;    /* do not renew: the hold ends with its lease */
    int hold_ms_max;     /* stop renewing after so long; 0: never */
    int cancel_fd;       /* the wait ends when this becomes readable; 0: none */

    const struct lock_owner *owner; /* NULL: the calling thread */

    /* Called exactly once when a hold is lost before it was released, by the watchdog's thread for
     * that, at the local deadline at the latest unless that thread is itself kept from running. It
     * may ask the handle and release it, but neither free it nor block: nobody is told of another
     * loss meanwhile. After lock_release returned it is not running and will not be called. */
    void (*on_lost)(struct lock_handle *handle, void *context);
    void *context;
};

/* Acquires as the request says (copied, but for `owner`). With LOCK_OK the hold is in *handle_out.
 * With LOCK_UNKNOWN there is a handle too, in LOCK_STATE_UNKNOWN: lock_renew finds out,
 * lock_release gives back whatever it was. Otherwise *handle_out is NULL: LOCK_BUSY (not waited),
 * LOCK_TIMEOUT, LOCK_CANCELLED, LOCK_DEADLOCK, LOCK_FAILED, LOCK_UNSUPPORTED, LOCK_CONFIG.
 * A request whose answer was lost is sent again under the same id, which the servers recognise. */
LOCK_API enum lock_result lock_acquire(struct lock_client *client,
                                       const struct lock_request *request,
                                       struct lock_handle **handle_out);

/* Extends the lease to its full length from now, or finds out about an unknown hold. LOCK_OK,
 * LOCK_LOST, LOCK_NOT_OWNER (released), LOCK_FAILED, LOCK_UNKNOWN. Never acquires anew. */
LOCK_API enum lock_result lock_renew(struct lock_handle *handle);

/* Ends the renewal, then gives the hold back. LOCK_OK; LOCK_LOST: it had run out or was broken;
 * LOCK_NOT_OWNER: released before, or the parent's; LOCK_FAILED or LOCK_UNKNOWN: may be called
 * again, and else the lease ends it. The handle stays until lock_free. */
LOCK_API enum lock_result lock_release(struct lock_handle *handle);

/* Frees the handle and sets the pointer to NULL. A hold not released is renewed no more and ends
 * with its lease. Not from on_lost. NULL is nothing. */
LOCK_API void lock_free(struct lock_handle **handle);

/* Questions to a handle, answered without the server. */
LOCK_API enum lock_state lock_state(const struct lock_handle *handle);
LOCK_API int64_t lock_remaining_ms(const struct lock_handle *handle); /* 0 unless held */
LOCK_API uint64_t lock_fence(const struct lock_handle *handle);       /* 0: the kind has none */
LOCK_API int lock_hold_count(
    const struct lock_handle *handle); /* the owner's, when acquired; >= 1 */
LOCK_API const char *lock_name(const struct lock_handle *handle);
/* The text by which the server knows the holder; of a permit: its id. Valid as long as the
 * handle. */
LOCK_API const char *lock_token(const struct lock_handle *handle);

/* ---- several locks at once ---- */

struct lock_member {
    struct lock_client *client;
    struct lock_request request; /* its wait_ms is not used */
};

/* All members or none, whatever their kinds, taken in one global order (server, kind, name)
 * whatever the order given; a lock named twice is LOCK_CONFIG. What is held is renewed meanwhile.
 * The handles come in the order of the members; on anything but LOCK_OK nothing stays held and all
 * are NULL. */
LOCK_API enum lock_result lock_multi_acquire(const struct lock_member *members, size_t count,
                                             int wait_ms, struct lock_handle **handles_out);

/* Releases every hold, going on after errors: the first result that is not LOCK_OK. */
LOCK_API enum lock_result lock_multi_release(struct lock_handle *const *handles, size_t count);
LOCK_API void lock_multi_free(struct lock_handle **handles, size_t count);

/* ---- operators ---- */

struct lock_status {
    bool held;                   /* of a latch: it is set and not open */
    char holder[LOCK_TOKEN_MAX]; /* the writer, or one of the readers or permit holders */
    enum lock_mode mode;         /* of a read-write lock */
    int64_t count;               /* holds of the holder; readers; permits taken; a latch's count */
    int64_t limit;               /* permits there are; 0: no semaphore */
    int64_t waiting;             /* in the queue; -1: the kind keeps none */
    int64_t remaining_ms;        /* of the longest lease; -1: not limited or not known */
    uint64_t fence;              /* the last one given; 0: none */
};

/* What the server knows of a lock at the moment. LOCK_OK, also for one that nobody holds. */
LOCK_API enum lock_result lock_status(struct lock_client *client, enum lock_kind kind,
                                      const char *name, struct lock_status *status_out);

/* Takes the lock away from whoever holds it; waiters are woken. Its holder learns of it at its next
 * renewal. LOCK_OK; LOCK_NOT_OWNER: nobody held it. The fence stays. */
LOCK_API enum lock_result lock_break(struct lock_client *client, enum lock_kind kind,
                                     const char *name);

/* ---- semaphores ---- */

/* Sets how many permits there are (LOCK_KIND_SEMAPHORE or LOCK_KIND_PERMIT), now and from now on;
 * if more are taken, no new ones are given until enough are back. The setting is forgotten a week
 * after its last use. */
LOCK_API enum lock_result lock_semaphore_set(struct lock_client *client, enum lock_kind kind,
                                             const char *name, int limit);

/* Gives back, or extends the lease of, a permit of LOCK_KIND_PERMIT by its id (lock_token), from
 * any process. LOCK_OK or LOCK_LOST: not there (any more). */
LOCK_API enum lock_result lock_permit_release(struct lock_client *client, const char *name,
                                              const char *id);
LOCK_API enum lock_result lock_permit_extend(struct lock_client *client, const char *name,
                                             const char *id, int lease_ms);

/* ---- count-down latches ---- */

/* Sets a latch to `count` >= 1 for `ttl_ms` (0: one day). LOCK_OK; LOCK_BUSY: it is set already and
 * not open yet. */
LOCK_API enum lock_result lock_latch_set(struct lock_client *client, const char *name,
                                         int64_t count, int ttl_ms);

/* Counts down by one; `left_out` may be NULL. A repeat with the same `request` (1 ..
 * LOCK_TOKEN_MAX - 1 bytes, e.g. an order's id) counts once; NULL: a new id for this call.
 * LOCK_OK, also when it is open already; LOCK_CONFIG: it was never set, or is forgotten. */
LOCK_API enum lock_result lock_latch_count_down(struct lock_client *client, const char *name,
                                                const char *request, int64_t *left_out);

/* Waits until the latch is open. LOCK_OK, LOCK_TIMEOUT, or LOCK_CONFIG: it was never set, or is
 * forgotten. lock_latch_count: how many are left. */
LOCK_API enum lock_result lock_latch_await(struct lock_client *client, const char *name,
                                           int wait_ms);
LOCK_API enum lock_result lock_latch_count(struct lock_client *client, const char *name,
                                           int64_t *left_out);

/* ---- optimistic locking: values with versions ---- */

enum lock_store { LOCK_STORE_REDIS, LOCK_STORE_MYSQL };

enum { LOCK_VALUE_MAX = 65536 };

struct lock_value {
    uint64_t version; /* 0: there is none */
    size_t size;
    char *data; /* owned by the caller: at least LOCK_VALUE_MAX bytes */
};

/* Reads a value and its version. LOCK_OK also when there is none (version 0, size 0). */
LOCK_API enum lock_result lock_value_read(struct lock_client *client, enum lock_store store,
                                          const char *name, struct lock_value *value_out);

/* Writes the value if its version is still `value->version` (0: if there is none), and sets
 * value->version to the new one, which is greater. LOCK_OK; LOCK_BUSY: it was changed meanwhile;
 * LOCK_FAILED; LOCK_UNKNOWN. In Redis values are forgotten `ttl_ms` after their last change (0: a
 * week). */
LOCK_API enum lock_result lock_value_swap(struct lock_client *client, enum lock_store store,
                                          const char *name, struct lock_value *value, int ttl_ms);

/* Reads, lets `change` alter value->data and value->size, and swaps; again, after a random pause,
 * up to `tries_max` times when somebody was faster. `change` may run several times; it returns
 * false to leave the value as it is (LOCK_CANCELLED). LOCK_OK, LOCK_BUSY: every try lost. */
LOCK_API enum lock_result lock_value_update(struct lock_client *client, enum lock_store store,
                                            const char *name,
                                            bool (*change)(struct lock_value *value, void *context),
                                            void *context, int tries_max);

/* ---- words ---- */

/* What the calling thread's last failed call failed of; never NULL. Valid until its next call. */
LOCK_API const char *lock_error(void);

LOCK_API const char *lock_result_name(enum lock_result result); /* e.g. "not owner" */
LOCK_API const char *lock_state_name(enum lock_state state);
LOCK_API const char *lock_kind_name(enum lock_kind kind);
LOCK_API bool lock_kind_find(const char *name, enum lock_kind *kind_out);

/* Writes the reason why the kind with these servers is less safe than it could be ("" when there is
 * nothing to say): an evicting Redis, an even number of "red" servers, ... for a tool to print. */
LOCK_API enum lock_result lock_check(struct lock_client *client, enum lock_kind kind,
                                     char *warning_out, size_t size);

#ifdef __cplusplus
}
#endif

#endif
