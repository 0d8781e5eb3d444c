/* Selling by counters in Redis without locks: what the strategies `atomic` and `optimistic` have in
 * common. */
#ifndef STOCK_STRATEGIES_COUNTER_H
#define STOCK_STRATEGIES_COUNTER_H

#include "stock/orders/strategy.h"

/* Takes from the counters of the holds from `first_hold` on: each becomes taken, empty, dirty, busy
 * or in doubt. False when Redis is lost. */
typedef bool counter_take(struct stock *stock, size_t first_hold);

/* Decides a batch. `post` begins a hold, `take` then carries out what was begun. */
void counter_sell(struct stock *stock, struct stock_order *const *orders, size_t count,
                  strategy_post *post, counter_take *take);

/* Begins a hold that waits for counter_take, with the units wanted in its `taken`. */
void counter_begin(struct segment_hold *hold, struct sale *sale,
                   const struct sale_snapshot *snapshot, uint32_t segment, uint32_t wanted);

/* Notes the answer to a take: `taken` units at the fence `settled`, `left` stay in the counter. */
void counter_took(struct segment_hold *hold, uint32_t taken, uint64_t settled, uint32_t left);

/* Writes the key of the hold's segment into `key_out` (SCRIPT_KEY_MAX bytes). */
void counter_key(const struct segment_hold *hold, char *key_out);

#endif
