/* seckillctl export: all orders as CSV, to standard output or a file. */
#ifndef SECKILL_CTL_EXPORT_H
#define SECKILL_CTL_EXPORT_H

#include "ctl/context.h"

/* Returns the exit status. */
int export_run(struct context *context);

#endif
