/* The keys of locks, and the simple lock in halves, for callers that send their own scripts in the
 * round trip of its acquisition or release: the caller owns the holds, without renewal or waiting.
 * Not part of the installed library. */
#ifndef LOCK_REDIS_PIPELINE_H
#define LOCK_REDIS_PIPELINE_H

#include "lock/seclock.h"
#include "lua/script.h"

/* Writes the key `prefix{name}:field` (SCRIPT_KEY_MAX bytes). The braces make the name the hash
 * tag, so that all keys of one name share one cluster slot and one script may use them. */
void lock_redis_key(const char *prefix, const char *name, const char *field, char *key_out);

enum { LOCK_FIELD_MAX = 24 }; /* bytes of a field, with its NUL */

/* Writes the field of the key that remembers the release of a request, for a repeat: `base` and a
 * mark of the request's owner, so that other owners' releases do not replace it. Each owner has a
 * few such keys, in turns. */
void lock_redis_released(const char *base, const char *request, char field_out[LOCK_FIELD_MAX]);

/* One hold of one lock. Valid while SECLOCK_STATE_HELD, until `deadline_ns` on the monotonic clock
 * and no longer. */
struct lock_hold {
    char name[SECLOCK_NAME_MAX];
    char prefix[SECLOCK_PREFIX_MAX];
    char token[SECLOCK_TOKEN_MAX];
    enum seclock_state state;
    uint64_t fence; /* grows with every acquisition of this name */
    int lease_ms;
    int64_t deadline_ns;
};

/* Begins a hold of `name` with a new token, for a script of the caller's that acquires the lock as
 * lua/scripts/lock_acquire.lua does and whose answer begins like that script's. */
void lock_redis_prepare(struct lock_hold *hold, const char *prefix, const char *name, int lease_ms);

/* Begins a hold as lock_redis_prepare does, and writes the call that acquires the lock alone. */
void lock_redis_begin(struct lock_hold *hold, const char *prefix, const char *name, int lease_ms,
                      struct script_call *call_out);

/* Reads the answer to the call that acquires the lock, sent at monotonic `sent_ns`. SECLOCK_OK,
 * SECLOCK_BUSY, SECLOCK_FAILED or SECLOCK_UNKNOWN. */
enum seclock_result lock_redis_acquired(struct lock_hold *hold, const struct script_call *call,
                                        int64_t sent_ns);

/* Writes the call that releases the hold, and marks the hold as released. */
void lock_redis_end(struct lock_hold *hold, struct script_call *call_out);

/* Copies a hold of SECLOCK_KIND_SIMPLE, of a client with this prefix, into the caller's hold, whose
 * token guards scripts and which lock_redis_end releases instead of seclock_release. The handle
 * must stay until then: it renews the lease. */
void lock_redis_copy(const struct seclock_handle *handle, const char *prefix,
                     struct lock_hold *hold_out);

#endif
