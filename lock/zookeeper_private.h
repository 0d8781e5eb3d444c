/* Private to lock/zookeeper*.c: what a session consists of. */
#ifndef LOCK_ZOOKEEPER_PRIVATE_H
#define LOCK_ZOOKEEPER_PRIVATE_H

#define THREADED /* the variant of the library whose own threads call back */
#include <pthread.h>
#include <sys/types.h>
#include <zookeeper/zookeeper.h>

#include "lock/zookeeper.h"

struct removal;

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

int64_t zk_now_ns(void);

/* Waits for a change of the session; false when the time is over. Its mutex is held. */
bool zk_session_wait(struct zk_session *session, int64_t until_ns);

/* Wakes those who wait for the path; NULL: all. The session's mutex is held. */
void zk_watches_fire(const struct zk_session *session, const char *path);

/* Begins with the removals that nobody has asked for since the connection was lost. */
void zk_removals_start(struct zk_session *session);

/* Forgets them: the session has ended, and its nodes with it. */
void zk_removals_free(struct zk_session *session);

#endif
