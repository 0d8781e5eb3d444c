/* Private to lock/: what the Redis kinds have in common. The state of each driver is the server
 * itself; what differs from kind to kind is in a row of constants. */
#ifndef LOCK_REDIS_KIND_H
#define LOCK_REDIS_KIND_H

#include "lock/driver.h"
#include "lock/redis/server.h"

/* The `row` of the driver of a Redis kind. */
struct redis_row {
    const char *field; /* the lock's key is prefix{name}:field, and so is its waiters' channel */
    const char
        *message; /* a release sends: "1" wakes one waiter of each process, "*" all, "" none */
    const char *others[4]; /* fields of the other keys that a break deletes; NULL ends */

    /* Writes the call that renews a hold; it answers {1[, fence]} or {0}. */
    void (*renewal)(const struct redis_server *server, const struct seclock_handle *handle,
                    struct script_call *call_out);
};

const struct redis_row *redis_row_of(const struct seclock_handle *handle);

/* Functions of the driver table, for all kinds with a row. redis_kind_stop_waiting is for kinds
 * that keep no queue on the server. */
enum seclock_result redis_kind_open(const struct lock_context *context, void **self_out);
void redis_kind_close(void *self);
void redis_kind_wait(void *self, struct seclock_handle *handle, int wait_ms);
void redis_kind_stop_waiting(void *self, struct seclock_handle *handle, bool acquired);
void redis_kind_renew(void *self, struct seclock_handle *const *handles, size_t count,
                      enum seclock_result *results_out);

/* Adds the key prefix{name}:field to a call. */
void redis_kind_key(const struct redis_server *server, struct script_call *call, const char *name,
                    const char *field);

/* Adds the key that remembers the release of a request: that of a hold, for a repeat, and that of a
 * request which had none, so that it acquires nothing should it come later. */
void redis_kind_released_key(const struct redis_server *server, struct script_call *call,
                             const char *name, const char *request);

/* Runs one call, and again when it was not answered. SECLOCK_OK: answered, and the first number is
 * 1; `no`: the first number is another; SECLOCK_FAILED, SECLOCK_UNKNOWN. */
enum seclock_result redis_kind_run(struct redis_server *server, struct script_call *call,
                                   enum seclock_result no);

/* The same for a call that publishes. */

/* The same for a call that may publish, within the time of the handle's acquisition if it is for
 * that. `handle` may be NULL. */
enum seclock_result redis_kind_run_publishing(struct redis_server *server,
                                              const struct seclock_handle *handle,
                                              struct script_call *call, enum seclock_result no);

/* How long a request for a handle may take; 0: as the server's time-out says. */
int redis_kind_limit_ms(const struct redis_server *server, const struct seclock_handle *handle);

/* As redis_kind_run for an acquisition: {1, fence[, holds]} or {0, ms left} as the scripts say. */
enum seclock_result redis_kind_acquire(struct redis_server *server, struct seclock_handle *handle,
                                       struct script_call *call);

/* Waits for messages on the channel prefix{name}:field, or that and ":" and `suffix`. */
void redis_kind_wait_on(struct redis_server *server, struct seclock_handle *handle,
                        const char *field, const char *suffix, int wait_ms);

#endif
