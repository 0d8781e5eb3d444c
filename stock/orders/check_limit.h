/* The limit per user: an order that would take its user above it is refused before units are taken.
 *
 * The ledger enforces the limit, in the transaction of the orders, so this check is for speed only:
 * one refused order sends its whole batch back. While no order is refused no user is looked up. */
#ifndef STOCK_ORDERS_CHECK_LIMIT_H
#define STOCK_ORDERS_CHECK_LIMIT_H

#include "stock/order.h"
#include "stock/stock_core.h"

/* Decides open orders of sales with a limit: STOCK_LIMIT where the ledger says that the user would
 * have too much, STOCK_AGAIN where that is so only together with earlier ones among `orders`.
 * `late`: the ledger has just refused one of them, so it must be asked. At most one query. False
 * when the ledger cannot be asked. */
bool limit_find(struct stock *stock, struct stock_order *const *orders, size_t count, bool late);

#endif
