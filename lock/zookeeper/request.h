/* Private to lock/zookeeper/: requests to a ZooKeeper ensemble, each bounded in time. */
#ifndef LOCK_ZOOKEEPER_REQUEST_H
#define LOCK_ZOOKEEPER_REQUEST_H

#include "lock/zookeeper/session.h"

enum { ZK_DATA_MAX = 128 }; /* bytes of a node's data that are read, with a NUL */

struct zk_node {
    int64_t czxid; /* of the transaction that made the node: grows over all nodes of the ensemble */
    bool mine;     /* an ephemeral of this very session */
    char data[ZK_DATA_MAX];
};

struct zk_names {
    size_t count;
    char **name; /* freed by zk_names_free */
};

/* Makes an ephemeral node whose name the server completes with a sequence number. */
enum zk_result zk_make_ephemeral(struct zk_session *session, const char *prefix, const char *data,
                                 int wait_ms, char path_out[ZK_PATH_MAX], int64_t *czxid_out);

/* Makes a container, which the server deletes some time after its last child has gone; ZK_OK also
 * when it exists. */
enum zk_result zk_make_container(struct zk_session *session, const char *path, int wait_ms);

/* The names of a node's children, in no order. */
enum zk_result zk_list(struct zk_session *session, const char *path, int wait_ms,
                       struct zk_names *names_out);
void zk_names_free(struct zk_names *names);

/* Reads a node; `watched` leaves a watch on it for a zk_watch with its path. A missing node leaves
 * none. */
enum zk_result zk_read(struct zk_session *session, const char *path, bool watched, int wait_ms,
                       struct zk_node *node_out);

/* ZK_NONE: there was no such node (any more). */
enum zk_result zk_delete(struct zk_session *session, const char *path, int wait_ms);

#endif
