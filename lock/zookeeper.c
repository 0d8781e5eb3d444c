/* Sessions with a ZooKeeper ensemble, in which every request is bounded in time. */
#include "lock/zookeeper.h"

#ifdef LOCK_WITH_ZOOKEEPER

#define THREADED /* the variant of the library whose own threads call back */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

/* why_not_the_synchronous_calls: those of the library wait for as long as the library itself waits
 * for its server, up to two thirds of the session's time-out. The thread that renews locks must not
 * be kept that long. So every request is sent by the asynchronous call and waited for here; one
 * that is given up leaves its record to the library's thread, which frees it when the answer
 * comes. */

/* why_not_to_resolve: unless told otherwise the library looks its hosts up again before whatever it
 * does, in a thread of its own. A fork at that moment leaves the child with a lock of the resolver
 * that nobody will ever open. After the loss of a connection it does so in any case. */
enum { RESOLVE_WHEN_LOST = -1 };

struct removal {
    struct zk_session *session;
    char directory[ZK_PATH_MAX];
    char start[128]; /* of the child's name */
    bool asked;      /* an answer is due */
    struct removal *next;
};

struct zk_session {
    zhandle_t *handle;
    pid_t pid;
    void (*on_event)(void *context, struct zk_session *session);
    void *context;
    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t changed;
    int users;
    bool connected;
    bool over;
    int error; /* of the last request that was not ZOK */
    struct zk_watch *watches;
    struct removal *removals;
};

struct zk {
    char *hosts;
    int session_ms;
    void (*on_event)(void *context, struct zk_session *session);
    void *context;
    pthread_mutex_t mutex; /* guards `session`; taken before a session's own */
    struct zk_session *session;
};

/* One request on its way. */
struct request {
    struct zk_session *session;
    bool done;
    bool given_up; /* whoever sent it is gone: the answer frees it */
    int rc;
    struct zk_node node;
    int64_t owner; /* the session whose ephemeral the node is */
    char path[ZK_PATH_MAX];
    struct zk_names names;
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Waits for a change; false when the time is over. The mutex is held. */
static bool session_wait(struct zk_session *session, int64_t until_ns)
{
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    return pthread_cond_timedwait(&session->changed, &session->mutex, &until) != ETIMEDOUT;
}

/* ---- Answers: these run in the library's thread ---- */

static void request_free(struct request *request)
{
    zk_names_free(&request->names);
    free(request);
}

static void request_done(struct request *request, int rc)
{
    struct zk_session *session = request->session;
    pthread_mutex_lock(&session->mutex);
    request->rc = rc;
    request->done = true;
    bool given_up = request->given_up;
    pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->mutex);
    if (given_up)
        request_free(request);
}

static struct request *request_of(const void *data)
{
    return (struct request *)(uintptr_t)data; /* the library only carries it for us */
}

static void take_stat(struct request *request, const struct Stat *stat)
{
    request->node.czxid = stat->czxid;
    request->node.ctime_ms = stat->ctime;
    request->node.ephemeral = stat->ephemeralOwner != 0;
    request->owner = stat->ephemeralOwner;
}

static void on_plain(int rc, const void *data)
{
    request_done(request_of(data), rc);
}

static void on_created(int rc, const char *path, const struct Stat *stat, const void *data)
{
    struct request *request = request_of(data);
    if (rc == ZOK) {
        snprintf(request->path, sizeof request->path, "%s", path);
        take_stat(request, stat);
    }
    request_done(request, rc);
}

static void on_read(int rc, const char *value, int length, const struct Stat *stat,
                    const void *data)
{
    struct request *request = request_of(data);
    if (rc == ZOK) {
        take_stat(request, stat);
        snprintf(request->node.data, ZK_DATA_MAX, "%.*s", length > 0 ? length : 0,
                 value ? value : "");
    }
    request_done(request, rc);
}

static void on_names(int rc, const struct String_vector *names, const void *data)
{
    struct request *request = request_of(data);
    size_t count = rc == ZOK && names ? (size_t)names->count : 0;
    request->names.name = count > 0 ? calloc(count, sizeof(char *)) : NULL;
    for (size_t i = 0; i < count && request->names.name; i++) {
        request->names.name[i] = strdup(names->data[i]);
        if (!request->names.name[i])
            break;
        request->names.count++;
    }
    request_done(request, request->names.count == count ? rc : ZSYSTEMERROR);
}

static void on_synced(int rc, const char *path, const void *data)
{
    (void)rc; /* had the connection been lost, the request behind it would tell */
    (void)path;
    (void)data;
}

/* ---- Left-over nodes: also in the library's thread, which must not wait ---- */

static void removal_drop(struct removal *removal)
{
    struct zk_session *session = removal->session;
    pthread_mutex_lock(&session->mutex);
    struct removal **link = &session->removals;
    while (*link && *link != removal)
        link = &(*link)->next;
    if (*link)
        *link = removal->next;
    pthread_mutex_unlock(&session->mutex);
    free(removal);
}

static void removal_start(struct removal *removal);

/* After an error of the connection it stays in the list, for when there is a connection again: that
 * may be now already. */
static void on_removed(int rc, const void *data)
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
    removal->asked = again || !lost; /* any other error is for ever */
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

/* Asks for the nodes of a removal marked as asked. The sync in front makes a server that lags
 * behind show what was made through another. */
static void removal_start(struct removal *removal)
{
    zhandle_t *handle = removal->session->handle;
    zoo_async(handle, removal->directory, on_synced, NULL);
    int sent = zoo_aget_children(handle, removal->directory, 0, on_removal_names, removal);
    if (sent != ZOK)
        on_removed(sent, removal);
}

void zk_delete_later(struct zk_session *session, const char *directory, const char *start)
{
    struct removal *removal = calloc(1, sizeof *removal);
    if (!removal || session->pid != getpid()) {
        free(removal); /* the end of the session does it later */
        return;
    }
    removal->session = session;
    snprintf(removal->directory, sizeof removal->directory, "%s", directory);
    snprintf(removal->start, sizeof removal->start, "%s", start);
    pthread_mutex_lock(&session->mutex);
    removal->next = session->removals;
    session->removals = removal;
    bool now = session->connected;
    removal->asked = now;
    pthread_mutex_unlock(&session->mutex);
    if (now)
        removal_start(removal);
}

/* ---- Events: in the library's thread as well ---- */

/* The next removal that nobody has asked for, marked as asked; NULL when there is none. */
static struct removal *removal_next(struct zk_session *session)
{
    pthread_mutex_lock(&session->mutex);
    struct removal *removal = session->removals;
    while (removal && removal->asked)
        removal = removal->next;
    if (removal)
        removal->asked = true;
    pthread_mutex_unlock(&session->mutex);
    return removal;
}

/* Wakes those who wait for the path; NULL: all. The mutex is held. */
static void watches_fire(const struct zk_session *session, const char *path)
{
    for (const struct zk_watch *watch = session->watches; watch; watch = watch->next)
        if (!path || strcmp(watch->path, path) == 0)
            eventfd_write(watch->fd, 1);
}

static void on_session(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    struct zk_session *session = context;
    (void)handle;
    (void)path;
    if (type != ZOO_SESSION_EVENT)
        return;
    pthread_mutex_lock(&session->mutex);
    session->connected = state == ZOO_CONNECTED_STATE;
    if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE)
        session->over = true;
    bool connected = session->connected;
    if (session->over)
        watches_fire(session, NULL);
    pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->mutex);
    if (!connected)
        session->on_event(session->context, session);
    struct removal *removal = connected ? removal_next(session) : NULL;
    for (; removal; removal = removal_next(session))
        removal_start(removal);
}

/* A session event comes to every watcher, too, and says nothing about its node. */
static void on_node(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    struct zk_session *session = context;
    (void)handle;
    (void)state;
    if (type == ZOO_SESSION_EVENT)
        return;
    pthread_mutex_lock(&session->mutex);
    watches_fire(session, path);
    pthread_mutex_unlock(&session->mutex);
}

/* The library writes to stderr unless told otherwise. */
static void no_log(const char *message)
{
    (void)message;
}

/* ---- Sessions ---- */

static void session_free(struct zk_session *session)
{
    while (session->removals) {
        struct removal *removal = session->removals;
        session->removals = removal->next;
        free(removal);
    }
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
    zoo_set_servers_resolution_delay(session->handle, RESOLVE_WHEN_LOST);
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
        in_time = session_wait(session, until_ns);
    enum zk_result result = session->over ? ZK_OVER : session->connected ? ZK_OK : ZK_FAILED;
    pthread_mutex_unlock(&session->mutex);
    return result;
}

struct zk_session *zk_session_take(struct zk *zk, int wait_ms)
{
    int64_t until_ns = now_ns() + (int64_t)wait_ms * 1000000;
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
    return session_await(session, now_ns() + (int64_t)wait_ms * 1000000);
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

/* ---- Requests ---- */

/* NULL when nothing can be sent now. */
static struct request *request_new(struct zk_session *session)
{
    if (session->pid != getpid())
        return NULL;
    pthread_mutex_lock(&session->mutex);
    bool ready = session->connected && !session->over;
    if (!ready)
        session->error = ZCONNECTIONLOSS;
    pthread_mutex_unlock(&session->mutex);
    struct request *request = ready ? calloc(1, sizeof *request) : NULL;
    if (request)
        request->session = session;
    return request;
}

static enum zk_result result_of(int rc)
{
    switch (rc) {
    case ZOK:
        return ZK_OK;
    case ZNONODE:
        return ZK_NONE;
    case ZCONNECTIONLOSS:
    case ZOPERATIONTIMEOUT:
    case ZSESSIONMOVED:
        return ZK_UNKNOWN;
    case ZSESSIONEXPIRED:
    case ZCLOSING:
    case ZINVALIDSTATE:
        return ZK_OVER;
    default:
        return ZK_FAILED;
    }
}

/* Waits for the answer to what was sent with code `sent`. The caller frees the request unless
 * it is set to NULL: then the answer frees it. */
static enum zk_result request_wait(struct request **request, int sent, int wait_ms)
{
    struct zk_session *session = (*request)->session;
    int64_t until_ns = now_ns() + (int64_t)wait_ms * 1000000;
    pthread_mutex_lock(&session->mutex);
    bool in_time = true;
    while (sent == ZOK && !(*request)->done && in_time)
        in_time = session_wait(session, until_ns);
    int rc = sent != ZOK ? sent : (*request)->done ? (*request)->rc : ZOPERATIONTIMEOUT;
    (*request)->given_up = sent == ZOK && !(*request)->done;
    if (rc != ZOK)
        session->error = rc;
    if ((*request)->given_up)
        *request = NULL;
    pthread_mutex_unlock(&session->mutex);
    return result_of(rc);
}

static enum zk_result not_sent(struct zk_session *session)
{
    return zk_session_over(session) ? ZK_OVER : ZK_FAILED;
}

static void request_end(struct request *request)
{
    if (request)
        request_free(request);
}

enum zk_result zk_make_ephemeral(struct zk_session *session, const char *prefix, const char *data,
                                 int wait_ms, char path_out[ZK_PATH_MAX], int64_t *czxid_out)
{
    struct request *request = request_new(session);
    if (!request)
        return not_sent(session);
    int sent = zoo_acreate2(session->handle, prefix, data, (int)strlen(data), &ZOO_OPEN_ACL_UNSAFE,
                            ZOO_EPHEMERAL_SEQUENTIAL, on_created, request);
    enum zk_result result = request_wait(&request, sent, wait_ms);
    if (result == ZK_OK) {
        memcpy(path_out, request->path, sizeof request->path);
        *czxid_out = request->node.czxid;
    }
    request_end(request);
    return result;
}

enum zk_result zk_make_container(struct zk_session *session, const char *path, int wait_ms)
{
    struct request *request = request_new(session);
    if (!request)
        return not_sent(session);
    int sent = zoo_acreate2(session->handle, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_CONTAINER,
                            on_created, request);
    enum zk_result result = request_wait(&request, sent, wait_ms);
    if (result == ZK_FAILED && request && request->rc == ZNODEEXISTS)
        result = ZK_OK;
    request_end(request);
    return result;
}

enum zk_result zk_list(struct zk_session *session, const char *path, int wait_ms,
                       struct zk_names *names_out)
{
    *names_out = (struct zk_names){0};
    struct request *request = request_new(session);
    if (!request)
        return not_sent(session);
    int sent = zoo_aget_children(session->handle, path, 0, on_names, request);
    enum zk_result result = request_wait(&request, sent, wait_ms);
    if (result == ZK_OK) {
        *names_out = request->names;
        request->names = (struct zk_names){0};
    }
    request_end(request);
    return result;
}

void zk_names_free(struct zk_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->name[i]);
    free(names->name);
    *names = (struct zk_names){0};
}

void zk_sync(struct zk_session *session, const char *path)
{
    if (session->pid == getpid())
        zoo_async(session->handle, path, on_synced, NULL);
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
    close(watch->fd);
    if (session->pid != getpid())
        return;
    pthread_mutex_lock(&session->mutex);
    struct zk_watch **link = &session->watches;
    while (*link != watch)
        link = &(*link)->next;
    *link = watch->next;
    pthread_mutex_unlock(&session->mutex);
}

enum zk_result zk_read(struct zk_session *session, const char *path, bool watched, int wait_ms,
                       struct zk_node *node_out)
{
    *node_out = (struct zk_node){0};
    struct request *request = request_new(session);
    if (!request)
        return not_sent(session);
    int sent =
        zoo_awget(session->handle, path, watched ? on_node : NULL, session, on_read, request);
    enum zk_result result = request_wait(&request, sent, wait_ms);
    if (result == ZK_OK) {
        *node_out = request->node;
        node_out->mine = request->owner == zoo_client_id(session->handle)->client_id;
    }
    request_end(request);
    return result;
}

enum zk_result zk_delete(struct zk_session *session, const char *path, int wait_ms)
{
    struct request *request = request_new(session);
    if (!request)
        return not_sent(session);
    int sent = zoo_adelete(session->handle, path, -1, on_plain, request);
    enum zk_result result = request_wait(&request, sent, wait_ms);
    request_end(request);
    return result;
}

#endif
