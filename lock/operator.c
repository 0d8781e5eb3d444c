/* Questions and orders of operators about a lock, whoever holds it: status, break, limit, check. */
#include "lock/client.h"
#include "lock/process.h"
#include "lock/text.h"

/* The size in release 1.0, to the last field of then. */
enum { STATUS_SIZE_MIN = offsetof(struct seclock_status, fence) + sizeof(uint64_t) };

/* Checks the name first: a name with a brace would address keys of another lock. */
static enum seclock_result find_lock(struct seclock_client *client, enum seclock_kind kind,
                                     const char *name, const struct lock_driver **driver_out,
                                     void **self_out)
{
    enum seclock_result result = lock_name_check(name);
    return result == SECLOCK_OK ? client_driver(client, kind, driver_out, self_out) : result;
}

/* The status is filled in a struct of our own, because the caller's may be shorter or longer
 * than ours. */
enum seclock_result seclock_status(struct seclock_client *client, enum seclock_kind kind,
                                   const char *name, struct seclock_status *status_out)
{
    const struct lock_driver *driver;
    void *self;
    struct seclock_status status = {.waiting = -1, .remaining_ms = -1};
    if (!lock_sized_write(status_out, sizeof status, STATUS_SIZE_MIN, &status))
        return SECLOCK_CONFIG;
    enum seclock_result result = find_lock(client, kind, name, &driver, &self);
    if (result == SECLOCK_OK)
        result = driver->status(driver, self, name, &status);
    process_read_id(&status);
    lock_sized_write(status_out, sizeof status, STATUS_SIZE_MIN, &status);
    return result;
}

enum seclock_result seclock_break(struct seclock_client *client, enum seclock_kind kind,
                                  const char *name)
{
    const struct lock_driver *driver;
    void *self;
    enum seclock_result result = find_lock(client, kind, name, &driver, &self);
    return result == SECLOCK_OK ? driver->break_lock(driver, self, name) : result;
}

enum seclock_result seclock_semaphore_set(struct seclock_client *client, enum seclock_kind kind,
                                          const char *name, int limit)
{
    const struct lock_driver *driver;
    void *self;
    enum seclock_result result = find_lock(client, kind, name, &driver, &self);
    if (result != SECLOCK_OK)
        return result;
    if (!driver->set_limit)
        return lock_fail(SECLOCK_UNSUPPORTED, "this kind of lock has no permits");
    if (limit <= 0)
        return lock_fail(SECLOCK_CONFIG, "a semaphore has at least one permit");
    return driver->set_limit(driver, self, name, limit);
}

/* A kind without a check has nothing to warn of. */
enum seclock_result seclock_check(struct seclock_client *client, enum seclock_kind kind,
                                  char *warning_out, size_t size)
{
    const struct lock_driver *driver;
    void *self;
    if (size > 0)
        warning_out[0] = '\0';
    enum seclock_result result = client_driver(client, kind, &driver, &self);
    return result == SECLOCK_OK && driver->check ? driver->check(self, warning_out, size) : result;
}
