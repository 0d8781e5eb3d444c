/* What the threads of the process share. Set up and torn down by main.c. */
#ifndef SECKILL_SERVICE_SERVICE_H
#define SECKILL_SERVICE_SERVICE_H

#include <stdatomic.h>

#include "service/config.h"
#include "service/networks.h"
#include "service/queue.h"
#include "service/snowflake.h"
#include "stock/stock.h"

enum {
    DESKS = 2,             /* threads for look-ups and admin calls */
    DESK_QUEUE_MAX = 1024, /* calls that may wait for them */
};

struct service {
    struct config config;
    struct stock_options stock;
    struct sale_cache *sale_cache;
    struct networks proxies; /* whose X-Forwarded-For is believed */
    struct snowflake ids;
    struct queue *orders;    /* fronts to lanes */
    struct queue *calls;     /* fronts to desks */
    _Atomic int streams;     /* answers being streamed */
    _Atomic int64_t sold_ns; /* when a lane last carried a batch through (monotonic) */
    _Atomic bool prepared;   /* the ledger's tables are there and the node is known */
    _Atomic bool draining;   /* no new connections; what was accepted is answered */
};

#endif
