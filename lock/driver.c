/* The list of all drivers. */
#include "lock/driver.h"

#include <assert.h>
#include <string.h>

#include "base/url.h"

static const struct lock_driver *const drivers[SECLOCK_KIND_COUNT] = {
    [SECLOCK_KIND_SIMPLE] = &redis_simple_driver,
    [SECLOCK_KIND_REENTRANT] = &redis_reentrant_driver,
    [SECLOCK_KIND_TIMESTAMP] = &redis_timestamp_driver,
    [SECLOCK_KIND_SPIN] = &redis_spin_driver,
    [SECLOCK_KIND_FAIR] = &redis_fair_driver,
    [SECLOCK_KIND_READ_WRITE] = &redis_rw_driver,
    [SECLOCK_KIND_SEMAPHORE] = &redis_semaphore_driver,
    [SECLOCK_KIND_PERMIT] = &redis_permit_driver,
    [SECLOCK_KIND_LATCH] = &redis_latch_driver,
    [SECLOCK_KIND_RED] = &redlock_driver,
    [SECLOCK_KIND_TABLE] = &mysql_table_driver,
    [SECLOCK_KIND_GET_LOCK] = &mysql_get_lock_driver,
#ifdef LOCK_WITH_ZOOKEEPER
    [SECLOCK_KIND_QUEUE] = &zookeeper_queue_driver,
#endif
};

/* NULL for a kind out of range as well: the number may come from the caller of the library. */
const struct lock_driver *driver_of(enum seclock_kind kind)
{
    const struct lock_driver *driver = (unsigned)kind < SECLOCK_KIND_COUNT ? drivers[kind] : NULL;
    assert(!driver || driver->kind == kind);
    return driver;
}

#define KIND_SCHEME(id, name, scheme, what) [SECLOCK_KIND_##id] = scheme,
static const char *const schemes[SECLOCK_KIND_COUNT] = {SECLOCK_KINDS(KIND_SCHEME)};
#undef KIND_SCHEME

const char *driver_scheme(enum seclock_kind kind)
{
    assert((unsigned)kind < SECLOCK_KIND_COUNT);
    return schemes[kind];
}

enum seclock_kind driver_family(enum seclock_kind kind)
{
    int first = 0;
    while (strcmp(schemes[first], driver_scheme(kind)) != 0)
        first++;
    return (enum seclock_kind)first;
}

/* Redis has several schemes, which all of its kinds take: see base/url.h. */
bool driver_serves(enum seclock_kind kind, const char *url)
{
    const char *scheme = url_scheme(url);
    return scheme && strcmp(scheme, driver_scheme(kind)) == 0;
}
