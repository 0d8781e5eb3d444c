/* Private to lock/: the table of functions that a lock driver fills. */
#ifndef LOCK_LOCK_DRIVER_H
#define LOCK_LOCK_DRIVER_H

#include "lock/lock.h"

/* A driver does one request to its server per call and never waits for a lock: waiting, groups and
 * deadlines are lock.c's. `acquire` finds name, prefix, token and lease_ms in the hold and fills in
 * the fence; the others are called only for holds that this driver has filled. */
struct lock_driver {
    const char *kind;
    void *(*open)(const struct lock_options *options, char *error_out, size_t error_size);
    void (*close)(void *self);
    enum lock_result (*acquire)(void *self, struct lock_hold *hold);
    enum lock_result (*renew)(void *self, const struct lock_hold *hold);
    enum lock_result (*release)(void *self, const struct lock_hold *hold);
    const char *(*error)(const void *self);
};

extern const struct lock_driver lock_redis_driver;

#endif
