/* The strategy of one script and no lock: check and decrement of a counter, then the insert. */
#ifndef STOCK_STRATEGIES_ATOMIC_H
#define STOCK_STRATEGIES_ATOMIC_H

#include "stock/orders/strategy.h"

extern const struct stock_strategy strategy_atomic;

#endif
