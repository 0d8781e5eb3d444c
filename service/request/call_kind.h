/* The kinds of calls: each has a queue and a call worker of its own, so that no kind waits behind
 * another, and none is refused because another has filled its queue. */
#ifndef SECKILL_SERVICE_REQUEST_CALL_KIND_H
#define SECKILL_SERVICE_REQUEST_CALL_KIND_H

#include <stdbool.h>
#include <stddef.h>

struct config;

enum call_kind {
    CALL_LOOKUP,  /* an order, and the stock of a sale */
    CALL_PAYMENT, /* of an order */
    CALL_CANCEL,  /* of an order; waits for the locks of segments */
    CALL_LIST,    /* the orders of a user */
    CALL_ADMIN,   /* the operator's quick calls, such as the pause of a sale */
    CALL_SALE,    /* the operator's calls that hold all segments of a sale */
    CALL_LISTING, /* the operator's lists of orders */
    CALL_KINDS,
    CALL_ORDER = CALL_KINDS, /* no call worker: an order worker carries it */
};

enum { CALL_BATCH_MAX = 512 };

struct call_kind_row {
    const char *thread; /* name of its worker's thread */
    const char *failed; /* the event in the log when a server fails a batch of them */
    size_t places;      /* calls that may wait, or be with the worker, at most */
    size_t batch;       /* calls that the worker takes at a time; up to CALL_BATCH_MAX */
    unsigned cost;      /* of a call, as a share of an order's, in percent; see http/fair.c */
    bool locks;         /* it may wait for the locks of segments, see call_bound_ms */
};

/* The row of each kind but CALL_ORDER. */
extern const struct call_kind_row call_kinds[CALL_KINDS];

/* How long a call may take, from its first line to its answer:
 *
 *   call                                            ms                              by default
 *   a request of any kind that is not complete      deadline_ms, then 408                  2 s
 *   orders, look-ups, payments, lists of a user     deadline_ms, then 503                  2 s
 *   cancels, the operator's calls and listings,     lease_ms + deadline_ms / 2, or         4 s
 *     for they may wait for a holder that died        deadline_ms if that is more, then 503
 *
 * http/connection.c: connection_expire enforces it. All else is answered from memory. A client that
 * has not finished a first line has asked nothing yet, and one that does not take its answer keeps
 * itself waiting: each has idle_ms, see http/room.c. */
int call_bound_ms(const struct config *config, bool locks);

#endif
