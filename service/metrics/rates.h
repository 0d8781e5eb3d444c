/* What happened per second between two readings of the metrics. */
#ifndef SECKILL_SERVICE_METRICS_RATES_H
#define SECKILL_SERVICE_METRICS_RATES_H

#include <stdint.h>

#include "service/metrics/metrics.h"

/* Orders by what became of them, as sums of the outcomes of seckill_orders_total. */
enum rates_group {
    RATES_ACCEPTED,
    RATES_REPLAYED, /* answered with the order that their key has made before */
    RATES_SOLD_OUT,
    RATES_REFUSED, /* window, pause, limit, rate, unknown sku, reused key */
    RATES_ERRORS,  /* overloaded, unavailable, outcome unknown */
    RATES_GROUPS
};

/* The last reading. A zeroed one is as good as a reading at time 0 of a process without orders. The
 * members are for rates.c alone. */
struct rates {
    int64_t at_ns;
    uint64_t orders[RATES_GROUPS];
    struct metrics_reading answered, batches, redis, ledger;
};

/* What happened between two readings. */
struct rates_figures {
    double seconds;             /* between them */
    double per_s[RATES_GROUPS]; /* orders per second */
    uint64_t orders[RATES_GROUPS];
    uint64_t answered;     /* orders that p50_ms and p99_ms are of */
    double p50_ms, p99_ms; /* from arrival to answer; NAN when none was answered */
    double batch_orders;   /* mean of the batches; NAN when there was none */
    double redis_share;    /* of the order workers' time, 0..1 */
    double ledger_share;
};

/* Any thread may call each function, with a struct rates of its own; they do not wait. */

/* Reads the metrics for the first time. `now_ns` is monotonic. */
void rates_begin(struct rates *rates, int64_t now_ns);

/* Reads them again, and tells what happened since the last reading; now_ns must be later than then.
 * `order_workers` is the option's value, whose time the shares are parts of: a worker counts its
 * time in Redis and the ledger at the end of each batch.
 *
 * A percentile is interpolated within its bucket of the histogram as if the bucket's orders were
 * spread evenly, so its error is at most that bucket's width; above the last bound it is that
 * bound. */
void rates_take(struct rates *rates, int64_t now_ns, unsigned order_workers,
                struct rates_figures *figures_out);

/* The percentile of the observations, 0 < part < 1, in the histogram's own unit; NAN when there are
 * none. */
double rates_percentile(const struct metrics_reading *reading, double part);

#endif
