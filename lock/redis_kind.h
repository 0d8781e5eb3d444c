/* Private to lock/: what the Redis kinds have in common. Their state is the server itself. */
#ifndef LOCK_REDIS_KIND_H
#define LOCK_REDIS_KIND_H

#include "lock/lock_driver.h"
#include "lock/redis_server.h"
#include "lua/command.h"

/* As open and close of the driver table. */
enum seclock_result redis_kind_open(const struct lock_context *context, void **self_out);
void redis_kind_close(void *self);

/* Adds the key prefix{name}:field to a call. */
void redis_kind_key(const struct redis_server *server, struct script_call *call, const char *name,
                    const char *field);

/* Runs one call, again when it was not answered. SECLOCK_OK: it was answered with a first number that
 * is 1; `no`: with another; SECLOCK_FAILED, SECLOCK_UNKNOWN. */
enum seclock_result redis_kind_run(struct redis_server *server, struct script_call *call,
                                   enum seclock_result no);

/* The same for a call that publishes. */
enum seclock_result redis_kind_tell(struct redis_server *server, struct script_call *call,
                                    enum seclock_result no);

/* As redis_kind_run for an acquisition: {1, fence[, holds]} or {0, ms left} as the scripts say. */
enum seclock_result redis_kind_acquire(struct redis_server *server, struct seclock_handle *handle,
                                       struct script_call *call);

/* Renews in pipelines with the calls that `fill` writes; each answers {1[, fence]} or {0}. */
void redis_kind_renew(struct redis_server *server, struct seclock_handle *const *handles,
                      size_t count, enum seclock_result *results_out,
                      void (*fill)(const struct redis_server *server,
                                   const struct seclock_handle *handle,
                                   struct script_call *call_out));

/* Waits for messages on the channel named prefix{name}:field, or that and ":" and `suffix`. */
void redis_kind_wait(struct redis_server *server, struct seclock_handle *handle, const char *field,
                     const char *suffix, int wait_ms);
void redis_kind_stop_waiting(struct seclock_handle *handle);

/* Plain commands, sent again when not answered. SECLOCK_OK when all are answered; the caller clears
 * them in any case. */
enum seclock_result redis_kind_commands(struct redis_server *server, struct command *commands,
                                        size_t count);

/* Deletes the keys of these fields, ended by NULL, and sends `message` to who waits on the channel
 * named like the first. SECLOCK_OK, SECLOCK_NOT_OWNER: there was none of them. */
enum seclock_result redis_kind_break(struct redis_server *server, const char *name,
                                     const char *const *fields, const char *message);

/* The status of a lock that is one string, the holder's token, under the key of that field. */
enum seclock_result redis_kind_string_status(struct redis_server *server, const char *name,
                                             const char *field, struct seclock_status *status_out);

/* The same for a lock that is a hash as lock_reenter.lua says. */
enum seclock_result redis_kind_hash_status(struct redis_server *server, const char *name,
                                           const char *field, struct seclock_status *status_out);

/* The same for a set of holds by the server's time in ms when they end, each HOLDER, `mark` and
 * more: the last one to end is shown, and how many there are. Holds that have ended do not count;
 * the fence is not asked for. */
enum seclock_result redis_kind_set_status(struct redis_server *server, const char *name,
                                          const char *field, char mark,
                                          struct seclock_status *status_out);

/* As check of the driver table: whether the server may evict locks. */
enum seclock_result redis_kind_check(void *self, char *warning_out, size_t size);

#endif
