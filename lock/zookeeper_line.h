/* Private to lock/: who stands where in a queue, by the names of a lock's nodes in ZooKeeper. */
#ifndef LOCK_ZOOKEEPER_LINE_H
#define LOCK_ZOOKEEPER_LINE_H

#include "lock/seclock.h"
#include "lock/zookeeper.h"

/* A lock is a directory, whoever wants it makes a child REQUEST-lock-SEQUENCE in it. */
#define LINE_ROOT "/seclock"

enum {
    LINE_DIRECTORY_MAX = 380, /* bytes of a directory's path */
    LINE_CHILD_MAX = 100,     /* of a child's name */
    LINE_START_MAX = SECLOCK_TOKEN_MAX + 8,
};

/* The directory of a lock: what a path cannot have is percent-encoded. */
void line_directory(const char *prefix, const char *name, char path_out[ZK_PATH_MAX]);

/* What a request's child is made with, how its name begins, and the path of a child. */
void line_prefix(const char *directory, const char *request, char path_out[ZK_PATH_MAX]);
void line_start(const char *request, char start_out[LINE_START_MAX]);
void line_child(const char *directory, const char *child, char path_out[ZK_PATH_MAX]);

/* The child that a request has made, or NULL. */
const char *line_of_request(const struct zk_names *names, const char *request);

/* The child that stands right before `own`, which was made at `czxid`, and the first of all; NULL
 * when there is none. Asks for a node only where two have one number. ZK_OK, or why not. */
enum zk_result line_ahead(struct zk_session *session, const char *directory,
                          const struct zk_names *names, const char *own, int64_t czxid,
                          int timeout_ms, const char **child_out);
enum zk_result line_first(struct zk_session *session, const char *directory,
                          const struct zk_names *names, int timeout_ms, const char **child_out);

#endif
