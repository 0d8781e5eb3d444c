/* Private to lock/: clients, and their inner part, which a child of fork replaces. */
#ifndef LOCK_CLIENT_H
#define LOCK_CLIENT_H

#include "lock/driver.h"
#include "lock/process.h"
#include "lock/watchdog.h"

struct redis_server; /* the first Redis server: its connections and its subscriber */

struct lock_core {
    int generation; /* of the process that made it */
    char id[LOCK_RANDOM_SIZE];
    struct seclock_options options;              /* the client's, with every default filled in */
    _Atomic(void *) drivers[SECLOCK_KIND_COUNT]; /* their state; NULL until first used */
    struct redis_server *redis;
    struct watchdog *watchdog;
    struct lock_counters counters[SECLOCK_KIND_COUNT];
    _Atomic uint64_t requests; /* numbered so far */
    atomic_int users;          /* the client and its handles: the last to go frees the core */
};

/* The size of a request in release 1.0, up to its last field then. */
enum { LOCK_REQUEST_SIZE_MIN = offsetof(struct seclock_request, context) + sizeof(void *) };

struct seclock_owner {
    uint64_t number;
};

/* Returns the driver of a kind, or NULL if there is no such kind or it is not built in. */
const struct lock_driver *driver_of(enum seclock_kind kind);

/* Returns the first kind that uses servers of the same scheme. */
enum seclock_kind driver_family(enum seclock_kind kind);

/* Returns the URL number `index`, from 0, of the kind's scheme; NULL: there are no more. */
const char *core_server(const struct lock_core *core, enum seclock_kind kind, size_t index);

/* Returns the client's core, a new one in a child of fork; NULL: no memory. */
struct lock_core *client_core(struct seclock_client *client);

/* Call core_hold for each handle that is made, and core_let_go when it is freed. */
void core_hold(struct lock_core *core);
void core_let_go(struct lock_core *core);

/* Gives the driver of a kind and its state, opened when first used. SECLOCK_OK,
 * SECLOCK_UNSUPPORTED, SECLOCK_CONFIG (no server of its scheme) or SECLOCK_FAILED. */
enum seclock_result client_driver(struct seclock_client *client, enum seclock_kind kind,
                                  const struct lock_driver **driver_out, void **self_out);

/* Does as client_driver, but first checks the lock's name. */
enum seclock_result client_lock(struct seclock_client *client, enum seclock_kind kind,
                                const char *name, const struct lock_driver **driver_out,
                                void **self_out);

/* Returns the client's first Redis server, which all Redis kinds but "red" share; NULL: it cannot
 * be opened, with the reason in seclock_error. Only while a driver is opened, one at a time. */
struct redis_server *core_redis(struct lock_core *core);

#endif
