/* Private to lock/: a lock that is one string, the token of its holder. */
#ifndef LOCK_REDIS_STRING_H
#define LOCK_REDIS_STRING_H

#include "lock/redis_kind.h"

/* The driver's functions, for the key of this field; a release sends `message` unless it is "". */
enum seclock_result redis_string_acquire(struct redis_server *server, struct seclock_handle *handle,
                                         const char *field);
enum seclock_result redis_string_release(struct redis_server *server, struct seclock_handle *handle,
                                         const char *field, const char *message);

/* Writes the call that renews. */
void redis_string_renewal(const struct redis_server *server, const struct seclock_handle *handle,
                          const char *field, struct script_call *call_out);

#endif
