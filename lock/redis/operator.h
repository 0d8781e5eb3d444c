/* Private to lock/: what operators ask of the Redis kinds, by plain commands. */
#ifndef LOCK_REDIS_OPERATOR_H
#define LOCK_REDIS_OPERATOR_H

#include "lock/redis/kind.h"
#include "lua/command.h"

/* Runs plain commands, and again when they were not answered. SECLOCK_OK when all are answered; the
 * caller clears them in any case. */
enum seclock_result redis_commands(struct redis_server *server, struct command *commands,
                                   size_t count);

/* Functions of the driver table. A break deletes the keys of the row and wakes the waiters. The
 * check tells whether the server may evict locks. */
enum seclock_result redis_break(const struct lock_driver *driver, void *self, const char *name);
enum seclock_result redis_check(void *self, char *warning_out, size_t size);

/* The status of a lock that is one string, the holder's token. */
enum seclock_result redis_string_status(const struct lock_driver *driver, void *self,
                                        const char *name, struct seclock_status *status_out);

/* The status of a lock that is a hash as lock_reenter.lua says. */
enum seclock_result redis_hash_status(const struct lock_driver *driver, void *self,
                                      const char *name, struct seclock_status *status_out);

/* The status of a sorted set of holds, each HOLDER, `mark` and more, scored by the server's time in
 * ms at which it ends: the last one to end, and how many there are. Holds that have ended do not
 * count; the fence is not read. */
enum seclock_result redis_set_status(struct redis_server *server, const char *name,
                                     const char *field, char mark,
                                     struct seclock_status *status_out);

#endif
