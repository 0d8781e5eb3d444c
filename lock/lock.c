/* Holds: how one is acquired, waited for, kept and given back, whatever its driver. */
#include "lock/seclock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/lock_core.h"
#include "lock/sized.h"
#include "lock/watchdog.h"

enum {
    POLL_MS_MIN = 5, /* for drivers that neither wait nor say how often to ask */
    POLL_MS_MAX = 200,
    RETRY_MS_MIN = 10, /* while no server answers */
    RETRY_MS_MAX = 200,
    NS_PER_MS = 1000000,
    /* of a request in release 1.0, to its last field of then */
    REQUEST_SIZE_MIN = offsetof(struct seclock_request, context) + sizeof(void *),
};

int64_t lock_valid_ns(int lease_ms)
{
    int64_t lease_ns = (int64_t)lease_ms * NS_PER_MS;
    int64_t valid_ns = lease_ns - lease_ns / 100 - 2 * NS_PER_MS;
    return valid_ns;
}

/* ---- what a handle says ---- */

static bool inherited(const struct seclock_handle *handle)
{
    return handle->generation != lock_generation();
}

/* Once anybody could see that the deadline has passed, it is lost for good. */
enum seclock_state seclock_state(const struct seclock_handle *handle)
{
    struct seclock_handle *seen = (struct seclock_handle *)(uintptr_t)handle;
    int state = handle->state;
    if (inherited(handle) && state != SECLOCK_STATE_RELEASED)
        return SECLOCK_STATE_LOST;
    while ((state == SECLOCK_STATE_HELD || state == SECLOCK_STATE_UNKNOWN) &&
           handle->core->now_ns() >= handle->deadline_ns)
        if (atomic_compare_exchange_weak(&seen->state, &state, SECLOCK_STATE_LOST))
            return SECLOCK_STATE_LOST;
    return (enum seclock_state)state;
}

int64_t seclock_remaining_ms(const struct seclock_handle *handle)
{
    if (seclock_state(handle) != SECLOCK_STATE_HELD)
        return 0;
    int64_t left_ns = handle->deadline_ns - handle->core->now_ns();
    return left_ns > 0 ? left_ns / NS_PER_MS : 0;
}

uint64_t seclock_fence(const struct seclock_handle *handle)
{
    return handle->fence;
}

int seclock_hold_count(const struct seclock_handle *handle)
{
    return handle->hold_count > 0 ? handle->hold_count : 1;
}

const char *seclock_name(const struct seclock_handle *handle)
{
    return handle->name;
}

const char *seclock_token(const struct seclock_handle *handle)
{
    return handle->token ? handle->token : handle->owner;
}

/* ---- what happens to it ---- */

void lock_handle_lost(struct seclock_handle *handle)
{
    int state = handle->state;
    while (state == SECLOCK_STATE_HELD || state == SECLOCK_STATE_UNKNOWN)
        if (atomic_compare_exchange_weak(&handle->state, &state, SECLOCK_STATE_LOST))
            watchdog_poke(handle->core->watchdog, handle);
}

void lock_handle_doubt(struct seclock_handle *handle)
{
    int state = SECLOCK_STATE_HELD;
    if (atomic_compare_exchange_strong(&handle->state, &state, SECLOCK_STATE_UNKNOWN))
        watchdog_poke(handle->core->watchdog, handle);
}

bool lock_handle_extend(struct seclock_handle *handle, enum seclock_result result, int64_t sent_ns,
                        int64_t now_ns)
{
    int state = SECLOCK_STATE_UNKNOWN;
    if (result == SECLOCK_LOST || now_ns >= handle->deadline_ns)
        return false;
    if (result == SECLOCK_OK) {
        handle->deadline_ns = sent_ns + lock_valid_ns(handle->lease_ms);
        atomic_compare_exchange_strong(&handle->state, &state, SECLOCK_STATE_HELD);
    }
    return seclock_state(handle) != SECLOCK_STATE_LOST;
}

/* ---- acquire ---- */

static enum seclock_result refuse(enum seclock_result result, const char *why)
{
    lock_set_error("%s", why);
    return result;
}

static enum seclock_result request_check(const struct seclock_request *request, unsigned features)
{
    int lease_ms = request->lease_ms;
    if (features & LOCK_NO_HOLDS)
        return refuse(SECLOCK_UNSUPPORTED, "a latch is not acquired: see seclock_latch_await");
    if (request->mode == SECLOCK_MODE_READ && !(features & LOCK_READS))
        return refuse(SECLOCK_UNSUPPORTED, "this kind of lock has no read mode");
    if ((request->permits > 1 || request->limit != 0) && !(features & LOCK_PERMITTED))
        return refuse(SECLOCK_UNSUPPORTED, "this kind of lock has no permits");
    if (request->permits < 0 || request->permits > SECLOCK_PERMITS_MAX || request->limit < 0)
        return refuse(SECLOCK_CONFIG, "permits out of range");
    if (lease_ms != 0 && (lease_ms < SECLOCK_LEASE_MS_MIN || lease_ms > SECLOCK_LEASE_MS_MAX))
        return refuse(SECLOCK_CONFIG, "lease out of range");
    if (request->wait_ms < SECLOCK_FOREVER || request->hold_ms_max < 0)
        return refuse(SECLOCK_CONFIG, "a time is negative");
    return lock_name_check(request->name);
}

static struct seclock_handle *handle_make(struct lock_core *core, const struct lock_driver *driver,
                                          void *self, const struct seclock_request *request)
{
    struct seclock_handle *handle = calloc(1, sizeof *handle);
    if (!handle)
        return NULL;
    uint64_t owner = request->owner ? request->owner->number : lock_thread_number();
    uint64_t number = atomic_fetch_add(&core->requests, 1) + 1;
    handle->core = core;
    handle->driver = driver;
    handle->self = self;
    strcpy(handle->name, request->name);
    snprintf(handle->owner, sizeof handle->owner, "%s-%llx", core->id, (unsigned long long)owner);
    snprintf(handle->request, sizeof handle->request, "%s-%llx-%llx", core->id,
             (unsigned long long)owner, (unsigned long long)number);
    handle->mode = request->mode;
    handle->permits = request->permits > 0 ? request->permits : 1;
    handle->limit = request->limit;
    handle->lease_ms =
        request->lease_ms > 0 ? request->lease_ms : core->contexts[driver->kind].lease_ms;
    handle->cancel_fd = request->cancel_fd;
    handle->waits = request->wait_ms != 0;
    handle->busy_ms = -1;
    handle->hold_ms_max = request->hold_ms_max;
    handle->generation = core->generation;
    handle->renews = (driver->features & LOCK_RENEWS) && !request->fixed_lease;
    handle->on_lost = request->on_lost;
    handle->context = request->context;
    return handle;
}

static bool watched(const struct seclock_handle *handle)
{
    return handle->renews || handle->on_lost;
}

/* It is mine at the server; but the answer may have come too late to be of use. */
static enum seclock_result acquired(struct seclock_handle *handle, int64_t sent_ns, int lease_ms)
{
    handle->acquired_ns = handle->core->now_ns();
    handle->deadline_ns = sent_ns + lock_valid_ns(handle->lease_ms);
    if (handle->acquired_ns >= handle->deadline_ns) {
        handle->driver->release(handle->self, handle);
        lock_set_error("the answer came after the lease had ended");
        return SECLOCK_FAILED;
    }
    if (handle->lease_ms != lease_ms && watched(handle)) /* the driver has its own */
        watchdog_add(handle->core->watchdog, handle, sent_ns);
    handle->state = SECLOCK_STATE_HELD;
    atomic_fetch_add_explicit(&handle->core->counters.acquired, 1, memory_order_relaxed);
    return SECLOCK_OK;
}

/* One try. The watchdog knows of the hold before the server does. */
static enum seclock_result handle_try(struct seclock_handle *handle)
{
    int lease_ms = handle->lease_ms;
    int64_t sent_ns = handle->core->now_ns();
    if (watched(handle) && !watchdog_add(handle->core->watchdog, handle, sent_ns)) {
        lock_set_error("out of memory");
        return SECLOCK_FAILED;
    }
    enum seclock_result result = handle->driver->acquire(handle->self, handle);
    if (result == SECLOCK_OK)
        return acquired(handle, sent_ns, lease_ms);
    if (result == SECLOCK_BUSY)
        atomic_fetch_add_explicit(&handle->core->counters.busy, 1, memory_order_relaxed);
    if (result == SECLOCK_UNKNOWN)
        handle->deadline_ns = sent_ns + (int64_t)handle->lease_ms * NS_PER_MS;
    return result;
}

/* How long to sleep before asking again, woken or not. */
static int sleep_ms(const struct seclock_handle *handle, int64_t left_ms, int *pause_ms)
{
    const struct lock_driver *driver = handle->driver;
    int cap_ms = lock_core_context(handle->core, driver->kind)->poll_ms;
    int64_t sleep_ms = cap_ms - (int)lock_random((unsigned)cap_ms / 5 + 1);
    if (!driver->wait) {
        int least = driver->poll_ms_min > 0 ? driver->poll_ms_min : POLL_MS_MIN;
        int most = driver->poll_ms_max > 0 ? driver->poll_ms_max : POLL_MS_MAX;
        *pause_ms = *pause_ms == 0 ? least : *pause_ms * 2;
        *pause_ms = *pause_ms > most ? most : *pause_ms;
        sleep_ms = *pause_ms / 2 + (int)lock_random((unsigned)*pause_ms / 2 + 1);
    }
    if (handle->busy_ms >= 0 && handle->busy_ms + 1 < sleep_ms)
        sleep_ms = handle->busy_ms + 1;
    if (left_ms < sleep_ms)
        sleep_ms = left_ms;
    return sleep_ms > 0 ? (int)sleep_ms : 0;
}

static int64_t left_ms(const struct seclock_handle *handle, int64_t until_ns)
{
    int64_t left_ns = until_ns - handle->core->now_ns();
    return left_ns > 0 ? (left_ns + NS_PER_MS - 1) / NS_PER_MS : 0;
}

struct patience {
    int64_t until_ns;  /* when the caller gives up */
    int64_t failed_ns; /* since when no server has answered; 0: it has */
    int pause_ms, retry_ms;
};

/* Sleeps after a try that did not get it, for the reason `result`. False: give up. */
static bool wait_once(struct seclock_handle *handle, enum seclock_result result,
                      struct patience *patience)
{
    int64_t left = left_ms(handle, patience->until_ns);
    if (left == 0)
        return false;
    atomic_fetch_add_explicit(&handle->core->counters.waits, 1, memory_order_relaxed);
    if (result == SECLOCK_BUSY) {
        int ms = sleep_ms(handle, left, &patience->pause_ms);
        patience->failed_ns = patience->retry_ms = 0;
        if (handle->driver->wait)
            handle->driver->wait(handle->self, handle, ms);
        else
            lock_sleep_ms(ms, handle->cancel_fd);
        return true;
    }
    int64_t now_ns = handle->core->now_ns();
    if (patience->failed_ns == 0)
        patience->failed_ns = now_ns;
    if (now_ns - patience->failed_ns > (int64_t)handle->core->outage_ms * NS_PER_MS)
        return false;
    patience->retry_ms = patience->retry_ms == 0 ? RETRY_MS_MIN : patience->retry_ms * 2;
    patience->retry_ms = patience->retry_ms > RETRY_MS_MAX ? RETRY_MS_MAX : patience->retry_ms;
    lock_sleep_ms(left < patience->retry_ms ? (int)left : patience->retry_ms, handle->cancel_fd);
    return true;
}

static bool worth_waiting(enum seclock_result result)
{
    return result == SECLOCK_BUSY || result == SECLOCK_FAILED || result == SECLOCK_UNKNOWN;
}

static enum seclock_result handle_wait(struct seclock_handle *handle, enum seclock_result result,
                                       int wait_ms)
{
    struct patience patience = {
        .until_ns = wait_ms == SECLOCK_FOREVER
                        ? INT64_MAX / 2
                        : handle->core->now_ns() + (int64_t)wait_ms * NS_PER_MS,
    };
    bool cancelled = false;
    bool doubtful = result == SECLOCK_UNKNOWN;
    while (worth_waiting(result) && !cancelled && wait_once(handle, result, &patience)) {
        cancelled = handle->cancel_fd > 0 && lock_sleep_ms(0, handle->cancel_fd);
        if (!cancelled)
            result = handle_try(handle);
        doubtful = result == SECLOCK_UNKNOWN || (doubtful && result == SECLOCK_FAILED);
    }
    if (result == SECLOCK_FAILED && doubtful)
        return SECLOCK_UNKNOWN;
    if (result == SECLOCK_BUSY)
        return cancelled ? SECLOCK_CANCELLED : SECLOCK_TIMEOUT;
    return cancelled && result == SECLOCK_FAILED ? SECLOCK_CANCELLED : result;
}

enum seclock_result seclock_acquire(struct seclock_client *client,
                                    const struct seclock_request *given,
                                    struct seclock_handle **handle_out)
{
    const struct lock_driver *driver;
    void *self;
    struct seclock_request known;
    const struct seclock_request *request = &known;
    struct lock_core *core = lock_client_core(client);
    *handle_out = NULL;
    if (!lock_sized_read(&known, sizeof known, REQUEST_SIZE_MIN, given))
        return SECLOCK_CONFIG;
    enum seclock_result result =
        core ? lock_core_driver(core, request->kind, &driver, &self) : SECLOCK_FAILED;
    if (result == SECLOCK_OK)
        result = request_check(request, driver->features);
    if (result != SECLOCK_OK)
        return result;
    struct seclock_handle *handle = handle_make(core, driver, self, request);
    if (!handle)
        return refuse(SECLOCK_FAILED, "out of memory");
    result = handle_try(handle);
    if (handle->waits) {
        if (worth_waiting(result))
            result = handle_wait(handle, result, request->wait_ms);
        if (driver->stop_waiting)
            driver->stop_waiting(self, handle, result == SECLOCK_OK);
    }
    if (result == SECLOCK_UNKNOWN) {
        handle->state = SECLOCK_STATE_UNKNOWN;
        watchdog_poke(core->watchdog, handle); /* its time may have come meanwhile */
    }
    *handle_out = handle;
    if (result != SECLOCK_OK && result != SECLOCK_UNKNOWN)
        seclock_free(handle_out);
    return result;
}

/* ---- renew, release ---- */

enum seclock_result seclock_renew(struct seclock_handle *handle)
{
    enum seclock_result result;
    enum seclock_state state = seclock_state(handle);
    if (inherited(handle) || state == SECLOCK_STATE_RELEASED)
        return refuse(SECLOCK_NOT_OWNER, "not held by this process (any more)");
    if (state == SECLOCK_STATE_LOST)
        return refuse(SECLOCK_LOST, "the lease has ended");
    int64_t sent_ns = handle->core->now_ns();
    handle->driver->renew(handle->self, &handle, 1, &result);
    if (lock_handle_extend(handle, result, sent_ns, handle->core->now_ns()))
        return result;
    lock_handle_lost(handle);
    return refuse(SECLOCK_LOST, "the lease has ended");
}

enum seclock_result seclock_release(struct seclock_handle *handle)
{
    enum seclock_state state = seclock_state(handle);
    if (inherited(handle) || state == SECLOCK_STATE_RELEASED)
        return refuse(SECLOCK_NOT_OWNER, "not held by this process (any more)");
    if (watched(handle))
        watchdog_remove(handle->core->watchdog, handle);
    state = seclock_state(handle);
    enum seclock_result result = handle->driver->release(handle->self, handle);
    if (result == SECLOCK_FAILED || result == SECLOCK_UNKNOWN)
        return result;
    handle->state = SECLOCK_STATE_RELEASED;
    if (result == SECLOCK_OK && state == SECLOCK_STATE_LOST)
        result =
            SECLOCK_LOST; /* the server had not noticed yet, but the holder must not rely on that */
    return result;
}

void seclock_free(struct seclock_handle **handle)
{
    struct seclock_handle *old = *handle;
    *handle = NULL;
    if (!old)
        return;
    if (!inherited(old)) {
        if (watched(old))
            watchdog_remove(old->core->watchdog, old);
        if (old->driver->drop)
            old->driver->drop(old->self, old);
    }
    free(old);
}
