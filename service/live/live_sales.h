/* The sales that the live page shows: their figures from the ledger, their segments from Redis. */
#ifndef SECKILL_SERVICE_LIVE_LIVE_SALES_H
#define SECKILL_SERVICE_LIVE_LIVE_SALES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lua/redis.h"
#include "service/service.h"

enum {
    LIVE_SALES_MAX = 50,
    LIVE_SEGMENTS_MAX = 256,  /* of one sale */
    LIVE_SEGMENTS_ALL = 1024, /* of all sales: rows of the ledger, and commands to Redis */
};

struct live_sales;

/* All functions are for one thread. */
struct live_sales *live_sales_open(struct service *service);
void live_sales_close(struct live_sales **sales);

/* Reads the sales: one statement to the ledger, one round trip to Redis. When `ledger` is NULL or
 * does not answer, what was read of its sales before stays; when `redis` is NULL or does not
 * answer, what only Redis knows is null. `ledger_out` and `redis_out` tell who has answered. */
void live_sales_turn(struct live_sales *sales, struct ledger *ledger, struct redis *redis,
                     int64_t now_ns, bool *ledger_out, bool *redis_out);

/* Adds the members sales and sales_more. */
void live_sales_add(const struct live_sales *sales, json_t *object);

#endif
