/* The queue lock on ZooKeeper: first come, first served, by ephemeral sequential nodes. */
#include "lock/lock_driver.h"

#ifdef LOCK_WITH_ZOOKEEPER

#include <assert.h>
#include <ctype.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "lock/zookeeper.h"

/* the_queue: a lock is a container node, whoever wants it makes a child REQUEST-lock-SEQUENCE that
 * ends with the maker's session. The child with the lowest sequence is the holder's; every other
 * one watches the one before it, so that a release wakes one waiter. The fence is the czxid of the
 * holder's child. When a make was not answered, the request's id in the name finds the child.
 *
 * A hold is as good as its session: the server ends that when it has heard nothing for the
 * session's time-out, which it counts from later than we do. Two thirds of it, counted from when an
 * answered request was sent, is the lease of every hold. */

#define ROOT "/seclock"
#define MARK "-lock-"

struct seat {
    struct zk_session *session;
    char directory[ZK_PATH_MAX];
    char path[ZK_PATH_MAX]; /* of the child; empty: not known to be there */
    int64_t czxid;
    bool in_doubt;  /* the child was asked for, and no answer came */
    bool leaving;   /* takes no more holds */
    bool releasing; /* its deletion was sent, and no answer came */
    bool watching;
    struct zk_watch watch;
    int holds; /* of its owner; 0 while it waits */
    char owner[LOCK_TOKEN_MAX];
    char request[LOCK_TOKEN_MAX]; /* the one that made it */
    struct seat *next;
};

/* A handle with a seat, so that events of the session find it. */
struct sitting {
    struct lock_handle *handle;
    struct seat *seat;
    struct sitting *next;
};

struct queue {
    const struct lock_core *core;
    struct zk *zk;
    char prefix[LOCK_PREFIX_MAX];
    int timeout_ms;
    pthread_mutex_t mutex; /* guards the lists and the seats' holds */
    struct sitting *sittings;
};

/* ---- Names ---- */

/* Appends a name as one part of a path: what a path cannot have is percent-encoded. */
static void append_encoded(char *path, const char *name)
{
    size_t used = strlen(path);
    for (; *name != '\0'; name++) {
        unsigned char c = (unsigned char)*name;
        bool plain = isalnum(c) || strchr("_-:,@+=~", c);
        assert(used + 4 < ZK_PATH_MAX);
        used += (size_t)snprintf(path + used, 4, plain ? "%c" : "%%%02X", c);
    }
}

static void directory_of(const struct queue *queue, const char *name, char *path_out)
{
    strcpy(path_out, ROOT "/");
    append_encoded(path_out, queue->prefix);
    append_encoded(path_out, name);
}

/* The number that the server gave a child; false when it is no child of a lock. */
static bool sequence_of(const char *name, int32_t *sequence_out)
{
    const char *mark = strstr(name, MARK);
    *sequence_out = mark ? (int32_t)strtol(mark + strlen(MARK), NULL, 10) : 0;
    return mark != NULL;
}

/* The server counts in 32 bits and goes on below zero after the greatest: what matters is which of
 * two numbers is ahead of the other on the circle. */
static bool comes_before(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b) < 0;
}

/* The last child before `before` (or, without one, the first of all); NULL when there is none. */
static const char *child_find(const struct zk_names *names, const int32_t *before)
{
    const char *found = NULL;
    int32_t found_at = 0, at;
    for (size_t i = 0; i < names->count; i++) {
        if (!sequence_of(names->name[i], &at) || (before && !comes_before(at, *before)))
            continue;
        bool better = !found || (before ? comes_before(found_at, at) : comes_before(at, found_at));
        if (better) {
            found = names->name[i];
            found_at = at;
        }
    }
    return found;
}

static const char *child_of_request(const struct zk_names *names, const char *request)
{
    size_t length = strlen(request);
    for (size_t i = 0; i < names->count; i++)
        if (strncmp(names->name[i], request, length) == 0 &&
            strncmp(names->name[i] + length, MARK, strlen(MARK)) == 0)
            return names->name[i];
    return NULL;
}

static enum lock_result failure(const struct seat *seat, enum zk_result result)
{
    lock_set_error("zookeeper: %s",
                   seat->session ? zk_session_error(seat->session) : "no session in time");
    return result == ZK_UNKNOWN ? LOCK_UNKNOWN : LOCK_FAILED;
}

/* After a request that failed with its connection: waits for the next one. */
static bool connected_again(const struct queue *queue, const struct seat *seat,
                            enum zk_result result)
{
    int64_t until_ns = lock_core_now_ns(queue->core) + (int64_t)queue->timeout_ms * 1000000;
    return (result == ZK_UNKNOWN || result == ZK_FAILED) && seat->session &&
           zk_session_await(seat->session, until_ns) == ZK_OK;
}

/* ---- Taking and leaving a seat ---- */

static void watch_stop(struct seat *seat)
{
    if (seat->watching)
        zk_watch_end(seat->session, &seat->watch);
    seat->watching = false;
}

static void seat_forget(struct seat *seat)
{
    watch_stop(seat);
    zk_session_drop(&seat->session);
    seat->path[0] = '\0';
    seat->in_doubt = false;
}

/* Deletes the child when there is a connection again. */
static void seat_clean_later(const struct seat *seat)
{
    char start[LOCK_TOKEN_MAX + sizeof MARK];
    snprintf(start, sizeof start, "%s" MARK, seat->request);
    zk_delete_later(seat->session, seat->directory, start);
}

/* Gives the place up whatever the connection does: now, or when there is one again. */
static void seat_leave(struct seat *seat, int timeout_ms)
{
    watch_stop(seat);
    if (!seat->session || (seat->path[0] == '\0' && !seat->in_doubt))
        return;
    enum zk_result result =
        seat->path[0] != '\0' ? zk_delete(seat->session, seat->path, timeout_ms) : ZK_UNKNOWN;
    if (result == ZK_UNKNOWN || result == ZK_FAILED)
        seat_clean_later(seat);
}

static void seat_free(struct seat *seat)
{
    seat_forget(seat);
    free(seat);
}

static struct seat *seat_new(const struct queue *queue, const struct lock_handle *handle)
{
    struct seat *seat = calloc(1, sizeof *seat);
    if (!seat)
        return NULL;
    directory_of(queue, handle->name, seat->directory);
    strcpy(seat->owner, handle->owner);
    strcpy(seat->request, handle->request);
    return seat;
}

/* The child that an unanswered make may have left: adopted, or found not to be there (ZK_NONE). One
 * of an earlier session is not ours: it is about to go. */
static enum zk_result seat_find(struct seat *seat, int timeout_ms)
{
    struct zk_names names;
    struct zk_node node = {0};
    zk_sync(seat->session, seat->directory);
    enum zk_result result = zk_list(seat->session, seat->directory, timeout_ms, &names);
    const char *child = child_of_request(&names, seat->request);
    if (result == ZK_OK && child) {
        snprintf(seat->path, sizeof seat->path, "%.*s/%s", 380, seat->directory, child);
        result = zk_read(seat->session, seat->path, false, timeout_ms, &node);
        if (result == ZK_OK && !node.mine) {
            zk_delete(seat->session, seat->path, timeout_ms);
            result = ZK_NONE;
        }
    } else if (result == ZK_OK)
        result = ZK_NONE;
    zk_names_free(&names);
    if (result == ZK_OK || result == ZK_NONE)
        seat->in_doubt = false;
    if (result == ZK_OK)
        seat->czxid = node.czxid;
    else
        seat->path[0] = '\0';
    return result;
}

static enum zk_result make_directory(struct seat *seat, int timeout_ms)
{
    enum zk_result result = zk_make_container(seat->session, seat->directory, timeout_ms);
    if (result != ZK_NONE)
        return result;
    result = zk_make_container(seat->session, ROOT, timeout_ms);
    return result == ZK_OK ? zk_make_container(seat->session, seat->directory, timeout_ms) : result;
}

static enum zk_result seat_make(struct seat *seat, int timeout_ms)
{
    char prefix[ZK_PATH_MAX];
    snprintf(prefix, sizeof prefix, "%.*s/%s" MARK, 380, seat->directory, seat->request);
    enum zk_result result = ZK_NONE;
    for (int tries = 0; tries < 3 && result == ZK_NONE; tries++) {
        result = zk_make_ephemeral(seat->session, prefix, seat->owner, timeout_ms, seat->path,
                                   &seat->czxid);
        if (result == ZK_NONE) { /* no directory yet, or the server has just cleaned it away */
            enum zk_result made = make_directory(seat, timeout_ms);
            result = made == ZK_OK ? ZK_NONE : made;
        }
    }
    return result == ZK_NONE ? ZK_FAILED : result;
}

/* Makes sure that there is a child of a session that goes on. */
static enum zk_result seat_take(struct queue *queue, struct seat *seat)
{
    if (seat->session && zk_session_over(seat->session))
        seat_forget(seat);
    if (!seat->session)
        seat->session = zk_session_take(queue->zk, queue->timeout_ms);
    if (!seat->session)
        return ZK_FAILED;
    if (seat->path[0] != '\0')
        return ZK_OK;
    enum zk_result result =
        seat->in_doubt ? seat_find(seat, queue->timeout_ms) : seat_make(seat, queue->timeout_ms);
    if (result == ZK_NONE)
        result = seat_make(seat, queue->timeout_ms);
    if (result == ZK_UNKNOWN) {
        seat->in_doubt = true;
        if (connected_again(queue, seat, result))
            result = seat_find(seat, queue->timeout_ms);
        if (result == ZK_NONE)
            result = seat_make(seat, queue->timeout_ms);
    }
    if (result == ZK_OVER) { /* it took its nodes with it */
        seat_forget(seat);
        result = ZK_FAILED;
    }
    return result;
}

/* ---- Looking where the seat is ---- */

/* Watches the child ahead. ZK_NONE: it has just gone. */
static enum zk_result watch_start(struct seat *seat, const char *ahead, int timeout_ms)
{
    char path[ZK_PATH_MAX];
    struct zk_node node;
    snprintf(path, sizeof path, "%.*s/%.100s", 380, seat->directory, ahead);
    watch_stop(seat);
    seat->watching = zk_watch_begin(seat->session, &seat->watch, path);
    if (!seat->watching)
        return ZK_FAILED;
    return zk_read(seat->session, path, true, timeout_ms, &node);
}

/* ZK_OK with `first_out` when this seat's child is the first, else with a watch on the one ahead
 * when `watched`; ZK_NONE when the seat's own child has gone. */
static enum zk_result seat_look(struct seat *seat, bool watched, int timeout_ms, bool *first_out)
{
    struct zk_names names;
    const char *own = strrchr(seat->path, '/') + 1;
    *first_out = false;
    enum zk_result result = zk_list(seat->session, seat->directory, timeout_ms, &names);
    if (result == ZK_OK && !child_of_request(&names, seat->request))
        result = ZK_NONE;
    if (result == ZK_OK) {
        int32_t at;
        sequence_of(own, &at);
        const char *ahead = child_find(&names, &at);
        *first_out = !ahead;
        if (ahead && watched) {
            result = watch_start(seat, ahead, timeout_ms);
            if (result == ZK_NONE) { /* look again at once: the wait ends before it begins */
                eventfd_write(seat->watch.fd, 1);
                result = ZK_OK;
            }
        }
    }
    zk_names_free(&names);
    return result;
}

/* ---- Who sits where ---- */

static enum lock_result sit_down(struct queue *queue, struct lock_handle *handle, struct seat *seat)
{
    struct sitting *sitting = calloc(1, sizeof *sitting);
    if (!sitting)
        return LOCK_FAILED;
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
    return LOCK_OK;
}

/* Takes the handle from its seat, and gives the seat to the caller if that was its last hold. */
static struct seat *stand_up(struct queue *queue, struct lock_handle *handle)
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
static bool sit_again(struct queue *queue, struct lock_handle *handle)
{
    char directory[ZK_PATH_MAX];
    struct seat *seat = NULL;
    directory_of(queue, handle->name, directory);
    pthread_mutex_lock(&queue->mutex);
    for (struct sitting *i = queue->sittings; i && !seat; i = i->next)
        if (strcmp(i->seat->owner, handle->owner) == 0 &&
            strcmp(i->seat->directory, directory) == 0 && !i->seat->leaving &&
            lock_state(i->handle) == LOCK_STATE_HELD)
            seat = i->seat;
    if (seat)
        seat->holds++; /* keeps it from being left meanwhile */
    pthread_mutex_unlock(&queue->mutex);
    if (!seat)
        return false;
    enum lock_result result = sit_down(queue, handle, seat);
    pthread_mutex_lock(&queue->mutex);
    handle->hold_count = --seat->holds;
    pthread_mutex_unlock(&queue->mutex);
    return result == LOCK_OK;
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
                lock_handle_lost(i->handle);
            else
                lock_handle_doubt(i->handle);
        }
    pthread_mutex_unlock(&queue->mutex);
}

/* ---- The driver ---- */

static enum lock_result queue_open(const struct lock_context *context, void **self_out)
{
    const char *hosts = context->server + strlen("zookeeper://");
    struct queue *queue = calloc(1, sizeof *queue);
    if (queue)
        queue->zk = zk_open(hosts, context->lease_ms, queue_event, queue);
    if (!queue || !queue->zk) {
        free(queue);
        return LOCK_FAILED;
    }
    queue->core = context->core;
    queue->timeout_ms = context->timeout_ms;
    strcpy(queue->prefix, context->prefix);
    pthread_mutex_init(&queue->mutex, NULL);
    *self_out = queue;
    return LOCK_OK;
}

static void queue_close(void *self)
{
    struct queue *queue = self;
    zk_close(&queue->zk);
    pthread_mutex_destroy(&queue->mutex);
    free(queue);
}

/* What a try has come to, while the seat is kept in handle->waiting. */
static enum lock_result queue_try(struct queue *queue, struct lock_handle *handle,
                                  struct seat *seat)
{
    bool first = false;
    enum zk_result result = seat_take(queue, seat);
    if (result == ZK_OK) {
        result = seat_look(seat, handle->waits, queue->timeout_ms, &first);
        if (connected_again(queue, seat, result))
            result = seat_look(seat, handle->waits, queue->timeout_ms, &first);
    }
    if (result == ZK_NONE || result == ZK_OVER) { /* broken, or expired: line up again */
        seat_forget(seat);
        result = ZK_FAILED;
    }
    if (result != ZK_OK) /* nobody counts as holder who does not know of it, so this is no doubt */
        return failure(seat, seat->in_doubt ? ZK_UNKNOWN : ZK_FAILED);
    return first ? LOCK_OK : LOCK_BUSY;
}

static enum lock_result queue_acquire(void *self, struct lock_handle *handle)
{
    struct queue *queue = self;
    handle->busy_ms = -1;
    struct seat *seat = handle->waiting;
    if (!seat && sit_again(queue, handle))
        return LOCK_OK;
    if (!seat)
        seat = seat_new(queue, handle);
    if (!seat)
        return LOCK_FAILED;
    handle->waiting = seat;
    enum lock_result result = queue_try(queue, handle, seat);
    if (result == LOCK_OK) {
        watch_stop(seat);
        result = sit_down(queue, handle, seat);
        if (result == LOCK_OK)
            handle->waiting = NULL;
    }
    if (result != LOCK_OK && result != LOCK_UNKNOWN && !handle->waits) {
        handle->waiting = NULL;
        seat_leave(seat, queue->timeout_ms);
        seat_free(seat);
    }
    return result;
}

static void queue_wait(void *self, struct lock_handle *handle, int wait_ms)
{
    (void)self;
    const struct seat *seat = handle->waiting;
    struct pollfd fds[2] = {
        {.fd = seat && seat->watching ? seat->watch.fd : -1, .events = POLLIN},
        {.fd = handle->cancel_fd > 0 ? handle->cancel_fd : -1, .events = POLLIN},
    };
    poll(fds, 2, wait_ms);
}

static void queue_stop_waiting(void *self, struct lock_handle *handle, bool acquired)
{
    struct queue *queue = self;
    struct seat *seat = handle->waiting;
    if (!seat || acquired)
        return;
    handle->waiting = NULL;
    seat_leave(seat, queue->timeout_ms);
    seat_free(seat);
}

/* Finds out about a hold whose making was not answered. */
static enum lock_result queue_settle(struct queue *queue, struct lock_handle *handle)
{
    struct seat *seat = handle->waiting;
    bool first = false;
    if (!seat)
        return LOCK_LOST;
    if (zk_session_over(seat->session))
        return LOCK_LOST;
    enum zk_result result = seat_find(seat, queue->timeout_ms);
    if (result == ZK_OK)
        result = seat_look(seat, false, queue->timeout_ms, &first);
    if (result == ZK_OK && first) {
        handle->waiting = NULL;
        return sit_down(queue, handle, seat);
    }
    if (result == ZK_UNKNOWN || result == ZK_FAILED)
        return LOCK_UNKNOWN;
    seat_leave(seat, queue->timeout_ms);
    return LOCK_LOST;
}

static enum lock_result queue_renew_one(struct queue *queue, struct lock_handle *handle)
{
    struct sitting *sitting = handle->driver_data;
    struct zk_node node;
    if (!sitting)
        return queue_settle(queue, handle);
    struct seat *seat = sitting->seat;
    enum zk_result result = zk_read(seat->session, seat->path, false, queue->timeout_ms, &node);
    if (connected_again(queue, seat, result)) {
        zk_sync(seat->session, seat->directory);
        result = zk_read(seat->session, seat->path, false, queue->timeout_ms, &node);
    }
    if (result == ZK_OK)
        return node.mine && node.czxid == seat->czxid ? LOCK_OK : LOCK_LOST;
    if (result == ZK_NONE || result == ZK_OVER)
        return LOCK_LOST;
    return failure(seat, result);
}

/* Any answered request renews the session; a read after a sync also tells whether the child is
 * still there. Once one was not answered, none will be. */
static void queue_renew(void *self, struct lock_handle *const *handles, size_t count,
                        enum lock_result *results_out)
{
    struct queue *queue = self;
    const struct zk_session *synced = NULL;
    bool silent = false;
    for (size_t i = 0; i < count; i++) {
        struct sitting *sitting = handles[i]->driver_data;
        if (silent) {
            results_out[i] = LOCK_UNKNOWN;
            continue;
        }
        if (sitting && sitting->seat->session != synced) {
            zk_sync(sitting->seat->session, sitting->seat->directory);
            synced = sitting->seat->session;
        }
        results_out[i] = queue_renew_one(queue, handles[i]);
        silent = results_out[i] == LOCK_UNKNOWN || results_out[i] == LOCK_FAILED;
    }
}

static enum lock_result queue_unmake(struct queue *queue, struct seat *seat)
{
    enum zk_result result = zk_delete(seat->session, seat->path, queue->timeout_ms);
    seat->releasing = seat->releasing || result == ZK_UNKNOWN;
    if (connected_again(queue, seat, result))
        result = zk_delete(seat->session, seat->path, queue->timeout_ms);
    if (result == ZK_OK || (result == ZK_NONE && seat->releasing))
        return LOCK_OK;
    if (result == ZK_NONE || result == ZK_OVER)
        return LOCK_LOST;
    failure(seat, result);
    seat->releasing = true;
    seat_clean_later(seat);
    return LOCK_UNKNOWN;
}

static enum lock_result queue_release(void *self, struct lock_handle *handle)
{
    struct queue *queue = self;
    struct sitting *sitting = handle->driver_data;
    if (!sitting) {
        queue_stop_waiting(self, handle, false);
        return LOCK_OK;
    }
    pthread_mutex_lock(&queue->mutex);
    bool last = sitting->seat->holds == 1;
    if (last)
        sitting->seat->leaving = true;
    pthread_mutex_unlock(&queue->mutex);
    enum lock_result result = LOCK_OK;
    if (last)
        result = queue_unmake(queue, sitting->seat);
    else if (zk_session_over(sitting->seat->session))
        result = LOCK_LOST;
    if (result == LOCK_UNKNOWN)
        return result; /* may be asked again; `drop` frees it */
    struct seat *seat = stand_up(queue, handle);
    if (seat)
        seat_free(seat);
    return result;
}

static void queue_drop(void *self, struct lock_handle *handle)
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

static enum lock_result queue_status(void *self, const char *name, struct lock_status *status_out)
{
    struct queue *queue = self;
    struct seat seat = {.session = zk_session_take(queue->zk, queue->timeout_ms)};
    struct zk_names names = {0};
    struct zk_node node;
    *status_out = (struct lock_status){.remaining_ms = -1};
    if (!seat.session)
        return failure(&seat, ZK_FAILED);
    directory_of(queue, name, seat.directory);
    zk_sync(seat.session, seat.directory);
    enum zk_result result = zk_list(seat.session, seat.directory, queue->timeout_ms, &names);
    const char *first = child_find(&names, NULL);
    if (result == ZK_OK && first) {
        snprintf(seat.path, sizeof seat.path, "%.*s/%.100s", 380, seat.directory, first);
        result = zk_read(seat.session, seat.path, false, queue->timeout_ms, &node);
        if (result == ZK_OK) {
            status_out->held = true;
            status_out->count = 1;
            status_out->waiting = (int64_t)names.count - 1;
            status_out->fence = (uint64_t)node.czxid;
            snprintf(status_out->holder, LOCK_TOKEN_MAX, "%.*s", LOCK_TOKEN_MAX - 1, node.data);
        }
    }
    zk_names_free(&names);
    enum lock_result answer =
        result == ZK_OK || result == ZK_NONE ? LOCK_OK : failure(&seat, result);
    zk_session_drop(&seat.session);
    return answer;
}

static enum lock_result queue_break(void *self, const char *name)
{
    struct queue *queue = self;
    struct seat seat = {.session = zk_session_take(queue->zk, queue->timeout_ms)};
    struct zk_names names = {0};
    if (!seat.session)
        return failure(&seat, ZK_FAILED);
    directory_of(queue, name, seat.directory);
    zk_sync(seat.session, seat.directory);
    enum zk_result result = zk_list(seat.session, seat.directory, queue->timeout_ms, &names);
    const char *first = child_find(&names, NULL);
    if (result == ZK_OK && first) {
        snprintf(seat.path, sizeof seat.path, "%.*s/%.100s", 380, seat.directory, first);
        result = zk_delete(seat.session, seat.path, queue->timeout_ms);
    } else if (result == ZK_OK)
        result = ZK_NONE;
    zk_names_free(&names);
    enum lock_result answer = result == ZK_OK     ? LOCK_OK
                              : result == ZK_NONE ? LOCK_NOT_OWNER
                                                  : failure(&seat, result);
    zk_session_drop(&seat.session);
    return answer;
}

const struct lock_driver lock_queue_driver = {
    .kind = LOCK_KIND_QUEUE,
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
