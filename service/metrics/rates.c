/* Rates per second between two readings of the metrics. */
#include "service/metrics/rates.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

static const double ns_per_s = 1e9, ns_per_ms = 1e6;

static const struct {
    enum metrics_counter counter;
    enum rates_group group;
} outcomes[] = {
    {METRIC_ORDERS_ACCEPTED, RATES_ACCEPTED},      {METRIC_ORDERS_REPLAYED, RATES_REPLAYED},
    {METRIC_ORDERS_SOLD_OUT, RATES_SOLD_OUT},      {METRIC_ORDERS_NOT_STARTED, RATES_REFUSED},
    {METRIC_ORDERS_ENDED, RATES_REFUSED},          {METRIC_ORDERS_PAUSED, RATES_REFUSED},
    {METRIC_ORDERS_LIMIT, RATES_REFUSED},          {METRIC_ORDERS_UNKNOWN_SKU, RATES_REFUSED},
    {METRIC_ORDERS_KEY_REUSED, RATES_REFUSED},     {METRIC_ORDERS_RATE_LIMITED, RATES_REFUSED},
    {METRIC_ORDERS_OVERLOADED, RATES_ERRORS},      {METRIC_ORDERS_UNAVAILABLE, RATES_ERRORS},
    {METRIC_ORDERS_OUTCOME_UNKNOWN, RATES_ERRORS},
};

void rates_begin(struct rates *rates, int64_t now_ns)
{
    *rates = (struct rates){.at_ns = now_ns};
    for (size_t i = 0; i < sizeof outcomes / sizeof *outcomes; i++)
        rates->orders[outcomes[i].group] += metrics_read(outcomes[i].counter);
    metrics_read_histogram(HISTOGRAM_ORDER_SECONDS, &rates->answered);
    metrics_read_histogram(HISTOGRAM_BATCH_ORDERS, &rates->batches);
    metrics_read_histogram(HISTOGRAM_REDIS_SECONDS, &rates->redis);
    metrics_read_histogram(HISTOGRAM_LEDGER_SECONDS, &rates->ledger);
}

/* The observations in `later` that `earlier` lacks. */
static struct metrics_reading between(const struct metrics_reading *earlier,
                                      const struct metrics_reading *later)
{
    struct metrics_reading difference = *later;
    for (size_t bucket = 0; bucket <= later->bound_count; bucket++) {
        assert(later->buckets[bucket] >= earlier->buckets[bucket]);
        difference.buckets[bucket] -= earlier->buckets[bucket];
    }
    difference.count -= earlier->count;
    difference.sum -= earlier->sum;
    return difference;
}

double rates_percentile(const struct metrics_reading *reading, double part)
{
    assert(part > 0 && part < 1);
    double wanted = part * (double)reading->count, below = 0;
    if (reading->count == 0)
        return NAN;
    for (size_t bucket = 0; bucket < reading->bound_count; bucket++) {
        double here = (double)reading->buckets[bucket];
        double low = bucket > 0 ? (double)reading->bounds[bucket - 1] : 0;
        double high = (double)reading->bounds[bucket];
        if (here > 0 && below + here >= wanted)
            return low + (high - low) * (wanted - below) / here;
        below += here;
    }
    return (double)reading->bounds[reading->bound_count - 1];
}

/* A batch counts as a whole when it ends, so a share may come out above 1. */
static double share(const struct metrics_reading *earlier, const struct metrics_reading *later,
                    double worker_ns)
{
    double part = (double)(later->sum - earlier->sum) / worker_ns;
    return part < 1 ? part : 1;
}

void rates_take(struct rates *rates, int64_t now_ns, unsigned order_workers,
                struct rates_figures *figures_out)
{
    assert(now_ns > rates->at_ns && order_workers > 0);
    const struct rates before = *rates;
    double passed_ns = (double)(now_ns - before.at_ns), worker_ns = passed_ns * order_workers;
    rates_begin(rates, now_ns);
    *figures_out = (struct rates_figures){.seconds = passed_ns / ns_per_s};
    for (int group = 0; group < RATES_GROUPS; group++) {
        figures_out->orders[group] = rates->orders[group] - before.orders[group];
        figures_out->per_s[group] = (double)figures_out->orders[group] / figures_out->seconds;
    }
    struct metrics_reading answered = between(&before.answered, &rates->answered);
    struct metrics_reading batches = between(&before.batches, &rates->batches);
    figures_out->answered = answered.count;
    figures_out->p50_ms = rates_percentile(&answered, 0.5) / ns_per_ms;
    figures_out->p99_ms = rates_percentile(&answered, 0.99) / ns_per_ms;
    figures_out->batch_orders =
        batches.count > 0 ? (double)batches.sum / (double)batches.count : NAN;
    figures_out->redis_share = share(&before.redis, &rates->redis, worker_ns);
    figures_out->ledger_share = share(&before.ledger, &rates->ledger, worker_ns);
}
