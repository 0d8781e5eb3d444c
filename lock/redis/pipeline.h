/* The simple lock in halves, for callers that send scripts of their own in the same round trip as
 * its acquisition or release: holds that the caller owns, without renewal and without waiting. Not
 * part of the installed library. */
#ifndef LOCK_REDIS_PIPELINE_H
#define LOCK_REDIS_PIPELINE_H

#include "lock/redis/key.h"
#include "lock/seclock.h"
#include "lua/script.h"

/* One hold of one lock. Valid while SECLOCK_STATE_HELD, until `deadline_ns` on the monotonic clock
 * and not a moment longer. */
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
 * lua/scripts/lock_acquire.lua does and begins its answer like that script. */
void lock_redis_prepare(struct lock_hold *hold, const char *prefix, const char *name, int lease_ms);

/* The same, and writes the call that acquires the lock alone. */
void lock_redis_begin(struct lock_hold *hold, const char *prefix, const char *name, int lease_ms,
                      struct script_call *call_out);

/* Reads the answer to the call that acquires the lock, sent at monotonic `sent_ns`. SECLOCK_OK,
 * SECLOCK_BUSY, SECLOCK_FAILED or SECLOCK_UNKNOWN. */
enum seclock_result lock_redis_acquired(struct lock_hold *hold, const struct script_call *call,
                                        int64_t sent_ns);

/* Writes the call that releases the hold, and marks the hold as released. */
void lock_redis_end(struct lock_hold *hold, struct script_call *call_out);

/* Copies a hold of SECLOCK_KIND_SIMPLE into one of the caller's, to guard scripts with its token
 * and to be released by lock_redis_end instead of seclock_release. The handle must stay until then:
 * it renews the lease. */
void lock_redis_copy(const struct seclock_handle *handle, struct lock_hold *hold_out);

#endif
