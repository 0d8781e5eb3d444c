/* A batch being decided: its orders grouped by sale, and which segments fill which order. */
#ifndef STOCK_BATCH_H
#define STOCK_BATCH_H

#include "stock/order.h"
#include "stock/segment.h"

/* Units of one segment that go to one order. */
struct piece {
    struct segment_hold *hold;
    uint32_t qty;
};

/* One open order. Filled when it has pieces. */
struct item {
    struct stock_order *order;
    struct item *next; /* of the same group */
    size_t piece;      /* first of its pieces */
    size_t piece_count;
};

/* The open orders of one sale. Segments are tried in turn from a random one on; those that were
 * recovered are tried once more. */
struct group {
    struct sale *sale;
    struct sale_snapshot snapshot;
    struct item *first;
    struct item *last;
    uint32_t start;
    uint32_t tried;
    uint32_t retries;
    uint16_t retry[LEDGER_SEGMENTS_MAX];
    uint32_t retry_count;
    uint32_t leftover; /* units taken and not given to an order yet */
    bool busy;         /* a segment was held by somebody else */
    bool stale;        /* the ledger is in another round */
    bool looked;       /* its counters have been read anew */
};

struct batch {
    struct item items[STOCK_BATCH_MAX];
    size_t item_count;
    struct group groups[STOCK_BATCH_MAX];
    size_t group_count;
    struct piece pieces[STOCK_BATCH_MAX + STOCK_HOLDS_MAX];
    size_t piece_count;
    struct ledger_stock_update moves[STOCK_HOLDS_MAX];
    struct segment_hold *moved[STOCK_HOLDS_MAX]; /* the hold behind each move */
    size_t move_count;
    struct ledger_order rows[STOCK_BATCH_MAX];
    size_t row_count;
    struct ledger_allocation allocations[STOCK_BATCH_MAX + STOCK_HOLDS_MAX];
};

/* Groups the open orders by their sales. */
void batch_begin(struct stock *stock, struct batch *batch, struct stock_order *const *orders,
                 size_t count);

/* Units that the group's open orders want beyond what is taken for them already. */
uint32_t group_unmet(const struct group *group);

/* The next segment to try; false when all have been. */
bool group_next(struct group *group, uint32_t *segment_out);

/* Puts a segment up for one more try, a bounded number of times. */
void group_retry(struct group *group, uint32_t segment);

/* Gives taken units to open orders: whole from one segment where one has enough, else from several,
 * all or nothing. */
void group_fill(struct stock *stock, struct batch *batch, struct group *group);

/* Takes an order's units away from it again. */
void item_unfill(struct batch *batch, struct item *item);

/* True when an order of the group is neither filled nor decided. */
bool group_open(const struct group *group);

/* The most passes that an open order of the group has made. */
int group_passes(const struct group *group);

/* Decides the group's open orders: those wanting more than `left` are sold out, the others get
 * `outcome`. */
void group_decide(struct group *group, enum stock_outcome outcome, uint32_t left);

/* A remote failure met the group's open orders: once more if it can be reached again, else
 * unavailable. */
void group_fail(struct group *group, bool reachable);

/* Counts the filled orders, and lists them when asked to. */
size_t batch_filled(const struct batch *batch, struct stock_order **orders_out);

/* Writes the filled orders and their segments' moves as the ledger wants them. */
void batch_write(struct stock *stock, struct batch *batch);

/* True when the ledger refused this hold's move. */
bool batch_refused(const struct batch *batch, const struct segment_hold *hold);

/* Decides the filled orders: accepted, with where their units came from. */
void batch_accept(struct batch *batch);

/* Decides the filled orders otherwise. */
void batch_decide(struct batch *batch, enum stock_outcome outcome);

/* A remote failure met the filled orders. */
void batch_fail(struct batch *batch, bool reachable);

/* A remote failure met all open orders, filled or not. */
void batch_lost(struct batch *batch, bool reachable);

#endif
