/* The strategy of compare and swap: WATCH a counter, read it, set it by MULTI and EXEC. */
#ifndef STOCK_STRATEGIES_OPTIMISTIC_H
#define STOCK_STRATEGIES_OPTIMISTIC_H

#include "stock/orders/strategy.h"

extern const struct stock_strategy strategy_optimistic;

#endif
