/* Asks the operator before something that cannot be taken back. */
#ifndef SECKILL_CTL_OUTPUT_CONFIRM_H
#define SECKILL_CTL_OUTPUT_CONFIRM_H

#include "ctl/context.h"

/* Says what will happen, and asks whether to go on: EX_OK with --yes or when the operator says yes;
 * EX_REFUSED when not; EX_USAGE where nobody can be asked. */
int confirm(const struct context *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
