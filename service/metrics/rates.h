/* Rates per second between two readings of the metrics. */
#ifndef SECKILL_SERVICE_METRICS_RATES_H
#define SECKILL_SERVICE_METRICS_RATES_H

#include <stdint.h>

#include "service/metrics/metrics.h"

/* Groups of order outcomes, as sums of the outcomes of seckill_orders_total. */
enum rates_group {
    RATES_ACCEPTED,
    RATES_REPLAYED, /* answered with the earlier order of their key */
    RATES_SOLD_OUT,
    RATES_REFUSED, /* window, pause, limit, rate, unknown sku, reused key */
    RATES_ERRORS,  /* overloaded, unavailable, outcome unknown */
    RATES_GROUPS
};

/* The last reading. A zeroed one equals a reading at time 0 without orders. The members are private
 * to rates.c. */
struct rates {
    int64_t at_ns;
    uint64_t orders[RATES_GROUPS];
    struct metrics_reading answered, batches, redis, ledger;
};

/* The figures between two readings. */
struct rates_figures {
    double seconds;             /* between the readings */
    double per_s[RATES_GROUPS]; /* orders per second */
    uint64_t orders[RATES_GROUPS];
    uint64_t answered;     /* orders behind p50_ms and p99_ms */
    double p50_ms, p99_ms; /* from arrival to answer; NAN when none was answered */
    double batch_orders;   /* mean of the batches; NAN when there was none */
    double redis_share;    /* of the order workers' time, 0..1 */
    double ledger_share;
};

/* Any thread may call each function, with its own struct rates; none waits. */

/* Reads the metrics for the first time. `now_ns` is monotonic. */
void rates_begin(struct rates *rates, int64_t now_ns);

/* Reads the metrics again, and computes the figures since the last reading; now_ns must be later.
 * `order_workers` is the option's value: shares are parts of these workers' time, and a worker
 * counts its time in Redis and the ledger at the end of each batch.
 *
 * A percentile is interpolated within its histogram bucket as if the bucket's orders were spread
 * evenly, so its error is at most that bucket's width; above the last bound it is that bound. */
void rates_take(struct rates *rates, int64_t now_ns, unsigned order_workers,
                struct rates_figures *figures_out);

/* The percentile of the observations, 0 < part < 1, in the histogram's unit; NAN without any. */
double rates_percentile(const struct metrics_reading *reading, double part);

#endif
