/* Values with versions, in Redis or MySQL: optimistic concurrency, without a lock. A client of
 * seclock.h gives the server, the prefix of the keys and the time of a request; what that header
 * says of threads and forks holds here. */
#ifndef LOCK_SECLOCK_VALUE_H
#define LOCK_SECLOCK_VALUE_H

#include "seclock.h"

#ifdef __cplusplus
extern "C" {
#endif

enum seclock_store { SECLOCK_STORE_REDIS, SECLOCK_STORE_MYSQL };

enum { SECLOCK_VALUE_MAX = 65536 };

struct seclock_value {
    uint64_t version; /* 0: there is no value */
    size_t size;      /* of the data */
    char *data;       /* owned by the caller: at least SECLOCK_VALUE_MAX bytes */
};

/* Reads a value and its version. SECLOCK_OK also when there is no value (version 0, size 0). */
SECLOCK_API enum seclock_result seclock_value_read(struct seclock_client *client,
                                                   enum seclock_store store, const char *name,
                                                   struct seclock_value *value_out);

/* Writes the value if its version is still `value->version` (0: if there is no value), and sets
 * value->version to the new one, which is greater. SECLOCK_OK; SECLOCK_BUSY: another changed it
 * meanwhile; SECLOCK_FAILED; SECLOCK_UNKNOWN: not answered, or an answer was lost and then another
 * changed the value. Redis forgets a value `ttl_ms` after its last change (0: a week). */
SECLOCK_API enum seclock_result seclock_value_swap(struct seclock_client *client,
                                                   enum seclock_store store, const char *name,
                                                   struct seclock_value *value, int ttl_ms);

/* Reads, lets `change` alter value->data and value->size, and swaps; repeats this after a random
 * pause, up to `tries_max` times, when another was faster. `change` may run several times; it
 * returns false to leave the value as it is (SECLOCK_CANCELLED). SECLOCK_OK; SECLOCK_BUSY: every
 * try came too late; SECLOCK_UNKNOWN: the change was made once or not at all. */
SECLOCK_API enum seclock_result seclock_value_update(
    struct seclock_client *client, enum seclock_store store, const char *name,
    bool (*change)(struct seclock_value *value, void *context), void *context, int tries_max);

#ifdef __cplusplus
}
#endif

#endif
