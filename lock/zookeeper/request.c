/* Requests to a ZooKeeper ensemble, each bounded in time. */
#include "lock/zookeeper/request.h"

#ifdef LOCK_WITH_ZOOKEEPER

#define THREADED /* the variant of the library whose own threads call back */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#include "base/clock.h"

/* why_not_the_synchronous_calls: the library's synchronous calls wait as long as the library itself
 * waits for its server, up to two thirds of the session's time-out. The thread that renews locks
 * must not be kept that long. So every request is sent by the asynchronous call, and its answer
 * awaited here. A request that times out leaves its record to the library's thread, which frees it
 * when the answer comes. */

/* One request on its way. */
struct request {
    struct zk_session *session;
    bool done;
    bool timed_out; /* the sender has stopped waiting: the answer frees the record */
    int rc;
    struct zk_node node;
    int64_t owner; /* the session whose ephemeral the node is */
    char path[ZK_PATH_MAX];
    struct zk_names names;
};

/* ---- answers: in a thread of the library ---- */

static void request_free(struct request *request)
{
    if (request)
        zk_names_free(&request->names);
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
    request->node.czxid = stat->czxid;
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
    assert(!request->done);
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
    assert(!request->names.name);
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

/* Every watcher gets the session's events as well, which say nothing about its node. */
static void on_node(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    struct zk_session *session = context;
    (void)handle;
    (void)state;
    if (type == ZOO_SESSION_EVENT)
        return;
    pthread_mutex_lock(&session->mutex);
    zk_watches_fire(session, path);
    pthread_mutex_unlock(&session->mutex);
}

/* ---- requests ---- */

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

/* A lost connection leaves open whether the request was carried out; a session that has expired
 * does not. */
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

/* Waits for the answer to a request that was sent with code `sent`. The caller frees the request,
 * unless this sets it to NULL: then the answer frees it. */
static enum zk_result request_wait(struct request **request, int sent, int wait_ms)
{
    assert(wait_ms >= 0);
    struct zk_session *session = (*request)->session;
    int64_t until_ns = clock_now_ns() + wait_ms * CLOCK_NS_PER_MS;
    pthread_mutex_lock(&session->mutex);
    bool in_time = true;
    while (sent == ZOK && !(*request)->done && in_time)
        in_time = clock_wait(&session->changed, &session->mutex, until_ns);
    int rc = sent != ZOK ? sent : (*request)->done ? (*request)->rc : ZOPERATIONTIMEOUT;
    (*request)->timed_out = sent == ZOK && !(*request)->done;
    if (rc != ZOK)
        session->error = rc;
    if ((*request)->timed_out)
        *request = NULL;
    pthread_mutex_unlock(&session->mutex);
    return result_of(rc);
}

static enum zk_result not_sent(struct zk_session *session)
{
    return zk_session_over(session) ? ZK_OVER : ZK_FAILED;
}

/* The czxid comes with the answer of the make, so that the fence needs no second request. */
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
    request_free(request);
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
    request_free(request);
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
    assert(result != ZK_OK || request);
    if (result == ZK_OK) {
        *names_out = request->names;
        request->names = (struct zk_names){0};
    }
    request_free(request);
    return result;
}

void zk_names_free(struct zk_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->name[i]);
    free(names->name);
    *names = (struct zk_names){0};
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
    request_free(request);
    return result;
}

enum zk_result zk_delete(struct zk_session *session, const char *path, int wait_ms)
{
    struct request *request = request_new(session);
    if (!request)
        return not_sent(session);
    int sent = zoo_adelete(session->handle, path, -1, on_plain, request);
    enum zk_result result = request_wait(&request, sent, wait_ms);
    request_free(request);
    return result;
}

#endif
