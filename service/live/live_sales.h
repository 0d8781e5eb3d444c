/* The sales as the ledger has them, for the metrics, the progress in the log and the live page, and
 * for the page also their segments in Redis.
 *
 * A turn costs the same however many sales there are: it reads one page of all known sales, and the
 * most recently active ones besides. */
#ifndef SECKILL_SERVICE_LIVE_LIVE_SALES_H
#define SECKILL_SERVICE_LIVE_LIVE_SALES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lua/redis.h"
#include "sql/sales/sales.h"

enum {
    LIVE_PAGE_MAX = 200,      /* sales that one turn checks for changes */
    LIVE_FIGURES_MAX = 100,   /* sales in the metrics */
    LIVE_SALES_MAX = 50,      /* sales on the page */
    LIVE_SEGMENTS_MAX = 256,  /* of one sale on the page */
    LIVE_SEGMENTS_ALL = 1024, /* of all sales: bounds the ledger's rows and Redis' commands */
};

struct live_figures {
    size_t known;    /* number of sales, as far as read */
    size_t shown;    /* used elements of `sales` */
    int64_t read_ms; /* last answer of the ledger, by its clock; 0: none yet */
    struct ledger_sale sales[LIVE_FIGURES_MAX]; /* sorted by sku */
};

struct live_sales;

/* `with_redis`: the segments have counters in Redis; otherwise only the ledger has them. All
 * functions except live_sales_figures: one thread. */
struct live_sales *live_sales_open(bool with_redis);
void live_sales_close(struct live_sales **sales);

/* Reads the ledger; `now_ms` is its time. False without an answer: the last readings stay. */
bool live_sales_read(struct live_sales *sales, struct ledger *ledger, int64_t now_ms);

/* Reads the segments of the page's sales from Redis, in one round trip. False when `redis` is NULL
 * or did not answer: then Redis' values are null. */
bool live_sales_read_redis(struct live_sales *sales, struct redis *redis);

/* Adds the members sales and sales_more. */
void live_sales_add(const struct live_sales *sales, json_t *object, int64_t now_ms);

/* A sale in which units were sold. */
struct live_moved {
    const struct ledger_sale *sale; /* valid until the next turn */
    uint32_t units;
};

/* Lists the chosen sales in which units were sold since the last call, and returns their number. A
 * round that has begun since then counts from the next call on. */
size_t live_sales_moved(struct live_sales *sales, struct live_moved moved_out[LIVE_FIGURES_MAX]);

/* Copies the figures, new in every second turn. Any thread. */
void live_sales_figures(struct live_sales *sales, struct live_figures *figures_out);

/* True when the sale's window is open at that time, paused or not. */
bool live_sale_open_at(const struct ledger_sale *sale, int64_t now_ms);

#endif
