/* Elects one daemon of many for a task, by a lock in Redis that its watchdog keeps. The daemon
 * proclaims its name, which `seclock --prefix seckill: status LOCK` shows.
 *
 * A daemon that outlives its lease works beside the next one for a moment, so the task must bear
 * that. The lock's fence does not guard it: after a Redis that came back empty with an earlier
 * clock all fences are smaller for a while.
 *
 * why_resign: a daemon that failed gives the lock back, because perhaps only this one is cut off
 * from the ledger. */
#ifndef SECKILL_SERVICE_WORKERS_ELECTION_H
#define SECKILL_SERVICE_WORKERS_ELECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct seclock_client;
struct seclock_handle;
struct service;

/* All zeros before election_open. Its worker's thread uses it. */
struct election {
    char name[32];      /* of the lock */
    const char *daemon; /* what this daemon proclaims */
    struct seclock_client *locks;
    struct seclock_handle *held; /* NULL: this daemon is not elected */
};

enum election_result {
    ELECTION_HELD,   /* this daemon is elected */
    ELECTION_OTHER,  /* another daemon is */
    ELECTION_FAILED, /* not known, as Redis failed */
    ELECTION_NONE,   /* this daemon has resigned, or does not try yet */
};

/* What the elected daemon does; `self` is the worker's struct. */
struct election_task {
    const char *lock; /* its name */
    int period_ms;    /* between two turns */

    /* Does one turn's work. False: it failed, and the daemon resigns. */
    bool (*work)(void *self);

    /* Called once a turn, and at the end of the thread. */
    void (*tell)(void *self, enum election_result result);

    const char *won, *lost, *failed; /* events of the log */
    const char *lost_effect, *failed_effect;
};

/* Pods other than 0 add their number to the name, as they may share a Redis. False with the reason
 * in `error_out`. */
bool election_open(struct election *election, const struct service *service, const char *name,
                   char *error_out, size_t error_size);

/* Tries to be elected, unless this daemon is, and logs what changes. */
enum election_result election_hold(struct election *election, const struct election_task *task);

/* True while this daemon is elected, as far as it can know without asking. */
bool election_held(const struct election *election);

/* Gives the lock back, so that another daemon need not wait for the lease. */
void election_resign(struct election *election);

/* Frees it. A zeroed one is fine. */
void election_close(struct election *election);

#endif
