/* Takes the steps of acquisitions, renewals and releases without waiting for any of them. */
#include "lock/loop/operation.h"

#include <assert.h>
#include <stdlib.h>

#include "lock/lock.h"
#include "lock/redis/waiter.h"
#include "lock/text.h"

enum { WAIT_MS_UNSUBSCRIBED = 50 };

/* ---- the end ---- */

static char *take_value(struct operation *operation)
{
    char *value = operation->value;
    operation->value = NULL;
    return value;
}

static void end(struct operation *operation, enum seclock_result result)
{
    assert(operation->phase == OPERATION_UNDER_WAY);
    free(take_value(operation)); /* of a renewal that was not sent */
    loop_keep_result(operation, result);
    operation->phase = OPERATION_ENDED;
    TAILQ_INSERT_TAIL(&operation->loop->ended, operation, in_ended);
}

/* ---- steps by a thread ---- */

static enum seclock_result work_try(struct operation *operation)
{
    struct seclock_handle *handle = operation->handle;
    if (!acquisition_sent(&operation->acquisition))
        return SECLOCK_RESULT_COUNT; /* answered already */
    return handle->driver->acquire(handle->self, handle);
}

static enum seclock_result work_give_back(struct operation *operation)
{
    struct seclock_handle *handle = operation->handle;
    return handle->driver->release(handle->self, handle);
}

static enum seclock_result work_leave(struct operation *operation)
{
    struct seclock_handle *handle = operation->handle;
    handle->driver->stop_waiting(handle->self, handle, operation->acquisition.result == SECLOCK_OK);
    return SECLOCK_OK;
}

static enum seclock_result work_renew(struct operation *operation)
{
    return lock_renew(operation->handle, take_value(operation));
}

static enum seclock_result work_release(struct operation *operation)
{
    return seclock_release(operation->handle);
}

/* ---- steps by the pipe ---- */

static void advance(struct operation *operation);

static void on_answer(void *context, const struct script_call *call, const char *error)
{
    struct operation *operation = context;
    struct seclock_handle *handle = operation->handle;
    const struct lock_driver *driver = handle->driver;
    if (call->result != REDIS_ANSWERED)
        lock_set_error("redis %s: %s", script_pipe_place(operation->loop->pipe), error);
    if (operation->what == SECLOCK_EVENT_RENEWED) {
        enum seclock_result result = driver->step_answer(handle, LOCK_RENEW, call);
        end(operation, lock_renewed(handle, result, operation->sent_ns));
    } else if (operation->what == SECLOCK_EVENT_RELEASED) {
        enum seclock_result result = driver->step_answer(handle, LOCK_RELEASE, call);
        end(operation, lock_released(handle, operation->before, result));
    } else if (operation->acquisition.step == ACQUISITION_LEAVE) {
        acquisition_left(&operation->acquisition);
        advance(operation);
    } else {
        enum lock_step step =
            operation->acquisition.step == ACQUISITION_TRY ? LOCK_ACQUIRE : LOCK_RELEASE;
        acquisition_answered(&operation->acquisition, driver->step_answer(handle, step, call));
        advance(operation);
    }
}

/* False: the kind has no such step, or there is no memory. */
static bool send(struct operation *operation, enum lock_step step)
{
    struct seclock_handle *handle = operation->handle;
    int timeout_ms = handle->core->options.timeout_ms;
    struct script_sending *sending = malloc(sizeof *sending);
    if (!sending || !handle->driver->step_call(handle->self, handle, step, &sending->call)) {
        free(sending);
        return false;
    }
    sending->publishes =
        handle->driver->wait_channel && (step == LOCK_RELEASE || step == LOCK_LEAVE);
    /* Without the limit of an acquisition there is time for a second sending. */
    sending->limit_ms =
        handle->until_ns == 0 ? 2 * timeout_ms : handle_request_ms(handle, timeout_ms);
    sending->done = on_answer;
    sending->context = operation;
    script_pipe_send(operation->loop->pipe, sending);
    return true;
}

static bool by_pipe(const struct operation *operation)
{
    return operation->handle->driver->step_call && loop_pipe(operation->loop);
}

/* ---- the steps of an acquisition ---- */

/* True when the step goes on elsewhere; false when it is over. */
static bool step_try(struct operation *operation)
{
    struct acquisition *acquisition = &operation->acquisition;
    if (!by_pipe(operation)) {
        if (loop_job(operation, work_try))
            return true;
    } else if (!acquisition_sent(acquisition)) {
        return false;
    } else if (send(operation, LOCK_ACQUIRE)) {
        return true;
    }
    acquisition_answered(acquisition, lock_fail(SECLOCK_FAILED, "out of memory or threads"));
    return false;
}

static bool step_give_back(struct operation *operation)
{
    if (by_pipe(operation) ? send(operation, LOCK_RELEASE) : loop_job(operation, work_give_back))
        return true;
    acquisition_answered(&operation->acquisition, SECLOCK_UNKNOWN);
    return false;
}

static bool step_leave(struct operation *operation)
{
    bool acquired = operation->acquisition.result == SECLOCK_OK;
    if (operation->waiter)
        waiter_leave(&operation->waiter, acquired);
    if (by_pipe(operation) ? !acquired && send(operation, LOCK_LEAVE)
                           : loop_job(operation, work_leave))
        return true;
    acquisition_left(&operation->acquisition);
    return false;
}

/* Joins the channel whose messages end the sleep, if it has not. Returns how long to sleep; 0: it
 * was woken meanwhile. */
static int sleep_on_channel(struct operation *operation, int ms)
{
    char channel[LOCK_CHANNEL_MAX];
    struct seclock_handle *handle = operation->handle;
    handle->driver->wait_channel(handle->self, handle, &ms, channel);
    if (operation->waiter && handle->permits > 1)
        waiter_pass(operation->waiter); /* see redis_kind_wait */
    operation->waiter =
        waiter_join(operation->waiter, loop_hub(operation->loop, channel), channel, operation);
    if (!operation->waiter)
        return ms < WAIT_MS_UNSUBSCRIBED ? ms : WAIT_MS_UNSUBSCRIBED;
    return waiter_doze(operation->waiter) ? ms : 0;
}

static bool step_sleep(struct operation *operation)
{
    struct acquisition *acquisition = &operation->acquisition;
    const struct lock_driver *driver = operation->handle->driver;
    int ms = acquisition->sleep_ms, fd = -1;
    if (acquisition->told && driver->wait_channel && !operation->cancelled)
        ms = sleep_on_channel(operation, ms);
    else if (acquisition->told && driver->wait_fd)
        fd = driver->wait_fd(operation->handle, &ms);
    if (ms > 0 && !operation->cancelled) {
        loop_sleep(operation, ms, fd);
        return true;
    }
    acquisition_slept(acquisition, operation->cancelled);
    return false;
}

/* Takes steps until one goes on elsewhere. */
static void advance(struct operation *operation)
{
    struct acquisition *acquisition = &operation->acquisition;
    bool away = false;
    while (!away && acquisition->step != ACQUISITION_DONE) {
        if (acquisition->step == ACQUISITION_TRY)
            away = step_try(operation);
        else if (acquisition->step == ACQUISITION_GIVE_BACK)
            away = step_give_back(operation);
        else if (acquisition->step == ACQUISITION_SLEEP)
            away = step_sleep(operation);
        else
            away = step_leave(operation);
    }
    if (!away)
        end(operation, acquisition->result);
}

/* ---- renewal and release ---- */

/* A renewal of the watchdog that is under way is waited for by a thread. */
static void renew(struct operation *operation)
{
    struct seclock_handle *handle = operation->handle;
    enum seclock_result result;
    if (!lock_may_renew(handle, &result)) {
        end(operation, result);
        return;
    }
    bool begun = by_pipe(operation) &&
                 (!handle->renews || watchdog_renewal_begin(handle->watchdog, handle, false));
    operation->sent_ns = handle->now_ns();
    if (begun)
        lock_value_begin(handle, take_value(operation));
    if (begun && !send(operation, LOCK_RENEW))
        end(operation,
            lock_renewed(handle, lock_fail(SECLOCK_FAILED, "out of memory"), operation->sent_ns));
    if (!begun && !loop_job(operation, work_renew))
        end(operation, lock_fail(SECLOCK_FAILED, "no thread"));
}

static void release(struct operation *operation)
{
    struct seclock_handle *handle = operation->handle;
    if (!lock_is_owned(handle)) {
        end(operation, SECLOCK_NOT_OWNER);
        return;
    }
    bool begun = by_pipe(operation) &&
                 (!handle_watched(handle) || watchdog_remove(handle->watchdog, handle, false));
    operation->before = seclock_state(handle);
    if (begun)
        loop_forget_loss(operation);
    if (begun && !send(operation, LOCK_RELEASE))
        end(operation, lock_fail(SECLOCK_FAILED, "out of memory"));
    if (!begun && !loop_job(operation, work_release))
        end(operation, lock_fail(SECLOCK_FAILED, "no thread"));
}

/* ---- what the loop calls ---- */

void operation_begin(struct operation *operation, enum seclock_event_kind what, int wait_ms)
{
    assert(operation->phase == OPERATION_NONE);
    operation->phase = OPERATION_UNDER_WAY;
    operation->what = what;
    operation->cancelled = false;
    if (what == SECLOCK_EVENT_RENEWED) {
        renew(operation);
    } else if (what == SECLOCK_EVENT_RELEASED) {
        release(operation);
    } else {
        acquisition_begin(&operation->acquisition, operation->handle, wait_ms);
        advance(operation);
    }
}

void operation_wake(struct operation *operation)
{
    assert(operation->acquisition.step == ACQUISITION_SLEEP);
    loop_stop_sleep(operation);
    if (operation->waiter)
        waiter_rise(operation->waiter);
    acquisition_slept(&operation->acquisition, operation->cancelled);
    advance(operation);
}

void operation_done(struct operation *operation)
{
    struct acquisition *acquisition = &operation->acquisition;
    if (operation->error)
        lock_set_error("%s", operation->error);
    if (operation->what != SECLOCK_EVENT_ACQUIRED) {
        end(operation, operation->result);
        return;
    }
    if (acquisition->step == ACQUISITION_LEAVE)
        acquisition_left(acquisition);
    else if (operation->result != SECLOCK_RESULT_COUNT)
        acquisition_answered(acquisition, operation->result);
    advance(operation);
}

void operation_cancel(struct operation *operation)
{
    if (operation->phase != OPERATION_UNDER_WAY || operation->what != SECLOCK_EVENT_ACQUIRED)
        return;
    operation->cancelled = true;
    if (operation->acquisition.step == ACQUISITION_SLEEP)
        operation_wake(operation);
}

/* A hold that may exist on the server ends with its lease: nobody renews it any more. */
void operation_abandon(struct operation *operation)
{
    struct seclock_handle *handle = operation->handle;
    bool acquiring =
        operation->phase == OPERATION_UNDER_WAY && operation->what == SECLOCK_EVENT_ACQUIRED;
    if (operation->phase == OPERATION_UNDER_WAY && operation->what == SECLOCK_EVENT_RENEWED &&
        handle->renewing)
        watchdog_renewal_end(handle->watchdog, handle, SECLOCK_UNKNOWN, operation->sent_ns);
    if (operation->waiter && operation->acquisition.step == ACQUISITION_SLEEP)
        waiter_rise(operation->waiter);
    if (operation->waiter)
        waiter_leave(&operation->waiter, false);
    if (acquiring && handle->waits && handle->driver->stop_waiting)
        handle->driver->stop_waiting(handle->self, handle, false);
    operation->phase = OPERATION_NONE;
}
