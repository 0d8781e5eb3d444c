/* Elects one daemon of many for a task, by a lock in Redis that its watchdog keeps. The daemon
 * proclaims its name, which `seclock --prefix seckill: status LOCK` shows.
 *
 * A daemon that outlives its lease works beside the next one for a moment, so the task must bear
 * that. The lock's fence does not guard it: after a Redis that came back empty with an earlier
 * clock all fences are smaller for a while. */
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
    ELECTION_HELD,   /* this daemon has been elected before and still is */
    ELECTION_WON,    /* it is elected now */
    ELECTION_OTHER,  /* another daemon is */
    ELECTION_FAILED, /* not known; seclock_error tells why */
};

/* Pods other than 0 add their number to the name, as they may share a Redis. False with the reason
 * in `error_out`. */
bool election_open(struct election *election, const struct service *service, const char *name,
                   char *error_out, size_t error_size);

/* Tries to be elected, unless it is. `lost_out`: it was, and the lock is lost since. */
enum election_result election_hold(struct election *election, bool *lost_out);

/* True while this daemon is elected, as far as it can know without asking. */
bool election_held(const struct election *election);

/* Gives the lock back, so that another daemon need not wait for the lease. */
void election_resign(struct election *election);

/* Frees it. A zeroed one is fine. */
void election_close(struct election *election);

#endif
