/* Private to lock/: a re-entrant lock that is one hash: its owner, its fence, a field for each
 * hold. */
#ifndef LOCK_REDIS_HASH_H
#define LOCK_REDIS_HASH_H

#include "lock/redis_kind.h"

/* Writes the call that renews, for the key of this field. */
void redis_hash_renewal(const struct redis_server *server, const struct seclock_handle *handle,
                        const char *field, struct script_call *call_out);

/* Gives one hold back and with the last one the lock: then sends `message`, and deletes the key of
 * the field `mark` unless it is NULL. */
enum seclock_result redis_hash_release(struct redis_server *server, struct seclock_handle *handle,
                                       const char *field, const char *mark, const char *message);

#endif
