/* Private to lock/: a place in a ZooKeeper queue, the node that whoever waits for a lock or has it
 * made. A seat belongs to one thread at a time. */
#ifndef LOCK_ZOOKEEPER_SEAT_H
#define LOCK_ZOOKEEPER_SEAT_H

#include "lock/driver.h"
#include "lock/zookeeper.h"

struct seat {
    struct zk *zk;
    struct zk_session *session; /* NULL: none yet, or it was given up */
    int timeout_ms;             /* of each request */
    char directory[ZK_PATH_MAX];
    char path[ZK_PATH_MAX]; /* of the child; empty: not known to be there */
    int64_t czxid;
    bool in_doubt;  /* the child was asked for, and no answer came */
    bool leaving;   /* takes no more holds */
    bool releasing; /* its deletion was sent, and no answer came */
    bool watching;
    struct zk_watch watch;
    int holds; /* of its owner; 0 while it waits */
    char owner[SECLOCK_TOKEN_MAX];
    char request[SECLOCK_TOKEN_MAX]; /* the one that made it */
};

/* A seat without a node or a session yet; NULL: out of memory. */
struct seat *seat_new(struct zk *zk, const char *prefix, const struct seclock_handle *handle,
                      int timeout_ms);
void seat_free(struct seat *seat);

/* Drops the session and what was made in it. */
void seat_forget(struct seat *seat);

/* Makes sure that there is a child of a session that goes on. ZK_OK, ZK_FAILED or ZK_UNKNOWN. */
enum zk_result seat_take(struct seat *seat);

/* The child that an unanswered make may have left: adopted, or found not to be there (ZK_NONE). One
 * of an earlier session is not ours: it is about to go. */
enum zk_result seat_find(struct seat *seat);

/* ZK_OK with `first_out` when this seat's child is the first, else with a watch on the one ahead
 * when `watched`; ZK_NONE when the seat's own child has gone. */
enum zk_result seat_look(struct seat *seat, bool watched, bool *first_out);
void seat_watch_stop(struct seat *seat);

/* Gives the place up whatever the connection does: now, or when there is one again. */
void seat_leave(struct seat *seat);
void seat_clean_later(const struct seat *seat);

/* After a request that failed with its connection: waits for the next one. */
bool seat_connected_again(const struct seat *seat, enum zk_result result);

/* SECLOCK_UNKNOWN or SECLOCK_FAILED, with the reason kept for seclock_error. */
enum seclock_result seat_failure(const struct seat *seat, enum zk_result result);

#endif
