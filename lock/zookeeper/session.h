/* Private to lock/zookeeper/: sessions with a ZooKeeper ensemble, and what each of them keeps
 * for its users: watches, and nodes that it still has to delete. */
#ifndef LOCK_ZOOKEEPER_SESSION_H
#define LOCK_ZOOKEEPER_SESSION_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

enum { ZK_PATH_MAX = 512 }; /* bytes of a path, with its NUL */

enum zk_result {
    ZK_OK,
    ZK_NONE,    /* there is no such node */
    ZK_FAILED,  /* certainly not done */
    ZK_UNKNOWN, /* sent and not answered in time: it may be done */
    ZK_OVER,    /* the session has ended, and with it every node that it made */
};

/* Where the servers are, and the present session with them. Any thread may use it. */
struct zk;

struct removal;
struct zk_watch;

/* One session. It lives until its last user drops it, even when it has ended: the holder of a lock
 * keeps the session whose node the lock is. Any thread may use it. Only the requests
 * (request.c) look inside. */
struct zk_session {
    struct _zhandle *handle; /* the library's */
    pid_t pid;
    void (*on_event)(void *context, struct zk_session *session);
    void *context;
    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t changed;
    int users;
    bool connected;
    bool over;
    int error; /* of the last request that was not ZOK */
    LIST_HEAD(, zk_watch) watches;
    LIST_HEAD(, removal) removals;
};

/* `hosts` is host:port[,host:port...][/chroot]. Connects when first used. NULL: out of memory.
 * `on_event` is called, in a thread of the library, when a session is disconnected or over; it must
 * not wait for that session. */
struct zk *zk_open(const char *hosts, int session_ms,
                   void (*on_event)(void *context, struct zk_session *session), void *context);

/* Sets the pointer to NULL. The present session ends when the last of its users has dropped it. */
void zk_close(struct zk **zk);

/* `hosts`, as given. Valid as long as `zk`. */
const char *zk_hosts(const struct zk *zk);

/* Gives the present session, or a new one when that has ended, as soon as it is connected; NULL
 * when that takes longer than `wait_ms`. After a fork the child gets a session of its own. */
struct zk_session *zk_session_take(struct zk *zk, int wait_ms);

/* Sets the pointer to NULL. The last user closes the session, which deletes its nodes at once. */
void zk_session_drop(struct zk_session **session);

/* True once the server has said that the session has expired, and in a child of fork, for a session
 * of its parent. */
bool zk_session_over(struct zk_session *session);

/* Waits until the session is connected: ZK_OK, ZK_OVER, or ZK_FAILED when not in time. */
enum zk_result zk_session_await(struct zk_session *session, int wait_ms);

/* For how long, as the server has agreed, the session outlives the last packet from here. */
int zk_session_ms(struct zk_session *session);

/* Why the last request of the session was not ZK_OK. */
const char *zk_session_error(struct zk_session *session);

/* Brings the server that answers up to date with what the leader has committed, before the next
 * request of this session. Returns at once. */
void zk_sync(struct zk_session *session, const char *path);

/* A wait for a node to go away. The caller owns the struct and keeps it in place from
 * zk_watch_begin to zk_watch_end. `fd` is readable once the node has changed or the session is
 * over. The watch outlasts a connection that is lost and found again. */
struct zk_watch {
    char path[ZK_PATH_MAX];
    int fd;
    LIST_ENTRY(zk_watch) in_session;
};

/* False: no descriptor. A zk_read of the same path with `watched` has to follow. */
bool zk_watch_begin(struct zk_session *session, struct zk_watch *watch, const char *path);
void zk_watch_end(struct zk_session *session, struct zk_watch *watch);

/* Wakes the watches of a path; NULL: all. The session's mutex is held. */
void zk_watches_fire(const struct zk_session *session, const char *path);

/* Deletes the child of `directory` whose name begins with `start`, should there be one, as soon as
 * the session is connected again: for requests whose outcome is not known. */
void zk_delete_later(struct zk_session *session, const char *directory, const char *start);

#endif
