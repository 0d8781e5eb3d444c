/* seckillctl top: rates, servers and segments, anew every second. */
#ifndef SECKILL_CTL_TOP_H
#define SECKILL_CTL_TOP_H

#include "ctl/context.h"

/* Until q or a signal on a terminal; one frame, or --count of them, elsewhere. */
int top_run(struct context *context);

#endif
