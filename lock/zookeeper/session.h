/* Private to lock/zookeeper/: sessions with a ZooKeeper ensemble, and the requests in them.
 *
 * Each request is bounded in time. A session keeps watches for its users, and nodes that it still
 * has to delete. */
#ifndef LOCK_ZOOKEEPER_SESSION_H
#define LOCK_ZOOKEEPER_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

enum {
    ZK_PATH_MAX = 512, /* bytes of a path, with its NUL */
    ZK_DATA_MAX = 360, /* bytes of a node's data that are read */
};

enum zk_result {
    ZK_OK,
    ZK_NONE,    /* there is no such node */
    ZK_FAILED,  /* certainly not done */
    ZK_UNKNOWN, /* sent and not answered in time: it may be done */
    ZK_OVER,    /* the session has ended, and with it every node that it made */
};

/* The servers' addresses, and the present session with them. Any thread may use it. */
struct zk;

struct zk_session; /* any thread may use it */

/* `hosts` is host:port[,host:port...][/chroot]. `login` is user:password, to whom alone the nodes
 * belong that are made; NULL: they belong to everybody. Connects when first used. NULL: out of
 * memory. A thread of the library calls `on_event` when a session is disconnected or over; it must
 * not wait for that session. */
struct zk *zk_open(const char *hosts, const char *login, int session_ms,
                   void (*on_event)(void *context, struct zk_session *session), void *context);

/* Sets the pointer to NULL. The present session ends when the last of its users has dropped it. */
void zk_close(struct zk **zk);

/* `hosts`, as given. Valid as long as `zk`. */
const char *zk_hosts(const struct zk *zk);

/* Returns the present session, or a new one if it has ended, as soon as it is connected and the
 * user authenticated; NULL with the reason in `why_out` when that takes longer than `wait_ms` or
 * the server refuses the user. After a fork the child gets its own session. */
struct zk_session *zk_session_take(struct zk *zk, int wait_ms, const char **why_out);

/* Sets the pointer to NULL. The last user closes the session, which deletes its nodes at once. */
void zk_session_drop(struct zk_session **session);

/* True once the server has said that the session has expired, or has refused its user; in a child
 * of fork, for a session of its parent. */
bool zk_session_over(struct zk_session *session);

/* Waits until the session is connected: ZK_OK, ZK_OVER, or ZK_FAILED when not in time. */
enum zk_result zk_session_await(struct zk_session *session, int wait_ms);

/* How long, as the server has agreed, the session outlives the last packet from here. */
int zk_session_ms(struct zk_session *session);

/* Returns why the last request of the session was not ZK_OK. */
const char *zk_session_error(struct zk_session *session);

/* Brings the server that answers up to date with what the leader has committed, before the next
 * request of this session. Returns at once. */
void zk_sync(struct zk_session *session, const char *path);

/* ---- requests ---- */

enum zk_ask {
    ZK_MAKE,      /* an ephemeral node with data, whose name the server completes with a number */
    ZK_CONTAINER, /* makes a node that the server deletes some time after its last child has gone;
                     ZK_OK also when it exists */
    ZK_LIST,      /* the names of a node's children, in no order */
    ZK_READ,
    ZK_WATCH,  /* reads, and watches an existing node for a zk_watch with this path */
    ZK_DELETE, /* ZK_NONE: there was no such node (any more) */
    ZK_CHANGE, /* for zk_change */
};

struct zk_answer {
    char path[ZK_PATH_MAX]; /* of the node made */
    int64_t czxid; /* of the transaction that made the node: grows over all nodes of the ensemble */
    int version;   /* of the data: how often it was changed */
    bool mine;     /* an ephemeral of this very session */
    char data[ZK_DATA_MAX];
    size_t count; /* of the children */
    char **names; /* freed by zk_answer_free */
};

/* Sends a request, and all but ZK_MAKE once more when the connection is lost and found again in
 * time; ZK_DELETE is then ZK_OK even if the first sending has done it. `data` is for ZK_MAKE;
 * `answer_out` may be NULL. */
enum zk_result zk_request(struct zk_session *session, enum zk_ask ask, const char *path,
                          const char *data, int wait_ms, struct zk_answer *answer_out);
void zk_answer_free(struct zk_answer *answer);

/* Changes a node's data if that has this version, and sends this once. ZK_FAILED: not changed, for
 * example because of another version. */
enum zk_result zk_change(struct zk_session *session, const char *path, const char *data,
                         int version, int wait_ms);

/* ---- what a session keeps ---- */

/* A wait for a node to go away. The caller owns the struct and keeps it in place from
 * zk_watch_begin to zk_watch_end. `fd` is readable once the node has changed or the session is
 * over. The watch survives a lost connection. */
struct zk_watch {
    char path[ZK_PATH_MAX];
    int fd;
    LIST_ENTRY(zk_watch) in_session;
};

/* False: no descriptor. A ZK_WATCH of the same path has to follow. */
bool zk_watch_begin(struct zk_session *session, struct zk_watch *watch, const char *path);
void zk_watch_end(struct zk_session *session, struct zk_watch *watch);

/* Deletes the child of `directory` whose name begins with `start`, if there is one, as soon as the
 * session is connected again: for requests whose outcome is not known. */
void zk_delete_later(struct zk_session *session, const char *directory, const char *start);

#endif
