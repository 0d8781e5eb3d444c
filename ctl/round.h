/* seckillctl create, reset, restock, retire: the rounds of a sale and their units. */
#ifndef SECKILL_CTL_ROUND_H
#define SECKILL_CTL_ROUND_H

#include "ctl/context.h"

/* Each returns the exit status. */
int round_create(struct context *context);
int round_reset(struct context *context);
int round_restock(struct context *context);
int round_retire(struct context *context);

#endif
