/* seckillctl audit: orders, units sold and what is left, compared for each segment. */
#ifndef SECKILL_CTL_AUDIT_H
#define SECKILL_CTL_AUDIT_H

#include "ctl/context.h"

/* EX_OK: consistent. EX_REFUSED: a difference. EX_TEMPFAIL: the sale moved all the while. */
int audit_run(struct context *context);

#endif
