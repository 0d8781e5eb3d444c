/* Decides the steps of an acquisition, whoever takes them. */
#include "lock/acquisition.h"

#include <assert.h>
#include <stdio.h>

#include "lock/client.h"
#include "lock/text.h"

enum {
    RETRY_MS_MIN = 10, /* while no server answers */
    RETRY_MS_MAX = 200,
    NS_PER_MS = 1000000,
};

static struct lock_counters *counters_of(const struct seclock_handle *handle)
{
    return &handle->core->counters[handle->driver->kind];
}

static void count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* ---- waiting ---- */

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
    if (handle->polls) {
        *pause_ms = doubled(*pause_ms, driver->poll_ms_min, driver->poll_ms_max);
        sleep_ms = *pause_ms / 2 + (int)lock_random((unsigned)*pause_ms / 2 + 1);
    }
    if (handle->busy_ms >= 0 && handle->busy_ms + 1 < sleep_ms)
        sleep_ms = handle->busy_ms + 1; /* the holder may have died: its lease then ends silently */
    if (left_ms < sleep_ms)
        sleep_ms = left_ms;
    return sleep_ms > 0 ? (int)sleep_ms : 0;
}

/* Sets the sleep after a try that did not acquire. False: give up, because the time is over, or no
 * server has answered for outage_ms. */
static bool may_sleep(struct acquisition *a)
{
    assert(a->result != SECLOCK_OK && a->handle->waits);
    struct seclock_handle *handle = a->handle;
    int64_t now_ns = handle->now_ns(), left_ms = (a->until_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
    if (left_ms <= 0)
        return false;
    a->told = a->result == SECLOCK_BUSY && !handle->polls;
    if (a->result == SECLOCK_BUSY) {
        a->sleep_ms = busy_ms(handle, left_ms, &a->pause_ms);
        a->failed_ns = a->retry_ms = 0;
    } else {
        if (a->failed_ns == 0)
            a->failed_ns = now_ns;
        if (now_ns - a->failed_ns > (int64_t)handle->core->options.outage_ms * NS_PER_MS)
            return false;
        a->retry_ms = doubled(a->retry_ms, RETRY_MS_MIN, RETRY_MS_MAX);
        a->sleep_ms = left_ms < a->retry_ms ? (int)left_ms : a->retry_ms;
    }
    count(&counters_of(handle)->waits);
    return true;
}

static bool worth_waiting(enum seclock_result result)
{
    return result == SECLOCK_BUSY || result == SECLOCK_FAILED || result == SECLOCK_UNKNOWN;
}

/* ---- the end ---- */

/* why_doubt_lasts: after an unanswered try this very request may hold the lock. A later try that
 * certainly failed says nothing about the earlier one; only an answer does. */
static enum seclock_result outcome(const struct acquisition *a)
{
    if (a->result == SECLOCK_FAILED && a->doubtful)
        return SECLOCK_UNKNOWN;
    if (a->result == SECLOCK_BUSY && a->handle->waits)
        return a->cancelled ? SECLOCK_CANCELLED : SECLOCK_TIMEOUT;
    return a->cancelled && a->result == SECLOCK_FAILED ? SECLOCK_CANCELLED : a->result;
}

/* Drivers keep their own reasons. */
static void tell_why(const struct acquisition *a)
{
    const char *then = a->handle->driver->features & LOCK_RENEWS ? " unless renewed" : "";
    if (a->result == SECLOCK_CANCELLED)
        lock_set_error("the wait was cancelled");
    else if (a->result == SECLOCK_TIMEOUT)
        lock_set_error("another holder had it for all of %d ms", a->wait_ms);
    else if (a->result == SECLOCK_BUSY && a->handle->busy_ms >= 0)
        lock_set_error("another holder has it, for %lld ms%s", (long long)a->handle->busy_ms, then);
    else if (a->result == SECLOCK_BUSY)
        lock_set_error("another holder has it");
}

static void end(struct acquisition *a)
{
    struct seclock_handle *handle = a->handle;
    handle->until_ns = 0;
    if (a->result == SECLOCK_UNKNOWN) {
        handle->state = SECLOCK_STATE_UNKNOWN;
        watchdog_poke(handle->watchdog, handle); /* its deadline may have passed meanwhile */
    }
    tell_why(a);
    a->step = ACQUISITION_DONE;
}

static void stop_trying(struct acquisition *a)
{
    a->result = outcome(a);
    a->step = ACQUISITION_LEAVE;
    if (!a->handle->waits || !a->handle->driver->stop_waiting)
        end(a);
}

void acquisition_left(struct acquisition *a)
{
    assert(a->step == ACQUISITION_LEAVE);
    end(a);
}

/* ---- one try ---- */

/* why_one_timeout_more: the last try begins just before the wait ends. It has the time of one
 * request, including repeats, and leaving the queue has the rest of that time. */
void acquisition_begin(struct acquisition *a, struct seclock_handle *handle, int wait_ms)
{
    assert(handle->state == SECLOCK_STATE_RELEASED && handle->waits == (wait_ms != 0));
    int64_t now_ns = handle->now_ns();
    *a = (struct acquisition){
        .handle = handle, .wait_ms = wait_ms, .began_ns = now_ns, .until_ns = INT64_MAX / 2};
    if (wait_ms == SECLOCK_FOREVER)
        return;
    a->until_ns = now_ns + (int64_t)wait_ms * NS_PER_MS;
    handle->until_ns = a->until_ns + (int64_t)handle->core->options.timeout_ms * NS_PER_MS;
}

void acquisition_number(struct seclock_handle *handle)
{
    uint64_t number = atomic_fetch_add(&handle->core->requests, 1) + 1;
    int used = snprintf(handle->request, sizeof handle->request, "%s-%llx", handle->owner,
                        (unsigned long long)number);
    assert(used < (int)sizeof handle->request);
}

/* Makes another request of a handle whose hold was given back. Servers refuse a request that they
 * know as released; and a release that was not answered may still come, and must find nothing. */
static void begin_again(struct seclock_handle *handle)
{
    assert(handle->given_back);
    if (handle->driver->drop)
        handle->driver->drop(handle->self, handle);
    acquisition_number(handle);
    handle->fence = 0; /* so that a renewal learns the fence of that one */
    handle->given_back = false;
}

/* why_watched_first: the watchdog gets the hold before the server does. If it came after the
 * answer, a thread suspended between the two would hold a lock that nobody renews, and a lack of
 * memory would be found too late to refuse the acquisition. */
bool acquisition_sent(struct acquisition *a)
{
    struct seclock_handle *handle = a->handle;
    assert(a->step == ACQUISITION_TRY && handle->state == SECLOCK_STATE_RELEASED);
    if (handle->given_back)
        begin_again(handle);
    a->lease_ms = handle->lease_ms;
    a->sent_ns = handle->now_ns();
    if (!handle_watched(handle) || watchdog_add(handle->watchdog, handle, a->sent_ns))
        return true;
    acquisition_answered(a, lock_fail(SECLOCK_FAILED, "out of memory"));
    return false;
}

/* Handles a granted lock. False: the answer came after the local deadline, and the hold is to be
 * released at once. */
static bool accept(struct acquisition *a)
{
    struct seclock_handle *handle = a->handle;
    assert(handle->lease_ms > 0);
    handle->acquired_ns = handle->now_ns();
    handle->deadline_ns = a->sent_ns + handle_valid_ns(handle->lease_ms);
    if (handle->acquired_ns >= handle->deadline_ns && handle->driver->release)
        return false;
    if (handle->lease_ms != a->lease_ms && handle_watched(handle)) /* the driver's own lease */
        watchdog_add(handle->watchdog, handle, a->sent_ns);
    handle->state = SECLOCK_STATE_HELD; /* last: from now on the watchdog renews it */
    /* A watchdog that has looked before did not renew it, and would look too late. */
    if (handle->renews && handle->now_ns() - a->sent_ns > (int64_t)handle->lease_ms * NS_PER_MS / 4)
        watchdog_poke(handle->watchdog, handle);
    count(&counters_of(handle)->acquired);
    counters_time(counters_of(handle)->acquire_us, handle->acquired_ns - a->began_ns);
    return true;
}

/* Returns what a try comes to when its hold came too late and was released. */
static enum seclock_result given_back(struct seclock_handle *handle, enum seclock_result released)
{
    handle->given_back = true; /* and no renewal makes it a hold: its deadline is over */
    bool over = released == SECLOCK_OK || released == SECLOCK_LOST;
    return lock_fail(over ? SECLOCK_FAILED : SECLOCK_UNKNOWN,
                     "the answer came after the lease had ended");
}

void acquisition_answered(struct acquisition *a, enum seclock_result result)
{
    struct seclock_handle *handle = a->handle;
    if (a->step == ACQUISITION_TRY && result == SECLOCK_OK && !accept(a)) {
        a->step = ACQUISITION_GIVE_BACK;
        return;
    }
    if (a->step == ACQUISITION_GIVE_BACK)
        result = given_back(handle, result);
    if (result == SECLOCK_BUSY)
        count(&counters_of(handle)->busy);
    if (result == SECLOCK_UNKNOWN && !handle->given_back) {
        handle->acquired_ns = a->sent_ns; /* if at all */
        handle->deadline_ns = a->sent_ns + (int64_t)handle->lease_ms * NS_PER_MS;
    }
    a->result = result;
    a->doubtful = result == SECLOCK_UNKNOWN || (a->doubtful && result == SECLOCK_FAILED);
    if (handle->waits && worth_waiting(result) && !a->cancelled && may_sleep(a))
        a->step = ACQUISITION_SLEEP;
    else
        stop_trying(a);
}

void acquisition_slept(struct acquisition *a, bool cancelled)
{
    assert(a->step == ACQUISITION_SLEEP);
    a->cancelled = cancelled;
    a->step = ACQUISITION_TRY;
    if (cancelled)
        stop_trying(a);
}
