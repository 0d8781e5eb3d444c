/* Private to lock/: what the Redis kinds have in common. The state of each driver is the server
 * itself; what differs from kind to kind is in a row of constants. */
#ifndef LOCK_REDIS_KIND_H
#define LOCK_REDIS_KIND_H

#include "lock/client.h"
#include "lock/redis/server.h"

/* The `row` of the driver of a Redis kind. */
struct redis_row {
    const char *field; /* the lock's key is prefix{name}:field, and so is its waiters' channel */
    /* A release sends: "1" wakes one waiter of each process, "*" all, "" none. */
    const char *message;
    const char *others[4]; /* fields of the other keys that a break deletes; NULL ends */

    /* Writes the call that renews a hold; it answers {1[, fence]} or {0}. */
    void (*renewal)(const struct redis_server *server, const struct seclock_handle *handle,
                    struct script_call *call_out);
};

const struct redis_row *redis_row_of(const struct seclock_handle *handle);

/* ---- functions of the driver table, for all kinds with a row ---- */

enum seclock_result redis_kind_open(const struct lock_context *context, void **self_out);
void redis_kind_wait(void *self, struct seclock_handle *handle, int wait_ms);
/* For kinds that keep no queue on the server. */
void redis_kind_stop_waiting(void *self, struct seclock_handle *handle, bool acquired);
void redis_kind_renew(void *self, struct seclock_handle *const *handles, size_t count,
                      enum seclock_result *results_out);
/* Deletes the keys of the row and wakes the waiters. */
enum seclock_result redis_kind_break(const struct lock_driver *driver, void *self,
                                     const char *name);
/* Warns when the server may evict locks. */
enum seclock_result redis_kind_check(void *self, char *warning_out, size_t size);
/* The status of a lock that is one string, the holder's token; and of one that is a hash as
 * lock_reenter.lua says. */
enum seclock_result redis_string_status(const struct lock_driver *driver, void *self,
                                        const char *name, struct seclock_status *status_out);
enum seclock_result redis_hash_status(const struct lock_driver *driver, void *self,
                                      const char *name, struct seclock_status *status_out);

/* ---- parts of such functions ---- */

/* Runs one call within the time of the handle's acquisition; `handle` may be NULL. Returns as
 * redis_server_answer. The second is for a call that may publish. */
enum seclock_result redis_kind_run(struct redis_server *server, const struct seclock_handle *handle,
                                   struct script_call *call, enum seclock_result no);
enum seclock_result redis_kind_run_publishing(struct redis_server *server,
                                              const struct seclock_handle *handle,
                                              struct script_call *call, enum seclock_result no);

/* Runs an acquisition and applies the script's answer, {1, fence[, holds]} or {0, ms left}. */
enum seclock_result redis_kind_acquire(struct redis_server *server, struct seclock_handle *handle,
                                       struct script_call *call);

/* Waits for messages on the channel prefix{name}:field, or that and ":" and `suffix`. */
void redis_kind_wait_on(struct redis_server *server, struct seclock_handle *handle,
                        const char *field, const char *suffix, int wait_ms);

/* The status of a sorted set of holds, each HOLDER, `mark` and more, scored by the server's time in
 * ms at which it ends: the last one to end, and how many there are. Holds that have ended do not
 * count; the fence is not read. */
enum seclock_result redis_set_status(struct redis_server *server, const char *name,
                                     const char *field, char mark,
                                     struct seclock_status *status_out);

/* For functions of the public header that have no handle: the client's server, and the check of
 * the name. */
enum seclock_result redis_kind_server(struct seclock_client *client, const char *name,
                                      struct redis_server **server_out);

#endif
