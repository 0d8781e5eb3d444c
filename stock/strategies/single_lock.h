/* The strategy of one lock for the whole product, an order at a time: lock, check, write,
 * release. */
#ifndef STOCK_STRATEGIES_SINGLE_LOCK_H
#define STOCK_STRATEGIES_SINGLE_LOCK_H

#include "stock/orders/strategy.h"

extern const struct stock_strategy strategy_single_lock;

#endif
