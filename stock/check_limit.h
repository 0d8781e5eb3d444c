/* The limit per user: who would be above it is refused before units are taken for him.
 *
 * The ledger enforces it, in the transaction of the orders, so this is for speed only: one refused
 * order sends its whole batch back. While nobody is refused nobody is looked up either. */
#ifndef STOCK_CHECK_LIMIT_H
#define STOCK_CHECK_LIMIT_H

#include "stock/order.h"
#include "stock/stock_core.h"

/* Of the open orders of sales with a limit, decides those whose users the ledger knows to have too
 * much (STOCK_LIMIT), and those that are too much only together with earlier ones among `orders`
 * (STOCK_AGAIN). `late`: the ledger has just refused one of them, so it must be asked. At most one
 * query. False when the ledger cannot be asked. */
bool limit_find(struct stock *stock, struct stock_order *const *orders, size_t count, bool late);

#endif
