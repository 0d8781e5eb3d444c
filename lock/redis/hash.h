/* Private to lock/: a re-entrant lock that is one hash: its owner, its fence, a field for each
 * hold. The fair lock and the writer's part of the read-write lock are such hashes as well. */
#ifndef LOCK_REDIS_HASH_H
#define LOCK_REDIS_HASH_H

#include "lock/redis/operator.h"

/* The `renewal` of a row. */
void redis_hash_renewal(const struct redis_server *server, const struct seclock_handle *handle,
                        struct script_call *call_out);

/* Releases one hold, and with the owner's last one the lock: then sends the row's message, and
 * deletes the key of the field `mark` unless that is NULL. */
enum seclock_result redis_hash_release(struct redis_server *server, struct seclock_handle *handle,
                                       const char *mark);

#endif
