/* Distributed locks: leases with fencing tokens, over Redis, MySQL, ZooKeeper and etcd.
 *
 * A lock has a name, a lease and a fence. The holder may die, sleep or lose its connection at any
 * time: the lease then ends by itself, and the next holder gets a greater fence. The resource that
 * the lock guards must refuse every fence smaller than one it has seen; without that check no lock
 * can promise exclusion (README.md says why).
 *
 * Threads: any number of threads may use a client and its owners at once. A handle belongs to one
 * thread at a time, but any thread may call seclock_state, seclock_remaining_ms, seclock_fence and
 * the other functions that only read a handle. No function is safe in a signal handler; the
 * library's own threads block all signals.
 *
 * Cancellation: seclock_acquire, _renew, _release, _free, _multi_acquire and _latch_await put off a
 * pthread_cancel of their thread until they return, so end a wait by cancel_fd first. A thread that
 * is cancelled in another call leaves a connection open.
 *
 * Fork: in the child every client behaves as if just opened, with a new id. The parent's handles do
 * not belong to the child: there their state is SECLOCK_STATE_LOST (on_lost is not called), and
 * releasing one sends nothing.
 *
 * Versions: later releases append fields to the structs that begin with `size`. The caller sets
 * `size` to the size that it was compiled with, which the SECLOCK_...() macros do; 0 in a new field
 * keeps the former behaviour. A library older than its caller refuses (SECLOCK_CONFIG) a field that
 * it does not know, unless it is 0. All other structs keep their fields.
 *
 * The library writes no log of its own (see seclock_options.log), reads no configuration and does
 * not exit. */
#ifndef LOCK_SECLOCK_H
#define LOCK_SECLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SECLOCK_API __attribute__((visibility("default")))
#else
#define SECLOCK_API
#endif

/* A struct with its size and the fields given, all others 0:
 * SECLOCK_REQUEST(.name = "report", .wait_ms = 5000). In C it has an address; in C++ it is a
 * temporary, which initialises a variable whose address you take. C before C99 and C++ before C++20
 * have no such initialisers: zero the struct there, then set `size` and the fields. */
#ifdef __cplusplus
#define SECLOCK_SIZED(type, ...) (type{.size = sizeof(type), __VA_ARGS__})
#else
#define SECLOCK_SIZED(type, ...) ((struct type){.size = sizeof(struct type), __VA_ARGS__})
#endif
#define SECLOCK_OPTIONS(...) SECLOCK_SIZED(seclock_options, __VA_ARGS__)
#define SECLOCK_REQUEST(...) SECLOCK_SIZED(seclock_request, __VA_ARGS__)
#define SECLOCK_MULTI(...) SECLOCK_SIZED(seclock_multi, __VA_ARGS__)
#define SECLOCK_STATUS() SECLOCK_SIZED(seclock_status, )
#define SECLOCK_STATS() SECLOCK_SIZED(seclock_stats, )
#define SECLOCK_KIND_STATS() SECLOCK_SIZED(seclock_kind_stats, )
#define SECLOCK_EVENT() SECLOCK_SIZED(seclock_event, )
#define SECLOCK_LEADER() SECLOCK_SIZED(seclock_leader, )

enum {
    SECLOCK_NAME_MAX = 96,   /* bytes of a name, with its NUL */
    SECLOCK_PREFIX_MAX = 32, /* bytes of a key prefix, with its NUL */
    SECLOCK_TOKEN_MAX = 80,  /* bytes of the text of an owner or a request, with its NUL */
    SECLOCK_MULTI_MAX = 4096,
    SECLOCK_PERMITS_MAX = 1000, /* permits of one acquisition */
    SECLOCK_LEASE_MS_MIN = 10,
    SECLOCK_LEASE_MS_MAX = 86400000,
    SECLOCK_FOREVER = -1,           /* as a wait_ms */
    SECLOCK_LEADER_VALUE_MAX = 256, /* bytes of what a leader proclaims, with its NUL */
};

/* The kinds of lock: identifier, name, URL scheme of the servers it uses, and what it does.
 * README.md says when to use which. */
#define SECLOCK_KINDS(X)                                                                           \
    X(SIMPLE, "simple", "redis", "one holder; not re-entrant")                                     \
    X(REENTRANT, "reentrant", "redis", "one owner, who may take it several times")                 \
    X(TIMESTAMP, "timestamp", "redis", "one holder, without server scripts (WATCH and MULTI)")     \
    X(SPIN, "spin", "redis", "one holder; waits without publish and subscribe")                    \
    X(FAIR, "fair", "redis", "one owner, first come first served; re-entrant")                     \
    X(READ_WRITE, "read-write", "redis", "many readers or one writer; re-entrant")                 \
    X(SEMAPHORE, "semaphore", "redis", "up to N permits, renewed while their holder lives")        \
    X(PERMIT, "permit", "redis", "up to N permits of fixed lease, given back by anybody by id")    \
    X(LATCH, "latch", "redis", "count-down latch: seclock_latch_... only")                         \
    X(RED, "red", "redis", "one holder by the majority of several independent servers; no fence")  \
    X(TABLE, "table", "mysql", "a row of the table distributed_lock; re-entrant")                  \
    X(GET_LOCK, "get-lock", "mysql",                                                               \
      "MySQL's GET_LOCK; with its connection; not re-entrant; no fence")                           \
    X(QUEUE, "queue", "zookeeper", "first come first served; with its session; re-entrant")        \
    X(ETCD, "etcd", "etcd", "many readers or one writer, first come first served")

#define SECLOCK_KIND_ENUM(id, name, scheme, what) SECLOCK_KIND_##id,
enum seclock_kind { SECLOCK_KINDS(SECLOCK_KIND_ENUM) SECLOCK_KIND_COUNT };
#undef SECLOCK_KIND_ENUM

/* The outcome of a call. Only SECLOCK_OK means done; only SECLOCK_UNKNOWN leaves open whether the
 * request was carried out. */
#define SECLOCK_RESULTS(X)                                                                         \
    X(OK, "ok")                   /* done */                                                       \
    X(BUSY, "busy")               /* another holds the lock, or changed the value meanwhile */     \
    X(TIMEOUT, "timeout")         /* the lock stayed busy until wait_ms had passed */              \
    X(CANCELLED, "cancelled")     /* cancel_fd became readable, or `change` declined */            \
    X(DEADLOCK, "deadlock")       /* refused: the caller would wait for itself */                  \
    X(NOT_OWNER, "not owner")     /* the caller never held it, or has already released it */       \
    X(LOST, "lost")               /* the caller held it until the lease expired or was broken */   \
    X(UNKNOWN, "unknown")         /* sent and not answered: it may be done */                      \
    X(FAILED, "failed")           /* certainly not done: no server, no memory, refused */          \
    X(UNSUPPORTED, "unsupported") /* this kind cannot do that, or is not built in */               \
    X(CONFIG, "config")           /* an argument or the server's state makes it impossible */

#define SECLOCK_RESULT_ENUM(id, name) SECLOCK_##id,
enum seclock_result { SECLOCK_RESULTS(SECLOCK_RESULT_ENUM) SECLOCK_RESULT_COUNT };
#undef SECLOCK_RESULT_ENUM

enum seclock_state {
    SECLOCK_STATE_RELEASED, /* released, or never acquired */
    SECLOCK_STATE_HELD,     /* held until the local deadline, which each renewal moves */
    SECLOCK_STATE_UNKNOWN,  /* maybe held: an acquisition or renewal was not answered */
    SECLOCK_STATE_LOST,     /* the lease expired or was broken */
};

/* Why a hold is SECLOCK_STATE_LOST, as far as this process knows. */
#define SECLOCK_LOSSES(X)                                                                          \
    X(NONE, "not lost")                                                                            \
    X(UNANSWERED, "no renewal was answered before its lease ended")                                \
    X(FORGOTTEN, "the server does not know it any more: broken, expired there, or the data gone")  \
    X(TAKEN, "another holds the lock")                                                             \
    X(SESSION, "its session or connection has ended")                                              \
    X(ENDED, "its time was over: a fixed lease, or hold_ms_max")                                   \
    X(PARENT, "it belongs to the parent of this process")

#define SECLOCK_LOSS_ENUM(id, text) SECLOCK_LOSS_##id,
enum seclock_loss { SECLOCK_LOSSES(SECLOCK_LOSS_ENUM) SECLOCK_LOSS_COUNT };
#undef SECLOCK_LOSS_ENUM

enum seclock_mode { SECLOCK_MODE_WRITE, SECLOCK_MODE_READ };

struct seclock_client; /* the servers as one process sees them: connections, the watchdog */
struct seclock_owner;  /* the owner of re-entrant locks: by default each thread is one */
struct seclock_handle; /* one hold: one successful acquisition of one lock */

/* ---- client ---- */

struct seclock_options {
    size_t size; /* see Versions above */
    /* URLs, ended by NULL: redis://[user:password@]host[:port][/db],
     * mysql://user@host/db[?socket=], zookeeper://[user:password@]host[:port][,host...][/path],
     * etcd://[user:password@]host[:port][,host[:port]...]. Of Redis also rediss:// (TLS;
     * ?ca=/path), redis+unix:///path, redis+sentinel://host,host/name and
     * redis+cluster://host,host; of MySQL mysqls://, of etcd etcds:// (TLS as well). The kind "red"
     * uses all URLs of its servers, every other kind the first of its own. Copied. */
    const char *const *servers;
    const char *prefix;      /* of every key, e.g. "shop:"; NULL: none */
    int lease_ms;            /* of requests without a lease_ms of their own; 0: 30000 */
    int timeout_ms;          /* of one request to a server, or of one try; 0: 1000 */
    int poll_ms;             /* a waiter tries at least this often, woken or not; 0: 1000 */
    int outage_ms;           /* a waiter goes on for so long while no server answers; 0: 1000 */
    int64_t (*now_ns)(void); /* a monotonic clock for tests (seclock_poke); NULL: CLOCK_BOOTTIME */

    /* Told what no call returns: a hold that was lost and why; the first renewal that fails after
     * others were answered, with its reason; and the first that is answered again. From a thread of
     * the library, which waits for it; `text` is valid during the call. NULL: none. */
    void (*log)(void *context, const char *text);
    void *log_context;
};

/* Makes a client, which connects when first used. SECLOCK_OK, SECLOCK_CONFIG or SECLOCK_FAILED (no
 * memory), with the reason in seclock_error. The caller closes the client; *client_out is NULL
 * unless SECLOCK_OK. */
SECLOCK_API enum seclock_result seclock_open(const struct seclock_options *options,
                                             struct seclock_client **client_out);

/* Stops the watchdog, closes every connection and sets the pointer to NULL. Releases no hold:
 * leases end by themselves (those of ZooKeeper and GET_LOCK at once). No thread may be in a call.
 * The caller should have freed all handles and owners before: a remaining handle is not renewed,
 * has no on_lost, and keeps its connections until it is freed. */
SECLOCK_API void seclock_close(struct seclock_client **client);

/* The client's id, 32 hexadecimal digits, of which the first 18 are random: every owner's text
 * begins with it. Valid until the process forks or the client is closed. */
SECLOCK_API const char *seclock_client_id(struct seclock_client *client);

/* Makes the client's watchdog look at the clock now: for tests, after moving an injected clock. */
SECLOCK_API void seclock_poke(struct seclock_client *client);

/* Counts since seclock_open, over all threads. */
struct seclock_stats {
    size_t size;                    /* see Versions above */
    uint64_t acquired, busy, waits; /* tries that acquired, tries that did not; sleeps of waiters */
    uint64_t renewals, renew_errors, lost;
    uint64_t watched; /* holds in the watchdog's care now */
};

/* SECLOCK_OK, SECLOCK_CONFIG (no size) or SECLOCK_FAILED (no memory, after a fork). */
SECLOCK_API enum seclock_result seclock_client_stats(struct seclock_client *client,
                                                     struct seclock_stats *stats_out);

/* The same of one kind, and how long its acquisitions and its holds took. */
enum { SECLOCK_BUCKETS = 40 };

struct seclock_kind_stats {
    size_t size; /* see Versions above */
    uint64_t acquired, busy, waits, renewals, renew_errors, lost;

    /* Durations by powers of two: bucket 0 counts those below 1 us, bucket i those from 2^(i-1) us
     * to below 2^i us. From the call to the acquisition, and from there to the release. */
    uint64_t acquire_us[SECLOCK_BUCKETS], hold_us[SECLOCK_BUCKETS];
};

/* SECLOCK_OK, SECLOCK_CONFIG (no size or no such kind) or SECLOCK_FAILED (no memory, after a
 * fork). */
SECLOCK_API enum seclock_result seclock_kind_stats(struct seclock_client *client,
                                                   enum seclock_kind kind,
                                                   struct seclock_kind_stats *stats_out);

/* ---- owners ---- */

/* Makes an owner that is not tied to a thread, to be named in requests, for coroutines or thread
 * pools. NULL: no memory. The caller frees the owner, after the handles taken for it. */
SECLOCK_API struct seclock_owner *seclock_owner_new(struct seclock_client *client);
SECLOCK_API void seclock_owner_free(struct seclock_owner **owner);

/* ---- holds ---- */

struct seclock_request {
    size_t size;      /* see Versions above */
    const char *name; /* 1 .. SECLOCK_NAME_MAX - 1 bytes, not beginning with '}' */
    enum seclock_kind kind;
    enum seclock_mode mode; /* of SECLOCK_KIND_READ_WRITE and SECLOCK_KIND_ETCD */
    int permits;            /* of semaphores; 0: 1 */
    int limit;              /* of semaphores: the number of permits if not set yet; 0: leaves it */
    int wait_ms;            /* 0: one try; SECLOCK_FOREVER */
    int lease_ms;           /* 0: the client's */
    bool fixed_lease;       /* do not renew: the hold ends with its lease */
    int hold_ms_max;        /* stop renewing after this time; 0: never */
    int cancel_fd;          /* the wait ends when this becomes readable; 0: no descriptor */

    const struct seclock_owner *owner; /* NULL: the calling thread */

    /* Called exactly once when a hold is lost before its release, by the watchdog's notifier
     * thread, at the local deadline at the latest unless that thread itself gets no processor time
     * (up to a second after the host has slept).
     * The callback may read the handle and release it, but must neither free it nor block: other
     * losses are notified only after it returns. Once seclock_release has returned, the callback is
     * not running and will not be called. */
    void (*on_lost)(struct seclock_handle *handle, void *context);
    void *context;

    uint64_t generation; /* of a latch: seclock_latch_set's; 0: whatever it is set to */
};

/* Acquires as the request says (copied, but for `owner`). SECLOCK_OK: *handle_out has the hold.
 * SECLOCK_UNKNOWN: *handle_out has a handle in SECLOCK_STATE_UNKNOWN; seclock_renew finds out,
 * seclock_release gives back whatever was acquired. Otherwise *handle_out is NULL: SECLOCK_BUSY
 * (without waiting), SECLOCK_TIMEOUT, SECLOCK_CANCELLED, SECLOCK_DEADLOCK, SECLOCK_FAILED,
 * SECLOCK_UNSUPPORTED, SECLOCK_CONFIG. It returns within wait_ms and about one timeout_ms more,
 * also when a server is silent. When an answer is lost, the request is sent again under the same
 * id, which the servers recognise. */
SECLOCK_API enum seclock_result seclock_acquire(struct seclock_client *client,
                                                const struct seclock_request *request,
                                                struct seclock_handle **handle_out);

/* Extends the lease to its full length from now, or finds out about an unknown hold. SECLOCK_OK,
 * SECLOCK_LOST, SECLOCK_NOT_OWNER (released), SECLOCK_FAILED, SECLOCK_UNKNOWN. Never acquires
 * again. */
SECLOCK_API enum seclock_result seclock_renew(struct seclock_handle *handle);

/* Ends the renewal, then releases the hold. SECLOCK_OK; SECLOCK_LOST: the lease had expired or was
 * broken; SECLOCK_NOT_OWNER: released before, or the parent's; SECLOCK_FAILED or SECLOCK_UNKNOWN:
 * the caller may try again, otherwise the lease ends by itself. The handle stays until
 * seclock_free. */
SECLOCK_API enum seclock_result seclock_release(struct seclock_handle *handle);

/* Frees the handle and sets the pointer to NULL. The renewal of an unreleased hold stops, so that
 * it ends with its lease. Not from on_lost. NULL does nothing. */
SECLOCK_API void seclock_free(struct seclock_handle **handle);

/* Questions to a handle, answered without the server. */
SECLOCK_API enum seclock_state seclock_state(const struct seclock_handle *handle);
SECLOCK_API int64_t seclock_remaining_ms(const struct seclock_handle *handle); /* 0 unless held */

/* Why the hold was lost, also after its release; SECLOCK_LOSS_NONE: it was not. */
SECLOCK_API enum seclock_loss seclock_loss(const struct seclock_handle *handle);

/* 0: the kind has no fence. Of a reader: the last writer's, on etcd its own, both smaller than that
 * of any later writer; of permits: their own number, which does not order them, as several are held
 * together. */
SECLOCK_API uint64_t seclock_fence(const struct seclock_handle *handle);

/* The number of the owner's holds at the time of this acquisition, this one included. */
SECLOCK_API int seclock_hold_count(const struct seclock_handle *handle);
SECLOCK_API const char *seclock_name(const struct seclock_handle *handle);

/* The text by which the server knows the holder; of a permit: its id. Valid as long as the
 * handle. */
SECLOCK_API const char *seclock_token(const struct seclock_handle *handle);

/* ---- the form for event loops ----
 *
 * A program that waits by poll(2), epoll, libuv or libevent makes a loop of its client, waits until
 * the loop's descriptor is readable, and takes events until there are none. What it begins here
 * ends with an event, and nothing here waits for a server, but seclock_loop_close and seclock_free
 * of a hold that is not released.
 *
 * Rules: a loop, and the handles that it made, belong to one thread at a time. A handle has one
 * operation at a time: the next begins after the event of the last, and so does seclock_free. Holds
 * are renewed by the client's watchdog, as all others are. Scripts go to one Redis server (also by
 * TLS, or one that sentinels name) in one pipeline, on the loop's own thread. What the client
 * library of a server would wait for is left to a few threads of the loop, at most four for each
 * kind of server: connecting, Redis Cluster, and the kinds timestamp, red, table, get-lock, queue.
 * A loop does not survive a fork: the child may only close it. */

struct seclock_loop;

enum seclock_event_kind {
    SECLOCK_EVENT_ACQUIRED, /* an acquisition, or the wait for a latch, has ended */
    SECLOCK_EVENT_RENEWED,
    SECLOCK_EVENT_RELEASED,
    SECLOCK_EVENT_LOST, /* a hold was lost before its release: once, as on_lost */
};

struct seclock_event {
    size_t size; /* see Versions above */
    enum seclock_event_kind kind;
    enum seclock_result result; /* as of seclock_acquire, _renew, _release; SECLOCK_LOST */
    struct seclock_handle *handle;
    void *context; /* of the request */
};

/* Makes a loop. SECLOCK_OK or SECLOCK_FAILED (no memory or descriptors). The caller closes it after
 * it has freed its handles, and before the client. A loop that is closed earlier ends what is under
 * way without events, after the calls that its threads have begun. */
SECLOCK_API enum seclock_result seclock_loop_open(struct seclock_client *client,
                                                  struct seclock_loop **loop_out);
SECLOCK_API void seclock_loop_close(struct seclock_loop **loop);

/* The descriptor, an epoll(7)'s: to be polled for reading, and for nothing else. */
SECLOCK_API int seclock_loop_fd(const struct seclock_loop *loop);

/* Goes on with whatever can go on, and takes the next event. False: there is none; wait for the
 * descriptor. seclock_error then gives the reason of an event that is not SECLOCK_OK. */
SECLOCK_API bool seclock_loop_next(struct seclock_loop *loop, struct seclock_event *event_out);

/* Begins to acquire: SECLOCK_OK, and *handle_out ends with SECLOCK_EVENT_ACQUIRED, whose result is
 * one of seclock_acquire's. The caller frees the handle, whatever the result. Otherwise nothing has
 * begun and *handle_out is NULL: SECLOCK_CONFIG, SECLOCK_UNSUPPORTED, SECLOCK_FAILED. The request
 * has no cancel_fd and no on_lost: see seclock_loop_cancel and SECLOCK_EVENT_LOST. */
SECLOCK_API enum seclock_result seclock_loop_acquire(struct seclock_loop *loop,
                                                     const struct seclock_request *request,
                                                     struct seclock_handle **handle_out);

/* Begins to wait for a latch, as the request's name, generation, wait_ms and context say; the rest
 * of it is not used. As seclock_loop_acquire; the handle is only for seclock_loop_cancel and
 * seclock_free. */
SECLOCK_API enum seclock_result seclock_loop_await(struct seclock_loop *loop,
                                                   const struct seclock_request *request,
                                                   struct seclock_handle **handle_out);

/* Begin to renew and to release a hold. SECLOCK_OK: an event follows. SECLOCK_CONFIG: the handle is
 * not of this loop, or its last operation has not ended. */
SECLOCK_API enum seclock_result seclock_loop_renew(struct seclock_loop *loop,
                                                   struct seclock_handle *handle);
SECLOCK_API enum seclock_result seclock_loop_release(struct seclock_loop *loop,
                                                     struct seclock_handle *handle);

/* Ends the wait of an acquisition: its event comes soon, mostly SECLOCK_CANCELLED; it may be
 * SECLOCK_OK. Does nothing when none is under way. */
SECLOCK_API void seclock_loop_cancel(struct seclock_loop *loop, struct seclock_handle *handle);

/* ---- leader election ----
 *
 * A leader is the holder of a lock who has proclaimed a value, such as its address. The hold is one
 * as any other: renewed by the watchdog, told of its loss by on_lost, released to resign. Its fence
 * is the leader's term. The value belongs to the hold: it counts as long as the hold stands at the
 * server, and needs no clean-up. Of the kinds without a fence that orders holders (semaphore,
 * permit, latch, red, get-lock), and for readers, each function gives SECLOCK_UNSUPPORTED.
 *
 * A leader that sleeps through its lease may believe for a moment that it still leads. So whatever
 * it writes elsewhere has to carry the term, and be refused there after a greater one. */

struct seclock_leader {
    size_t size;                          /* see Versions above */
    bool led;                             /* somebody leads; otherwise the rest is empty */
    uint64_t term;                        /* the leader's fence */
    char holder[SECLOCK_TOKEN_MAX];       /* the leader's seclock_token */
    char value[SECLOCK_LEADER_VALUE_MAX]; /* what it proclaimed last */
};

/* Acquires as seclock_acquire does, and proclaims the value. SECLOCK_OK: the caller leads until the
 * hold is lost or released. SECLOCK_UNKNOWN: *handle_out has a hold, and whether it holds or its
 * value is proclaimed is in doubt; seclock_proclaim finds out, seclock_release gives it up.
 * Otherwise *handle_out is NULL, and the results are those of seclock_acquire; SECLOCK_FAILED also
 * when the lock was acquired and the value certainly not proclaimed: then it is released, or ends
 * with its lease. */
SECLOCK_API enum seclock_result seclock_campaign(struct seclock_client *client,
                                                 const struct seclock_request *request,
                                                 const char *value,
                                                 struct seclock_handle **handle_out);

/* Proclaims a value (0 .. SECLOCK_LEADER_VALUE_MAX - 1 bytes) in place of the last one, and renews
 * the lease as seclock_renew does; any hold may, not only one of seclock_campaign. The server does
 * it only while the hold stands, in one step with the look, and a sending that comes late undoes no
 * later proclamation. SECLOCK_OK; SECLOCK_LOST: the term is over; SECLOCK_NOT_OWNER: released;
 * SECLOCK_FAILED: the former value stays; SECLOCK_UNKNOWN: either may be there until the value is
 * proclaimed again. Of holds of one owner, the one that proclaimed is to be released last. */
SECLOCK_API enum seclock_result seclock_proclaim(struct seclock_handle *handle, const char *value);

/* Does the same in a loop: SECLOCK_EVENT_RENEWED follows, with one of these results. An election in
 * a loop is seclock_loop_acquire and then this; seclock_leader and seclock_observe wait. */
SECLOCK_API enum seclock_result seclock_loop_proclaim(struct seclock_loop *loop,
                                                      struct seclock_handle *handle,
                                                      const char *value);

/* Resigns: releases the hold. The value ends with it. */
static inline enum seclock_result seclock_resign(struct seclock_handle *handle)
{
    return seclock_release(handle);
}

/* Asks who leads. SECLOCK_OK, also when nobody does; SECLOCK_FAILED. */
SECLOCK_API enum seclock_result seclock_leader(struct seclock_client *client,
                                               enum seclock_kind kind, const char *name,
                                               struct seclock_leader *leader_out);

/* Waits for news of the leader: until there is another one, or none, or another value than
 * `leader` says, which then has the news. Begin with SECLOCK_LEADER(), which knows of none. Of the
 * request it uses name, kind, wait_ms and cancel_fd. Proclamations end the sleep at once on Redis,
 * but for the kind spin; all else, such as a leader's end, is learnt by asking every poll_ms of the
 * client. News that come fast may be skipped, but never the last.
 * SECLOCK_OK; SECLOCK_TIMEOUT; SECLOCK_CANCELLED; SECLOCK_FAILED: no server answered for outage_ms.
 * Unless SECLOCK_OK, `leader` stays as it was. */
SECLOCK_API enum seclock_result seclock_observe(struct seclock_client *client,
                                                const struct seclock_request *request,
                                                struct seclock_leader *leader);

/* ---- several locks at once ---- */

struct seclock_multi {
    size_t size;                                   /* see Versions above */
    size_t count;                                  /* of the locks, 1 .. SECLOCK_MULTI_MAX */
    const struct seclock_request *const *requests; /* whose wait_ms and cancel_fd are not used */
    struct seclock_client *client;
    struct seclock_client *const *clients; /* one for each request; NULL: `client` for all */
    int wait_ms;                           /* for all locks together; 0: one try of each */
    int cancel_fd;                         /* the wait ends when this becomes readable; 0: none */
};

/* Acquires all locks or none, of any kinds, in one global order (kind, name, server); a lock named
 * twice is SECLOCK_CONFIG. Holds acquired first are renewed while the call waits for the others;
 * SECLOCK_LOST: one of them was lost meanwhile. The other results are as of seclock_acquire. The
 * handles come in the order of the requests; unless SECLOCK_OK, nothing stays held and all handles
 * are NULL. After SECLOCK_UNKNOWN, one of the locks may stay until its lease ends. */
SECLOCK_API enum seclock_result seclock_multi_acquire(const struct seclock_multi *multi,
                                                      struct seclock_handle **handles_out);

/* Releases every hold, going on after errors. Returns the first result that is not SECLOCK_OK. */
SECLOCK_API enum seclock_result seclock_multi_release(struct seclock_handle *const *handles,
                                                      size_t count);
SECLOCK_API void seclock_multi_free(struct seclock_handle **handles, size_t count);

/* ---- operators ---- */

struct seclock_status {
    size_t size;                    /* see Versions above */
    bool held;                      /* a latch: set and not open */
    char holder[SECLOCK_TOKEN_MAX]; /* the writer, or one of the readers or permit holders */
    enum seclock_mode mode;         /* of a read-write lock */
    int64_t count;        /* the holder's holds; readers; permits taken; a latch's count */
    int64_t limit;        /* permits in all; 0: not a semaphore */
    int64_t waiting;      /* waiters in the queue; -1: the kind keeps no queue */
    int64_t remaining_ms; /* of the longest lease; -1: not limited or not known */
    uint64_t fence;       /* the last one given; 0: none */
    int64_t holder_pid;   /* the holder's process, on its host; 0: not known */
    char holder_host[48]; /* an address of the holder's host; "": not known */
};

/* Asks the server about a lock. SECLOCK_OK, also for a lock that nobody holds. */
SECLOCK_API enum seclock_result seclock_status(struct seclock_client *client,
                                               enum seclock_kind kind, const char *name,
                                               struct seclock_status *status_out);

/* Takes the lock away from its holder and wakes the waiters. The holder learns of it at its next
 * renewal. SECLOCK_OK; SECLOCK_NOT_OWNER: nobody held the lock; SECLOCK_UNKNOWN: an answer was
 * lost, and seclock_status tells whether somebody holds the lock. The fence stays. */
SECLOCK_API enum seclock_result seclock_break(struct seclock_client *client, enum seclock_kind kind,
                                              const char *name);

/* Writes why the kind with these servers is less safe than it could be, for a tool to print ("": no
 * reason): an evicting Redis, an even number of "red" servers, ... */
SECLOCK_API enum seclock_result seclock_check(struct seclock_client *client, enum seclock_kind kind,
                                              char *warning_out, size_t size);

/* ---- semaphores ---- */

/* Sets the number of permits (SECLOCK_KIND_SEMAPHORE or SECLOCK_KIND_PERMIT), now and from now on;
 * while more are taken, no new ones are given. The server forgets the setting a week after its last
 * use. */
SECLOCK_API enum seclock_result seclock_semaphore_set(struct seclock_client *client,
                                                      enum seclock_kind kind, const char *name,
                                                      int limit);

/* Releases, or extends the lease of, a permit of SECLOCK_KIND_PERMIT by its id (seclock_token),
 * from any process. SECLOCK_OK or SECLOCK_LOST: the permit has ended. */
SECLOCK_API enum seclock_result seclock_permit_release(struct seclock_client *client,
                                                       const char *name, const char *id);
SECLOCK_API enum seclock_result seclock_permit_extend(struct seclock_client *client,
                                                      const char *name, const char *id,
                                                      int lease_ms);

/* ---- count-down latches ---- */

/* Sets a latch to `count` >= 1 for `ttl_ms` (0: one day). SECLOCK_OK; SECLOCK_BUSY: the latch is
 * set already and not open yet. Each setting is a generation, with a number of its own, so that a
 * latch can be used round after round: who names the generation neither counts down nor awaits
 * another one. `generation_out` may be NULL. */
SECLOCK_API enum seclock_result seclock_latch_set(struct seclock_client *client, const char *name,
                                                  int64_t count, int ttl_ms,
                                                  uint64_t *generation_out);

/* Counts down by one, if the latch is still of this generation (0: of any); `left_out` may be NULL.
 * A repeat with the same `request` (1 .. SECLOCK_TOKEN_MAX - 1 bytes, e.g. an order's id) counts
 * once until the latch is set again; NULL: a new id for this call. SECLOCK_OK, also when the latch
 * is open already; SECLOCK_CONFIG: it was never set, or is forgotten; SECLOCK_LOST: the generation
 * ended before it was open (broken or forgotten), and the latch has been set again. */
SECLOCK_API enum seclock_result seclock_latch_count_down(struct seclock_client *client,
                                                         const char *name, uint64_t generation,
                                                         const char *request, int64_t *left_out);

/* Waits until the latch is open, as the request's name, generation, wait_ms and cancel_fd say; the
 * rest of it is not used. SECLOCK_OK, also when the generation was open and the latch has been set
 * once more since; SECLOCK_TIMEOUT, SECLOCK_CANCELLED; SECLOCK_FAILED: no server answered for
 * outage_ms; SECLOCK_CONFIG and SECLOCK_LOST as above. seclock_latch_count gives the count that is
 * left. */
SECLOCK_API enum seclock_result seclock_latch_await(struct seclock_client *client,
                                                    const struct seclock_request *request);
SECLOCK_API enum seclock_result seclock_latch_count(struct seclock_client *client, const char *name,
                                                    int64_t *left_out);

/* ---- memory ---- */

/* Sets the functions from which the library has its memory, as malloc(3), realloc(3) and free(3)
 * are by default: any thread may call them, also the library's own, and they may return NULL, as no
 * memory. `use_realloc` gets NULL for a new block; `use_free` never gets NULL. Call it before every
 * other function, once. The client libraries of the servers (hiredis, OpenSSL, ...) go on with
 * malloc, or with hooks of their own. */
SECLOCK_API void seclock_use_memory(void *(*use_malloc)(size_t size),
                                    void *(*use_realloc)(void *block, size_t size),
                                    void (*use_free)(void *block));

/* ---- text ---- */

/* The reason of the calling thread's last failed call, on any client or handle; never NULL. Each
 * thread has its own text, so threads that share a client or a handle do not overwrite each
 * other's. Valid until the thread's next call; a call that succeeds leaves the text as it was, so
 * ask only after a failure. A loss that a watchdog notices shows in seclock_state. */
SECLOCK_API const char *seclock_error(void);

SECLOCK_API const char *seclock_result_name(enum seclock_result result); /* e.g. "not owner" */
SECLOCK_API const char *seclock_state_name(enum seclock_state state);
SECLOCK_API const char *seclock_loss_name(
    enum seclock_loss loss); /* e.g. "another holds the lock" */
SECLOCK_API const char *seclock_kind_name(enum seclock_kind kind);
SECLOCK_API bool seclock_kind_find(const char *name, enum seclock_kind *kind_out);

#ifdef __cplusplus
}
#endif

#endif
