/* A retry finds its first order: idempotency keys, looked up with the batch. */
#ifndef STOCK_REPLAY_H
#define STOCK_REPLAY_H

#include "stock/stock_private.h"

/* Decides every open order whose key the ledger knows (STOCK_REPLAYED, STOCK_KEY_REUSED), and links
 * those with the same key as an earlier one in the batch to that one as its twins. Costs nothing
 * without keys, and one query with them. False when the ledger cannot be asked. */
bool replay_find(struct stock *stock, struct stock_order *const *orders, size_t count);

/* Gives the twins the outcome of the orders they repeat, when those are decided. */
void replay_finish(struct stock_order *const *orders, size_t count);

#endif
