/* seckillctl token: changes the tokens in a file, so that a daemon changes over without a gap. */
#ifndef SECKILL_CTL_TOKEN_H
#define SECKILL_CTL_TOKEN_H

#include "ctl/context.h"

/* Returns the exit status. No token is ever printed. */
int token_run(struct context *context);

#endif
