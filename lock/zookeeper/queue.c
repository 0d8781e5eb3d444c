/* Locks by a queue of ephemeral sequential nodes on ZooKeeper: first come, first served. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/url.h"
#include "lock/client.h"
#include "lock/text.h"
#include "lock/watchdog.h"
#include "lock/zookeeper/session.h"

/* the_queue: a lock is a container node. Each caller that wants the lock makes a child of it that
 * ends with the caller's session. The maker of the child with the lowest sequence number is the
 * holder; every other one watches the child before its own, so that a release wakes one waiter. The
 * fence is the czxid of the holder's child. When a make is not answered, the request's id in the
 * child's name finds the child.
 *
 * why_two_thirds: a hold is as good as its session, which the server ends when it has heard nothing
 * for the session's time-out. The server counts that from the arrival of the last packet, which is
 * later than our sending. Two thirds of the time-out, counted from the sending of an answered
 * request, is the lease of every hold. */

/* A lock is a directory under ROOT; a request makes the child REQUEST-lock-SEQUENCE in it. */
#define ROOT "/seclock"
#define SEPARATOR "-lock-"

enum {
    DIRECTORY_MAX = LOCK_PATH_MAX,
    CHILD_MAX = 100, /* bytes of a child's name */
    START_MAX = SECLOCK_TOKEN_MAX + 8,
    MAKE_TRIES_MAX = 3,
    CHANGE_TRIES_MAX = 3,
};

struct queue {
    struct zk *zk;
    char prefix[SECLOCK_PREFIX_MAX];
    int timeout_ms;
    pthread_mutex_t mutex; /* guards the list, the nodes' holds and the handles' driver_data */
    LIST_HEAD(, queue_hold) holds;
};

/* A node in the queue of a lock; every waiter and the holder make one. For one thread at a time. */
struct node {
    struct queue *queue;
    struct zk_session *session;          /* NULL: not opened yet, or given up */
    const char *why;                     /* there is none */
    const struct seclock_handle *handle; /* bounds its requests in time; NULL: no longer */
    char directory[ZK_PATH_MAX];
    char path[ZK_PATH_MAX]; /* empty: not known to exist */
    int64_t czxid;
    bool in_doubt;  /* its making was sent, and no answer came */
    bool leaving;   /* accepts no further hold */
    bool releasing; /* its deletion was sent, and no answer came */
    bool watching;
    struct zk_watch watch;
    int holds; /* of its owner; 0 while it waits */
    char owner[SECLOCK_TOKEN_MAX];
    char request[SECLOCK_TOKEN_MAX]; /* the request that made it */
};

/* A handle with its node, so that events of the session find the handle. */
struct queue_hold {
    struct seclock_handle *handle;
    struct node *node;
    LIST_ENTRY(queue_hold) in_list;
};

/* ---- names and paths ---- */

static void node_start(const char *request, char start_out[START_MAX])
{
    snprintf(start_out, START_MAX, "%s" SEPARATOR, request);
}

static void child_path(const char *directory, const char *child, char path_out[ZK_PATH_MAX])
{
    snprintf(path_out, ZK_PATH_MAX, "%.*s/%.*s", DIRECTORY_MAX, directory, CHILD_MAX, child);
}

/* Returns the child that a request has made; NULL: not found. */
static const char *child_of_request(const struct zk_answer *names, const char *request)
{
    size_t length = strlen(request);
    for (size_t i = 0; i < names->count; i++)
        if (strncmp(names->names[i], request, length) == 0 &&
            strncmp(names->names[i] + length, SEPARATOR, strlen(SEPARATOR)) == 0)
            return names->names[i];
    return NULL;
}

/* ---- the order of the queue ---- */

/* numbers_run_out: the server counts a directory's children in 32 bits. Some versions go on below
 * zero after the greatest number, so the comparison is on a circle. Others (3.8) give the greatest
 * number again and again: then the czxid decides, which takes a read of each such child. */

/* Reads the number that the server gave a child; false when it is not a child of a lock. */
static bool sequence_of(const char *name, int32_t *sequence_out)
{
    /* Anybody may make children there; our names are never this long. */
    const char *separator = strlen(name) < CHILD_MAX ? strstr(name, SEPARATOR) : NULL;
    *sequence_out = separator ? (int32_t)strtol(separator + strlen(SEPARATOR), NULL, 10) : 0;
    return separator != NULL;
}

/* Compares on the circle of 32 bits. */
static bool comes_before(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b) < 0;
}

/* Sends a request about the node, within the time of its handle's acquisition. */
static enum zk_result node_ask(const struct node *node, enum zk_ask ask, const char *path,
                               struct zk_answer *answer_out)
{
    int wait_ms = node->queue->timeout_ms;
    if (node->handle)
        wait_ms = handle_request_ms(node->handle, wait_ms);
    return zk_request(node->session, ask, path, node->owner, wait_ms, answer_out);
}

/* A child in the order of the queue: by number, then by czxid, which is 0 until it is needed. */
struct position {
    const char *child;
    int32_t number;
    int64_t czxid;
};

/* False, with the result set, when the child has gone or no server answers. */
static bool czxid_known(const struct node *node, struct position *position, enum zk_result *result)
{
    assert(position->child);
    char path[ZK_PATH_MAX];
    struct zk_answer read;
    if (position->czxid != 0)
        return true;
    if (*result != ZK_OK)
        return false;
    child_path(node->directory, position->child, path);
    *result = node_ask(node, ZK_READ, path, &read);
    if (*result == ZK_OK)
        position->czxid = read.czxid;
    else if (*result == ZK_NONE)
        *result = ZK_OK;
    return position->czxid != 0;
}

static bool is_before(const struct node *node, struct position *a, struct position *b,
                      enum zk_result *result)
{
    assert(a != b);
    if (a->number != b->number)
        return comes_before(a->number, b->number);
    if (!czxid_known(node, a, result))
        return false;
    return !czxid_known(node, b, result) || a->czxid < b->czxid;
}

/* Finds the child right before `own`, the node's, or with NULL the first of all; NULL when there is
 * none. Reads nodes only where two have one number. */
static enum zk_result child_ahead(const struct node *node, const struct zk_answer *children,
                                  const char *own, const char **child_out)
{
    enum zk_result result = ZK_OK;
    struct position self = {.child = own, .czxid = node->czxid}, found = {.child = NULL};
    if (own)
        sequence_of(own, &self.number);
    for (size_t i = 0; i < children->count; i++) {
        struct position position = {.child = children->names[i]};
        if (!sequence_of(position.child, &position.number) ||
            (own && strcmp(position.child, own) == 0) ||
            (own && !is_before(node, &position, &self, &result)))
            continue;
        if (!found.child ||
            is_before(node, own ? &found : &position, own ? &position : &found, &result))
            found = position;
    }
    *child_out = found.child;
    return result;
}

/* ---- one node ---- */

/* SECLOCK_UNKNOWN or SECLOCK_FAILED, with the reason kept for seclock_error. */
static enum seclock_result node_failure(const struct node *node, enum zk_result result)
{
    assert(result != ZK_OK);
    return lock_fail(result == ZK_UNKNOWN ? SECLOCK_UNKNOWN : SECLOCK_FAILED, "zookeeper %s: %s",
                     zk_hosts(node->queue->zk),
                     node->session ? zk_session_error(node->session) : node->why);
}

static void watch_stop(struct node *node)
{
    if (node->watching)
        zk_watch_end(node->session, &node->watch);
    node->watching = false;
}

/* Drops the session and, if it made the node, the node with it: then the path means nothing. */
static void node_forget(struct node *node)
{
    watch_stop(node);
    zk_session_drop(&node->session);
    node->path[0] = '\0';
    node->in_doubt = false;
}

static void node_delete_later(const struct node *node)
{
    assert(node->session);
    char start[START_MAX];
    node_start(node->request, start);
    zk_delete_later(node->session, node->directory, start);
}

/* Deletes the node. If that is not answered, the node may live as long as the session and block the
 * queue, so the deletion is repeated when the connection is back. */
static void node_leave(struct node *node)
{
    watch_stop(node);
    if (!node->session || (node->path[0] == '\0' && !node->in_doubt))
        return;
    enum zk_result result =
        node->path[0] != '\0' ? node_ask(node, ZK_DELETE, node->path, NULL) : ZK_UNKNOWN;
    if (result == ZK_UNKNOWN || result == ZK_FAILED)
        node_delete_later(node);
}

static void node_free(struct node *node)
{
    assert(node->holds == 0);
    node_forget(node);
    free(node);
}

/* Makes a record without a node or a session yet; NULL: out of memory. */
static struct node *node_new(struct queue *queue, const struct seclock_handle *handle)
{
    struct node *node = calloc(1, sizeof *node);
    if (!node)
        return NULL;
    node->queue = queue;
    node->handle = handle;
    lock_path(queue->prefix, handle->name, node->directory);
    strcpy(node->owner, handle->owner);
    strcpy(node->request, handle->request);
    return node;
}

/* Finds and adopts the node that an unanswered make may have left, or ZK_NONE. A node of an earlier
 * session does not count, because it is about to go. */
static enum zk_result node_find(struct node *node)
{
    assert(node->session);
    struct zk_answer children, found;
    zk_sync(node->session, node->directory);
    enum zk_result result = node_ask(node, ZK_LIST, node->directory, &children);
    const char *child = child_of_request(&children, node->request);
    if (result == ZK_OK && child) {
        child_path(node->directory, child, node->path);
        result = node_ask(node, ZK_READ, node->path, &found);
        if (result == ZK_OK && !found.mine) {
            node_ask(node, ZK_DELETE, node->path, NULL);
            result = ZK_NONE;
        }
    } else if (result == ZK_OK)
        result = ZK_NONE;
    zk_answer_free(&children);
    if (result == ZK_OK || result == ZK_NONE)
        node->in_doubt = false;
    if (result == ZK_OK)
        node->czxid = found.czxid;
    else
        node->path[0] = '\0';
    return result;
}

/* Makes the child and, if missing, its directory, which the server may just have deleted because it
 * was empty; on the first use of an ensemble, the root as well. Each unanswered make leaves a
 * doubt, also one that follows a doubt just settled. */
static enum zk_result make_child(struct node *node)
{
    assert(node->session && node->path[0] == '\0');
    char start[START_MAX], prefix[ZK_PATH_MAX];
    struct zk_answer made;
    node_start(node->request, start);
    child_path(node->directory, start, prefix);
    enum zk_result result = node_ask(node, ZK_MAKE, prefix, &made);
    for (int tries = 1; tries < MAKE_TRIES_MAX && result == ZK_NONE; tries++) {
        result = node_ask(node, ZK_CONTAINER, node->directory, NULL);
        if (result == ZK_NONE)
            result = node_ask(node, ZK_CONTAINER, ROOT, NULL);
        if (result == ZK_OK)
            result = node_ask(node, ZK_MAKE, prefix, &made);
    }
    if (result == ZK_OK) {
        memcpy(node->path, made.path, sizeof node->path);
        node->czxid = made.czxid;
    } else if (result == ZK_UNKNOWN)
        node->in_doubt = true;
    return result == ZK_NONE ? ZK_FAILED : result;
}

/* Makes sure that the node exists, in a session that goes on. ZK_OK, ZK_FAILED or ZK_UNKNOWN. */
static enum zk_result node_make(struct node *node)
{
    int timeout_ms = handle_request_ms(node->handle, node->queue->timeout_ms);
    if (node->session && zk_session_over(node->session))
        node_forget(node);
    if (!node->session)
        node->session = zk_session_take(node->queue->zk, timeout_ms, &node->why);
    if (!node->session)
        return ZK_FAILED;
    if (node->path[0] != '\0')
        return ZK_OK;
    enum zk_result result = node->in_doubt ? node_find(node) : make_child(node);
    if (result == ZK_NONE)
        result = make_child(node);
    if (result == ZK_UNKNOWN) {
        timeout_ms = handle_request_ms(node->handle, node->queue->timeout_ms);
        if (zk_session_await(node->session, timeout_ms) == ZK_OK)
            result = node_find(node);
        if (result == ZK_NONE)
            result = make_child(node);
    }
    if (result == ZK_OVER) { /* its nodes have gone with it */
        node_forget(node);
        result = ZK_FAILED;
    }
    return result;
}

/* Watches the child ahead. ZK_NONE: that child has just gone. */
static enum zk_result watch_start(struct node *node, const char *ahead)
{
    assert(node->session && strlen(ahead) < CHILD_MAX); /* sequence_of refuses longer ones */
    char path[ZK_PATH_MAX];
    child_path(node->directory, ahead, path);
    watch_stop(node);
    node->watching = zk_watch_begin(node->session, &node->watch, path);
    return node->watching ? node_ask(node, ZK_WATCH, path, NULL) : ZK_FAILED;
}

/* ZK_OK: sets `first_out` when the node is the first, else watches the one ahead if `watched`.
 * ZK_NONE: the node itself has gone. */
static enum zk_result node_look(struct node *node, bool watched, bool *first_out)
{
    struct zk_answer children;
    assert(node->session && node->path[0] != '\0');
    const char *own = strrchr(node->path, '/') + 1, *ahead = NULL;
    enum zk_result result = node_ask(node, ZK_LIST, node->directory, &children);
    if (result == ZK_OK && !child_of_request(&children, node->request))
        result = ZK_NONE;
    if (result == ZK_OK)
        result = child_ahead(node, &children, own, &ahead);
    *first_out = result == ZK_OK && !ahead;
    if (result == ZK_OK && ahead && watched) {
        result = watch_start(node, ahead);
        if (result == ZK_NONE) { /* look again at once: end the wait before it begins */
            eventfd_write(node->watch.fd, 1);
            result = ZK_OK;
        }
    }
    zk_answer_free(&children);
    return result;
}

/* ---- holds ---- */

static enum seclock_result hold_begin(struct queue *queue, struct seclock_handle *handle,
                                      struct node *node)
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
    node->handle = NULL; /* another hold of the node may outlive it */
    pthread_mutex_unlock(&queue->mutex);
    handle->fence = (uint64_t)node->czxid;
    int session_ms = zk_session_ms(node->session) * 2 / 3;
    if (handle->lease_ms > session_ms)
        handle->lease_ms = session_ms;
    return SECLOCK_OK;
}

/* Takes a hold from its node, and gives the node to the caller after the last hold; else NULL. The
 * mutex is held. */
static struct node *hold_end(struct queue_hold *hold)
{
    struct node *node = hold->node;
    assert(node->holds > 0 && hold->handle->driver_data == hold);
    LIST_REMOVE(hold, in_list);
    hold->handle->driver_data = NULL;
    free(hold);
    return --node->holds == 0 ? node : NULL;
}

/* True when a hold other than `leaving` still needs the node. A hold that is about to enter again
 * is counted, but not yet in the list. The mutex is held. */
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
 * everybody out. The session deletes the node later, because this function must not wait. */
static void queue_lapse(void *self, struct seclock_handle *handle)
{
    struct queue *queue = self;
    pthread_mutex_lock(&queue->mutex);
    struct queue_hold *hold = handle->driver_data;
    struct node *node = hold ? hold->node : handle->waiting;
    if (node && node->session && !(hold && (node->leaving || node_wanted(queue, hold)))) {
        node->leaving = true;
        node_delete_later(node);
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
                watchdog_lost(i->handle, SECLOCK_LOSS_SESSION);
            else
                watchdog_doubt(i->handle);
        }
    pthread_mutex_unlock(&queue->mutex);
}

/* ---- the driver ---- */

static enum seclock_result queue_open(struct lock_core *core, const char *server, void **self_out)
{
    char error[URL_ERROR_SIZE], login[URL_USER_SIZE + URL_PART_SIZE];
    struct url url;
    if (!url_parse(server, "zookeeper", &url, error, sizeof error))
        return lock_fail(SECLOCK_CONFIG, "%s", error);
    snprintf(login, sizeof login, "%s:%s", url.user, url.password);
    struct queue *queue = calloc(1, sizeof *queue);
    if (queue)
        queue->zk = zk_open(url_hosts(server), url.user[0] != '\0' ? login : NULL,
                            core->options.lease_ms, queue_event, queue);
    if (!queue || !queue->zk) {
        free(queue);
        return SECLOCK_FAILED;
    }
    queue->timeout_ms = core->options.timeout_ms;
    strcpy(queue->prefix, core->options.prefix);
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

static int queue_wait_fd(const struct seclock_handle *handle, int *wait_ms)
{
    (void)wait_ms;
    const struct node *node = handle->waiting;
    return node && node->watching ? node->watch.fd : -1;
}

static void queue_stop_waiting(void *self, struct seclock_handle *handle, bool acquired)
{
    (void)self;
    struct node *node = handle->waiting;
    if (!node || acquired)
        return;
    assert(node->holds == 0);
    handle->waiting = NULL;
    node_leave(node);
    node_free(node);
}

/* Finds out about a hold whose acquisition was not answered. */
static enum seclock_result find_out(struct queue *queue, struct seclock_handle *handle)
{
    assert(!handle->driver_data);
    struct node *node = handle->waiting;
    bool first = false;
    if (!node)
        return SECLOCK_LOST;
    if (zk_session_over(node->session))
        return SECLOCK_LOST;
    enum zk_result result = node_find(node);
    if (result == ZK_OK)
        result = node_look(node, false, &first);
    if (result == ZK_OK && first) {
        enum seclock_result begun = hold_begin(queue, handle, node);
        if (seclock_state(handle) == SECLOCK_STATE_LOST) /* a lapse may have come too early */
            queue_lapse(queue, handle);
        return begun;
    }
    if (result == ZK_UNKNOWN || result == ZK_FAILED)
        return SECLOCK_UNKNOWN;
    node_leave(node);
    return SECLOCK_LOST;
}

static enum seclock_result queue_renew_one(struct queue *queue, struct seclock_handle *handle)
{
    struct queue_hold *hold = handle->driver_data;
    struct zk_answer read;
    if (!hold)
        return find_out(queue, handle);
    const struct node *node = hold->node;
    int wait_ms = handle_request_ms(handle, queue->timeout_ms);
    enum zk_result result = zk_request(node->session, ZK_READ, node->path, NULL, wait_ms, &read);
    if (result == ZK_OK)
        return read.mine && read.czxid == node->czxid ? SECLOCK_OK : SECLOCK_LOST;
    if (result == ZK_OVER)
        handle_keep_loss(handle, SECLOCK_LOSS_SESSION);
    if (result == ZK_NONE || result == ZK_OVER)
        return SECLOCK_LOST;
    return node_failure(node, result);
}

/* Any answered request renews the session; a read after a sync also tells whether the node still
 * exists. After one unanswered request the others would not be answered either. */
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

/* ---- elections: a node's data is its owner, and of a leader a blank and the value ---- */

/* SECLOCK_OK: the node has the data. SECLOCK_BUSY: not yet, but it may be tried again. Changes only
 * the version that it has read, so that a change that comes late does nothing. */
static enum seclock_result change_once(const struct node *node, const char *data, int wait_ms)
{
    struct zk_answer read;
    zk_sync(node->session, node->path);
    enum zk_result result = zk_request(node->session, ZK_READ, node->path, NULL, wait_ms, &read);
    if (result == ZK_OK && (!read.mine || read.czxid != node->czxid))
        return SECLOCK_LOST;
    if (result == ZK_NONE || result == ZK_OVER)
        return SECLOCK_LOST;
    if (result != ZK_OK) /* a read leaves no doubt */
        return node_failure(node, ZK_FAILED);
    if (strcmp(read.data, data) == 0)
        return SECLOCK_OK;
    result = zk_change(node->session, node->path, data, read.version, wait_ms);
    if (result == ZK_NONE || result == ZK_OVER)
        return SECLOCK_LOST;
    return result == ZK_OK ? SECLOCK_OK : node_failure(node, result);
}

static enum seclock_result queue_proclaim(void *self, struct seclock_handle *handle)
{
    struct queue *queue = self;
    struct queue_hold *hold = handle->driver_data;
    char data[ZK_DATA_MAX];
    if (!hold)
        return SECLOCK_LOST;
    struct node *node = hold->node;
    enum seclock_result result = SECLOCK_FAILED;
    bool doubtful = false;
    snprintf(data, sizeof data, "%s %s", node->owner, handle->value);
    for (int tries = 0; tries < CHANGE_TRIES_MAX; tries++) {
        result = change_once(node, data, queue->timeout_ms);
        doubtful = doubtful || result == SECLOCK_UNKNOWN;
        if ((result != SECLOCK_UNKNOWN && result != SECLOCK_FAILED) ||
            zk_session_await(node->session, queue->timeout_ms) != ZK_OK)
            break;
    }
    return result == SECLOCK_FAILED && doubtful ? SECLOCK_UNKNOWN : result;
}

static enum seclock_result delete_node(struct node *node)
{
    assert(node->leaving && node->path[0] != '\0');
    enum zk_result result = node_ask(node, ZK_DELETE, node->path, NULL);
    if (result == ZK_OK || (result == ZK_NONE && node->releasing))
        return SECLOCK_OK;
    if (result == ZK_NONE || result == ZK_OVER)
        return SECLOCK_LOST;
    node_failure(node, result);
    node->releasing = true;
    node_delete_later(node);
    return SECLOCK_UNKNOWN;
}

/* True when the node goes with this hold; otherwise ends the hold, with its result. Of two holds
 * released at once exactly one is the last. */
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
    result = delete_node(hold->node);
    if (result == SECLOCK_UNKNOWN)
        return result; /* the caller may try again; `drop` frees it */
    pthread_mutex_lock(&queue->mutex);
    struct node *node = hold_end(hold);
    pthread_mutex_unlock(&queue->mutex);
    if (node)
        node_free(node);
    return result;
}

/* Frees a handle without a release: the session deletes the node, as nobody waits for that. */
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
        node_delete_later(hold->node);
    }
    struct node *node = hold_end(hold);
    pthread_mutex_unlock(&queue->mutex);
    if (node)
        node_free(node);
}

/* Adds a hold to the node by which its owner already holds the lock; SECLOCK_LOST: there is no such
 * node (any more). Asks the server, because the lease of the hold counts from its answer: it may
 * have heard nothing of the session for almost that long. Without an answer it does not begin. */
static enum seclock_result hold_again(struct queue *queue, struct seclock_handle *handle)
{
    char directory[ZK_PATH_MAX];
    struct node *node = NULL;
    lock_path(queue->prefix, handle->name, directory);
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

/* Tries once; handle->waiting keeps the node. */
static enum seclock_result queue_try(struct seclock_handle *handle, struct node *node)
{
    assert(handle->waiting == node && node->holds == 0);
    bool first = false;
    enum zk_result result = node_make(node);
    if (result == ZK_OK)
        result = node_look(node, handle->waits, &first);
    if (result == ZK_NONE || result == ZK_OVER) { /* broken, or expired: queue up again */
        node_forget(node);
        result = ZK_FAILED;
    }
    if (result != ZK_OK) /* the caller never held it, so only an unanswered make is a doubt */
        return node_failure(node, node->in_doubt ? ZK_UNKNOWN : ZK_FAILED);
    return first ? SECLOCK_OK : SECLOCK_BUSY;
}

/* Keeps the node and its place in the queue in handle->waiting while the caller waits; a single try
 * gives it up. */
static enum seclock_result queue_acquire(void *self, struct seclock_handle *handle)
{
    struct queue *queue = self;
    handle->busy_ms = -1;
    assert(!handle->driver_data);
    struct node *node = handle->waiting;
    enum seclock_result result = node ? SECLOCK_LOST : hold_again(queue, handle);
    if (result != SECLOCK_LOST)
        return result;
    if (!node)
        node = node_new(queue, handle);
    if (!node)
        return SECLOCK_FAILED;
    handle->waiting = node;
    result = queue_try(handle, node);
    if (result == SECLOCK_OK) {
        watch_stop(node);
        result = hold_begin(queue, handle, node);
    }
    if (result != SECLOCK_OK && result != SECLOCK_UNKNOWN && !handle->waits) {
        handle->waiting = NULL;
        node_leave(node);
        node_free(node);
    }
    return result;
}

/* Finds the first node of the queue, whose maker holds the lock, in a session of our own: ZK_NONE
 * when nobody does. `count_out` is the number of nodes. */
static enum zk_result find_holder(struct queue *queue, const char *name, struct node *node_out,
                                  size_t *count_out)
{
    struct zk_answer children;
    const char *first = NULL;
    *node_out = (struct node){.queue = queue};
    node_out->session = zk_session_take(queue->zk, queue->timeout_ms, &node_out->why);
    *count_out = 0;
    if (!node_out->session)
        return ZK_FAILED;
    lock_path(queue->prefix, name, node_out->directory);
    zk_sync(node_out->session, node_out->directory);
    enum zk_result result = node_ask(node_out, ZK_LIST, node_out->directory, &children);
    if (result == ZK_OK)
        result = child_ahead(node_out, &children, NULL, &first);
    if (result == ZK_OK && first)
        child_path(node_out->directory, first, node_out->path);
    *count_out = children.count;
    zk_answer_free(&children);
    return result == ZK_OK && !first ? ZK_NONE : result;
}

static enum seclock_result queue_status(const struct lock_driver *driver, void *self,
                                        const char *name, struct seclock_status *status_out)
{
    (void)driver;
    struct node node;
    struct zk_answer read;
    size_t count;
    status_out->waiting = 0;
    enum zk_result result = find_holder(self, name, &node, &count);
    if (result == ZK_OK)
        result = node_ask(&node, ZK_READ, node.path, &read);
    if (result == ZK_OK) {
        status_out->held = true;
        status_out->count = 1;
        status_out->waiting = (int64_t)count - 1;
        status_out->fence = (uint64_t)read.czxid;
        snprintf(status_out->holder, SECLOCK_TOKEN_MAX, "%.*s", (int)strcspn(read.data, " "),
                 read.data);
    }
    enum seclock_result answer =
        result == ZK_OK || result == ZK_NONE ? SECLOCK_OK : node_failure(&node, result);
    zk_session_drop(&node.session);
    return answer;
}

static enum seclock_result queue_leader(const struct lock_driver *driver, void *self,
                                        const char *name, struct seclock_leader *leader_out)
{
    (void)driver;
    struct node node;
    struct zk_answer read;
    size_t count;
    enum zk_result result = find_holder(self, name, &node, &count);
    if (result == ZK_OK)
        result = node_ask(&node, ZK_READ, node.path, &read);
    const char *blank = result == ZK_OK ? strchr(read.data, ' ') : NULL;
    if (blank) {
        leader_out->led = true;
        leader_out->term = (uint64_t)read.czxid;
        snprintf(leader_out->holder, sizeof leader_out->holder, "%.*s", (int)(blank - read.data),
                 read.data);
        snprintf(leader_out->value, sizeof leader_out->value, "%s", blank + 1);
    }
    enum seclock_result answer =
        result == ZK_OK || result == ZK_NONE ? SECLOCK_OK : node_failure(&node, result);
    zk_session_drop(&node.session);
    return answer;
}

/* The holder learns of it at its next renewal, which finds the node gone. */
static enum seclock_result queue_break(const struct lock_driver *driver, void *self,
                                       const char *name)
{
    (void)driver;
    struct node node;
    size_t count;
    enum zk_result result = find_holder(self, name, &node, &count);
    if (result == ZK_OK)
        result = node_ask(&node, ZK_DELETE, node.path, NULL);
    enum seclock_result answer = result == ZK_OK     ? SECLOCK_OK
                                 : result == ZK_NONE ? SECLOCK_NOT_OWNER
                                                     : node_failure(&node, result);
    zk_session_drop(&node.session);
    return answer;
}

const struct lock_driver zookeeper_queue_driver = {
    .kind = SECLOCK_KIND_QUEUE,
    .features = LOCK_RENEWS,
    .open = queue_open,
    .close = queue_close,
    .acquire = queue_acquire,
    .wait_fd = queue_wait_fd,
    .stop_waiting = queue_stop_waiting,
    .renew = queue_renew,
    .proclaim = queue_proclaim,
    .leader = queue_leader,
    .release = queue_release,
    .lapse = queue_lapse,
    .drop = queue_drop,
    .status = queue_status,
    .break_lock = queue_break,
};
