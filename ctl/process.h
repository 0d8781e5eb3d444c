/* seckillctl log-level and drain: commands for daemons, not for sales. */
#ifndef SECKILL_CTL_PROCESS_H
#define SECKILL_CTL_PROCESS_H

#include "ctl/context.h"

/* Each returns the exit status. */
int process_log_level(struct context *context);
int process_drain(struct context *context);

#endif
