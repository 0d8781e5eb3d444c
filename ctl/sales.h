/* seckillctl sales, stock: what is for sale, and what is left of it. */
#ifndef SECKILL_CTL_SALES_H
#define SECKILL_CTL_SALES_H

#include "ctl/context.h"

/* Each returns the exit status. */
int sales_run(struct context *context);
int sales_stock(struct context *context);

#endif
