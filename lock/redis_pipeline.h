/* The fenced Redis lock in halves, for callers that send scripts of their own in the same round
 * trip as its acquisition or release. */
#ifndef LOCK_REDIS_PIPELINE_H
#define LOCK_REDIS_PIPELINE_H

#include "lock/lock.h"
#include "lua/script.h"

/* Writes the key `prefix{name}:field` of a lock's family into `key_out` (SCRIPT_KEY_MAX bytes). All
 * keys of one name share one cluster slot. */
void lock_redis_key(const char *prefix, const char *name, const char *field, char *key_out);

/* Begins a hold of `name` with a new token and writes the call that acquires it. */
void lock_redis_begin(struct lock_hold *hold, const char *prefix, const char *name, int lease_ms,
                      struct script_call *call_out);

/* Reads the answer to that call, sent at monotonic `sent_ns`. LOCK_OK, LOCK_BUSY, LOCK_FAILED or
 * LOCK_UNKNOWN. */
enum lock_result lock_redis_acquired(struct lock_hold *hold, const struct script_call *call,
                                     int64_t sent_ns);

/* Writes the call that releases the hold, and takes it as released. */
void lock_redis_end(struct lock_hold *hold, struct script_call *call_out);

#endif
