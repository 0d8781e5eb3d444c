/* What is counted on many threads is printed whole, in Prometheus' text format. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/metrics/metrics.h"

static char page[1 << 17];

static void print_page(void)
{
    FILE *file = fmemopen(page, sizeof page, "w");
    assert_non_null(file);
    metrics_print(file);
    assert_int_equal(fclose(file), 0);
}

/* The value that follows `series` and a space at the start of a line, as text. */
static const char *find_value(const char *series)
{
    size_t length = strlen(series);
    for (const char *line = page; *line; line = strchr(line, '\n') + 1)
        if (strncmp(line, series, length) == 0 && line[length] == ' ')
            return line + length + 1;
    fail_msg("no series %s", series);
    return "";
}

static uint64_t value_of(const char *series)
{
    return strtoull(find_value(series), NULL, 10);
}

static uint64_t bucket_of(const char *name, const char *bound)
{
    char series[512];
    snprintf(series, sizeof series, "%s_bucket{le=\"%s\"}", name, bound);
    return value_of(series);
}

static void test_counters_by_label(void **state)
{
    (void)state;
    uint64_t accepted = metrics_read(METRIC_ORDERS_ACCEPTED);
    metrics_count(METRIC_ORDERS_ACCEPTED);
    metrics_add(METRIC_ORDERS_ACCEPTED, 41);
    metrics_count(METRIC_ORDERS_OUTCOME_UNKNOWN);
    metrics_add(METRIC_RECOVERIES, 3);
    assert_int_equal(metrics_read(METRIC_ORDERS_ACCEPTED), accepted + 42);
    print_page();
    assert_int_equal(value_of("seckill_orders_total{outcome=\"accepted\"}"), accepted + 42);
    assert_int_equal(value_of("seckill_orders_total{outcome=\"outcome_unknown\"}"), 1);
    assert_int_equal(value_of("seckill_orders_total{outcome=\"replayed\"}"), 0);
    assert_int_equal(value_of("seckill_recoveries_total"), 3);
}

static void test_every_name_of_the_interface(void **state)
{
    (void)state;
    const char *const names[] = {
        "seckill_orders_total{outcome=\"accepted\"}",
        "seckill_orders_total{outcome=\"replayed\"}",
        "seckill_orders_total{outcome=\"sold_out\"}",
        "seckill_orders_total{outcome=\"unknown_sku\"}",
        "seckill_orders_total{outcome=\"key_reused\"}",
        "seckill_orders_total{outcome=\"overloaded\"}",
        "seckill_orders_total{outcome=\"unavailable\"}",
        "seckill_orders_total{outcome=\"outcome_unknown\"}",
        "seckill_http_responses_total{status=\"201\"}",
        "seckill_ledger_durable",
        "seckill_batch_orders_count",
        "seckill_order_seconds_count",
        "seckill_redis_seconds_count",
        "seckill_ledger_seconds_count",
        "seckill_recoveries_total",
        "seckill_ledger_refusals_total",
        "seckill_unknown_commits_total",
        "seckill_sold_out_fast_total",
        "seckill_redis_reconnects_total",
        "seckill_ledger_reconnects_total",
    };
    print_page();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        find_value(names[i]);
}

static void test_http_statuses(void **state)
{
    (void)state;
    const unsigned statuses[] = {200, 201, 400, 401, 404, 405, 408, 409,
                                 413, 414, 415, 422, 429, 431, 503};
    for (unsigned i = 0; i < sizeof statuses / sizeof *statuses; i++)
        for (unsigned times = 0; times <= i; times++)
            metrics_count_status(statuses[i]);
    metrics_count_status(418);
    metrics_count_status(0);
    print_page();
    for (unsigned i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        char series[64];
        snprintf(series, sizeof series, "seckill_http_responses_total{status=\"%u\"}", statuses[i]);
        assert_int_equal(value_of(series), i + 1);
    }
    assert_int_equal(value_of("seckill_http_responses_total{status=\"other\"}"), 2);
}

static void test_gauge_shows_the_last_value(void **state)
{
    (void)state;
    metrics_gauge_set(GAUGE_REDIS_NODES_DOWN, 8192);
    print_page();
    assert_int_equal(value_of("seckill_redis_nodes_down"), 8192);
    metrics_gauge_set(GAUGE_REDIS_NODES_DOWN, -1);
    print_page();
    assert_memory_equal(find_value("seckill_redis_nodes_down"), "-1\n", 3);
    metrics_gauge_set(GAUGE_REDIS_NODES_DOWN, 0);
}

static void test_seconds_are_cumulative(void **state)
{
    (void)state;
    const char *name = "seckill_redis_seconds";
    metrics_observe(HISTOGRAM_REDIS_SECONDS, 0);
    metrics_observe(HISTOGRAM_REDIS_SECONDS, 10000);         /* on the bound: inside it */
    metrics_observe(HISTOGRAM_REDIS_SECONDS, 10001);         /* just above */
    metrics_observe(HISTOGRAM_REDIS_SECONDS, 3500000);       /* 3.5 ms */
    metrics_observe(HISTOGRAM_REDIS_SECONDS, 10000000000);   /* 10 s, the last bound */
    metrics_observe(HISTOGRAM_REDIS_SECONDS, 1234000000000); /* beyond */
    print_page();
    assert_int_equal(bucket_of(name, "1e-05"), 2);
    assert_int_equal(bucket_of(name, "2e-05"), 3);
    assert_int_equal(bucket_of(name, "0.002"), 3);
    assert_int_equal(bucket_of(name, "0.005"), 4);
    assert_int_equal(bucket_of(name, "5"), 4);
    assert_int_equal(bucket_of(name, "10"), 5);
    assert_int_equal(bucket_of(name, "+Inf"), 6);
    assert_int_equal(value_of("seckill_redis_seconds_count"), 6);
    const char *sum = "1244.003520001\n";
    assert_memory_equal(find_value("seckill_redis_seconds_sum"), sum, strlen(sum));
}

/* Series of one family that differ in a label are counted apart, under one head. */
static void test_labelled_histograms(void **state)
{
    (void)state;
    metrics_observe(HISTOGRAM_CALL_PAYMENT, 1500000); /* 1.5 ms */
    metrics_observe_times(HISTOGRAM_CALL_CANCEL, 3000000, 5);
    metrics_observe_times(HISTOGRAM_CALL_CANCEL, 3000000, 0);
    metrics_observe_times(HISTOGRAM_STAGE_LEDGER, 20000, 3);
    print_page();
    assert_int_equal(value_of("seckill_call_seconds_count{call=\"payment\"}"), 1);
    assert_int_equal(value_of("seckill_call_seconds_count{call=\"lookup\"}"), 0);
    assert_int_equal(value_of("seckill_call_seconds_bucket{call=\"payment\",le=\"0.001\"}"), 0);
    assert_int_equal(value_of("seckill_call_seconds_bucket{call=\"payment\",le=\"0.002\"}"), 1);
    assert_int_equal(value_of("seckill_call_seconds_bucket{call=\"cancel\",le=\"+Inf\"}"), 5);
    const char *sum = find_value("seckill_call_seconds_sum{call=\"cancel\"}");
    assert_memory_equal(sum, "0.015000000\n", 12);
    sum = find_value("seckill_order_stage_seconds_sum{stage=\"ledger\"}");
    assert_memory_equal(sum, "0.000060000\n", 12);
}

static void test_batch_sizes(void **state)
{
    (void)state;
    const char *name = "seckill_batch_orders";
    metrics_observe(HISTOGRAM_BATCH_ORDERS, 1);
    metrics_observe(HISTOGRAM_BATCH_ORDERS, 3);
    metrics_observe(HISTOGRAM_BATCH_ORDERS, 256);
    metrics_observe(HISTOGRAM_BATCH_ORDERS, 512);
    print_page();
    assert_int_equal(bucket_of(name, "1"), 1);
    assert_int_equal(bucket_of(name, "2"), 1);
    assert_int_equal(bucket_of(name, "4"), 2);
    assert_int_equal(bucket_of(name, "256"), 3);
    assert_int_equal(bucket_of(name, "512"), 4);
    assert_int_equal(bucket_of(name, "+Inf"), 4);
    assert_memory_equal(find_value("seckill_batch_orders_sum"), "772\n", 4);
}

enum { BOUNDS = 19 };

/* The bounds of a histogram, as the page spells them, without +Inf. */
static size_t read_bounds(const char *prefix, char bounds_out[BOUNDS][16])
{
    size_t count = 0;
    for (const char *line = strstr(page, prefix); line; line = strstr(line, prefix)) {
        line += strlen(prefix);
        if (strncmp(line, "+Inf", 4) == 0)
            break;
        assert_true(count < BOUNDS);
        snprintf(bounds_out[count++], 16, "%.*s", (int)strcspn(line, "\""), line);
    }
    return count;
}

/*
 * What the table holds in ns is what its text says in seconds: a value on the bound is inside, 1 ns
 * more is not.
 */
static void test_bounds_agree_with_their_text(void **state)
{
    (void)state;
    const char *name = "seckill_ledger_seconds";
    char bounds[BOUNDS][16];
    double last = 0;
    print_page();
    assert_int_equal(read_bounds("seckill_ledger_seconds_bucket{le=\"", bounds), BOUNDS);
    for (size_t i = 0; i < BOUNDS; i++) {
        double seconds = strtod(bounds[i], NULL);
        assert_true(seconds > last);
        last = seconds;
        uint64_t nanoseconds = (uint64_t)(seconds * 1e9 + 0.5);
        uint64_t before = bucket_of(name, bounds[i]);
        metrics_observe(HISTOGRAM_LEDGER_SECONDS, nanoseconds);
        print_page();
        assert_int_equal(bucket_of(name, bounds[i]), before + 1);
        metrics_observe(HISTOGRAM_LEDGER_SECONDS, nanoseconds + 1);
        print_page();
        assert_int_equal(bucket_of(name, bounds[i]), before + 1);
    }
    assert_true(last > 9.99 && last < 10.01);
}

static bool is_type_of(const char *line, const char *name, size_t length)
{
    return strncmp(line, "# TYPE ", 7) == 0 && strncmp(line + 7, name, length) == 0 &&
           line[7 + length] == ' ';
}

/* The first row of a family has its help. */
#define COUNTER_FAMILY(id, name, labels, help) +(sizeof help > 1)
#define GAUGE_FAMILY(id, name, help) +1
#define HISTOGRAM_FAMILY(id, name, labels, unit, help) +(sizeof help > 1)
enum {
    HTTP_FAMILIES = 1,
    FAMILIES = HTTP_FAMILIES METRICS_COUNTERS(COUNTER_FAMILY) METRICS_GAUGES(GAUGE_FAMILY)
        METRICS_HISTOGRAMS(HISTOGRAM_FAMILY)
};

/* Each family has one HELP with a text and one TYPE, directly above its first series. */
static void test_format_of_the_page(void **state)
{
    (void)state;
    print_page();
    assert_int_equal(page[strlen(page) - 1], '\n');
    unsigned families = 0;
    for (const char *line = page; *line; line = strchr(line, '\n') + 1) {
        if (strncmp(line, "# TYPE ", 7) == 0)
            continue;
        if (line[0] != '#') {
            assert_memory_equal(line, "seckill_", 8);
            continue;
        }
        families++;
        assert_memory_equal(line, "# HELP ", 7);
        const char *name = line + 7;
        size_t length = strcspn(name, " \n");
        assert_int_equal(name[length], ' ');
        assert_true(strcspn(name + length + 1, "\n") > 0);
        const char *next = strchr(line, '\n') + 1;
        assert_true(is_type_of(next, name, length));
        assert_memory_equal(strchr(next, '\n') + 1, name, length);
        for (const char *other = strchr(next, '\n'); other && other[1];
             other = strchr(other + 1, '\n'))
            assert_false(is_type_of(other + 1, name, length));
    }
    assert_int_equal(families, FAMILIES);
}

enum { THREADS = 140, ROUNDS = 500 }; /* more threads than slots: some share one */

static void *count_many(void *argument)
{
    atomic_uint *running = argument;
    for (unsigned i = 0; i < ROUNDS; i++) {
        metrics_count(METRIC_UNKNOWN_COMMITS);
        metrics_observe(HISTOGRAM_ORDER_SECONDS, 30000);
    }
    atomic_fetch_sub(running, 1);
    return NULL;
}

static void test_threads_lose_nothing(void **state)
{
    (void)state;
    static pthread_t threads[THREADS];
    atomic_uint running = THREADS;
    uint64_t before = metrics_read(METRIC_UNKNOWN_COMMITS);
    print_page();
    uint64_t observed = value_of("seckill_order_seconds_count");
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_many, &running), 0);
    uint64_t last = 0;
    while (atomic_load(&running) > 0) {
        print_page();
        uint64_t count = value_of("seckill_order_seconds_count");
        assert_int_equal(bucket_of("seckill_order_seconds", "+Inf"), count);
        assert_true(count >= last);
        last = count;
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    print_page();
    assert_int_equal(metrics_read(METRIC_UNKNOWN_COMMITS), before + THREADS * ROUNDS);
    assert_int_equal(value_of("seckill_order_seconds_count"), observed + THREADS * ROUNDS);
    assert_int_equal(bucket_of("seckill_order_seconds", "2e-05"), 0);
    assert_int_equal(bucket_of("seckill_order_seconds", "5e-05"), THREADS * ROUNDS);
}

enum { SLOTS = 128, SHARED_ROUNDS = 1000000 };

static void *count_once(void *argument)
{
    metrics_count(METRIC_REDIS_RECONNECTS);
    return argument;
}

static void *count_when_told(void *argument)
{
    atomic_uint *phase = argument;
    metrics_count(METRIC_REDIS_RECONNECTS);
    atomic_fetch_add(phase, 1);
    while (atomic_load(phase) < 3)
        sched_yield();
    for (unsigned i = 0; i < SHARED_ROUNDS; i++)
        metrics_count(METRIC_REDIS_RECONNECTS);
    return NULL;
}

static void wait_for(atomic_uint *phase, unsigned value)
{
    while (atomic_load(phase) < value)
        sched_yield();
}

/* Slots are given out in turn: the first and the last of these threads have the same one. */
static void test_threads_of_one_slot_lose_nothing(void **state)
{
    (void)state;
    uint64_t before = metrics_read(METRIC_REDIS_RECONNECTS);
    atomic_uint phase = 0;
    pthread_t first, last, other;
    assert_int_equal(pthread_create(&first, NULL, count_when_told, &phase), 0);
    wait_for(&phase, 1);
    for (unsigned i = 0; i < SLOTS - 1; i++) {
        assert_int_equal(pthread_create(&other, NULL, count_once, NULL), 0);
        pthread_join(other, NULL);
    }
    assert_int_equal(pthread_create(&last, NULL, count_when_told, &phase), 0);
    wait_for(&phase, 2);
    atomic_store(&phase, 3);
    pthread_join(first, NULL);
    pthread_join(last, NULL);
    assert_int_equal(metrics_read(METRIC_REDIS_RECONNECTS) - before,
                     2 * (SHARED_ROUNDS + 1) + SLOTS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counters_by_label),
        cmocka_unit_test(test_every_name_of_the_interface),
        cmocka_unit_test(test_http_statuses),
        cmocka_unit_test(test_gauge_shows_the_last_value),
        cmocka_unit_test(test_seconds_are_cumulative),
        cmocka_unit_test(test_labelled_histograms),
        cmocka_unit_test(test_batch_sizes),
        cmocka_unit_test(test_bounds_agree_with_their_text),
        cmocka_unit_test(test_format_of_the_page),
        cmocka_unit_test(test_threads_lose_nothing),
        cmocka_unit_test(test_threads_of_one_slot_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
