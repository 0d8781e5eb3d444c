/* Private to lock/zookeeper/: a node in the queue of a lock, which every waiter and the holder
 * make, and the order of such nodes. A struct queue_node belongs to one thread at a time. */
#ifndef LOCK_ZOOKEEPER_NODE_H
#define LOCK_ZOOKEEPER_NODE_H

#include "lock/handle.h"
#include "lock/zookeeper/request.h"

struct queue_node {
    struct zk *zk;
    struct zk_session *session; /* NULL: none yet, or it was given up */
    int timeout_ms;             /* of each request, within the time of `handle`'s acquisition */
    const struct seclock_handle *handle; /* NULL: it has none any more */
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
    char request[SECLOCK_TOKEN_MAX]; /* the one that made it */
};

/* ---- the directory of a lock ---- */

/* A lock is a directory; its name is percent-encoded where a path cannot have its bytes. */
void queue_directory(const char *prefix, const char *name, char path_out[ZK_PATH_MAX]);

/* Finds the first node in the directory, whose maker holds the lock; ZK_NONE: the lock is free.
 * `count_out` is the number of nodes. */
enum zk_result queue_first(struct zk_session *session, const char *directory, int timeout_ms,
                           char path_out[ZK_PATH_MAX], size_t *count_out);

/* ---- one node ---- */

/* A record without a node or a session yet; NULL: out of memory. */
struct queue_node *queue_node_new(struct zk *zk, const char *prefix,
                                  const struct seclock_handle *handle, int timeout_ms);
void queue_node_free(struct queue_node *node);

/* Drops the session, and with it the node if it was made in that. */
void queue_node_forget(struct queue_node *node);

/* Makes sure that the node exists, in a session that goes on. ZK_OK, ZK_FAILED or ZK_UNKNOWN. */
enum zk_result queue_node_make(struct queue_node *node);

/* Finds the node that an unanswered make may have left: adopts it, or ZK_NONE. A node of an earlier
 * session does not count, because it is about to go. */
enum zk_result queue_node_find(struct queue_node *node);

/* ZK_OK with `first_out` when the node is the first, else with a watch on the one ahead when
 * `watched`; ZK_NONE when the node itself has gone. */
enum zk_result queue_node_look(struct queue_node *node, bool watched, bool *first_out);
void queue_node_watch_stop(struct queue_node *node);

/* Deletes the node, now or, without a connection, as soon as there is one again. */
void queue_node_leave(struct queue_node *node);
void queue_node_delete_later(const struct queue_node *node);

/* After a request that failed with its connection: waits for the next connection. */
bool queue_node_reconnected(const struct queue_node *node, enum zk_result result);

/* SECLOCK_UNKNOWN or SECLOCK_FAILED, with the reason kept for seclock_error. */
enum seclock_result queue_node_failure(const struct queue_node *node, enum zk_result result);

#endif
