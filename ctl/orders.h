/* seckillctl order, user: one order, and the orders of one user. */
#ifndef SECKILL_CTL_ORDERS_H
#define SECKILL_CTL_ORDERS_H

#include "ctl/context.h"

/* Each returns the exit status. */
int orders_one(struct context *context);
int orders_of_user(struct context *context);

#endif
