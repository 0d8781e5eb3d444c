/* The form for event loops: begins operations, and turns what has ended into events. */
#include <assert.h>
#include <stdlib.h>

#include "lock/election/election.h"
#include "lock/lock.h"
#include "lock/loop/operation.h"
#include "lock/text.h"

enum { EVENT_SIZE_MIN = offsetof(struct seclock_event, context) + sizeof(void *) };

/* ---- open and close ---- */

enum seclock_result seclock_loop_open(struct seclock_client *client, struct seclock_loop **loop_out)
{
    struct lock_core *core = client_core(client);
    *loop_out = core ? loop_open(client, core) : NULL;
    return *loop_out ? SECLOCK_OK : lock_fail(SECLOCK_FAILED, "out of memory or descriptors");
}

/* Nobody renews, nor tells of, a hold whose loop has gone. */
static void abandon(struct operation *operation)
{
    struct seclock_handle *handle = operation->handle;
    operation_abandon(operation);
    if (handle_watched(handle))
        watchdog_remove(handle->watchdog, handle, true);
}

void seclock_loop_close(struct seclock_loop **loop)
{
    UNCANCELLED;
    struct seclock_loop *old = *loop;
    *loop = NULL;
    if (old)
        loop_close(old, abandon);
}

int seclock_loop_fd(const struct seclock_loop *loop)
{
    return loop->epoll_fd;
}

/* Goes on with all that can. */
static void turn(struct seclock_loop *loop)
{
    struct operations done = TAILQ_HEAD_INITIALIZER(done);
    struct operation *operation;
    loop_read(loop, &done);
    while ((operation = TAILQ_FIRST(&done)) != NULL) {
        TAILQ_REMOVE(&done, operation, in_done);
        operation_done(operation);
    }
    while ((operation = loop_awake(loop)) != NULL)
        operation_wake(operation);
    loop_settle(loop);
}

/* What has just begun may have ended already. */
static void settle(struct seclock_loop *loop)
{
    loop_settle(loop);
    if (!TAILQ_EMPTY(&loop->ended))
        loop_ring(loop);
}

/* ---- operations ---- */

/* The handle's last operation has ended. */
static void leave(struct seclock_handle *handle)
{
    struct operation *operation = handle->operation;
    struct seclock_loop *loop = operation->loop;
    assert(operation->phase != OPERATION_UNDER_WAY);
    if (loop) {
        loop_forget_loss(operation);
        if (operation->phase == OPERATION_ENDED)
            TAILQ_REMOVE(&loop->ended, operation, in_ended);
        TAILQ_REMOVE(&loop->all, operation, in_loop);
        due_remove(&loop->sleeping, &operation->timer);
    }
    free(operation->value);
    free(operation->error);
    free(operation);
}

static void on_lost(struct seclock_handle *handle, void *context)
{
    (void)handle;
    loop_lose(context);
}

/* Makes the operation of a new handle. False: no memory. */
static bool operation_make(struct seclock_loop *loop, struct seclock_handle *handle)
{
    struct operation *operation = calloc(1, sizeof *operation);
    if (!operation)
        return false;
    operation->loop = loop;
    operation->handle = operation->timer.handle = handle;
    operation->context = handle->context;
    operation->wait_fd = -1;
    if (!due_put(&loop->sleeping, &operation->timer, INT64_MAX)) { /* no later one can fail */
        free(operation);
        return false;
    }
    TAILQ_INSERT_TAIL(&loop->all, operation, in_loop);
    handle->operation = operation;
    handle->leave_loop = leave;
    if (handle->driver->release) {
        handle->on_lost = on_lost;
        handle->context = operation;
    }
    handle->polls = !handle->driver->wait_channel && !handle->driver->wait_fd;
    return true;
}

static enum seclock_result usable(const struct seclock_loop *loop)
{
    return loop->core->generation == process_generation()
               ? SECLOCK_OK
               : lock_fail(SECLOCK_FAILED, "the loop is the parent's of this process");
}

static enum seclock_result acquire(struct seclock_loop *loop, const struct seclock_request *request,
                                   struct seclock_handle **handle_out)
{
    enum seclock_result result = usable(loop);
    if (result == SECLOCK_OK && (request->cancel_fd > 0 || request->on_lost))
        result = lock_fail(SECLOCK_CONFIG, "a loop takes no cancel_fd and no on_lost");
    if (result == SECLOCK_OK)
        result = lock_prepare(loop->client, request, handle_out);
    if (result != SECLOCK_OK)
        return result;
    if (!operation_make(loop, *handle_out)) {
        seclock_free(handle_out);
        return lock_fail(SECLOCK_FAILED, "out of memory");
    }
    operation_begin((*handle_out)->operation, SECLOCK_EVENT_ACQUIRED, request->wait_ms);
    settle(loop);
    return SECLOCK_OK;
}

enum seclock_result seclock_loop_acquire(struct seclock_loop *loop,
                                         const struct seclock_request *request,
                                         struct seclock_handle **handle_out)
{
    UNCANCELLED;
    struct seclock_request known;
    *handle_out = NULL;
    enum seclock_result result = lock_request_read(&known, request);
    return result == SECLOCK_OK ? acquire(loop, &known, handle_out) : result;
}

enum seclock_result seclock_loop_await(struct seclock_loop *loop,
                                       const struct seclock_request *request,
                                       struct seclock_handle **handle_out)
{
    UNCANCELLED;
    struct seclock_request latch;
    *handle_out = NULL;
    enum seclock_result result = lock_latch_read(&latch, request);
    return result == SECLOCK_OK ? acquire(loop, &latch, handle_out) : result;
}

static enum seclock_result usable_for(const struct seclock_loop *loop,
                                      const struct seclock_handle *handle)
{
    const struct operation *operation = handle ? handle->operation : NULL;
    enum seclock_result result = usable(loop);
    if (result != SECLOCK_OK)
        return result;
    if (!operation || operation->loop != loop)
        return lock_fail(SECLOCK_CONFIG, "the handle is not one of this loop");
    if (operation->phase != OPERATION_NONE)
        return lock_fail(SECLOCK_CONFIG, "the handle's last operation has not ended");
    if (!handle->driver->release)
        return lock_fail(SECLOCK_CONFIG, "a latch is not held");
    return SECLOCK_OK;
}

static enum seclock_result begin(struct seclock_loop *loop, struct seclock_handle *handle,
                                 enum seclock_event_kind what)
{
    enum seclock_result result = usable_for(loop, handle);
    if (result != SECLOCK_OK)
        return result;
    operation_begin(handle->operation, what, 0);
    settle(loop);
    return SECLOCK_OK;
}

enum seclock_result seclock_loop_renew(struct seclock_loop *loop, struct seclock_handle *handle)
{
    UNCANCELLED;
    return begin(loop, handle, SECLOCK_EVENT_RENEWED);
}

enum seclock_result seclock_loop_proclaim(struct seclock_loop *loop, struct seclock_handle *handle,
                                          const char *value)
{
    UNCANCELLED;
    char *copy;
    enum seclock_result result = usable_for(loop, handle);
    if (result == SECLOCK_OK)
        result = election_value(handle, value, &copy);
    if (result != SECLOCK_OK)
        return result;
    if (seclock_fence(handle) == 0) {
        free(copy);
        return lock_fail(SECLOCK_CONFIG, "the hold is in doubt: renew it first");
    }
    handle->operation->value = copy;
    return begin(loop, handle, SECLOCK_EVENT_RENEWED);
}

enum seclock_result seclock_loop_release(struct seclock_loop *loop, struct seclock_handle *handle)
{
    UNCANCELLED;
    return begin(loop, handle, SECLOCK_EVENT_RELEASED);
}

void seclock_loop_cancel(struct seclock_loop *loop, struct seclock_handle *handle)
{
    UNCANCELLED;
    if (usable(loop) != SECLOCK_OK || !handle->operation || handle->operation->loop != loop)
        return;
    operation_cancel(handle->operation);
    settle(loop);
}

/* ---- events ---- */

/* A loss is told after the acquisition, and not any more once the hold is released. */
static bool next_loss(struct seclock_loop *loop, struct seclock_event *event)
{
    pthread_mutex_lock(&loop->mutex);
    struct operation *operation = TAILQ_FIRST(&loop->lost);
    while (operation && operation->phase != OPERATION_NONE &&
           operation->what == SECLOCK_EVENT_ACQUIRED)
        operation = TAILQ_NEXT(operation, in_lost);
    if (operation) {
        TAILQ_REMOVE(&loop->lost, operation, in_lost);
        operation->lost = false;
    }
    pthread_mutex_unlock(&loop->mutex);
    if (!operation)
        return false;
    event->kind = SECLOCK_EVENT_LOST;
    event->result = lock_fail(SECLOCK_LOST, "the lease has ended, or the lock was broken");
    event->handle = operation->handle;
    event->context = operation->context;
    return true;
}

static bool next_ended(struct seclock_loop *loop, struct seclock_event *event)
{
    struct operation *operation = TAILQ_FIRST(&loop->ended);
    if (!operation)
        return false;
    TAILQ_REMOVE(&loop->ended, operation, in_ended);
    operation->phase = OPERATION_NONE;
    event->kind = operation->what;
    event->result = operation->result;
    event->handle = operation->handle;
    event->context = operation->context;
    if (operation->error)
        lock_set_error("%s", operation->error);
    if (operation->handle->state == SECLOCK_STATE_RELEASED)
        loop_forget_loss(operation);
    return true;
}

bool seclock_loop_next(struct seclock_loop *loop, struct seclock_event *event_out)
{
    UNCANCELLED;
    struct seclock_event event = {0};
    if (usable(loop) != SECLOCK_OK)
        return false;
    bool found = next_ended(loop, &event) || next_loss(loop, &event);
    if (!found) {
        turn(loop);
        found = next_ended(loop, &event) || next_loss(loop, &event);
    }
    return lock_sized_write(event_out, sizeof event, EVENT_SIZE_MIN, &event) && found;
}
