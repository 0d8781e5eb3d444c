/* A batch being decided: its orders grouped by sale, and which segments fill which order. */
#ifndef STOCK_ORDERS_BATCH_H
#define STOCK_ORDERS_BATCH_H

#include "sql/orders/orders.h"
#include "stock/order.h"
#include "stock/segment.h"

/* One open order of the batch. */
struct batch_order {
    struct stock_order *order;
    struct batch_order *next;  /* of the same group */
    bool filled;               /* units that were taken are meant for it */
    struct segment_hold *hold; /* set by strategy_commit: the first of which it has units */
};

/* The open orders of one sale. Segments are tried in turn from a random one on; recovered segments
 * are tried once more. */
struct group {
    struct sale *sale;
    struct sale_snapshot snapshot;
    struct batch_order *first;
    struct batch_order *last;
    struct segment_hold *first_hold; /* of its holds, in the order they were begun */
    struct segment_hold *last_hold;
    uint32_t start;
    uint32_t tried;
    uint32_t retries;
    uint16_t retry[LEDGER_SEGMENTS_MAX];
    uint32_t retry_count;
    uint32_t leftover; /* units taken and not meant for an order yet */
    bool busy;         /* a segment was held by somebody else */
    bool stale;        /* the ledger is in another round */
    bool held;         /* others hold rows of the ledger that it needs */
    bool counted;      /* its counters have been read anew */
};

enum {
    BATCH_SLOTS = 2 * STOCK_BATCH_MAX, /* of the table of groups: a power of two */
};

_Static_assert((BATCH_SLOTS & (BATCH_SLOTS - 1)) == 0,
               "the table of groups has a power of two slots");
_Static_assert(STOCK_BATCH_MAX <= UINT16_MAX, "a slot numbers a group in 16 bits");
_Static_assert(LEDGER_SEGMENTS_MAX <= UINT16_MAX, "a retry numbers a segment in 16 bits");
_Static_assert((int)STOCK_BATCH_MAX <= (int)LEDGER_ORDERS_MAX, "one commit takes a whole batch");

struct batch {
    struct batch_order orders[STOCK_BATCH_MAX];
    size_t order_count;
    struct group groups[STOCK_BATCH_MAX];
    size_t group_count;
    uint16_t group_slots[BATCH_SLOTS]; /* number of a sale's group from 1; 0: free */

    /* Written by strategy_commit for the ledger. */
    struct ledger_stock_update updates[STOCK_HOLDS_MAX];
    struct segment_hold *updated[STOCK_HOLDS_MAX]; /* the hold behind each update */
    size_t update_count;
    struct ledger_order rows[STOCK_BATCH_MAX];
    size_t row_count;
};

/* Begins the thread's batch, without holds: groups the open orders by their sales. */
struct batch *batch_begin(struct stock *stock, struct stock_order *const *orders, size_t count);

/* Begins a hold of up to `wanted` units of a segment, in the strategy's own way. */
typedef void begin_hold(struct stock *stock, struct segment_hold *hold, struct sale *sale,
                        const struct sale_snapshot *snapshot, uint32_t segment, uint32_t wanted);

/* Begins holds of enough further segments for the group's open orders, judging by the hints. */
void group_plan(struct stock *stock, struct group *group, begin_hold *begin);

/* Lets a segment be tried once more, a bounded number of times. */
void group_retry(struct group *group, uint32_t segment);

/* Gives taken units to open orders, all or nothing. */
void group_fill(struct group *group);

/* Takes its units, if it has any, away from an order that cannot be committed now: it is tried
 * again if the server that failed is `reachable` by now, a bounded number of times; else it is
 * unavailable. */
void batch_order_fail(struct batch_order *entry, bool reachable);

/* Fails the filled orders for which the holds that are not withheld have too few units. */
void batch_fit(struct batch *batch);

/* True when an order of the group is neither filled nor decided. */
bool group_open(const struct group *group);

/* How many passes the group's open order with the most of them has made. */
int group_passes(const struct group *group);

/* Decides the group's open orders: sold out where an order wants more than `left`, else
 * `outcome`. */
void group_decide(struct group *group, enum stock_outcome outcome, uint32_t left);

/* Fails the group's open orders. */
void group_fail(struct group *group, bool reachable);

/* Counts the filled orders, and lists them when asked to. */
size_t batch_filled(const struct batch *batch, struct stock_order **orders_out);

/* Fails all orders that are not decided, filled or not, when Redis was lost. */
void batch_lost(struct stock *stock, struct batch *batch);

#endif
