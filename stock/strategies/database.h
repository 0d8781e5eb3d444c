/* The strategy of the ledger alone: a conditional UPDATE, and no Redis. */
#ifndef STOCK_STRATEGIES_DATABASE_H
#define STOCK_STRATEGIES_DATABASE_H

#include "stock/orders/strategy.h"

extern const struct stock_strategy strategy_database;

#endif
