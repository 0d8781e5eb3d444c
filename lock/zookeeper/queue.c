/* The queue lock on ZooKeeper: first come, first served, by ephemeral sequential nodes. */
#include "lock/driver.h"

#ifdef LOCK_WITH_ZOOKEEPER

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "lock/text.h"
#include "lock/watchdog.h"
#include "lock/zookeeper/node.h"

/* the_queue: a lock is a container node. Whoever wants the lock makes a child of it that ends with
 * the session of its maker. The maker of the child with the lowest sequence number is the holder;
 * every other one watches the child before its own, so that a release wakes one waiter. The fence
 * is the czxid of the holder's child. When a make is not answered, the request's id in the name of
 * the child finds it.
 *
 * why_two_thirds: a hold is as good as its session, which the server ends when it has heard nothing
 * for the session's time-out. The server counts that from when it got the last packet, which is
 * later than when we sent it. Two thirds of the time-out, counted from the sending of an answered
 * request, is the lease of every hold. */

/* A handle with its node, so that events of the session find the handle. */
struct queue_hold {
    struct seclock_handle *handle;
    struct queue_node *node;
    LIST_ENTRY(queue_hold) in_list;
};

struct queue {
    struct zk *zk;
    char prefix[SECLOCK_PREFIX_MAX];
    int timeout_ms;
    pthread_mutex_t mutex; /* guards the list, the nodes' holds and the handles' driver_data */
    LIST_HEAD(, queue_hold) holds;
};

/* ---- holds ---- */

static enum seclock_result hold_begin(struct queue *queue, struct seclock_handle *handle,
                                      struct queue_node *node)
{
    assert(node->session && node->path[0] != '\0');
    struct queue_hold *hold = calloc(1, sizeof *hold);
    if (!hold)
        return SECLOCK_FAILED;
    hold->handle = handle;
    hold->node = node;
    pthread_mutex_lock(&queue->mutex);
    assert(!handle->driver_data);
    handle->hold_count = ++node->holds;
    LIST_INSERT_HEAD(&queue->holds, hold, in_list);
    handle->driver_data = hold;
    handle->waiting = NULL;
    if (node->handle) /* which another hold of the node may outlive */
        node->handle = NULL;
    pthread_mutex_unlock(&queue->mutex);
    handle->fence = (uint64_t)node->czxid;
    int session_ms = zk_session_ms(node->session) * 2 / 3;
    if (handle->lease_ms > session_ms)
        handle->lease_ms = session_ms;
    return SECLOCK_OK;
}

/* Takes a hold from its node, and gives the node to the caller after its last hold; else NULL. The
 * mutex is held. */
static struct queue_node *hold_end(struct queue_hold *hold)
{
    struct queue_node *node = hold->node;
    assert(node->holds > 0 && hold->handle->driver_data == hold);
    LIST_REMOVE(hold, in_list);
    hold->handle->driver_data = NULL;
    free(hold);
    return --node->holds == 0 ? node : NULL;
}

static void queue_renew(void *self, struct seclock_handle *const *handles, size_t count,
                        enum seclock_result *results_out);
static void queue_drop(void *self, struct seclock_handle *handle);

/* Adds a hold to the node by which the same owner holds the lock already; SECLOCK_LOST: there is
 * none (any more). The server is asked, because the lease of the hold counts from its answer: it
 * may have heard nothing of the session for almost as long as that lasts. Not answered, the hold
 * does not begin. */
static enum seclock_result hold_again(struct queue *queue, struct seclock_handle *handle)
{
    char directory[ZK_PATH_MAX];
    struct queue_node *node = NULL;
    queue_directory(queue->prefix, handle->name, directory);
    struct queue_hold *i;
    pthread_mutex_lock(&queue->mutex);
    LIST_FOREACH (i, &queue->holds, in_list)
        if (!node && strcmp(i->node->owner, handle->owner) == 0 &&
            strcmp(i->node->directory, directory) == 0 && !i->node->leaving &&
            seclock_state(i->handle) == SECLOCK_STATE_HELD)
            node = i->node;
    if (node)
        node->holds++; /* so that a release meanwhile does not delete it */
    pthread_mutex_unlock(&queue->mutex);
    if (!node)
        return SECLOCK_LOST;
    enum seclock_result result = hold_begin(queue, handle, node);
    pthread_mutex_lock(&queue->mutex);
    handle->hold_count = --node->holds;
    pthread_mutex_unlock(&queue->mutex);
    if (result != SECLOCK_OK)
        return result;
    queue_renew(queue, &handle, 1, &result);
    if (result != SECLOCK_OK)
        queue_drop(queue, handle);
    return result == SECLOCK_UNKNOWN ? SECLOCK_FAILED : result;
}

/* True when a hold other than `leaving` still needs the node. A hold that is about to enter again
 * is counted, but not in the list yet. The mutex is held. */
static bool node_wanted(const struct queue *queue, const struct queue_hold *leaving)
{
    assert(leaving->node->holds > 0);
    int wanted = leaving->node->holds - 1;
    const struct queue_hold *i;
    LIST_FOREACH (i, &queue->holds, in_list)
        if (wanted > 0 && i != leaving && i->node == leaving->node &&
            seclock_state(i->handle) == SECLOCK_STATE_LOST)
            wanted--;
    return wanted > 0;
}

/* why_a_lapse: the session goes on when a hold of a fixed lease has ended, and its node would keep
 * everybody out. The deletion is left to the session, because this must not wait. */
static void queue_lapse(void *self, struct seclock_handle *handle)
{
    struct queue *queue = self;
    pthread_mutex_lock(&queue->mutex);
    struct queue_hold *hold = handle->driver_data;
    struct queue_node *node = hold ? hold->node : handle->waiting;
    if (node && node->session && !(hold && (node->leaving || node_wanted(queue, hold)))) {
        node->leaving = true;
        queue_node_delete_later(node);
    }
    pthread_mutex_unlock(&queue->mutex);
}

/* A lost connection makes every hold doubtful; the end of a session ends its holds. */
static void queue_event(void *context, struct zk_session *session)
{
    assert(session);
    struct queue *queue = context;
    bool over = zk_session_over(session);
    struct queue_hold *i;
    pthread_mutex_lock(&queue->mutex);
    LIST_FOREACH (i, &queue->holds, in_list)
        if (i->node->session == session) {
            if (over)
                watchdog_lost(i->handle);
            else
                watchdog_doubt(i->handle);
        }
    pthread_mutex_unlock(&queue->mutex);
}

/* ---- the driver ---- */

static enum seclock_result queue_open(const struct lock_context *context, void **self_out)
{
    char error[URL_ERROR_SIZE];
    struct url url;
    if (!url_parse(context->server, "zookeeper", &url, error, sizeof error))
        return lock_fail(SECLOCK_CONFIG, error);
    const char *hosts = url_scheme_end(context->server) + strlen("://");
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
    assert(LIST_EMPTY(&queue->holds));
    zk_close(&queue->zk);
    pthread_mutex_destroy(&queue->mutex);
    free(queue);
}

/* One try; handle->waiting keeps the node. */
static enum seclock_result queue_try(struct seclock_handle *handle, struct queue_node *node)
{
    assert(handle->waiting == node && node->holds == 0);
    bool first = false;
    enum zk_result result = queue_node_make(node);
    if (result == ZK_OK) {
        result = queue_node_look(node, handle->waits, &first);
        if (queue_node_reconnected(node, result))
            result = queue_node_look(node, handle->waits, &first);
    }
    if (result == ZK_NONE || result == ZK_OVER) { /* broken, or expired: queue up again */
        queue_node_forget(node);
        result = ZK_FAILED;
    }
    if (result != ZK_OK) /* the caller never held it, so only an unanswered make is a doubt */
        return queue_node_failure(node, node->in_doubt ? ZK_UNKNOWN : ZK_FAILED);
    return first ? SECLOCK_OK : SECLOCK_BUSY;
}

/* While the caller waits, handle->waiting keeps the node and its place in the queue; a single
 * try gives it up. */
static enum seclock_result queue_acquire(void *self, struct seclock_handle *handle)
{
    struct queue *queue = self;
    handle->busy_ms = -1;
    assert(!handle->driver_data);
    struct queue_node *node = handle->waiting;
    enum seclock_result result = node ? SECLOCK_LOST : hold_again(queue, handle);
    if (result != SECLOCK_LOST)
        return result;
    if (!node)
        node = queue_node_new(queue->zk, queue->prefix, handle, queue->timeout_ms);
    if (!node)
        return SECLOCK_FAILED;
    handle->waiting = node;
    result = queue_try(handle, node);
    if (result == SECLOCK_OK) {
        queue_node_watch_stop(node);
        result = hold_begin(queue, handle, node);
    }
    if (result != SECLOCK_OK && result != SECLOCK_UNKNOWN && !handle->waits) {
        handle->waiting = NULL;
        queue_node_leave(node);
        queue_node_free(node);
    }
    return result;
}

/* The watch is on the node ahead, so that a release wakes one waiter and not all. */
static void queue_wait(void *self, struct seclock_handle *handle, int wait_ms)
{
    (void)self;
    const struct queue_node *node = handle->waiting;
    struct pollfd fds[2] = {
        {.fd = node && node->watching ? node->watch.fd : -1, .events = POLLIN},
        {.fd = handle->cancel_fd > 0 ? handle->cancel_fd : -1, .events = POLLIN},
    };
    poll(fds, 2, wait_ms);
}

static void queue_stop_waiting(void *self, struct seclock_handle *handle, bool acquired)
{
    (void)self;
    struct queue_node *node = handle->waiting;
    if (!node || acquired)
        return;
    assert(node->holds == 0);
    handle->waiting = NULL;
    queue_node_leave(node);
    queue_node_free(node);
}

/* Finds out about a hold whose acquisition was not answered. */
static enum seclock_result find_out(struct queue *queue, struct seclock_handle *handle)
{
    assert(!handle->driver_data);
    struct queue_node *node = handle->waiting;
    bool first = false;
    if (!node)
        return SECLOCK_LOST;
    if (zk_session_over(node->session))
        return SECLOCK_LOST;
    enum zk_result result = queue_node_find(node);
    if (result == ZK_OK)
        result = queue_node_look(node, false, &first);
    if (result == ZK_OK && first) {
        enum seclock_result begun = hold_begin(queue, handle, node);
        if (seclock_state(handle) == SECLOCK_STATE_LOST) /* a lapse may have come too early */
            queue_lapse(queue, handle);
        return begun;
    }
    if (result == ZK_UNKNOWN || result == ZK_FAILED)
        return SECLOCK_UNKNOWN;
    queue_node_leave(node);
    return SECLOCK_LOST;
}

static enum seclock_result queue_renew_one(struct queue *queue, struct seclock_handle *handle)
{
    struct queue_hold *hold = handle->driver_data;
    struct zk_node read;
    if (!hold)
        return find_out(queue, handle);
    struct queue_node *node = hold->node;
    int wait_ms = handle_request_ms(handle, queue->timeout_ms);
    enum zk_result result = zk_read(node->session, node->path, false, wait_ms, &read);
    wait_ms = handle_request_ms(handle, queue->timeout_ms);
    if ((result == ZK_UNKNOWN || result == ZK_FAILED) &&
        zk_session_await(node->session, wait_ms) == ZK_OK) {
        zk_sync(node->session, node->directory);
        result = zk_read(node->session, node->path, false, wait_ms, &read);
    }
    if (result == ZK_OK)
        return read.mine && read.czxid == node->czxid ? SECLOCK_OK : SECLOCK_LOST;
    if (result == ZK_NONE || result == ZK_OVER)
        return SECLOCK_LOST;
    return queue_node_failure(node, result);
}

/* Any answered request renews the session; a read after a sync tells, in addition, whether the node
 * still exists. Once a request was not answered, the others would not be either. */
static void queue_renew(void *self, struct seclock_handle *const *handles, size_t count,
                        enum seclock_result *results_out)
{
    struct queue *queue = self;
    const struct zk_session *synced = NULL;
    bool silent = false;
    for (size_t i = 0; i < count; i++) {
        struct queue_hold *hold = handles[i]->driver_data;
        if (silent) {
            results_out[i] = SECLOCK_UNKNOWN;
            continue;
        }
        if (hold && hold->node->session != synced) {
            zk_sync(hold->node->session, hold->node->directory);
            synced = hold->node->session;
        }
        results_out[i] = queue_renew_one(queue, handles[i]);
        silent = results_out[i] == SECLOCK_UNKNOWN || results_out[i] == SECLOCK_FAILED;
    }
}

static enum seclock_result delete_node(struct queue *queue, struct queue_node *node)
{
    assert(node->leaving && node->path[0] != '\0');
    enum zk_result result = zk_delete(node->session, node->path, queue->timeout_ms);
    node->releasing = node->releasing || result == ZK_UNKNOWN;
    if (queue_node_reconnected(node, result))
        result = zk_delete(node->session, node->path, queue->timeout_ms);
    if (result == ZK_OK || (result == ZK_NONE && node->releasing))
        return SECLOCK_OK;
    if (result == ZK_NONE || result == ZK_OVER)
        return SECLOCK_LOST;
    queue_node_failure(node, result);
    node->releasing = true;
    queue_node_delete_later(node);
    return SECLOCK_UNKNOWN;
}

/* True when the node goes with this hold; otherwise ends the hold, with its result. Of two holds
 * that are released at once this makes exactly one the last. */
static bool release_begin(struct queue *queue, struct queue_hold *hold,
                          enum seclock_result *result_out)
{
    pthread_mutex_lock(&queue->mutex);
    assert(hold->node->holds > 0);
    bool last = !node_wanted(queue, hold);
    *result_out = zk_session_over(hold->node->session) ? SECLOCK_LOST : SECLOCK_OK;
    if (last)
        hold->node->leaving = true;
    else
        hold_end(hold);
    pthread_mutex_unlock(&queue->mutex);
    return last;
}

static enum seclock_result queue_release(void *self, struct seclock_handle *handle)
{
    struct queue *queue = self;
    struct queue_hold *hold = handle->driver_data;
    enum seclock_result result;
    if (!hold) {
        queue_stop_waiting(self, handle, false);
        return SECLOCK_OK;
    }
    if (!release_begin(queue, hold, &result))
        return result;
    result = delete_node(queue, hold->node);
    if (result == SECLOCK_UNKNOWN)
        return result; /* the caller may try again; `drop` frees it */
    pthread_mutex_lock(&queue->mutex);
    struct queue_node *node = hold_end(hold);
    pthread_mutex_unlock(&queue->mutex);
    if (node)
        queue_node_free(node);
    return result;
}

/* A handle that is freed without a release: the deletion is left to the session, because nobody
 * waits for its answer. */
static void queue_drop(void *self, struct seclock_handle *handle)
{
    struct queue *queue = self;
    queue_stop_waiting(self, handle, false);
    struct queue_hold *hold = handle->driver_data;
    if (!hold)
        return;
    assert(!handle->waiting);
    pthread_mutex_lock(&queue->mutex);
    if (!node_wanted(queue, hold) && !hold->node->releasing) {
        hold->node->leaving = true;
        queue_node_delete_later(hold->node);
    }
    struct queue_node *node = hold_end(hold);
    pthread_mutex_unlock(&queue->mutex);
    if (node)
        queue_node_free(node);
}

/* The first node of the queue, whose maker holds the lock, in a session of our own: ZK_NONE when
 * nobody does. */
static enum zk_result find_holder(struct queue *queue, const char *name,
                                  struct queue_node *node_out, size_t *count_out)
{
    *node_out = (struct queue_node){.zk = queue->zk,
                                    .session = zk_session_take(queue->zk, queue->timeout_ms)};
    *count_out = 0;
    if (!node_out->session)
        return ZK_FAILED;
    queue_directory(queue->prefix, name, node_out->directory);
    return queue_first(node_out->session, node_out->directory, queue->timeout_ms, node_out->path,
                       count_out);
}

static enum seclock_result queue_status(const struct lock_driver *driver, void *self,
                                        const char *name, struct seclock_status *status_out)
{
    (void)driver;
    struct queue *queue = self;
    struct queue_node node;
    struct zk_node read;
    size_t count;
    status_out->waiting = 0;
    enum zk_result result = find_holder(queue, name, &node, &count);
    if (result == ZK_OK)
        result = zk_read(node.session, node.path, false, queue->timeout_ms, &read);
    if (result == ZK_OK) {
        status_out->held = true;
        status_out->count = 1;
        status_out->waiting = (int64_t)count - 1;
        status_out->fence = (uint64_t)read.czxid;
        snprintf(status_out->holder, SECLOCK_TOKEN_MAX, "%.*s", SECLOCK_TOKEN_MAX - 1, read.data);
    }
    enum seclock_result answer =
        result == ZK_OK || result == ZK_NONE ? SECLOCK_OK : queue_node_failure(&node, result);
    zk_session_drop(&node.session);
    return answer;
}

/* The holder learns of it at its next renewal, which finds the node gone. */
static enum seclock_result queue_break(const struct lock_driver *driver, void *self,
                                       const char *name)
{
    (void)driver;
    struct queue *queue = self;
    struct queue_node node;
    size_t count;
    enum zk_result result = find_holder(queue, name, &node, &count);
    if (result == ZK_OK)
        result = zk_delete(node.session, node.path, queue->timeout_ms);
    enum seclock_result answer = result == ZK_OK     ? SECLOCK_OK
                                 : result == ZK_NONE ? SECLOCK_NOT_OWNER
                                                     : queue_node_failure(&node, result);
    zk_session_drop(&node.session);
    return answer;
}

const struct lock_driver zookeeper_queue_driver = {
    .kind = SECLOCK_KIND_QUEUE,
    .features = LOCK_RENEWS,
    .poll_ms_min = 10,
    .poll_ms_max = 200,
    .open = queue_open,
    .close = queue_close,
    .acquire = queue_acquire,
    .wait = queue_wait,
    .stop_waiting = queue_stop_waiting,
    .renew = queue_renew,
    .release = queue_release,
    .lapse = queue_lapse,
    .drop = queue_drop,
    .status = queue_status,
    .break_lock = queue_break,
};

#endif
