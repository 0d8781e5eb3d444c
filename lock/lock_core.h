/* Private to lock/: a client's inner part, which a child of fork makes anew. Drivers see only
 * lock_driver.h. */
#ifndef LOCK_LOCK_CORE_H
#define LOCK_LOCK_CORE_H

#include "lock/lock_driver.h"

struct watchdog;

struct lock_counters {
    _Atomic uint64_t acquired, busy, waits, renewals, renew_errors, lost;
};

struct lock_core {
    int generation; /* of the process in which it was made */
    char id[LOCK_RANDOM_SIZE];
    char prefix[SECLOCK_PREFIX_MAX];
    int outage_ms;
    int64_t (*now_ns)(void);
    struct lock_context contexts[SECLOCK_KIND_COUNT];
    _Atomic(void *) drivers[SECLOCK_KIND_COUNT]; /* their state; NULL until first used */
    _Atomic(struct redis_server *) redis;
    struct watchdog *watchdog;
    struct lock_counters counters;
    _Atomic uint64_t requests; /* numbered so far */
};

struct seclock_owner {
    uint64_t number;
};

/* The client's core, made anew in a child of fork; NULL: no memory. */
struct lock_core *lock_client_core(struct seclock_client *client);

/* The table of a kind and its state, opened when first used. SECLOCK_OK, SECLOCK_UNSUPPORTED, SECLOCK_CONFIG
 * (no server of its scheme) or SECLOCK_FAILED. */
enum seclock_result lock_core_driver(struct lock_core *core, enum seclock_kind kind,
                                     const struct lock_driver **driver_out, void **self_out);

/* How often this process has been forked off, along its line. */
int lock_generation(void);

/* The number of the calling thread as an owner: never used again in this process. */
uint64_t lock_thread_number(void);
uint64_t lock_next_number(void);

/* SECLOCK_OK when the name is one, else SECLOCK_CONFIG with the reason. */
enum seclock_result lock_name_check(const char *name);

#endif
