/* Sessions with a ZooKeeper ensemble. */
#include "lock/zookeeper/session.h"

#ifdef LOCK_WITH_ZOOKEEPER

#define THREADED /* the variant of the library whose own threads call back */
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#include "base/clock.h"

/* why_not_to_resolve: by default the library looks its hosts up again before every action, in a
 * thread of its own. A fork at that moment leaves the child with a mutex of the resolver that
 * nobody will ever unlock. So the library may look up only while it has no connection; then it
 * must, or it would come back to a server late. */
enum { RESOLVE_ALWAYS = 0, RESOLVE_NEVER = -1 };

struct zk {
    char *hosts;
    int session_ms;
    void (*on_event)(void *context, struct zk_session *session);
    void *context;
    pthread_mutex_t mutex; /* guards `session`; taken before a session's own */
    struct zk_session *session;
};

/* ---- watches ---- */

void zk_watches_fire(const struct zk_session *session, const char *path)
{
    const struct zk_watch *watch;
    LIST_FOREACH (watch, &session->watches, in_session)
        if (!path || strcmp(watch->path, path) == 0)
            eventfd_write(watch->fd, 1);
}

bool zk_watch_begin(struct zk_session *session, struct zk_watch *watch, const char *path)
{
    assert(strlen(path) < ZK_PATH_MAX);
    strcpy(watch->path, path);
    watch->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watch->fd < 0)
        return false;
    pthread_mutex_lock(&session->mutex);
    LIST_INSERT_HEAD(&session->watches, watch, in_session);
    pthread_mutex_unlock(&session->mutex);
    return true;
}

void zk_watch_end(struct zk_session *session, struct zk_watch *watch)
{
    if (session->pid == getpid()) {
        pthread_mutex_lock(&session->mutex);
        LIST_REMOVE(watch, in_session);
        pthread_mutex_unlock(&session->mutex);
    }
    close(watch->fd); /* last: another thread may get its number at once */
}

/* ---- removals ----
 *
 * Nodes left behind, to be deleted when there is a connection again. All of this but
 * zk_delete_later runs in a thread of the library, which must not wait for an answer. */

struct removal {
    struct zk_session *session;
    char directory[ZK_PATH_MAX];
    char start[128]; /* of the child's name */
    bool asked;      /* its request is under way */
    LIST_ENTRY(removal) in_session;
};

static void on_synced(int rc, const char *path, const void *data)
{
    (void)rc; /* were the connection lost, the next request would tell */
    (void)path;
    (void)data;
}

void zk_sync(struct zk_session *session, const char *path)
{
    if (session->pid == getpid())
        zoo_async(session->handle, path, on_synced, NULL);
}

static void removal_drop(struct removal *removal)
{
    struct zk_session *session = removal->session;
    pthread_mutex_lock(&session->mutex);
    LIST_REMOVE(removal, in_session);
    pthread_mutex_unlock(&session->mutex);
    free(removal);
}

static void removal_start(struct removal *removal);

/* After an error of the connection the removal stays in the list until the next connection, which
 * may exist already. */
static void on_removed(int rc, const void *data) /* NOLINT(misc-no-recursion): see removal_start */
{
    struct removal *removal = (struct removal *)(uintptr_t)data;
    struct zk_session *session = removal->session;
    if (rc == ZOK || rc == ZNONODE) {
        removal_drop(removal);
        return;
    }
    pthread_mutex_lock(&session->mutex);
    bool lost = rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT;
    bool again = lost && session->connected;
    removal->asked = again || !lost; /* any other error would come again */
    pthread_mutex_unlock(&session->mutex);
    if (again)
        removal_start(removal);
}

static void on_removal_names(int rc, const struct String_vector *names, const void *data)
{
    struct removal *removal = (struct removal *)(uintptr_t)data;
    char path[2 * ZK_PATH_MAX];
    size_t length = strlen(removal->start);
    int32_t i = 0;
    while (rc == ZOK && i < names->count && strncmp(names->data[i], removal->start, length) != 0)
        i++;
    if (rc != ZOK || i == names->count) {
        on_removed(rc, removal);
        return;
    }
    snprintf(path, sizeof path, "%s/%s", removal->directory, names->data[i]);
    int sent = zoo_adelete(removal->session->handle, path, -1, on_removed, removal);
    if (sent != ZOK)
        on_removed(sent, removal);
}

/* Asks for the nodes of a removal that is marked as asked. The sync in front makes a lagging server
 * show nodes that were made through another. What cannot even be sent is not asked for again by
 * on_removed: it is no lost connection. */
static void removal_start(struct removal *removal) /* NOLINT(misc-no-recursion): ends there */
{
    assert(removal->session && removal->asked);
    zhandle_t *handle = removal->session->handle;
    zk_sync(removal->session, removal->directory);
    int sent = zoo_aget_children(handle, removal->directory, 0, on_removal_names, removal);
    if (sent != ZOK)
        on_removed(sent, removal);
}

void zk_delete_later(struct zk_session *session, const char *directory, const char *start)
{
    assert(strlen(directory) < ZK_PATH_MAX);
    struct removal *removal = calloc(1, sizeof *removal);
    if (!removal || session->pid != getpid()) {
        free(removal); /* then the end of the session deletes the node */
        return;
    }
    removal->session = session;
    snprintf(removal->directory, sizeof removal->directory, "%s", directory);
    snprintf(removal->start, sizeof removal->start, "%s", start);
    pthread_mutex_lock(&session->mutex);
    LIST_INSERT_HEAD(&session->removals, removal, in_session);
    bool now = session->connected;
    removal->asked = now;
    pthread_mutex_unlock(&session->mutex);
    if (now)
        removal_start(removal);
}

/* The next removal that is not under way, which this marks as asked; NULL: none. */
static struct removal *removal_next(struct zk_session *session)
{
    pthread_mutex_lock(&session->mutex);
    struct removal *removal;
    LIST_FOREACH (removal, &session->removals, in_session)
        if (!removal->asked)
            break;
    if (removal)
        removal->asked = true;
    pthread_mutex_unlock(&session->mutex);
    return removal;
}

static void removals_start(struct zk_session *session)
{
    struct removal *removal;
    while ((removal = removal_next(session)))
        removal_start(removal);
}

static void removals_free(struct zk_session *session)
{
    for (struct removal *removal; (removal = LIST_FIRST(&session->removals)) != NULL;) {
        LIST_REMOVE(removal, in_session);
        free(removal);
    }
}

/* ---- events: in a thread of the library ---- */

static void on_session(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    struct zk_session *session = context;
    (void)path;
    if (type != ZOO_SESSION_EVENT)
        return;
    zoo_set_servers_resolution_delay(handle,
                                     state == ZOO_CONNECTED_STATE ? RESOLVE_NEVER : RESOLVE_ALWAYS);
    pthread_mutex_lock(&session->mutex);
    session->connected = state == ZOO_CONNECTED_STATE;
    if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE)
        session->over = true;
    bool connected = session->connected;
    if (session->over)
        zk_watches_fire(session, NULL);
    pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->mutex);
    if (connected)
        removals_start(session);
    else
        session->on_event(session->context, session);
}

/* By default the library writes its log to stderr. */
static void no_log(const char *message)
{
    (void)message;
}

/* ---- sessions ---- */

static void session_free(struct zk_session *session)
{
    assert(LIST_EMPTY(&session->watches));
    removals_free(session);
    pthread_cond_destroy(&session->changed);
    pthread_mutex_destroy(&session->mutex);
    free(session);
}

static void session_close(struct zk_session *session)
{
    assert(session->users == 0);
    zookeeper_close(session->handle); /* completes every request that is under way */
    session_free(session);
}

static struct zk_session *session_open(const struct zk *zk)
{
    struct zk_session *session = calloc(1, sizeof *session);
    if (!session)
        return NULL;
    pthread_mutex_init(&session->mutex, NULL);
    clock_condition_init(&session->changed);
    session->pid = getpid();
    session->on_event = zk->on_event;
    session->context = zk->context;
    session->users = 1;
    sigset_t all, before;
    sigfillset(&all); /* the threads that this starts inherit it */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    session->handle =
        zookeeper_init2(zk->hosts, on_session, zk->session_ms, NULL, session, 0, no_log);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!session->handle) {
        session_free(session);
        return NULL;
    }
    return session;
}

struct zk *zk_open(const char *hosts, int session_ms,
                   void (*on_event)(void *context, struct zk_session *session), void *context)
{
    assert(session_ms > 0 && on_event);
    struct zk *zk = calloc(1, sizeof *zk);
    if (!zk)
        return NULL;
    zk->hosts = strdup(hosts);
    zk->session_ms = session_ms;
    zk->on_event = on_event;
    zk->context = context;
    if (!zk->hosts) {
        free(zk);
        return NULL;
    }
    pthread_mutex_init(&zk->mutex, NULL);
    return zk;
}

void zk_close(struct zk **zk)
{
    if (*zk) {
        zk_session_drop(&(*zk)->session);
        pthread_mutex_destroy(&(*zk)->mutex);
        free((*zk)->hosts);
    }
    free(*zk);
    *zk = NULL;
}

const char *zk_hosts(const struct zk *zk)
{
    return zk->hosts;
}

/* Adds a user to the session. */
static struct zk_session *session_share(struct zk_session *session)
{
    pthread_mutex_lock(&session->mutex);
    assert(session->users > 0);
    session->users++;
    pthread_mutex_unlock(&session->mutex);
    return session;
}

/* The present session with one more user; NULL: none can be opened. */
static struct zk_session *session_present(struct zk *zk)
{
    struct zk_session *ended = NULL;
    pthread_mutex_lock(&zk->mutex);
    if (zk->session && zk_session_over(zk->session)) {
        ended = zk->session;
        zk->session = NULL;
    }
    if (!zk->session)
        zk->session = session_open(zk);
    struct zk_session *session = zk->session ? session_share(zk->session) : NULL;
    pthread_mutex_unlock(&zk->mutex);
    zk_session_drop(&ended);
    return session;
}

enum zk_result zk_session_await(struct zk_session *session, int wait_ms)
{
    if (session->pid != getpid())
        return ZK_OVER;
    int64_t until_ns = clock_now_ns() + wait_ms * CLOCK_NS_PER_MS;
    pthread_mutex_lock(&session->mutex);
    bool in_time = true;
    while (!session->connected && !session->over && in_time)
        in_time = clock_wait(&session->changed, &session->mutex, until_ns);
    enum zk_result result = session->over ? ZK_OVER : session->connected ? ZK_OK : ZK_FAILED;
    pthread_mutex_unlock(&session->mutex);
    return result;
}

struct zk_session *zk_session_take(struct zk *zk, int wait_ms)
{
    int64_t until_ms = clock_now_ms() + wait_ms;
    struct zk_session *session = NULL;
    enum zk_result result = ZK_OVER;
    while (result == ZK_OVER) { /* a session may have expired while no thread used it */
        int64_t left_ms = until_ms - clock_now_ms();
        zk_session_drop(&session);
        session = session_present(zk);
        result = session ? zk_session_await(session, left_ms > 0 ? (int)left_ms : 0) : ZK_FAILED;
    }
    if (result != ZK_OK)
        zk_session_drop(&session);
    return session;
}

void zk_session_drop(struct zk_session **session)
{
    struct zk_session *mine = *session;
    *session = NULL;
    if (!mine || mine->pid != getpid())
        return; /* closed by a child of fork it would end for the parent as well */
    pthread_mutex_lock(&mine->mutex);
    assert(mine->users > 0);
    bool last = --mine->users == 0;
    pthread_mutex_unlock(&mine->mutex);
    if (last)
        session_close(mine);
}

bool zk_session_over(struct zk_session *session)
{
    if (session->pid != getpid())
        return true;
    pthread_mutex_lock(&session->mutex);
    bool over = session->over;
    pthread_mutex_unlock(&session->mutex);
    return over;
}

int zk_session_ms(struct zk_session *session)
{
    return zoo_recv_timeout(session->handle);
}

const char *zk_session_error(struct zk_session *session)
{
    pthread_mutex_lock(&session->mutex);
    const char *error = zerror(session->error);
    pthread_mutex_unlock(&session->mutex);
    return error;
}

#endif
