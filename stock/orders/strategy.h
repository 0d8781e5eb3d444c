/* What a strategy is, and the steps that strategies have in common: planning, recovering,
 * committing, concluding.
 *
 * A new strategy is a file strategies/NAME.c with a table of this kind, its declaration below, and a
 * line in stock.c. The shortest one to read first is strategies/database.c. */
#ifndef STOCK_ORDERS_STRATEGY_H
#define STOCK_ORDERS_STRATEGY_H

#include "sql/orders/ledger_commit.h"
#include "sql/ledger_segment.h"
#include "stock/orders/batch.h"

/* A way of deciding a batch; stock.c has the only list of them. `sell` decides every open order of
 * the `count` given, and asks for the rate limits on the way (rate_post): before it accepts any,
 * with its first calls of Redis or, if it does not begin with Redis, before them. */
struct stock_strategy {
    const char *name;
    enum ledger_guard guard; /* of its updates in the ledger */
    size_t batch_max;        /* orders that one call should carry */
    void (*sell)(struct stock *stock, struct stock_order *const *orders, size_t count);
};

extern const struct stock_strategy strategy_segment_lock;
extern const struct stock_strategy strategy_single_lock, strategy_atomic, strategy_optimistic,
    strategy_database; /* for comparison */

/* Begins a hold of up to `wanted` units of a segment, in the strategy's own way. */
typedef void strategy_post(struct stock *stock, struct segment_hold *hold, struct sale *sale,
                           const struct sale_snapshot *snapshot, uint32_t segment, uint32_t wanted);

/* Begins holds of enough further segments for the group's open orders, judging by the hints. */
void strategy_plan(struct stock *stock, struct group *group, strategy_post *post);

/* Plans without reserving anything and fills the orders: the ledger's guards will say whether the
 * units are there. */
void strategy_fill(struct stock *stock, struct batch *batch);

/* Sets the group's dirty holds from `first_hold` on again from the ledger, and lets their segments
 * be tried once more. */
void strategy_recover(struct stock *stock, struct group *group, size_t first_hold);

/* Commits the filled orders and the updates of their segments, guarded as the strategy says, in one
 * transaction. It drops orders whose time is over, whose keys others have written meanwhile, whose
 * users have enough by now, or whose rows are held, and asks for up to resolve_ms what became of a
 * commit that was not answered. As ledger_commit; LEDGER_NO also when no order is left,
 * LEDGER_UNKNOWN: it could not be found out. */
enum ledger_result strategy_commit(struct stock *stock, struct batch *batch);

/* Decides the filled orders by what became of their commit. */
void strategy_decide(struct stock *stock, struct batch *batch, enum ledger_result result);

/* Reads the group's segments from the ledger; room for LEDGER_SEGMENTS_MAX. False, and its open
 * orders are decided, when it cannot be asked or is in another round. */
bool strategy_fetch(struct stock *stock, struct group *group, struct ledger_segment *rows_out,
                    size_t *count_out);

/* Sets the sale's hints to what its rows have left. Returns the sum. */
uint32_t strategy_hint(struct sale *sale, const struct ledger_segment *rows, size_t count);

/* Remembers that the ledger has `left` units, and decides the group's open orders by that: sold out
 * or to be tried again. */
void strategy_remember_left(struct stock *stock, struct group *group, uint32_t left);

/* Asks the ledger what is left, and decides the group's open orders by that: sold out, or to be
 * tried again in segments where this process saw nothing. */
void strategy_conclude(struct stock *stock, struct group *group);

#endif
