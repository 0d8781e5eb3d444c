/* Distributed locks: leases with fencing tokens, over any of the drivers.
 *
 * A lock is named, leased and fenced. Its holder may die, sleep or lose its connection at any time:
 * the lease then ends by itself, and whoever takes the lock next gets a greater fence. What the
 * lock guards must refuse a fence smaller than one it has seen; without that no lock can promise
 * exclusion (see README.md). */
#ifndef LOCK_LOCK_H
#define LOCK_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LOCK_NAME_MAX = 96,   /* bytes of a name, with its NUL */
    LOCK_PREFIX_MAX = 32, /* bytes of a key prefix, with its NUL */
    LOCK_TOKEN_SIZE = 33, /* 128 random bits in hex, with the NUL */
    LOCK_GROUP_MAX = 4096,
};

enum lock_result {
    LOCK_OK,      /* done */
    LOCK_BUSY,    /* somebody else holds it */
    LOCK_TIMEOUT, /* somebody else held it for as long as the caller would wait */
    LOCK_LOST,    /* it was mine and is no more: the lease ran out */
    LOCK_FAILED,  /* certainly not done: the server cannot be reached or refused */
    LOCK_UNKNOWN, /* sent and not answered: it may be done; the lease bounds what that can mean */
};

enum lock_state { LOCK_RELEASED, LOCK_HELD, LOCK_IN_DOUBT, LOCK_GONE };

/* One hold of one lock. The caller owns the memory; the library fills it and only reads it later.
 * Valid as LOCK_HELD until `deadline_ns` on the monotonic clock and not a moment longer. */
struct lock_hold {
    char name[LOCK_NAME_MAX];
    char prefix[LOCK_PREFIX_MAX];
    char token[LOCK_TOKEN_SIZE];
    enum lock_state state;
    uint64_t fence; /* grows with every acquisition of this name */
    int lease_ms;
    int64_t deadline_ns;
};

struct lock_options {
    const char *kind;         /* "redis" */
    const char *url;          /* of the lock server */
    const char *prefix;       /* of every key, e.g. "seckill:" */
    int lease_ms;             /* for which a lock is held unless renewed or released */
    int timeout_ms;           /* of one request to the server */
    int64_t (*now_ns)(void);  /* monotonic clock; NULL: CLOCK_MONOTONIC */
    void (*sleep_ms)(int ms); /* NULL: nanosleep */
};

struct lock_client;

/* Makes a client of one lock server; connects when first used. One thread at a time. NULL with the
 * reason in `error_out` when the kind is not known or an option is wrong. */
struct lock_client *lock_open(const struct lock_options *options, char *error_out,
                              size_t error_size);

/* Frees the client and sets the pointer to NULL. Holds are not released: their leases end them. */
void lock_close(struct lock_client **client);

/* One try, no waiting. LOCK_OK, LOCK_BUSY, LOCK_FAILED or LOCK_UNKNOWN (then the hold is
 * LOCK_IN_DOUBT; lock_release settles it). `name` is cut by nobody: it must be shorter than
 * LOCK_NAME_MAX. */
enum lock_result lock_try(struct lock_client *client, const char *name, struct lock_hold *hold_out);

/* Tries until acquired or `wait_ms` have passed (LOCK_TIMEOUT). */
enum lock_result lock_acquire(struct lock_client *client, const char *name, int wait_ms,
                              struct lock_hold *hold_out);

/* Extends the lease to its full length from now. LOCK_OK, LOCK_LOST, LOCK_FAILED, LOCK_UNKNOWN.
 * Never acquires anew. */
enum lock_result lock_renew(struct lock_client *client, struct lock_hold *hold);

/* Gives the lock back. LOCK_OK, LOCK_LOST (it had run out), LOCK_FAILED or LOCK_UNKNOWN (the lease
 * will end it). Releasing twice is harmless: LOCK_OK. */
enum lock_result lock_release(struct lock_client *client, struct lock_hold *hold);

/* Multi lock: all of `names` or none, in the given order, which must be the same global order for
 * all callers. What is held is renewed while waiting for the rest. On anything but LOCK_OK nothing
 * stays held. `holds_out` has room for `count` <= LOCK_GROUP_MAX. */
enum lock_result lock_group_acquire(struct lock_client *client, const char *const *names,
                                    size_t count, int wait_ms, struct lock_hold *holds_out);

/* Releases every hold of the group, going on after errors. */
void lock_group_release(struct lock_client *client, struct lock_hold *holds, size_t count);

/* Time for which the hold is still valid, in ms; 0 when it is not. */
int64_t lock_remaining_ms(const struct lock_client *client, const struct lock_hold *hold);

/* The last error in words. */
const char *lock_error(const struct lock_client *client);

/* A word for a result, e.g. "busy". */
const char *lock_result_name(enum lock_result result);

#endif
