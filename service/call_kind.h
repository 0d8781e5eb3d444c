/* The kinds of calls: each has a queue and a call worker of its own, so that no kind waits behind
 * another, and none is refused because another has filled its queue. */
#ifndef SECKILL_SERVICE_CALL_KIND_H
#define SECKILL_SERVICE_CALL_KIND_H

#include <stdbool.h>
#include <stddef.h>

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
    bool locks;         /* it may wait for the locks of segments, so it has more time */
};

/* The row of each kind but CALL_ORDER. */
extern const struct call_kind_row call_kinds[CALL_KINDS];

#endif
