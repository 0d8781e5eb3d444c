/* The strategy of fenced segment locks: one round of lock, take, commit, settle for a whole
 * batch. */
#ifndef STOCK_ORDERS_SEGMENT_LOCK_H
#define STOCK_ORDERS_SEGMENT_LOCK_H

#include "stock/orders/strategy.h"

extern const struct stock_strategy strategy_segment_lock;

#endif
