/* The sales as the ledger has them, for the metrics, the progress in the log and the live page, and
 * their segments in Redis, for the live page.
 *
 * A turn costs the same however many sales there are: of those that are known, the ledger is asked
 * for one page at a time, and beside it for the sales in which something happened last. */
#ifndef SECKILL_SERVICE_LIVE_LIVE_SALES_H
#define SECKILL_SERVICE_LIVE_LIVE_SALES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lua/redis.h"
#include "sql/sales/sales.h"

enum {
    LIVE_PAGE_MAX = 200,      /* sales that one turn looks through for changes */
    LIVE_FIGURES_MAX = 100,   /* sales in the metrics */
    LIVE_SALES_MAX = 50,      /* sales on the page */
    LIVE_SEGMENTS_MAX = 256,  /* of one sale on the page */
    LIVE_SEGMENTS_ALL = 1024, /* of all sales: rows of the ledger, and commands to Redis */
};

struct live_figures {
    size_t known;    /* sales that there are, as far as they were read */
    size_t shown;    /* the first of `sales` */
    int64_t read_ms; /* by the ledger's clock: when it last answered; 0: not yet */
    struct ledger_sale sales[LIVE_FIGURES_MAX]; /* in order of their skus */
};

struct live_sales;

/* `with_redis`: the segments have counters in Redis; otherwise the ledger alone knows. All
 * functions are for one thread, but for live_sales_figures. */
struct live_sales *live_sales_open(bool with_redis);
void live_sales_close(struct live_sales **sales);

/* Asks the ledger; `now_ms` is its time. False when it did not answer: then what was read before
 * stays. */
bool live_sales_read(struct live_sales *sales, struct ledger *ledger, int64_t now_ms);

/* Asks Redis for the segments of the sales on the page, in one round trip. False when `redis` is
 * NULL or did not answer: then what only Redis knows is null. */
bool live_sales_read_redis(struct live_sales *sales, struct redis *redis);

/* Adds the members sales and sales_more. */
void live_sales_add(const struct live_sales *sales, json_t *object, int64_t now_ms);

/* A sale in which units were sold. */
struct live_moved {
    const struct ledger_sale *sale; /* until the next turn */
    uint32_t units;
};

/* Lists chosen sales in which units were sold since the last call. A round that has begun since
 * then counts from the next call on. Their number. */
size_t live_sales_moved(struct live_sales *sales, struct live_moved moved_out[LIVE_FIGURES_MAX]);

/* Copies the figures; every second turn has new ones. Any thread. */
void live_sales_figures(struct live_sales *sales, struct live_figures *figures_out);

/* Whether the sale's window is open at that time, paused or not. */
bool live_sale_open_at(const struct ledger_sale *sale, int64_t now_ms);

#endif
