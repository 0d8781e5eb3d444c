/* Acquires, renews and releases holds, with any driver, on the caller's thread. */
#include "lock/lock.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/acquisition.h"
#include "lock/client.h"
#include "lock/process.h"
#include "lock/text.h"

/* ---- acquire ---- */

static enum seclock_result request_check(const struct seclock_request *request, unsigned features)
{
    int lease_ms = request->lease_ms;
    if (request->mode == SECLOCK_MODE_READ && !(features & LOCK_READS))
        return lock_fail(SECLOCK_UNSUPPORTED, "this kind of lock has no read mode");
    if ((request->permits > 1 || request->limit != 0) && !(features & LOCK_PERMITTED))
        return lock_fail(SECLOCK_UNSUPPORTED, "this kind of lock has no permits");
    if (request->permits < 0 || request->permits > SECLOCK_PERMITS_MAX || request->limit < 0)
        return lock_fail(SECLOCK_CONFIG, "permits out of range");
    if (lease_ms != 0 && (lease_ms < SECLOCK_LEASE_MS_MIN || lease_ms > SECLOCK_LEASE_MS_MAX))
        return lock_fail(SECLOCK_CONFIG, "lease out of range");
    if (request->wait_ms < SECLOCK_FOREVER || request->hold_ms_max < 0)
        return lock_fail(SECLOCK_CONFIG, "a time is negative");
    return lock_name_check(request->name);
}

/* why_two_ids: the owner's text says whose the lock is, and stays for each re-entry. The request's
 * text identifies one acquisition: when the answer is lost and the request is sent again, the
 * server recognises it and does not count a second hold. */
static struct seclock_handle *handle_make(struct lock_core *core, const struct lock_driver *driver,
                                          void *self, const struct seclock_request *request)
{
    assert(core->generation == process_generation() && strlen(request->name) < SECLOCK_NAME_MAX);
    uint64_t owner = request->owner ? request->owner->number : process_thread_number();
    struct seclock_handle *handle = calloc(1, sizeof *handle);
    if (!handle)
        return NULL;
    core_hold(core);
    handle->core = core;
    handle->watchdog = core->watchdog;
    handle->now_ns = core->options.now_ns;
    handle->driver = driver;
    handle->self = self;
    strcpy(handle->name, request->name);
    snprintf(handle->owner, sizeof handle->owner, "%s-%llx", core->id, (unsigned long long)owner);
    acquisition_number(handle);
    handle->mode = request->mode;
    handle->permits = request->permits > 0 ? request->permits : 1;
    handle->limit = request->limit;
    handle->lease_ms = request->lease_ms > 0 ? request->lease_ms : core->options.lease_ms;
    handle->cancel_fd = request->cancel_fd;
    handle->latch_generation = request->generation;
    handle->waits = request->wait_ms != 0;
    handle->polls = !driver->wait && !driver->wait_fd;
    handle->busy_ms = -1;
    handle->hold_ms_max = request->hold_ms_max;
    handle->generation = core->generation;
    handle->renews = (driver->features & LOCK_RENEWS) && !request->fixed_lease;
    handle->family = driver_family(driver->kind);
    handle->lapses = driver->lapse != NULL;
    handle->logs = core->options.log && driver->release;
    handle->on_lost = request->on_lost;
    handle->context = request->context;
    return handle;
}

enum seclock_result lock_prepare(struct seclock_client *client,
                                 const struct seclock_request *request,
                                 struct seclock_handle **handle_out)
{
    const struct lock_driver *driver;
    void *self;
    enum seclock_result result = client_driver(client, request->kind, &driver, &self);
    if (result == SECLOCK_OK)
        result = request_check(request, driver->features);
    if (result != SECLOCK_OK)
        return result;
    *handle_out = handle_make(client_core(client), driver, self, request);
    return *handle_out ? SECLOCK_OK : lock_fail(SECLOCK_FAILED, "out of memory");
}

/* Sleeps as long as the step says. True: the caller has ended the wait. */
static bool sleep_step(const struct acquisition *acquisition)
{
    struct seclock_handle *handle = acquisition->handle;
    const struct lock_driver *driver = handle->driver;
    int ms = acquisition->sleep_ms;
    struct pollfd fds[2] = {
        {.fd = handle->cancel_fd > 0 ? handle->cancel_fd : -1, .events = POLLIN},
        {.fd = -1, .events = POLLIN}};
    if (acquisition->told && driver->wait) {
        driver->wait(handle->self, handle, ms);
    } else {
        if (acquisition->told)
            fds[1].fd = driver->wait_fd(handle, &ms);
        poll(fds, 2, ms);
    }
    return handle->cancel_fd > 0 && handle_sleep(handle, 0);
}

static enum seclock_result acquire(struct seclock_handle *handle, int wait_ms)
{
    assert(handle);
    const struct lock_driver *driver = handle->driver;
    struct acquisition acquisition;
    acquisition_begin(&acquisition, handle, wait_ms);
    while (acquisition.step != ACQUISITION_DONE) {
        if (acquisition.step == ACQUISITION_TRY) {
            if (acquisition_sent(&acquisition))
                acquisition_answered(&acquisition, driver->acquire(handle->self, handle));
        } else if (acquisition.step == ACQUISITION_GIVE_BACK) {
            acquisition_answered(&acquisition, driver->release(handle->self, handle));
        } else if (acquisition.step == ACQUISITION_SLEEP) {
            acquisition_slept(&acquisition, sleep_step(&acquisition));
        } else {
            driver->stop_waiting(handle->self, handle, acquisition.result == SECLOCK_OK);
            acquisition_left(&acquisition);
        }
    }
    return acquisition.result;
}

enum seclock_result lock_acquire(struct seclock_client *client,
                                 const struct seclock_request *request,
                                 struct seclock_handle **handle_out)
{
    enum seclock_result result = lock_prepare(client, request, handle_out);
    if (result != SECLOCK_OK)
        return result;
    result = acquire(*handle_out, request->wait_ms);
    if (result != SECLOCK_OK && result != SECLOCK_UNKNOWN)
        seclock_free(handle_out);
    return result;
}

enum seclock_result lock_request_read(struct seclock_request *known_out,
                                      const struct seclock_request *given)
{
    if (!lock_sized_read(known_out, sizeof *known_out, LOCK_REQUEST_SIZE_MIN, given))
        return SECLOCK_CONFIG;
    if (known_out->kind == SECLOCK_KIND_LATCH)
        return lock_fail(SECLOCK_UNSUPPORTED, "a latch is not acquired: see seclock_latch_await");
    return SECLOCK_OK;
}

enum seclock_result lock_latch_read(struct seclock_request *latch_out,
                                    const struct seclock_request *given)
{
    struct seclock_request known;
    if (!lock_sized_read(&known, sizeof known, LOCK_REQUEST_SIZE_MIN, given))
        return SECLOCK_CONFIG;
    *latch_out = SECLOCK_REQUEST(.name = known.name, .kind = SECLOCK_KIND_LATCH,
                                 .generation = known.generation, .wait_ms = known.wait_ms,
                                 .cancel_fd = known.cancel_fd, .context = known.context);
    return SECLOCK_OK;
}

enum seclock_result seclock_acquire(struct seclock_client *client,
                                    const struct seclock_request *request,
                                    struct seclock_handle **handle_out)
{
    UNCANCELLED;
    struct seclock_request known;
    *handle_out = NULL;
    enum seclock_result result = lock_request_read(&known, request);
    return result == SECLOCK_OK ? lock_acquire(client, &known, handle_out) : result;
}

/* ---- renew, release ---- */

bool lock_is_owned(const struct seclock_handle *handle)
{
    bool owned =
        handle && !handle_inherited(handle) && seclock_state(handle) != SECLOCK_STATE_RELEASED;
    if (!owned)
        lock_set_error(handle ? "this process does not hold it (any more)" : "there is no hold");
    return owned;
}

bool lock_may_renew(const struct seclock_handle *handle, enum seclock_result *result_out)
{
    *result_out = SECLOCK_NOT_OWNER;
    if (!lock_is_owned(handle))
        return false;
    bool lost = seclock_state(handle) == SECLOCK_STATE_LOST;
    if (lost)
        *result_out = lock_fail(SECLOCK_LOST, "the lease has ended");
    return !lost;
}

void lock_value_begin(struct seclock_handle *handle, char *value)
{
    handle->proclaims = value != NULL;
    if (!value)
        return;
    handle->former_value = handle->value;
    handle->value = value;
    handle->value_number = atomic_fetch_add(&handle->core->requests, 1) + 1;
}

static void value_end(struct seclock_handle *handle, enum seclock_result result)
{
    char *dropped = handle->former_value;
    handle->proclaims = false;
    handle->former_value = NULL;
    if (result == SECLOCK_FAILED) {
        char *former = dropped;
        dropped = handle->value;
        handle->value = former;
    }
    free(dropped);
}

enum seclock_result lock_renewed(struct seclock_handle *handle, enum seclock_result result,
                                 int64_t sent_ns)
{
    bool kept = handle_extend(handle, result, sent_ns, handle->now_ns());
    if (handle->proclaims)
        value_end(handle, result);
    if (handle->renews)
        watchdog_renewal_end(handle->watchdog, handle, result, sent_ns);
    if (kept && result != SECLOCK_LOST)
        return result;
    watchdog_lost(handle, SECLOCK_LOSS_NONE);
    return lock_fail(SECLOCK_LOST, "the lease has ended, or the lock was broken");
}

/* Only the owner renews a hold that the watchdog does not. */
enum seclock_result lock_renew(struct seclock_handle *handle, char *value)
{
    enum seclock_result result;
    if (!lock_may_renew(handle, &result)) {
        free(value);
        return result;
    }
    if (handle->renews)
        watchdog_renewal_begin(handle->watchdog, handle, true);
    lock_value_begin(handle, value);
    int64_t sent_ns = handle->now_ns();
    if (value)
        result = handle->driver->proclaim(handle->self, handle);
    else
        handle->driver->renew(handle->self, &handle, 1, &result);
    return lock_renewed(handle, result, sent_ns);
}

enum seclock_result seclock_renew(struct seclock_handle *handle)
{
    UNCANCELLED;
    return lock_renew(handle, NULL);
}

enum seclock_result lock_released(struct seclock_handle *handle, enum seclock_state before,
                                  enum seclock_result result)
{
    assert(result == SECLOCK_OK || result == SECLOCK_LOST || result == SECLOCK_FAILED ||
           result == SECLOCK_UNKNOWN);
    if (result == SECLOCK_FAILED || result == SECLOCK_UNKNOWN)
        return result;
    if (result == SECLOCK_LOST || before == SECLOCK_STATE_LOST)
        handle_keep_loss(handle, before == SECLOCK_STATE_LOST ? seclock_loss(handle)
                                                              : SECLOCK_LOSS_FORGOTTEN);
    counters_time(handle->core->counters[handle->driver->kind].hold_us,
                  handle->now_ns() - handle->acquired_ns);
    handle->state = SECLOCK_STATE_RELEASED;
    if (result == SECLOCK_OK && before == SECLOCK_STATE_LOST)
        result = SECLOCK_LOST; /* the deadline had passed here, unnoticed by the server */
    if (result == SECLOCK_LOST)
        lock_set_error("the lease had ended, or the lock was broken");
    return result;
}

/* Takes the hold out of the watchdog's care before the release is sent, which waits for a renewal
 * under way: that could extend a lease after it was given back. */
enum seclock_result seclock_release(struct seclock_handle *handle)
{
    UNCANCELLED;
    if (!lock_is_owned(handle))
        return SECLOCK_NOT_OWNER;
    if (handle_watched(handle))
        watchdog_remove(handle->watchdog, handle, true);
    enum seclock_state state = seclock_state(handle);
    if (state == SECLOCK_STATE_RELEASED) /* by on_lost, which this thread has waited for */
        return lock_fail(SECLOCK_LOST, "it was lost, and on_lost has released it");
    return lock_released(handle, state, handle->driver->release(handle->self, handle));
}

void seclock_free(struct seclock_handle **handle)
{
    UNCANCELLED;
    struct seclock_handle *old = *handle;
    *handle = NULL;
    if (!old)
        return;
    if (!handle_inherited(old)) {
        if (handle_watched(old))
            watchdog_remove(old->watchdog, old, true);
        if (old->leave_loop)
            old->leave_loop(old);
        if (old->driver->drop)
            old->driver->drop(old->self, old);
        assert(!old->renewing && !old->notifying);
        core_let_go(old->core);
    }
    free(old->value);
    free(old->former_value);
    free(old);
}
