/* The queue lock on ZooKeeper: first come, first served, by ephemeral sequential nodes. */
#include "lock/driver.h"

#ifdef LOCK_WITH_ZOOKEEPER

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/text.h"
#include "lock/watchdog.h"
#include "lock/zookeeper_line.h"
#include "lock/zookeeper_seat.h"

/* the_queue: a lock is a container node, whoever wants it makes a child REQUEST-lock-SEQUENCE that
 * ends with the maker's session. The child with the lowest sequence is the holder's; every other
 * one watches the one before it, so that a release wakes one waiter. The fence is the czxid of the
 * holder's child. When a make was not answered, the request's id in the name finds the child.
 *
 * A hold is as good as its session: the server ends that when it has heard nothing for the
 * session's time-out, which it counts from later than we do. Two thirds of it, counted from when an
 * answered request was sent, is the lease of every hold. */

/* A handle with a seat, so that events of the session find it. */
struct sitting {
    struct seclock_handle *handle;
    struct seat *seat;
    struct sitting *next;
};

struct queue {
    struct zk *zk;
    char prefix[SECLOCK_PREFIX_MAX];
    int timeout_ms;
    pthread_mutex_t mutex; /* guards the lists and the seats' holds */
    struct sitting *sittings;
};

/* ---- Who sits where ---- */

static enum seclock_result sit_down(struct queue *queue, struct seclock_handle *handle,
                                    struct seat *seat)
{
    struct sitting *sitting = calloc(1, sizeof *sitting);
    if (!sitting)
        return SECLOCK_FAILED;
    sitting->handle = handle;
    sitting->seat = seat;
    pthread_mutex_lock(&queue->mutex);
    handle->hold_count = ++seat->holds;
    sitting->next = queue->sittings;
    queue->sittings = sitting;
    pthread_mutex_unlock(&queue->mutex);
    handle->driver_data = sitting;
    handle->fence = (uint64_t)seat->czxid;
    int session_ms = zk_session_ms(seat->session) * 2 / 3;
    if (handle->lease_ms > session_ms)
        handle->lease_ms = session_ms;
    return SECLOCK_OK;
}

/* Takes the handle from its seat, and gives the seat to the caller if that was its last hold. */
static struct seat *stand_up(struct queue *queue, struct seclock_handle *handle)
{
    struct sitting *sitting = handle->driver_data;
    pthread_mutex_lock(&queue->mutex);
    struct sitting **link = &queue->sittings;
    while (*link != sitting)
        link = &(*link)->next;
    *link = sitting->next;
    struct seat *seat = sitting->seat;
    bool last = --seat->holds == 0;
    pthread_mutex_unlock(&queue->mutex);
    free(sitting);
    handle->driver_data = NULL;
    return last ? seat : NULL;
}

/* The seat from which the same owner holds the lock already, counted once more. */
static bool sit_again(struct queue *queue, struct seclock_handle *handle)
{
    char directory[ZK_PATH_MAX];
    struct seat *seat = NULL;
    line_directory(queue->prefix, handle->name, directory);
    pthread_mutex_lock(&queue->mutex);
    for (struct sitting *i = queue->sittings; i && !seat; i = i->next)
        if (strcmp(i->seat->owner, handle->owner) == 0 &&
            strcmp(i->seat->directory, directory) == 0 && !i->seat->leaving &&
            seclock_state(i->handle) == SECLOCK_STATE_HELD)
            seat = i->seat;
    if (seat)
        seat->holds++; /* keeps it from being left meanwhile */
    pthread_mutex_unlock(&queue->mutex);
    if (!seat)
        return false;
    enum seclock_result result = sit_down(queue, handle, seat);
    pthread_mutex_lock(&queue->mutex);
    handle->hold_count = --seat->holds;
    pthread_mutex_unlock(&queue->mutex);
    return result == SECLOCK_OK;
}

/* A connection that is lost makes every hold doubtful, a session that is over ends its holds. */
static void queue_event(void *context, struct zk_session *session)
{
    struct queue *queue = context;
    bool over = zk_session_over(session);
    pthread_mutex_lock(&queue->mutex);
    for (struct sitting *i = queue->sittings; i; i = i->next)
        if (i->seat->session == session) {
            if (over)
                watchdog_lost(i->handle);
            else
                watchdog_doubt(i->handle);
        }
    pthread_mutex_unlock(&queue->mutex);
}

/* ---- The driver ---- */

static enum seclock_result queue_open(const struct lock_context *context, void **self_out)
{
    const char *hosts = context->server + strlen("zookeeper://");
    struct queue *queue = calloc(1, sizeof *queue);
    if (queue)
        queue->zk = zk_open(hosts, context->lease_ms, queue_event, queue);
    if (!queue || !queue->zk) {
        free(queue);
        return SECLOCK_FAILED;
    }
    queue->timeout_ms = context->timeout_ms;
    strcpy(queue->prefix, context->prefix);
    pthread_mutex_init(&queue->mutex, NULL);
    *self_out = queue;
    return SECLOCK_OK;
}

static void queue_close(void *self)
{
    struct queue *queue = self;
    zk_close(&queue->zk);
    pthread_mutex_destroy(&queue->mutex);
    free(queue);
}

/* What a try has come to, while the seat is kept in handle->waiting. */
static enum seclock_result queue_try(struct seclock_handle *handle, struct seat *seat)
{
    bool first = false;
    enum zk_result result = seat_take(seat);
    if (result == ZK_OK) {
        result = seat_look(seat, handle->waits, &first);
        if (seat_connected_again(seat, result))
            result = seat_look(seat, handle->waits, &first);
    }
    if (result == ZK_NONE || result == ZK_OVER) { /* broken, or expired: line up again */
        seat_forget(seat);
        result = ZK_FAILED;
    }
    if (result != ZK_OK) /* nobody counts as holder who does not know of it, so this is no doubt */
        return seat_failure(seat, seat->in_doubt ? ZK_UNKNOWN : ZK_FAILED);
    return first ? SECLOCK_OK : SECLOCK_BUSY;
}

static enum seclock_result queue_acquire(void *self, struct seclock_handle *handle)
{
    struct queue *queue = self;
    handle->busy_ms = -1;
    struct seat *seat = handle->waiting;
    if (!seat && sit_again(queue, handle))
        return SECLOCK_OK;
    if (!seat)
        seat = seat_new(queue->zk, queue->prefix, handle, queue->timeout_ms);
    if (!seat)
        return SECLOCK_FAILED;
    handle->waiting = seat;
    enum seclock_result result = queue_try(handle, seat);
    if (result == SECLOCK_OK) {
        seat_watch_stop(seat);
        result = sit_down(queue, handle, seat);
        if (result == SECLOCK_OK)
            handle->waiting = NULL;
    }
    if (result != SECLOCK_OK && result != SECLOCK_UNKNOWN && !handle->waits) {
        handle->waiting = NULL;
        seat_leave(seat);
        seat_free(seat);
    }
    return result;
}

static void queue_wait(void *self, struct seclock_handle *handle, int wait_ms)
{
    (void)self;
    const struct seat *seat = handle->waiting;
    struct pollfd fds[2] = {
        {.fd = seat && seat->watching ? seat->watch.fd : -1, .events = POLLIN},
        {.fd = handle->cancel_fd > 0 ? handle->cancel_fd : -1, .events = POLLIN},
    };
    poll(fds, 2, wait_ms);
}

static void queue_stop_waiting(void *self, struct seclock_handle *handle, bool acquired)
{
    (void)self;
    struct seat *seat = handle->waiting;
    if (!seat || acquired)
        return;
    handle->waiting = NULL;
    seat_leave(seat);
    seat_free(seat);
}

/* Finds out about a hold whose making was not answered. */
static enum seclock_result queue_settle(struct queue *queue, struct seclock_handle *handle)
{
    struct seat *seat = handle->waiting;
    bool first = false;
    if (!seat)
        return SECLOCK_LOST;
    if (zk_session_over(seat->session))
        return SECLOCK_LOST;
    enum zk_result result = seat_find(seat);
    if (result == ZK_OK)
        result = seat_look(seat, false, &first);
    if (result == ZK_OK && first) {
        handle->waiting = NULL;
        return sit_down(queue, handle, seat);
    }
    if (result == ZK_UNKNOWN || result == ZK_FAILED)
        return SECLOCK_UNKNOWN;
    seat_leave(seat);
    return SECLOCK_LOST;
}

static enum seclock_result queue_renew_one(struct queue *queue, struct seclock_handle *handle)
{
    struct sitting *sitting = handle->driver_data;
    struct zk_node node;
    if (!sitting)
        return queue_settle(queue, handle);
    struct seat *seat = sitting->seat;
    enum zk_result result = zk_read(seat->session, seat->path, false, queue->timeout_ms, &node);
    if (seat_connected_again(seat, result)) {
        zk_sync(seat->session, seat->directory);
        result = zk_read(seat->session, seat->path, false, queue->timeout_ms, &node);
    }
    if (result == ZK_OK)
        return node.mine && node.czxid == seat->czxid ? SECLOCK_OK : SECLOCK_LOST;
    if (result == ZK_NONE || result == ZK_OVER)
        return SECLOCK_LOST;
    return seat_failure(seat, result);
}

/* Any answered request renews the session; a read after a sync also tells whether the child is
 * still there. Once one was not answered, none will be. */
static void queue_renew(void *self, struct seclock_handle *const *handles, size_t count,
                        enum seclock_result *results_out)
{
    struct queue *queue = self;
    const struct zk_session *synced = NULL;
    bool silent = false;
    for (size_t i = 0; i < count; i++) {
        struct sitting *sitting = handles[i]->driver_data;
        if (silent) {
            results_out[i] = SECLOCK_UNKNOWN;
            continue;
        }
        if (sitting && sitting->seat->session != synced) {
            zk_sync(sitting->seat->session, sitting->seat->directory);
            synced = sitting->seat->session;
        }
        results_out[i] = queue_renew_one(queue, handles[i]);
        silent = results_out[i] == SECLOCK_UNKNOWN || results_out[i] == SECLOCK_FAILED;
    }
}

static enum seclock_result queue_unmake(struct queue *queue, struct seat *seat)
{
    enum zk_result result = zk_delete(seat->session, seat->path, queue->timeout_ms);
    seat->releasing = seat->releasing || result == ZK_UNKNOWN;
    if (seat_connected_again(seat, result))
        result = zk_delete(seat->session, seat->path, queue->timeout_ms);
    if (result == ZK_OK || (result == ZK_NONE && seat->releasing))
        return SECLOCK_OK;
    if (result == ZK_NONE || result == ZK_OVER)
        return SECLOCK_LOST;
    seat_failure(seat, result);
    seat->releasing = true;
    seat_clean_later(seat);
    return SECLOCK_UNKNOWN;
}

static enum seclock_result queue_release(void *self, struct seclock_handle *handle)
{
    struct queue *queue = self;
    struct sitting *sitting = handle->driver_data;
    if (!sitting) {
        queue_stop_waiting(self, handle, false);
        return SECLOCK_OK;
    }
    pthread_mutex_lock(&queue->mutex);
    bool last = sitting->seat->holds == 1;
    if (last)
        sitting->seat->leaving = true;
    pthread_mutex_unlock(&queue->mutex);
    enum seclock_result result = SECLOCK_OK;
    if (last)
        result = queue_unmake(queue, sitting->seat);
    else if (zk_session_over(sitting->seat->session))
        result = SECLOCK_LOST;
    if (result == SECLOCK_UNKNOWN)
        return result; /* may be asked again; `drop` frees it */
    struct seat *seat = stand_up(queue, handle);
    if (seat)
        seat_free(seat);
    return result;
}

static void queue_drop(void *self, struct seclock_handle *handle)
{
    struct queue *queue = self;
    queue_stop_waiting(self, handle, false);
    if (!handle->driver_data)
        return;
    struct seat *seat = stand_up(queue, handle);
    if (!seat)
        return;
    if (!seat->releasing)
        seat_clean_later(seat);
    seat_free(seat);
}

/* The seat of whoever holds the lock, in a session of our own: ZK_NONE when nobody does. */
static enum zk_result find_holder(struct queue *queue, const char *name, struct seat *seat_out,
                                  size_t *count_out)
{
    struct zk_names names;
    const char *first = NULL;
    *seat_out = (struct seat){.session = zk_session_take(queue->zk, queue->timeout_ms)};
    *count_out = 0;
    if (!seat_out->session)
        return ZK_FAILED;
    line_directory(queue->prefix, name, seat_out->directory);
    zk_sync(seat_out->session, seat_out->directory);
    enum zk_result result =
        zk_list(seat_out->session, seat_out->directory, queue->timeout_ms, &names);
    if (result == ZK_OK)
        result =
            line_first(seat_out->session, seat_out->directory, &names, queue->timeout_ms, &first);
    if (result == ZK_OK && !first)
        result = ZK_NONE;
    if (result == ZK_OK)
        line_child(seat_out->directory, first, seat_out->path);
    *count_out = names.count;
    zk_names_free(&names);
    return result;
}

static enum seclock_result queue_status(const struct lock_driver *driver, void *self,
                                        const char *name, struct seclock_status *status_out)
{
    (void)driver;
    struct queue *queue = self;
    struct seat seat;
    struct zk_node node;
    size_t count;
    status_out->waiting = 0;
    enum zk_result result = find_holder(queue, name, &seat, &count);
    if (result == ZK_OK)
        result = zk_read(seat.session, seat.path, false, queue->timeout_ms, &node);
    if (result == ZK_OK) {
        status_out->held = true;
        status_out->count = 1;
        status_out->waiting = (int64_t)count - 1;
        status_out->fence = (uint64_t)node.czxid;
        snprintf(status_out->holder, SECLOCK_TOKEN_MAX, "%.*s", SECLOCK_TOKEN_MAX - 1, node.data);
    }
    enum seclock_result answer =
        result == ZK_OK || result == ZK_NONE ? SECLOCK_OK : seat_failure(&seat, result);
    zk_session_drop(&seat.session);
    return answer;
}

static enum seclock_result queue_break(const struct lock_driver *driver, void *self,
                                       const char *name)
{
    (void)driver;
    struct queue *queue = self;
    struct seat seat;
    size_t count;
    enum zk_result result = find_holder(queue, name, &seat, &count);
    if (result == ZK_OK)
        result = zk_delete(seat.session, seat.path, queue->timeout_ms);
    enum seclock_result answer = result == ZK_OK     ? SECLOCK_OK
                                 : result == ZK_NONE ? SECLOCK_NOT_OWNER
                                                     : seat_failure(&seat, result);
    zk_session_drop(&seat.session);
    return answer;
}

const struct lock_driver zookeeper_queue_driver = {
    .kind = SECLOCK_KIND_QUEUE,
    .features = LOCK_FENCED | LOCK_RENEWS,
    .poll_ms_min = 10,
    .poll_ms_max = 200,
    .open = queue_open,
    .close = queue_close,
    .acquire = queue_acquire,
    .wait = queue_wait,
    .stop_waiting = queue_stop_waiting,
    .renew = queue_renew,
    .release = queue_release,
    .drop = queue_drop,
    .status = queue_status,
    .break_lock = queue_break,
};

#endif
