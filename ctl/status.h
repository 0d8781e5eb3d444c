/* seckillctl status: the daemons, their servers and the sales at a glance. */
#ifndef SECKILL_CTL_STATUS_H
#define SECKILL_CTL_STATUS_H

#include "ctl/context.h"

/* EX_OK when all daemons are ready, EX_UNAVAILABLE when one is not. */
int status_run(struct context *context);

#endif
