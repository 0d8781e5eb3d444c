/* Rates are those of the time between two readings, and of nothing before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "service/metrics/rates.h"

#define MS 1000000
#define S 1000000000

static void assert_near(double value, double expected, double within)
{
    if (!(fabs(value - expected) <= within))
        fail_msg("%f is not %f", value, expected);
}

static void observe(enum metrics_histogram histogram, uint64_t value, int times)
{
    for (int i = 0; i < times; i++)
        metrics_observe(histogram, value);
}

static void test_orders_of_the_time_between(void **state)
{
    (void)state;
    struct rates rates;
    struct rates_figures figures;
    metrics_add(METRIC_ORDERS_ACCEPTED, 1000); /* before */
    rates_begin(&rates, 5 * (int64_t)S);
    metrics_add(METRIC_ORDERS_ACCEPTED, 40);
    metrics_add(METRIC_ORDERS_REPLAYED, 2);
    metrics_add(METRIC_ORDERS_SOLD_OUT, 6);
    metrics_add(METRIC_ORDERS_PAUSED, 1);
    metrics_add(METRIC_ORDERS_RATE_LIMITED, 3);
    metrics_add(METRIC_ORDERS_UNAVAILABLE, 8);
    rates_take(&rates, 7 * (int64_t)S, 1, &figures);
    assert_near(figures.seconds, 2, 1e-9);
    assert_near(figures.per_s[RATES_ACCEPTED], 20, 1e-9);
    assert_near(figures.per_s[RATES_REPLAYED], 1, 1e-9);
    assert_near(figures.per_s[RATES_SOLD_OUT], 3, 1e-9);
    assert_near(figures.per_s[RATES_REFUSED], 2, 1e-9);
    assert_near(figures.per_s[RATES_ERRORS], 4, 1e-9);
    assert_int_equal(figures.orders[RATES_ACCEPTED], 40);
    rates_take(&rates, 8 * (int64_t)S, 1, &figures);
    assert_near(figures.per_s[RATES_ACCEPTED], 0, 1e-9);
}

static void test_every_outcome_has_a_group(void **state)
{
    (void)state;
    struct rates rates;
    struct rates_figures figures;
    uint64_t orders = 0;
    rates_begin(&rates, S);
    for (int counter = METRIC_ORDERS_ACCEPTED; counter <= METRIC_ORDERS_OUTCOME_UNKNOWN; counter++)
        metrics_count((enum metrics_counter)counter);
    rates_take(&rates, 2 * (int64_t)S, 1, &figures);
    for (int group = 0; group < RATES_GROUPS; group++)
        orders += figures.orders[group];
    assert_int_equal(orders, METRIC_ORDERS_OUTCOME_UNKNOWN - METRIC_ORDERS_ACCEPTED + 1);
}

static void test_percentiles_of_the_time_between(void **state)
{
    (void)state;
    struct rates rates;
    struct rates_figures figures;
    observe(HISTOGRAM_ORDER_SECONDS, 900 * (uint64_t)MS, 1000); /* before */
    rates_begin(&rates, S);
    rates_take(&rates, 2 * (int64_t)S, 1, &figures);
    assert_int_equal(figures.answered, 0);
    assert_true(isnan(figures.p50_ms) && isnan(figures.p99_ms) && isnan(figures.batch_orders));
    observe(HISTOGRAM_ORDER_SECONDS, 3 * MS, 98);
    observe(HISTOGRAM_ORDER_SECONDS, 90 * MS, 2);
    rates_take(&rates, 3 * (int64_t)S, 1, &figures);
    assert_int_equal(figures.answered, 100);
    assert_true(figures.p50_ms > 2 && figures.p50_ms < 5); /* the bucket's bounds */
    assert_true(figures.p99_ms > 50 && figures.p99_ms < 100);
}

static void test_percentile_interpolates_within_a_bucket(void **state)
{
    (void)state;
    struct metrics_reading reading = {
        .bound_count = 2, .bounds = (const uint64_t[]){10, 20}, .count = 0};
    assert_true(isnan(rates_percentile(&reading, 0.5)));
    reading.buckets[0] = reading.count = 4;
    assert_near(rates_percentile(&reading, 0.5), 5, 1e-9);
    reading.buckets[1] = 4;
    reading.count = 8;
    assert_near(rates_percentile(&reading, 0.5), 10, 1e-9);
    assert_near(rates_percentile(&reading, 0.75), 15, 1e-9);
    reading.buckets[2] = reading.count = 100; /* above the last bound nothing is known */
    assert_near(rates_percentile(&reading, 0.99), 20, 1e-9);
}

static void test_shares_and_batches(void **state)
{
    (void)state;
    struct rates rates;
    struct rates_figures figures;
    rates_begin(&rates, S);
    observe(HISTOGRAM_BATCH_ORDERS, 30, 1);
    observe(HISTOGRAM_BATCH_ORDERS, 50, 1);
    observe(HISTOGRAM_REDIS_SECONDS, 100 * MS, 4);
    observe(HISTOGRAM_LEDGER_SECONDS, 100 * MS, 10);
    rates_take(&rates, 2 * (int64_t)S, 2, &figures);
    assert_near(figures.batch_orders, 40, 1e-9);
    assert_near(figures.redis_share, 0.2, 1e-9);
    assert_near(figures.ledger_share, 0.5, 1e-9);
    observe(HISTOGRAM_LEDGER_SECONDS, 3 * (uint64_t)S, 1); /* it began long before */
    rates_take(&rates, 3 * (int64_t)S, 2, &figures);
    assert_near(figures.ledger_share, 1, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders_of_the_time_between),
        cmocka_unit_test(test_every_outcome_has_a_group),
        cmocka_unit_test(test_percentiles_of_the_time_between),
        cmocka_unit_test(test_percentile_interpolates_within_a_bucket),
        cmocka_unit_test(test_shares_and_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
