/* Sessions with a ZooKeeper ensemble. */
#include "lock/zookeeper.h"

#ifdef LOCK_WITH_ZOOKEEPER

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "lock/zookeeper_private.h"

/* why_not_to_resolve: unless told otherwise the library looks its hosts up again before whatever it
 * does, in a thread of its own. A fork at that moment leaves the child with a lock of the resolver
 * that nobody will ever open. So it does that only while it has no connection: then it must, for it
 * does not come back to a server soon without. */
enum { RESOLVE_ALWAYS = 0, RESOLVE_NEVER = -1 };

struct zk {
    char *hosts;
    int session_ms;
    void (*on_event)(void *context, struct zk_session *session);
    void *context;
    pthread_mutex_t mutex; /* guards `session`; taken before a session's own */
    struct zk_session *session;
};

int64_t zk_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

bool zk_session_wait(struct zk_session *session, int64_t until_ns)
{
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    return pthread_cond_timedwait(&session->changed, &session->mutex, &until) != ETIMEDOUT;
}

/* ---- Watches ---- */

void zk_watches_fire(const struct zk_session *session, const char *path)
{
    for (const struct zk_watch *watch = session->watches; watch; watch = watch->next)
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
    watch->next = session->watches;
    session->watches = watch;
    pthread_mutex_unlock(&session->mutex);
    return true;
}

void zk_watch_end(struct zk_session *session, struct zk_watch *watch)
{
    if (session->pid == getpid()) {
        pthread_mutex_lock(&session->mutex);
        struct zk_watch **link = &session->watches;
        while (*link != watch)
            link = &(*link)->next;
        *link = watch->next;
        pthread_mutex_unlock(&session->mutex);
    }
    close(watch->fd); /* last: its number may be somebody else's at once */
}

/* ---- Events: in a thread of the library ---- */

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
        zk_removals_start(session);
    else
        session->on_event(session->context, session);
}

/* The library writes to stderr unless told otherwise. */
static void no_log(const char *message)
{
    (void)message;
}

/* ---- Sessions ---- */

static void session_free(struct zk_session *session)
{
    zk_removals_free(session);
    pthread_cond_destroy(&session->changed);
    pthread_mutex_destroy(&session->mutex);
    free(session);
}

static void session_close(struct zk_session *session)
{
    zookeeper_close(session->handle); /* answers every request, so that none is left behind */
    session_free(session);
}

static struct zk_session *session_open(const struct zk *zk)
{
    struct zk_session *session = calloc(1, sizeof *session);
    pthread_condattr_t monotonic;
    if (!session)
        return NULL;
    pthread_mutex_init(&session->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&session->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    session->pid = getpid();
    session->on_event = zk->on_event;
    session->context = zk->context;
    session->users = 1;
    session->handle =
        zookeeper_init2(zk->hosts, on_session, zk->session_ms, NULL, session, 0, no_log);
    if (!session->handle) {
        session_free(session);
        return NULL;
    }
    return session;
}

struct zk *zk_open(const char *hosts, int session_ms,
                   void (*on_event)(void *context, struct zk_session *session), void *context)
{
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

/* The present session with one user more, or NULL when none can be begun. */
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
    struct zk_session *session = zk->session ? zk_session_share(zk->session) : NULL;
    pthread_mutex_unlock(&zk->mutex);
    zk_session_drop(&ended);
    return session;
}

static enum zk_result session_await(struct zk_session *session, int64_t until_ns)
{
    if (session->pid != getpid())
        return ZK_OVER;
    pthread_mutex_lock(&session->mutex);
    bool in_time = true;
    while (!session->connected && !session->over && in_time)
        in_time = zk_session_wait(session, until_ns);
    enum zk_result result = session->over ? ZK_OVER : session->connected ? ZK_OK : ZK_FAILED;
    pthread_mutex_unlock(&session->mutex);
    return result;
}

struct zk_session *zk_session_take(struct zk *zk, int wait_ms)
{
    int64_t until_ns = zk_now_ns() + (int64_t)wait_ms * 1000000;
    struct zk_session *session = session_present(zk);
    enum zk_result result = session ? session_await(session, until_ns) : ZK_FAILED;
    while (result == ZK_OVER) { /* it had expired while nobody looked */
        zk_session_drop(&session);
        session = session_present(zk);
        result = session ? session_await(session, until_ns) : ZK_FAILED;
    }
    if (result != ZK_OK)
        zk_session_drop(&session);
    return session;
}

struct zk_session *zk_session_share(struct zk_session *session)
{
    pthread_mutex_lock(&session->mutex);
    session->users++;
    pthread_mutex_unlock(&session->mutex);
    return session;
}

void zk_session_drop(struct zk_session **session)
{
    struct zk_session *mine = *session;
    *session = NULL;
    if (!mine || mine->pid != getpid())
        return; /* closing it from a fork's child would end it for the parent */
    pthread_mutex_lock(&mine->mutex);
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

enum zk_result zk_session_await(struct zk_session *session, int wait_ms)
{
    return session_await(session, zk_now_ns() + (int64_t)wait_ms * 1000000);
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
