/* Holds: how one is acquired, waited for, kept and given back, whatever its driver. */
#include "lock/lock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/lock_core.h"
#include "lock/watchdog.h"

enum {
    POLL_MS_MIN = 5, /* for drivers that neither wait nor say how often to ask */
    POLL_MS_MAX = 200,
    RETRY_MS_MIN = 10, /* while no server answers */
    RETRY_MS_MAX = 200,
    NS_PER_MS = 1000000,
};

int64_t lock_valid_ns(int lease_ms)
{
    int64_t lease_ns = (int64_t)lease_ms * NS_PER_MS;
    int64_t valid_ns = lease_ns - lease_ns / 100 - 2 * NS_PER_MS;
    return valid_ns;
}

/* ---- what a handle says ---- */

static bool inherited(const struct lock_handle *handle)
{
    return handle->generation != lock_generation();
}

/* Once anybody could see that the deadline has passed, it is lost for good. */
enum lock_state lock_state(const struct lock_handle *handle)
{
    struct lock_handle *seen = (struct lock_handle *)(uintptr_t)handle;
    int state = handle->state;
    if (inherited(handle) && state != LOCK_STATE_RELEASED)
        return LOCK_STATE_LOST;
    while ((state == LOCK_STATE_HELD || state == LOCK_STATE_UNKNOWN) &&
           handle->core->now_ns() >= handle->deadline_ns)
        if (atomic_compare_exchange_weak(&seen->state, &state, LOCK_STATE_LOST))
            return LOCK_STATE_LOST;
    return (enum lock_state)state;
}

int64_t lock_remaining_ms(const struct lock_handle *handle)
{
    if (lock_state(handle) != LOCK_STATE_HELD)
        return 0;
    int64_t left_ns = handle->deadline_ns - handle->core->now_ns();
    return left_ns > 0 ? left_ns / NS_PER_MS : 0;
}

uint64_t lock_fence(const struct lock_handle *handle)
{
    return handle->fence;
}

int lock_hold_count(const struct lock_handle *handle)
{
    return handle->hold_count > 0 ? handle->hold_count : 1;
}

const char *lock_name(const struct lock_handle *handle)
{
    return handle->name;
}

const char *lock_token(const struct lock_handle *handle)
{
    return handle->token ? handle->token : handle->owner;
}

/* ---- what happens to it ---- */

void lock_handle_lost(struct lock_handle *handle)
{
    int state = handle->state;
    while (state == LOCK_STATE_HELD || state == LOCK_STATE_UNKNOWN)
        if (atomic_compare_exchange_weak(&handle->state, &state, LOCK_STATE_LOST))
            watchdog_poke(handle->core->watchdog, handle);
}

void lock_handle_doubt(struct lock_handle *handle)
{
    int state = LOCK_STATE_HELD;
    if (atomic_compare_exchange_strong(&handle->state, &state, LOCK_STATE_UNKNOWN))
        watchdog_poke(handle->core->watchdog, handle);
}

bool lock_handle_extend(struct lock_handle *handle, enum lock_result result, int64_t sent_ns,
                        int64_t now_ns)
{
    int state = LOCK_STATE_UNKNOWN;
    if (result == LOCK_LOST || now_ns >= handle->deadline_ns)
        return false;
    if (result == LOCK_OK) {
        handle->deadline_ns = sent_ns + lock_valid_ns(handle->lease_ms);
        atomic_compare_exchange_strong(&handle->state, &state, LOCK_STATE_HELD);
    }
    return lock_state(handle) != LOCK_STATE_LOST;
}

/* ---- acquire ---- */

static enum lock_result refuse(enum lock_result result, const char *why)
{
    lock_set_error("%s", why);
    return result;
}

static enum lock_result request_check(const struct lock_request *request, unsigned features)
{
    int lease_ms = request->lease_ms;
    if (features & LOCK_NO_HOLDS)
        return refuse(LOCK_UNSUPPORTED, "a latch is not acquired: see lock_latch_await");
    if (request->mode == LOCK_MODE_READ && !(features & LOCK_READS))
        return refuse(LOCK_UNSUPPORTED, "this kind of lock has no read mode");
    if ((request->permits > 1 || request->limit != 0) && !(features & LOCK_PERMITTED))
        return refuse(LOCK_UNSUPPORTED, "this kind of lock has no permits");
    if (request->permits < 0 || request->permits > LOCK_PERMITS_MAX || request->limit < 0)
        return refuse(LOCK_CONFIG, "permits out of range");
    if (lease_ms != 0 && (lease_ms < LOCK_LEASE_MS_MIN || lease_ms > LOCK_LEASE_MS_MAX))
        return refuse(LOCK_CONFIG, "lease out of range");
    if (request->wait_ms < LOCK_FOREVER || request->hold_ms_max < 0)
        return refuse(LOCK_CONFIG, "a time is negative");
    return lock_name_check(request->name);
}

static struct lock_handle *handle_make(struct lock_core *core, const struct lock_driver *driver,
                                       void *self, const struct lock_request *request)
{
    struct lock_handle *handle = calloc(1, sizeof *handle);
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

static bool watched(const struct lock_handle *handle)
{
    return handle->renews || handle->on_lost;
}

/* It is mine at the server; but the answer may have come too late to be of use. */
static enum lock_result acquired(struct lock_handle *handle, int64_t sent_ns, int lease_ms)
{
    handle->acquired_ns = handle->core->now_ns();
    handle->deadline_ns = sent_ns + lock_valid_ns(handle->lease_ms);
    if (handle->acquired_ns >= handle->deadline_ns) {
        handle->driver->release(handle->self, handle);
        lock_set_error("the answer came after the lease had ended");
        return LOCK_FAILED;
    }
    if (handle->lease_ms != lease_ms && watched(handle)) /* the driver has its own */
        watchdog_add(handle->core->watchdog, handle, sent_ns);
    handle->state = LOCK_STATE_HELD;
    atomic_fetch_add_explicit(&handle->core->counters.acquired, 1, memory_order_relaxed);
    return LOCK_OK;
}

/* One try. The watchdog knows of the hold before the server does. */
static enum lock_result handle_try(struct lock_handle *handle)
{
    int lease_ms = handle->lease_ms;
    int64_t sent_ns = handle->core->now_ns();
    if (watched(handle) && !watchdog_add(handle->core->watchdog, handle, sent_ns)) {
        lock_set_error("out of memory");
        return LOCK_FAILED;
    }
    enum lock_result result = handle->driver->acquire(handle->self, handle);
    if (result == LOCK_OK)
        return acquired(handle, sent_ns, lease_ms);
    if (result == LOCK_BUSY)
        atomic_fetch_add_explicit(&handle->core->counters.busy, 1, memory_order_relaxed);
    if (result == LOCK_UNKNOWN)
        handle->deadline_ns = sent_ns + (int64_t)handle->lease_ms * NS_PER_MS;
    return result;
}

/* How long to sleep before asking again, woken or not. */
static int sleep_ms(const struct lock_handle *handle, int64_t left_ms, int *pause_ms)
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

static int64_t left_ms(const struct lock_handle *handle, int64_t until_ns)
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
static bool wait_once(struct lock_handle *handle, enum lock_result result,
                      struct patience *patience)
{
    int64_t left = left_ms(handle, patience->until_ns);
    if (left == 0)
        return false;
    atomic_fetch_add_explicit(&handle->core->counters.waits, 1, memory_order_relaxed);
    if (result == LOCK_BUSY) {
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

static bool worth_waiting(enum lock_result result)
{
    return result == LOCK_BUSY || result == LOCK_FAILED || result == LOCK_UNKNOWN;
}

static enum lock_result handle_wait(struct lock_handle *handle, enum lock_result result,
                                    int wait_ms)
{
    struct patience patience = {
        .until_ns = wait_ms == LOCK_FOREVER ? INT64_MAX / 2
                                            : handle->core->now_ns() + (int64_t)wait_ms * NS_PER_MS,
    };
    bool cancelled = false;
    bool doubtful = result == LOCK_UNKNOWN;
    while (worth_waiting(result) && !cancelled && wait_once(handle, result, &patience)) {
        cancelled = handle->cancel_fd > 0 && lock_sleep_ms(0, handle->cancel_fd);
        if (!cancelled)
            result = handle_try(handle);
        doubtful = result == LOCK_UNKNOWN || (doubtful && result == LOCK_FAILED);
    }
    if (result == LOCK_FAILED && doubtful)
        return LOCK_UNKNOWN;
    if (result == LOCK_BUSY)
        return cancelled ? LOCK_CANCELLED : LOCK_TIMEOUT;
    return cancelled && result == LOCK_FAILED ? LOCK_CANCELLED : result;
}

enum lock_result lock_acquire(struct lock_client *client, const struct lock_request *request,
                              struct lock_handle **handle_out)
{
    const struct lock_driver *driver;
    void *self;
    struct lock_core *core = lock_client_core(client);
    *handle_out = NULL;
    enum lock_result result =
        core ? lock_core_driver(core, request->kind, &driver, &self) : LOCK_FAILED;
    if (result == LOCK_OK)
        result = request_check(request, driver->features);
    if (result != LOCK_OK)
        return result;
    struct lock_handle *handle = handle_make(core, driver, self, request);
    if (!handle)
        return refuse(LOCK_FAILED, "out of memory");
    result = handle_try(handle);
    if (handle->waits) {
        if (worth_waiting(result))
            result = handle_wait(handle, result, request->wait_ms);
        if (driver->stop_waiting)
            driver->stop_waiting(self, handle, result == LOCK_OK);
    }
    if (result == LOCK_UNKNOWN) {
        handle->state = LOCK_STATE_UNKNOWN;
        watchdog_poke(core->watchdog, handle); /* its time may have come meanwhile */
    }
    *handle_out = handle;
    if (result != LOCK_OK && result != LOCK_UNKNOWN)
        lock_free(handle_out);
    return result;
}

/* ---- renew, release ---- */

enum lock_result lock_renew(struct lock_handle *handle)
{
    enum lock_result result;
    enum lock_state state = lock_state(handle);
    if (inherited(handle) || state == LOCK_STATE_RELEASED)
        return refuse(LOCK_NOT_OWNER, "not held by this process (any more)");
    if (state == LOCK_STATE_LOST)
        return refuse(LOCK_LOST, "the lease has ended");
    int64_t sent_ns = handle->core->now_ns();
    handle->driver->renew(handle->self, &handle, 1, &result);
    if (lock_handle_extend(handle, result, sent_ns, handle->core->now_ns()))
        return result;
    lock_handle_lost(handle);
    return refuse(LOCK_LOST, "the lease has ended");
}

enum lock_result lock_release(struct lock_handle *handle)
{
    enum lock_state state = lock_state(handle);
    if (inherited(handle) || state == LOCK_STATE_RELEASED)
        return refuse(LOCK_NOT_OWNER, "not held by this process (any more)");
    if (watched(handle))
        watchdog_remove(handle->core->watchdog, handle);
    state = lock_state(handle);
    enum lock_result result = handle->driver->release(handle->self, handle);
    if (result == LOCK_FAILED || result == LOCK_UNKNOWN)
        return result;
    handle->state = LOCK_STATE_RELEASED;
    if (result == LOCK_OK && state == LOCK_STATE_LOST)
        result =
            LOCK_LOST; /* the server had not noticed yet, but the holder must not rely on that */
    return result;
}

void lock_free(struct lock_handle **handle)
{
    struct lock_handle *old = *handle;
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
