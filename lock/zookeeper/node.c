/* Nodes in the queue of a lock, and their order. */
#include "lock/zookeeper/node.h"

#ifdef LOCK_WITH_ZOOKEEPER

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "lock/text.h"

/* A lock is a directory under ROOT; a request makes the child REQUEST-lock-SEQUENCE in it. */
#define ROOT "/seclock"
#define SEPARATOR "-lock-"

enum {
    DIRECTORY_MAX = 400, /* bytes of a directory's path */
    CHILD_MAX = 100,     /* of a child's name */
    START_MAX = SECLOCK_TOKEN_MAX + 8,
    MAKE_TRIES_MAX = 3,
};

/* ---- names and paths ---- */

/* Appends a name as one part of a path. */
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

/* Prefix and name are one part of the path: a prefix with a slash makes no further directory. The
 * dot between them stands in neither, as both are encoded. */
void queue_directory(const char *prefix, const char *name, char path_out[ZK_PATH_MAX])
{
    strcpy(path_out, ROOT "/");
    append_encoded(path_out, prefix);
    if (prefix[0] != '\0')
        strcat(path_out, ".");
    append_encoded(path_out, name);
}

static void node_prefix(const char *directory, const char *request, char path_out[ZK_PATH_MAX])
{
    snprintf(path_out, ZK_PATH_MAX, "%.*s/%s" SEPARATOR, DIRECTORY_MAX, directory, request);
}

static void node_start(const char *request, char start_out[START_MAX])
{
    snprintf(start_out, START_MAX, "%s" SEPARATOR, request);
}

static void child_path(const char *directory, const char *child, char path_out[ZK_PATH_MAX])
{
    snprintf(path_out, ZK_PATH_MAX, "%.*s/%.*s", DIRECTORY_MAX, directory, CHILD_MAX, child);
}

/* The child that a request has made; NULL: none. */
static const char *child_of_request(const struct zk_names *names, const char *request)
{
    size_t length = strlen(request);
    for (size_t i = 0; i < names->count; i++)
        if (strncmp(names->name[i], request, length) == 0 &&
            strncmp(names->name[i] + length, SEPARATOR, strlen(SEPARATOR)) == 0)
            return names->name[i];
    return NULL;
}

/* ---- the order of the queue ---- */

/* numbers_run_out: the server counts a directory's children in 32 bits. Some versions go on below
 * zero after the greatest number, so the comparison is on a circle. Others (3.8) give the greatest
 * number again and again: then the czxid decides, which takes a read of each such child. */

/* The number that the server gave a child; false when it is no child of a lock. */
static bool sequence_of(const char *name, int32_t *sequence_out)
{
    /* Anybody may make children there; our names are never this long. */
    const char *separator = strlen(name) < CHILD_MAX ? strstr(name, SEPARATOR) : NULL;
    *sequence_out = separator ? (int32_t)strtol(separator + strlen(SEPARATOR), NULL, 10) : 0;
    return separator != NULL;
}

/* On the circle of 32 bits. */
static bool comes_before(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b) < 0;
}

/* A child in the order of the queue: by number, then by czxid, which is 0 until it is needed. */
struct position {
    const char *child;
    int32_t number;
    int64_t czxid;
};

struct search {
    struct zk_session *session;
    const char *directory;
    int timeout_ms;
    enum zk_result result; /* of the reads */
};

/* False when the child has gone, or no server answers. */
static bool czxid_known(struct search *search, struct position *position)
{
    assert(position->child);
    char path[ZK_PATH_MAX];
    struct zk_node node;
    if (position->czxid != 0)
        return true;
    if (search->result != ZK_OK)
        return false;
    child_path(search->directory, position->child, path);
    enum zk_result result = zk_read(search->session, path, false, search->timeout_ms, &node);
    position->czxid = result == ZK_OK ? node.czxid : 0;
    search->result = result == ZK_NONE ? ZK_OK : result;
    return result == ZK_OK;
}

static bool is_before(struct search *search, struct position *a, struct position *b)
{
    assert(a != b);
    if (a->number != b->number)
        return comes_before(a->number, b->number);
    if (!czxid_known(search, a))
        return false;
    return !czxid_known(search, b) || a->czxid < b->czxid;
}

/* The child right before `own`, which was made at `czxid`, or with `own` NULL the first of all;
 * NULL when there is none. Reads nodes only where two have one number. */
static enum zk_result child_ahead(struct zk_session *session, const char *directory,
                                  const struct zk_names *names, const char *own, int64_t czxid,
                                  int timeout_ms, const char **child_out)
{
    struct search search = {session, directory, timeout_ms, ZK_OK};
    struct position self = {.child = own, .czxid = czxid}, found = {.child = NULL};
    if (own)
        sequence_of(own, &self.number);
    for (size_t i = 0; i < names->count; i++) {
        struct position position = {.child = names->name[i]};
        if (!sequence_of(position.child, &position.number) ||
            (own && strcmp(position.child, own) == 0) ||
            (own && !is_before(&search, &position, &self)))
            continue;
        if (!found.child || is_before(&search, own ? &found : &position, own ? &position : &found))
            found = position;
    }
    *child_out = found.child;
    return search.result;
}

enum zk_result queue_first(struct zk_session *session, const char *directory, int timeout_ms,
                           char path_out[ZK_PATH_MAX], size_t *count_out)
{
    struct zk_names names;
    const char *first = NULL;
    zk_sync(session, directory);
    enum zk_result result = zk_list(session, directory, timeout_ms, &names);
    if (result == ZK_OK)
        result = child_ahead(session, directory, &names, NULL, 0, timeout_ms, &first);
    if (result == ZK_OK && !first)
        result = ZK_NONE;
    if (result == ZK_OK)
        child_path(directory, first, path_out);
    *count_out = names.count;
    zk_names_free(&names);
    return result;
}

/* ---- one node ---- */

static int node_ms(const struct queue_node *node)
{
    return node->handle ? handle_request_ms(node->handle, node->timeout_ms) : node->timeout_ms;
}

enum seclock_result queue_node_failure(const struct queue_node *node, enum zk_result result)
{
    assert(result != ZK_OK);
    lock_set_error("zookeeper %s: %s", zk_hosts(node->zk),
                   node->session ? zk_session_error(node->session) : "no session in time");
    return result == ZK_UNKNOWN ? SECLOCK_UNKNOWN : SECLOCK_FAILED;
}

bool queue_node_reconnected(const struct queue_node *node, enum zk_result result)
{
    return (result == ZK_UNKNOWN || result == ZK_FAILED) && node->session &&
           zk_session_await(node->session, node_ms(node)) == ZK_OK;
}

void queue_node_watch_stop(struct queue_node *node)
{
    if (node->watching)
        zk_watch_end(node->session, &node->watch);
    node->watching = false;
}

/* The nodes of a session go with it: after the drop the path means nothing. */
void queue_node_forget(struct queue_node *node)
{
    queue_node_watch_stop(node);
    zk_session_drop(&node->session);
    node->path[0] = '\0';
    node->in_doubt = false;
}

void queue_node_delete_later(const struct queue_node *node)
{
    assert(node->session);
    char start[START_MAX];
    node_start(node->request, start);
    zk_delete_later(node->session, node->directory, start);
}

/* Without an answer the node may live as long as the session, and would block the queue: so the
 * deletion is repeated when the connection is back. */
void queue_node_leave(struct queue_node *node)
{
    queue_node_watch_stop(node);
    if (!node->session || (node->path[0] == '\0' && !node->in_doubt))
        return;
    enum zk_result result =
        node->path[0] != '\0' ? zk_delete(node->session, node->path, node_ms(node)) : ZK_UNKNOWN;
    if (result == ZK_UNKNOWN || result == ZK_FAILED)
        queue_node_delete_later(node);
}

void queue_node_free(struct queue_node *node)
{
    assert(node->holds == 0);
    queue_node_forget(node);
    free(node);
}

struct queue_node *queue_node_new(struct zk *zk, const char *prefix,
                                  const struct seclock_handle *handle, int timeout_ms)
{
    assert(timeout_ms > 0);
    struct queue_node *node = calloc(1, sizeof *node);
    if (!node)
        return NULL;
    node->zk = zk;
    node->timeout_ms = timeout_ms;
    node->handle = handle;
    queue_directory(prefix, handle->name, node->directory);
    strcpy(node->owner, handle->owner);
    strcpy(node->request, handle->request);
    return node;
}

enum zk_result queue_node_find(struct queue_node *node)
{
    assert(node->session);
    struct zk_names names;
    struct zk_node found = {0};
    zk_sync(node->session, node->directory);
    enum zk_result result = zk_list(node->session, node->directory, node_ms(node), &names);
    const char *child = child_of_request(&names, node->request);
    if (result == ZK_OK && child) {
        child_path(node->directory, child, node->path);
        result = zk_read(node->session, node->path, false, node_ms(node), &found);
        if (result == ZK_OK && !found.mine) {
            zk_delete(node->session, node->path, node_ms(node));
            result = ZK_NONE;
        }
    } else if (result == ZK_OK)
        result = ZK_NONE;
    zk_names_free(&names);
    if (result == ZK_OK || result == ZK_NONE)
        node->in_doubt = false;
    if (result == ZK_OK)
        node->czxid = found.czxid;
    else
        node->path[0] = '\0';
    return result;
}

/* The root may be missing as well, on the first use of an ensemble. */
static enum zk_result make_directory(struct queue_node *node)
{
    assert(node->session);
    enum zk_result result = zk_make_container(node->session, node->directory, node_ms(node));
    if (result != ZK_NONE)
        return result;
    result = zk_make_container(node->session, ROOT, node_ms(node));
    return result == ZK_OK ? zk_make_container(node->session, node->directory, node_ms(node))
                           : result;
}

static enum zk_result make_child(struct queue_node *node)
{
    assert(node->session && node->path[0] == '\0');
    char prefix[ZK_PATH_MAX];
    node_prefix(node->directory, node->request, prefix);
    enum zk_result result = ZK_NONE;
    for (int tries = 0; tries < MAKE_TRIES_MAX && result == ZK_NONE; tries++) {
        result = zk_make_ephemeral(node->session, prefix, node->owner, node_ms(node), node->path,
                                   &node->czxid);
        if (result ==
            ZK_NONE) { /* no directory yet, or the server has just deleted the empty one */
            enum zk_result made = make_directory(node);
            result = made == ZK_OK ? ZK_NONE : made;
        }
    }
    return result == ZK_NONE ? ZK_FAILED : result;
}

enum zk_result queue_node_make(struct queue_node *node)
{
    if (node->session && zk_session_over(node->session))
        queue_node_forget(node);
    if (!node->session)
        node->session = zk_session_take(node->zk, node_ms(node));
    if (!node->session)
        return ZK_FAILED;
    if (node->path[0] != '\0')
        return ZK_OK;
    assert(node->path[0] == '\0');
    enum zk_result result = node->in_doubt ? queue_node_find(node) : make_child(node);
    if (result == ZK_NONE)
        result = make_child(node);
    if (result == ZK_UNKNOWN) {
        node->in_doubt = true;
        if (queue_node_reconnected(node, result))
            result = queue_node_find(node);
        if (result == ZK_NONE)
            result = make_child(node);
    }
    if (result == ZK_OVER) { /* its nodes have gone with it */
        queue_node_forget(node);
        result = ZK_FAILED;
    }
    return result;
}

/* Watches the child ahead. ZK_NONE: that has just gone. */
static enum zk_result watch_start(struct queue_node *node, const char *ahead)
{
    assert(node->session && strlen(ahead) < CHILD_MAX); /* sequence_of lets no longer one pass */
    char path[ZK_PATH_MAX];
    struct zk_node found;
    child_path(node->directory, ahead, path);
    queue_node_watch_stop(node);
    node->watching = zk_watch_begin(node->session, &node->watch, path);
    if (!node->watching)
        return ZK_FAILED;
    return zk_read(node->session, path, true, node_ms(node), &found);
}

enum zk_result queue_node_look(struct queue_node *node, bool watched, bool *first_out)
{
    struct zk_names names;
    assert(node->session && node->path[0] != '\0');
    const char *own = strrchr(node->path, '/') + 1, *ahead = NULL;
    enum zk_result result = zk_list(node->session, node->directory, node_ms(node), &names);
    if (result == ZK_OK && !child_of_request(&names, node->request))
        result = ZK_NONE;
    if (result == ZK_OK)
        result = child_ahead(node->session, node->directory, &names, own, node->czxid,
                             node_ms(node), &ahead);
    *first_out = result == ZK_OK && !ahead;
    if (result == ZK_OK && ahead && watched) {
        result = watch_start(node, ahead);
        if (result == ZK_NONE) { /* look again at once: end the wait before it begins */
            eventfd_write(node->watch.fd, 1);
            result = ZK_OK;
        }
    }
    zk_names_free(&names);
    return result;
}

#endif
