/* A retry finds its first order: idempotency keys, looked up with the batch. */
#ifndef STOCK_CHECK_REPLAY_H
#define STOCK_CHECK_REPLAY_H

#include "stock/order.h"
#include "stock/stock_core.h"

/* Links the orders with the same key as an earlier one in the batch to that one as its twins. */
void replay_link(struct stock_order *const *orders, size_t count);

/* Decides every order, open or refused, whose key the ledger knows (STOCK_REPLAYED,
 * STOCK_KEY_REUSED), but for twins. Costs nothing without keys, and with them one query and one or
 * two more for each order that is replayed. False when the ledger cannot be asked. */
bool replay_find(struct stock *stock, struct stock_order *const *orders, size_t count);

/* Gives the twins the outcome of the orders they repeat, when those are decided. */
void replay_finish(struct stock_order *const *orders, size_t count);

#endif
