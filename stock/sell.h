/* Orders in, decided orders out: the checks before and after a strategy, and the strategy
 * between. */
#ifndef STOCK_SELL_H
#define STOCK_SELL_H

#include "stock/order.h"
#include "stock/types.h"

/* How many orders one stock_sell should be given at most: 1 for a strategy that takes orders one at
 * a time. */
size_t stock_batch_max(const struct stock *stock);

/* Decides `count` <= STOCK_BATCH_MAX orders, blocking for as long as Redis and the ledger take
 * (their timeouts bound it). No outcome is left at STOCK_OPEN. Accepted means committed. What has
 * to follow a commit in Redis is sent with the next call, or by stock_flush: after a batch that
 * decided nothing, flush before trying again, so that what was given back is there for others. */
void stock_sell(struct stock *stock, struct stock_order *const *orders, size_t count);

#endif
