/* Selling by counters in Redis without locks: what `atomic` and `optimistic` have in common. */
#ifndef STOCK_STRATEGY_COUNTER_H
#define STOCK_STRATEGY_COUNTER_H

#include "stock/strategy_common.h"

/* Decides a batch. `post` begins a hold; `take` then carries out those from `first_hold` on: each
 * becomes taken, empty, dirty, busy or in doubt. False: Redis is lost. */
void counter_sell(struct stock *stock, struct stock_order *const *orders, size_t count,
                  strategy_post *post, bool (*take)(struct stock *stock, size_t first_hold));

/* Begins a hold that waits for `take`, with the units wanted in `taken`. */
void counter_begin(struct segment_hold *hold, struct sale *sale,
                   const struct sale_snapshot *snapshot, uint32_t segment, uint32_t wanted);

/* The answer to a take: `taken` units at `settled`, `left` stay. */
void counter_took(struct segment_hold *hold, uint32_t taken, uint64_t settled, uint32_t left);

/* Writes the key of the hold's segment into `key_out` (SCRIPT_KEY_MAX bytes). */
void counter_key(const struct segment_hold *hold, char *key_out);

#endif
