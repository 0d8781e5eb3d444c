/* Opens and shares sessions with a ZooKeeper ensemble, and sends requests in them. */
#include "lock/zookeeper/session.h"

#define THREADED /* the variant of the library whose own threads call back */
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#include "base/clock.h"
#include "lock/zookeeper/silence.h"

/* why_not_to_resolve: by default the library looks its hosts up again before every action, in a
 * thread of its own. A fork at that moment leaves the child with a mutex of the resolver that
 * nobody will ever unlock. So the library may look up only while it has no connection; then it
 * must, or it would find a server late. */
enum { RESOLVE_ALWAYS = 0, RESOLVE_NEVER = -1 };

/* How long a server may be silent when we connect to it: a tenth of the session's time, within
 * these limits. It doubles each time until one has answered: all of them may be slow. */
enum { PATIENCE_PARTS = 10, PATIENCE_MS_MIN = 100, PATIENCE_MS_MAX = 1000, LOOK_EVERY_MS = 100 };

enum { ADDRESSES_MAX = 100, SERVER_SIZE = 80 };

struct zk {
    char *hosts;
    char *login; /* NULL: none */
    int session_ms;
    void (*on_event)(void *context, struct zk_session *session);
    void *context;
    pthread_mutex_t mutex; /* guards `session`; taken before a session's own */
    struct zk_session *session;
};

/* A session lives until its last user drops it, even when it has ended: the holder of a lock keeps
 * the session of the lock's node. */
struct zk_session {
    zhandle_t *handle;
    pid_t pid;
    char *login; /* NULL: none */
    bool asked;  /* has the library been told the login: for its completion thread only */
    void (*on_event)(void *context, struct zk_session *session);
    void *context;
    pthread_mutex_t mutex; /* guards all below; what is atomic may be read without it */
    pthread_cond_t changed;
    int users;
    pthread_t hurrier;     /* ends the library's waits for silent servers */
    pthread_cond_t turned; /* for the hurrier: the connection has come or gone, or `closing` */
    bool closing;
    bool logged_in;
    bool connected; /* and authenticated */
    _Atomic bool over;
    _Atomic bool refused; /* it is over because the server refused the login */
    _Atomic int error;    /* of the last request that was not ZOK */
    int patience_ms;
    int64_t look_ms; /* when the hurrier looks next, if there is no connection */
    LIST_HEAD(, zk_watch) watches;
    LIST_HEAD(, removal) removals; /* that are not under way */
};

/* ---- watches ---- */

/* Wakes the watches of a path; NULL: all. The mutex is held. */
static void watches_fire(const struct zk_session *session, const char *path)
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
    LIST_ENTRY(removal) in_session;
};

static void on_synced(int rc, const char *path, const void *data)
{
    (void)rc; /* the next request would notice a lost connection */
    (void)path;
    (void)data;
}

void zk_sync(struct zk_session *session, const char *path)
{
    if (session->pid == getpid())
        zoo_async(session->handle, path, on_synced, NULL);
}

static void removal_add(struct zk_session *session, struct removal *removal);

/* A connection error leaves the removal to the next connection. Any other error would come again:
 * then the end of the session deletes the node. */
static void on_removed(int rc, const void *data)
{
    struct removal *removal = (struct removal *)(uintptr_t)data;
    if (rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT)
        removal_add(removal->session, removal);
    else
        free(removal);
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
    if (zoo_adelete(removal->session->handle, path, -1, on_removed, removal) != ZOK)
        free(removal);
}

/* Asks for the nodes of all removals that are not under way. The sync in front makes a lagging
 * server show nodes that were made through another. A request that cannot even be sent is given up:
 * that is not a lost connection. */
static void removals_start(struct zk_session *session)
{
    for (;;) {
        pthread_mutex_lock(&session->mutex);
        struct removal *removal = session->connected ? LIST_FIRST(&session->removals) : NULL;
        if (removal)
            LIST_REMOVE(removal, in_session);
        pthread_mutex_unlock(&session->mutex);
        if (!removal)
            return;
        zk_sync(session, removal->directory);
        if (zoo_aget_children(session->handle, removal->directory, 0, on_removal_names, removal) !=
            ZOK)
            free(removal);
    }
}

static void removal_add(struct zk_session *session, struct removal *removal)
{
    pthread_mutex_lock(&session->mutex);
    LIST_INSERT_HEAD(&session->removals, removal, in_session);
    pthread_mutex_unlock(&session->mutex);
    removals_start(session);
}

void zk_delete_later(struct zk_session *session, const char *directory, const char *start)
{
    assert(strlen(directory) < ZK_PATH_MAX);
    struct removal *removal = session->pid == getpid() ? calloc(1, sizeof *removal) : NULL;
    if (!removal)
        return; /* then the end of the session deletes the node */
    removal->session = session;
    snprintf(removal->directory, sizeof removal->directory, "%s", directory);
    snprintf(removal->start, sizeof removal->start, "%s", start);
    removal_add(session, removal);
}

static void removals_free(struct zk_session *session)
{
    for (struct removal *removal; (removal = LIST_FIRST(&session->removals)) != NULL;) {
        LIST_REMOVE(removal, in_session);
        free(removal);
    }
}

/* ---- silent servers ---- */

static int patience(int session_ms)
{
    int part_ms = session_ms / PATIENCE_PARTS;
    return part_ms < PATIENCE_MS_MIN   ? PATIENCE_MS_MIN
           : part_ms > PATIENCE_MS_MAX ? PATIENCE_MS_MAX
                                       : part_ms;
}

/* Lets the library go on to the server behind the one that it tries. By itself it goes two further
 * after a failure, so of an even number of addresses it may never try half. It turns its list by
 * one each time that it is told to. */
static void turn_to_next(zhandle_t *handle, const char *server)
{
    int count = 0;
    do
        zoo_cycle_next_server(handle);
    while (++count < ADDRESSES_MAX && strcmp(zoo_get_current_server(handle), server) != 0);
    while (--count > 0)
        zoo_cycle_next_server(handle);
}

/* why_to_hurry: the library waits for a server's first answer, or for its connect, for two thirds
 * of the session's time, which is as long as a hold lasts; no option shortens that. A connection
 * that somebody shuts down is lost to the library: it tries the next server, in the same session.
 *
 * why_a_thread: the library looks up its hosts while it holds a mutex that this needs as well, and
 * the callers' waits are bounded.
 *
 * The session's mutex is held, but not meanwhile. */
static void look_for_silence(struct zk_session *session)
{
    char server[SERVER_SIZE];
    int patience_ms = session->patience_ms, fd = -1;
    pthread_mutex_unlock(&session->mutex);
    snprintf(server, sizeof server, "%s", zoo_get_current_server(session->handle));
    enum silence silence = silence_find(server, patience_ms, &fd);
    if (silence != SILENCE_SHORT)
        turn_to_next(session->handle, server);
    if (silence == SILENCE_LONG) {
        shutdown(fd, SHUT_RDWR);
        close(fd);
        patience_ms *= 2;
    }
    pthread_mutex_lock(&session->mutex);
    if (!session->connected)
        session->patience_ms = patience_ms;
    session->look_ms = clock_now_ms() + (silence == SILENCE_SHORT ? LOOK_EVERY_MS : patience_ms);
}

/* The session's own thread. */
static void *hurry(void *context)
{
    struct zk_session *session = context;
    pthread_mutex_lock(&session->mutex);
    while (!session->closing) {
        if (session->connected || session->over)
            pthread_cond_wait(&session->turned, &session->mutex);
        else if (clock_now_ms() < session->look_ms)
            clock_wait(&session->turned, &session->mutex, session->look_ms * CLOCK_NS_PER_MS);
        else
            look_for_silence(session);
    }
    pthread_mutex_unlock(&session->mutex);
    return NULL;
}

/* ---- events: in a thread of the library ---- */

/* A refusal comes to on_session as well. */
static void on_logged_in(int rc, const void *data)
{
    struct zk_session *session = (struct zk_session *)(uintptr_t)data;
    pthread_mutex_lock(&session->mutex);
    session->logged_in = session->connected = rc == ZOK;
    pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->mutex);
}

/* Tells the library the login when it is connected, because before that it may refuse to take it.
 * From then on it repeats the login itself at each connect, before all requests. */
static void log_in(struct zk_session *session, zhandle_t *handle)
{
    if (session->login && !session->asked)
        session->asked = zoo_add_auth(handle, "digest", session->login, (int)strlen(session->login),
                                      on_logged_in, session) == ZOK;
}

static void on_session(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    struct zk_session *session = context;
    (void)path;
    if (type != ZOO_SESSION_EVENT)
        return;
    zoo_set_servers_resolution_delay(handle,
                                     state == ZOO_CONNECTED_STATE ? RESOLVE_NEVER : RESOLVE_ALWAYS);
    pthread_mutex_lock(&session->mutex);
    session->connected = state == ZOO_CONNECTED_STATE && (!session->login || session->logged_in);
    session->refused = state == ZOO_AUTH_FAILED_STATE;
    if (state == ZOO_EXPIRED_SESSION_STATE || session->refused)
        session->over = true;
    bool connected = session->connected;
    if (state == ZOO_CONNECTED_STATE)
        session->patience_ms = patience(zoo_recv_timeout(handle));
    session->look_ms = clock_now_ms() + session->patience_ms;
    if (session->over)
        watches_fire(session, NULL);
    pthread_cond_broadcast(&session->changed);
    pthread_cond_signal(&session->turned);
    pthread_mutex_unlock(&session->mutex);
    if (state == ZOO_CONNECTED_STATE)
        log_in(session, handle);
    if (connected)
        removals_start(session);
    else
        session->on_event(session->context, session);
}

/* Suppresses the library's log, which goes to stderr by default. */
static void no_log(const char *message)
{
    (void)message;
}

/* ---- sessions ---- */

static void session_free(struct zk_session *session)
{
    assert(LIST_EMPTY(&session->watches));
    removals_free(session);
    pthread_cond_destroy(&session->turned);
    pthread_cond_destroy(&session->changed);
    pthread_mutex_destroy(&session->mutex);
    free(session->login);
    free(session);
}

static void session_close(struct zk_session *session)
{
    assert(session->users == 0);
    pthread_mutex_lock(&session->mutex);
    session->closing = true;
    pthread_cond_signal(&session->turned);
    pthread_mutex_unlock(&session->mutex);
    pthread_join(session->hurrier, NULL);
    zookeeper_close(session->handle); /* completes every request that is under way */
    session_free(session);
}

/* Starts the library's threads and ours. False: out of memory, or of threads. */
static bool session_start(struct zk_session *session, const struct zk *zk)
{
    sigset_t all, before;
    sigfillset(&all); /* the threads that this starts inherit it */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    session->handle =
        zookeeper_init2(zk->hosts, on_session, zk->session_ms, NULL, session, 0, no_log);
    bool started = session->handle && pthread_create(&session->hurrier, NULL, hurry, session) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (session->handle && !started)
        zookeeper_close(session->handle);
    return started;
}

static struct zk_session *session_open(const struct zk *zk)
{
    struct zk_session *session = calloc(1, sizeof *session);
    if (!session)
        return NULL;
    pthread_mutex_init(&session->mutex, NULL);
    clock_condition_init(&session->changed);
    clock_condition_init(&session->turned);
    session->pid = getpid();
    session->on_event = zk->on_event;
    session->context = zk->context;
    session->users = 1;
    session->login = zk->login ? strdup(zk->login) : NULL;
    session->patience_ms = patience(zk->session_ms);
    session->look_ms = clock_now_ms() + session->patience_ms;
    if ((zk->login && !session->login) || !session_start(session, zk)) {
        session_free(session);
        return NULL;
    }
    return session;
}

static void zk_free(struct zk *zk)
{
    free(zk->hosts);
    free(zk->login);
    free(zk);
}

struct zk *zk_open(const char *hosts, const char *login, int session_ms,
                   void (*on_event)(void *context, struct zk_session *session), void *context)
{
    assert(session_ms > 0 && on_event);
    struct zk *zk = calloc(1, sizeof *zk);
    if (!zk)
        return NULL;
    zk->hosts = strdup(hosts);
    zk->login = login ? strdup(login) : NULL;
    zk->session_ms = session_ms;
    zk->on_event = on_event;
    zk->context = context;
    if (!zk->hosts || (login && !zk->login)) {
        zk_free(zk);
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
        zk_free(*zk);
    }
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

/* Returns the present session with one more user; NULL: no session can be opened. */
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

struct zk_session *zk_session_take(struct zk *zk, int wait_ms, const char **why_out)
{
    int64_t until_ms = clock_now_ms() + wait_ms;
    struct zk_session *session = NULL;
    enum zk_result result = ZK_OVER;
    *why_out = "no session in time";
    while (result == ZK_OVER) { /* a session may have expired while no thread used it */
        int64_t left_ms = until_ms - clock_now_ms();
        zk_session_drop(&session);
        session = session_present(zk);
        result = session ? zk_session_await(session, left_ms > 0 ? (int)left_ms : 0) : ZK_FAILED;
        if (result == ZK_OVER && session->refused) {
            result = ZK_FAILED; /* a new session would be refused as well */
            *why_out = "the server refuses to authenticate the user";
        }
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
        return; /* a close by a child of fork would end it for the parent, too */
    pthread_mutex_lock(&mine->mutex);
    assert(mine->users > 0);
    bool last = --mine->users == 0;
    pthread_mutex_unlock(&mine->mutex);
    if (last)
        session_close(mine);
}

bool zk_session_over(struct zk_session *session)
{
    return session->pid != getpid() || session->over;
}

int zk_session_ms(struct zk_session *session)
{
    return zoo_recv_timeout(session->handle);
}

const char *zk_session_error(struct zk_session *session)
{
    int error = session->error;
    return error == ZNOAUTH ? "its nodes belong to another user, or the password is wrong"
                            : zerror(error);
}

/* ---- requests ---- */

/* why_not_the_synchronous_calls: the library's synchronous calls wait as long as the library itself
 * waits for its server, up to two thirds of the session's time-out. The thread that renews locks
 * must not wait that long. So every request goes by the asynchronous call, and its answer is
 * awaited here. A timed-out request leaves its record to the library's thread, which frees it when
 * the answer comes. */

/* One request on its way. */
struct request {
    struct zk_session *session;
    bool done;
    bool timed_out; /* the sender has stopped waiting: the answer frees the record */
    int rc;
    int version; /* of ZK_CHANGE */
    struct zk_answer answer;
};

void zk_answer_free(struct zk_answer *answer)
{
    for (size_t i = 0; i < answer->count; i++)
        free(answer->names[i]);
    free(answer->names);
    *answer = (struct zk_answer){0};
}

static void request_free(struct request *request)
{
    zk_answer_free(&request->answer);
    free(request);
}

static void request_done(struct request *request, int rc)
{
    struct zk_session *session = request->session;
    pthread_mutex_lock(&session->mutex);
    assert(!request->done); /* the library answers each request once */
    request->rc = rc;
    request->done = true;
    bool timed_out = request->timed_out;
    pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->mutex);
    if (timed_out)
        request_free(request);
}

static struct request *request_of(const void *data)
{
    return (struct request *)(uintptr_t)data; /* the library only carries it for us */
}

static void take_stat(struct request *request, const struct Stat *stat)
{
    request->answer.czxid = stat->czxid;
    request->answer.version = stat->version;
    request->answer.mine =
        stat->ephemeralOwner == zoo_client_id(request->session->handle)->client_id;
}

static void on_plain(int rc, const void *data)
{
    request_done(request_of(data), rc);
}

static void on_changed(int rc, const struct Stat *stat, const void *data)
{
    (void)stat;
    request_done(request_of(data), rc);
}

/* The czxid comes with the answer of the make, so that the fence needs no second request. */
static void on_made(int rc, const char *path, const struct Stat *stat, const void *data)
{
    struct request *request = request_of(data);
    if (rc == ZOK && stat) {
        snprintf(request->answer.path, sizeof request->answer.path, "%s", path);
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
        snprintf(request->answer.data, ZK_DATA_MAX, "%.*s", length > 0 ? length : 0,
                 value ? value : "");
    }
    request_done(request, rc);
}

static void on_names(int rc, const struct String_vector *names, const void *data)
{
    struct request *request = request_of(data);
    struct zk_answer *answer = &request->answer;
    size_t count = rc == ZOK && names ? (size_t)names->count : 0;
    answer->names = count > 0 ? calloc(count, sizeof(char *)) : NULL;
    while (answer->names && answer->count < count &&
           (answer->names[answer->count] = strdup(names->data[answer->count])) != NULL)
        answer->count++;
    request_done(request, answer->count == count ? rc : ZSYSTEMERROR);
}

/* Ignores session events, which every watcher gets as well and which say nothing about its node. */
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

static int request_send(struct request *request, enum zk_ask ask, const char *path,
                        const char *data)
{
    zhandle_t *handle = request->session->handle;
    const struct ACL_vector *rights =
        request->session->login ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
    switch (ask) {
    case ZK_MAKE:
        return zoo_acreate2(handle, path, data, (int)strlen(data), rights, ZOO_EPHEMERAL_SEQUENTIAL,
                            on_made, request);
    case ZK_CONTAINER:
        return zoo_acreate2(handle, path, "", 0, rights, ZOO_CONTAINER, on_made, request);
    case ZK_LIST:
        return zoo_aget_children(handle, path, 0, on_names, request);
    case ZK_CHANGE:
        return zoo_aset(handle, path, data, (int)strlen(data), request->version, on_changed,
                        request);
    case ZK_DELETE:
        return zoo_adelete(handle, path, -1, on_plain, request);
    default:
        return zoo_awget(handle, path, ask == ZK_WATCH ? on_node : NULL, request->session, on_read,
                         request);
    }
}

/* NULL: nothing can be sent now. */
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

/* A lost connection leaves the request's outcome open; an expired session does not. */
static enum zk_result result_of(int rc)
{
    switch (rc) {
    case ZOK:
    case ZNODEEXISTS: /* a container */
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

static enum zk_result request_once(struct zk_session *session, enum zk_ask ask, const char *path,
                                   const char *data, int version, int64_t until_ns,
                                   struct zk_answer *answer_out)
{
    struct request *request = request_new(session);
    if (!request)
        return zk_session_over(session) ? ZK_OVER : ZK_FAILED;
    request->version = version;
    int sent = request_send(request, ask, path, data);
    pthread_mutex_lock(&session->mutex);
    bool in_time = true;
    while (sent == ZOK && !request->done && in_time)
        in_time = clock_wait(&session->changed, &session->mutex, until_ns);
    bool timed_out = sent == ZOK && !request->done;
    int rc = sent != ZOK ? sent : timed_out ? ZOPERATIONTIMEOUT : request->rc;
    request->timed_out = timed_out;
    if (rc != ZOK)
        session->error = rc;
    pthread_mutex_unlock(&session->mutex);
    if (timed_out)
        return ZK_UNKNOWN;
    if (rc == ZOK && answer_out) {
        *answer_out = request->answer;
        request->answer = (struct zk_answer){0};
    }
    request_free(request);
    return result_of(rc);
}

enum zk_result zk_request(struct zk_session *session, enum zk_ask ask, const char *path,
                          const char *data, int wait_ms, struct zk_answer *answer_out)
{
    assert(wait_ms >= 0);
    int64_t until_ns = clock_now_ns() + wait_ms * CLOCK_NS_PER_MS;
    if (answer_out)
        *answer_out = (struct zk_answer){0};
    enum zk_result first = request_once(session, ask, path, data, -1, until_ns, answer_out);
    int64_t left_ms = (until_ns - clock_now_ns()) / CLOCK_NS_PER_MS;
    if (ask == ZK_MAKE || (first != ZK_UNKNOWN && first != ZK_FAILED) || left_ms <= 0 ||
        zk_session_await(session, (int)left_ms) != ZK_OK)
        return first;
    zk_sync(session, path);
    enum zk_result result = request_once(session, ask, path, data, -1, until_ns, answer_out);
    if (first == ZK_UNKNOWN && result == ZK_NONE && ask == ZK_DELETE)
        return ZK_OK;
    return first == ZK_UNKNOWN && result == ZK_FAILED ? ZK_UNKNOWN : result;
}

enum zk_result zk_change(struct zk_session *session, const char *path, const char *data,
                         int version, int wait_ms)
{
    assert(version >= 0);
    int64_t until_ns = clock_now_ns() + wait_ms * CLOCK_NS_PER_MS;
    return request_once(session, ZK_CHANGE, path, data, version, until_ns, NULL);
}
