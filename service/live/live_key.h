/* The names of the keys in Redis by which the daemons of a group find each other. */
#ifndef SECKILL_SERVICE_LIVE_LIVE_KEY_H
#define SECKILL_SERVICE_LIVE_LIVE_KEY_H

#include "stock/types.h"

/* The braces keep all of them in one slot of a cluster. */
#define LIVE_KEY(field) STOCK_PREFIX "{live}:" field

#endif
