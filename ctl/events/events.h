/* The commands on events and their receivers. Each returns the exit status, see EXIT STATUS in
 * seckillctl(1). */
#ifndef SECKILL_CTL_EVENTS_EVENTS_H
#define SECKILL_CTL_EVENTS_EVENTS_H

#include "ctl/context.h"

int events_run(struct context *context); /* until a signal, or an answer that ends it */

/* Lists and changes the receivers of events. A new secret is printed once. */
int webhooks_run(struct context *context);

#endif
