/* Acquires, awaits, renews and releases holds, with any driver. */
#include "lock/lock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/client.h"
#include "lock/process.h"
#include "lock/text.h"

enum {
    RETRY_MS_MIN = 10, /* while no server answers */
    RETRY_MS_MAX = 200,
    NS_PER_MS = 1000000,
};

/* ---- the handle ---- */

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

/* Makes the text of a request that no server knows yet. */
static void handle_number(struct seclock_handle *handle)
{
    uint64_t number = atomic_fetch_add(&handle->core->requests, 1) + 1;
    int used = snprintf(handle->request, sizeof handle->request, "%s-%llx", handle->owner,
                        (unsigned long long)number);
    assert(used < (int)sizeof handle->request);
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
    handle_number(handle);
    handle->mode = request->mode;
    handle->permits = request->permits > 0 ? request->permits : 1;
    handle->limit = request->limit;
    handle->lease_ms = request->lease_ms > 0 ? request->lease_ms : core->options.lease_ms;
    handle->cancel_fd = request->cancel_fd;
    handle->waits = request->wait_ms != 0;
    handle->busy_ms = -1;
    handle->hold_ms_max = request->hold_ms_max;
    handle->generation = core->generation;
    handle->renews = (driver->features & LOCK_RENEWS) && !request->fixed_lease;
    handle->family = driver_family(driver->kind);
    handle->lapses = driver->lapse != NULL;
    handle->on_lost = request->on_lost;
    handle->context = request->context;
    return handle;
}

/* ---- one try ---- */

static void count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Handles a granted lock. After the local deadline it releases the hold at once. */
static enum seclock_result handle_acquired(struct seclock_handle *handle, int64_t sent_ns,
                                           int lease_ms)
{
    assert(handle->lease_ms > 0);
    handle->acquired_ns = handle->now_ns();
    handle->deadline_ns = sent_ns + handle_valid_ns(handle->lease_ms);
    if (handle->acquired_ns >= handle->deadline_ns && handle->driver->release) {
        enum seclock_result released = handle->driver->release(handle->self, handle);
        handle->given_back = true; /* and no renewal makes it a hold: its deadline is over */
        bool over = released == SECLOCK_OK || released == SECLOCK_LOST;
        return lock_fail(over ? SECLOCK_FAILED : SECLOCK_UNKNOWN,
                         "the answer came after the lease had ended");
    }
    if (handle->lease_ms != lease_ms && handle_watched(handle)) /* the driver has its own lease */
        watchdog_add(handle->watchdog, handle, sent_ns);
    handle->state = SECLOCK_STATE_HELD; /* last: from now on the watchdog renews it */
    /* A watchdog that has looked before did not renew it, and would look too late. */
    if (handle->renews && handle->now_ns() - sent_ns > (int64_t)handle->lease_ms * NS_PER_MS / 4)
        watchdog_poke(handle->watchdog, handle);
    count(&handle->core->counters.acquired);
    return SECLOCK_OK;
}

/* Makes another request of a handle whose hold was given back. Servers refuse a request that they
 * know as released; and a release that was not answered may still come, and must find nothing. */
static void handle_begin_again(struct seclock_handle *handle)
{
    assert(handle->given_back);
    if (handle->driver->drop)
        handle->driver->drop(handle->self, handle);
    handle_number(handle);
    handle->fence = 0; /* so that a renewal learns the fence of that one */
    handle->given_back = false;
}

/* why_watched_first: the watchdog gets the hold before the server does. If it came after the
 * answer, a thread suspended between the two would hold a lock that nobody renews, and a lack of
 * memory would be found too late to refuse the acquisition. */
static enum seclock_result handle_try(struct seclock_handle *handle)
{
    if (handle->given_back)
        handle_begin_again(handle);
    int lease_ms = handle->lease_ms;
    int64_t sent_ns = handle->now_ns();
    assert(handle->state == SECLOCK_STATE_RELEASED);
    if (handle_watched(handle) && !watchdog_add(handle->watchdog, handle, sent_ns))
        return lock_fail(SECLOCK_FAILED, "out of memory");
    enum seclock_result result = handle->driver->acquire(handle->self, handle);
    if (result == SECLOCK_OK)
        return handle_acquired(handle, sent_ns, lease_ms);
    if (result == SECLOCK_BUSY)
        count(&handle->core->counters.busy);
    if (result == SECLOCK_UNKNOWN) {
        handle->acquired_ns = sent_ns; /* if at all */
        handle->deadline_ns = sent_ns + (int64_t)handle->lease_ms * NS_PER_MS;
    }
    return result;
}

/* ---- waiting ---- */

/* The wait of one acquisition. */
struct wait {
    int64_t until_ns;  /* when the caller gives up */
    int64_t failed_ns; /* start of the servers' silence; 0: the last one answered */
    int pause_ms, retry_ms;
};

static int doubled(int ms, int least, int most)
{
    assert(least > 0 && least <= most);
    int next = ms == 0 ? least : ms * 2;
    return next < most ? next : most;
}

/* Returns the time until the next try, whether a message comes or not. Drivers with messages still
 * try every poll_ms, in case one is lost; the others back off. Jitter spreads them. */
static int busy_ms(const struct seclock_handle *handle, int64_t left_ms, int *pause_ms)
{
    assert(left_ms > 0);
    const struct lock_driver *driver = handle->driver;
    int poll_ms = handle->core->options.poll_ms;
    int64_t sleep_ms = poll_ms - (int)lock_random((unsigned)poll_ms / 5 + 1);
    if (!driver->wait) {
        *pause_ms = doubled(*pause_ms, driver->poll_ms_min, driver->poll_ms_max);
        sleep_ms = *pause_ms / 2 + (int)lock_random((unsigned)*pause_ms / 2 + 1);
    }
    if (handle->busy_ms >= 0 && handle->busy_ms + 1 < sleep_ms)
        sleep_ms = handle->busy_ms + 1; /* the holder may have died: its lease then ends silently */
    if (left_ms < sleep_ms)
        sleep_ms = left_ms;
    return sleep_ms > 0 ? (int)sleep_ms : 0;
}

/* Sleeps after a try that did not acquire, for the reason `result`. False: give up, because the
 * time is over, or no server has answered for outage_ms. */
static bool wait_once(struct seclock_handle *handle, enum seclock_result result, struct wait *wait)
{
    assert(result != SECLOCK_OK && handle->waits);
    int64_t now_ns = handle->now_ns(),
            left_ms = (wait->until_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
    if (left_ms <= 0)
        return false;
    count(&handle->core->counters.waits);
    if (result == SECLOCK_BUSY) {
        int ms = busy_ms(handle, left_ms, &wait->pause_ms);
        wait->failed_ns = wait->retry_ms = 0;
        if (handle->driver->wait)
            handle->driver->wait(handle->self, handle, ms);
        else
            handle_sleep(handle, ms);
        return true;
    }
    if (wait->failed_ns == 0)
        wait->failed_ns = now_ns;
    if (now_ns - wait->failed_ns > (int64_t)handle->core->options.outage_ms * NS_PER_MS)
        return false;
    wait->retry_ms = doubled(wait->retry_ms, RETRY_MS_MIN, RETRY_MS_MAX);
    handle_sleep(handle, left_ms < wait->retry_ms ? (int)left_ms : wait->retry_ms);
    return true;
}

static bool worth_waiting(enum seclock_result result)
{
    return result == SECLOCK_BUSY || result == SECLOCK_FAILED || result == SECLOCK_UNKNOWN;
}

/* why_doubt_lasts: after an unanswered try this very request may hold the lock. A later try that
 * certainly failed says nothing about the earlier one; only an answer does. */
static enum seclock_result handle_wait(struct seclock_handle *handle, enum seclock_result result,
                                       int wait_ms)
{
    assert(handle->waits);
    struct wait wait = {
        .until_ns = wait_ms == SECLOCK_FOREVER ? INT64_MAX / 2
                                               : handle->now_ns() + (int64_t)wait_ms * NS_PER_MS,
    };
    bool cancelled = false;
    bool doubtful = result == SECLOCK_UNKNOWN;
    while (worth_waiting(result) && !cancelled && wait_once(handle, result, &wait)) {
        cancelled = handle->cancel_fd > 0 && handle_sleep(handle, 0);
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

/* ---- acquire ---- */

/* Sets the core's reasons of a failure; drivers set their own. */
static void tell_why(const struct seclock_handle *handle, enum seclock_result result, int wait_ms)
{
    const char *then = handle->driver->features & LOCK_RENEWS ? " unless renewed" : "";
    if (result == SECLOCK_CANCELLED)
        lock_set_error("the wait was cancelled");
    else if (result == SECLOCK_TIMEOUT)
        lock_set_error("another holder had it for all of %d ms", wait_ms);
    else if (result == SECLOCK_BUSY && handle->busy_ms >= 0)
        lock_set_error("another holder has it, for %lld ms%s", (long long)handle->busy_ms, then);
    else if (result == SECLOCK_BUSY)
        lock_set_error("another holder has it");
}

/* why_one_timeout_more: the last try begins just before the wait ends. It has the time of one
 * request, including repeats, and leaving the queue has the rest of that time. */
static enum seclock_result handle_acquire(struct seclock_handle *handle, int wait_ms)
{
    assert(handle->state == SECLOCK_STATE_RELEASED && handle->waits == (wait_ms != 0));
    if (wait_ms != SECLOCK_FOREVER)
        handle->until_ns =
            handle->now_ns() + (wait_ms + (int64_t)handle->core->options.timeout_ms) * NS_PER_MS;
    enum seclock_result result = handle_try(handle);
    if (handle->waits) {
        if (worth_waiting(result))
            result = handle_wait(handle, result, wait_ms);
        if (handle->driver->stop_waiting)
            handle->driver->stop_waiting(handle->self, handle, result == SECLOCK_OK);
    }
    handle->until_ns = 0;
    if (result == SECLOCK_UNKNOWN) {
        handle->state = SECLOCK_STATE_UNKNOWN;
        watchdog_poke(handle->watchdog, handle); /* its deadline may have passed meanwhile */
    }
    return result;
}

enum seclock_result lock_acquire(struct seclock_client *client,
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
    struct seclock_handle *handle = handle_make(client_core(client), driver, self, request);
    if (!handle)
        return lock_fail(SECLOCK_FAILED, "out of memory");
    result = handle_acquire(handle, request->wait_ms);
    tell_why(handle, result, request->wait_ms);
    *handle_out = handle;
    if (result != SECLOCK_OK && result != SECLOCK_UNKNOWN)
        seclock_free(handle_out);
    return result;
}

enum seclock_result seclock_acquire(struct seclock_client *client,
                                    const struct seclock_request *request,
                                    struct seclock_handle **handle_out)
{
    UNCANCELLED;
    struct seclock_request known;
    *handle_out = NULL;
    if (!lock_sized_read(&known, sizeof known, LOCK_REQUEST_SIZE_MIN, request))
        return SECLOCK_CONFIG;
    if (known.kind == SECLOCK_KIND_LATCH)
        return lock_fail(SECLOCK_UNSUPPORTED, "a latch is not acquired: see seclock_latch_await");
    return lock_acquire(client, &known, handle_out);
}

/* ---- renew, release ---- */

/* False, with the reason in seclock_error: this process never acquired it, or has released it. */
static bool is_owned(const struct seclock_handle *handle)
{
    bool owned =
        handle && !handle_inherited(handle) && seclock_state(handle) != SECLOCK_STATE_RELEASED;
    if (!owned)
        lock_set_error(handle ? "this process does not hold it (any more)" : "there is no hold");
    return owned;
}

/* Renews once. Only the owner renews a hold that the watchdog does not. */
static enum seclock_result renew_once(struct seclock_handle *handle)
{
    assert(!handle_inherited(handle));
    enum seclock_result result;
    if (handle->renews)
        watchdog_renewal_begin(handle->watchdog, handle);
    int64_t sent_ns = handle->now_ns();
    handle->driver->renew(handle->self, &handle, 1, &result);
    bool kept = handle_extend(handle, result, sent_ns, handle->now_ns());
    if (handle->renews)
        watchdog_renewal_end(handle->watchdog, handle, result, sent_ns);
    return kept ? result : SECLOCK_LOST;
}

enum seclock_result seclock_renew(struct seclock_handle *handle)
{
    UNCANCELLED;
    if (!is_owned(handle))
        return SECLOCK_NOT_OWNER;
    if (seclock_state(handle) == SECLOCK_STATE_LOST)
        return lock_fail(SECLOCK_LOST, "the lease has ended");
    enum seclock_result result = renew_once(handle);
    if (result != SECLOCK_LOST)
        return result;
    watchdog_lost(handle);
    return lock_fail(SECLOCK_LOST, "the lease has ended, or the lock was broken");
}

/* Takes the hold out of the watchdog's care before the release is sent, which waits for a renewal
 * under way: that could extend a lease after it was given back. */
enum seclock_result seclock_release(struct seclock_handle *handle)
{
    UNCANCELLED;
    if (!is_owned(handle))
        return SECLOCK_NOT_OWNER;
    if (handle_watched(handle))
        watchdog_remove(handle->watchdog, handle);
    enum seclock_state state = seclock_state(handle);
    if (state == SECLOCK_STATE_RELEASED) /* by on_lost, which this thread has waited for */
        return lock_fail(SECLOCK_LOST, "it was lost, and on_lost has released it");
    enum seclock_result result = handle->driver->release(handle->self, handle);
    assert(result == SECLOCK_OK || result == SECLOCK_LOST || result == SECLOCK_FAILED ||
           result == SECLOCK_UNKNOWN);
    if (result == SECLOCK_FAILED || result == SECLOCK_UNKNOWN)
        return result;
    handle->state = SECLOCK_STATE_RELEASED;
    if (result == SECLOCK_OK && state == SECLOCK_STATE_LOST)
        result = SECLOCK_LOST; /* the deadline had passed here, unnoticed by the server */
    if (result == SECLOCK_LOST)
        lock_set_error("the lease had ended, or the lock was broken");
    return result;
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
            watchdog_remove(old->watchdog, old);
        if (old->driver->drop)
            old->driver->drop(old->self, old);
        assert(!old->renewing && !old->notifying);
        core_let_go(old->core);
    }
    free(old);
}
