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

enum { SECLOCK_VALUE_MAX = 65536 }; /* bytes of a value */

struct seclock_value {
    size_t size;      /* see Versions in seclock.h */
    uint64_t version; /* 0: there is no value */
    char *data;       /* the caller's buffer */
    size_t capacity;  /* its bytes; of seclock_value_swap not used */
    size_t length;    /* the bytes of the value */
};
#define SECLOCK_VALUE(...) SECLOCK_SIZED(seclock_value, __VA_ARGS__)

/* Reads a value and its version into the caller's buffer. SECLOCK_OK, also when there is no value
 * (version 0, length 0); SECLOCK_CONFIG: the value is longer than the buffer, `length` says how
 * long, and version is 0; SECLOCK_FAILED. */
SECLOCK_API enum seclock_result seclock_value_read(struct seclock_client *client,
                                                   enum seclock_store store, const char *name,
                                                   struct seclock_value *value_out);

/* Writes the value if its version is still `value->version` (0: if there is no value), and sets
 * value->version to the new one, which is greater. SECLOCK_OK; SECLOCK_BUSY: another changed it
 * meanwhile; SECLOCK_CONFIG: longer than SECLOCK_VALUE_MAX; SECLOCK_FAILED; SECLOCK_UNKNOWN: not
 * answered, or an answer was lost and then another changed the value. Redis forgets a value
 * `ttl_ms` after its last change (0: a week). */
SECLOCK_API enum seclock_result seclock_value_swap(struct seclock_client *client,
                                                   enum seclock_store store, const char *name,
                                                   struct seclock_value *value, int ttl_ms);

/* Reads into the caller's buffer, lets `change` alter value->length and what is in value->data, and
 * swaps; repeats this after a random pause, up to `tries_max` times, when another was faster.
 * `change` may run several times; it returns false to leave the value as it is
 * (SECLOCK_CANCELLED). SECLOCK_OK; SECLOCK_BUSY: every try came too late; SECLOCK_UNKNOWN: the
 * change was made once or not at all; SECLOCK_CONFIG and SECLOCK_FAILED as above. */
SECLOCK_API enum seclock_result seclock_value_update(
    struct seclock_client *client, enum seclock_store store, const char *name,
    struct seclock_value *value, bool (*change)(struct seclock_value *value, void *context),
    void *context, int tries_max);

#ifdef __cplusplus
}
#endif

#endif
