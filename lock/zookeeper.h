/* Private to lock/: sessions with a ZooKeeper ensemble, in which every request is bounded in
 * time. */
#ifndef LOCK_ZOOKEEPER_H
#define LOCK_ZOOKEEPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ZK_PATH_MAX = 512, /* bytes of a path, with its NUL */
    ZK_DATA_MAX = 128, /* bytes of a node's data that are read, with a NUL */
};

enum zk_result {
    ZK_OK,
    ZK_NONE,    /* there is no such node */
    ZK_FAILED,  /* certainly not done */
    ZK_UNKNOWN, /* sent and not answered in time: it may be done */
    ZK_OVER,    /* the session has ended, and with it every node that it made */
};

/* What a session belongs to: where the servers are. Any thread may use it. */
struct zk;

/* One session. It lives until the last who took it drops it, even when it has ended: who holds a
 * lock keeps the session whose node the lock is. Any thread may use it. */
struct zk_session;

/* `hosts` is host:port[,host:port...][/chroot]. Connects when first used. NULL: out of memory.
 * `on_event` is called, in a thread of the library, when a session is disconnected or over; it must
 * not wait for that session. */
struct zk *zk_open(const char *hosts, int session_ms,
                   void (*on_event)(void *context, struct zk_session *session), void *context);

/* Sets the pointer to NULL. The present session ends when the last of its users has dropped it. */
void zk_close(struct zk **zk);

/* Gives the present session, or a new one when that has ended, as soon as it is connected; NULL
 * when that takes longer than `wait_ms`. After a fork the child gets one of its own. */
struct zk_session *zk_session_take(struct zk *zk, int wait_ms);

/* One more user of the same session. */
struct zk_session *zk_session_share(struct zk_session *session);

/* Sets the pointer to NULL. The last user closes the session, which deletes its nodes at once. */
void zk_session_drop(struct zk_session **session);

/* True once the server has said that the session has expired, or when this is a fork's child, whose
 * parent it belongs to. */
bool zk_session_over(struct zk_session *session);

/* Waits until the session is connected: ZK_OK, ZK_OVER, or ZK_FAILED when not in time. */
enum zk_result zk_session_await(struct zk_session *session, int wait_ms);

/* For how long, as the server has agreed, the session outlives the last sign of life from here. */
int zk_session_ms(struct zk_session *session);

/* Why the last request of the session was not ZK_OK, in words. */
const char *zk_session_error(struct zk_session *session);

struct zk_node {
    int64_t czxid;    /* of the transaction that made it: grows with every node of the ensemble */
    bool mine;        /* an ephemeral of this very session */
    bool ephemeral;   /* of any session */
    int64_t ctime_ms; /* when it was made, by the server's clock */
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
 * when it is there. */
enum zk_result zk_make_container(struct zk_session *session, const char *path, int wait_ms);

/* The names of a node's children, in no order. */
enum zk_result zk_list(struct zk_session *session, const char *path, int wait_ms,
                       struct zk_names *names_out);
void zk_names_free(struct zk_names *names);

/* Brings the server that answers up to date with what the leader has committed, before the next
 * request of this session. Returns at once. */
void zk_sync(struct zk_session *session, const char *path);

/* Somebody who waits for a node to go away; the caller owns it, from zk_watch_begin to zk_watch_end
 * it stays where it is. `fd` is readable once the node has changed or the session is over. A
 * connection lost and found again meanwhile does not disturb it. */
struct zk_watch {
    char path[ZK_PATH_MAX];
    int fd;
    struct zk_watch *next;
};

/* False: no descriptor. The path is that of a zk_read with `watched` to follow. */
bool zk_watch_begin(struct zk_session *session, struct zk_watch *watch, const char *path);
void zk_watch_end(struct zk_session *session, struct zk_watch *watch);

/* Reads a node; `watched` leaves a watch on it for a zk_watch with its path. A node that is not
 * there leaves none. */
enum zk_result zk_read(struct zk_session *session, const char *path, bool watched, int wait_ms,
                       struct zk_node *node_out);

/* ZK_NONE: it was not there (any more). */
enum zk_result zk_delete(struct zk_session *session, const char *path, int wait_ms);

/* Deletes the child of `directory` whose name begins with `start`, should there be one, as soon as
 * the session is connected again: for requests whose outcome is not known. */
void zk_delete_later(struct zk_session *session, const char *directory, const char *start);

#endif
