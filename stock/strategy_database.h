/* The strategy of the ledger alone: a conditional UPDATE, and no Redis. */
#ifndef STOCK_STRATEGY_DATABASE_H
#define STOCK_STRATEGY_DATABASE_H

#include "stock/strategy_common.h"

extern const struct stock_strategy strategy_database;

#endif
