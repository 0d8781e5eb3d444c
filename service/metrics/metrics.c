/* Counters, gauges and histograms, and their Prometheus text. */
#include "service/metrics/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* why_striped: each thread counts in its own slot, so that cores do not contend for a cache line;
 * only a reader adds up the slots. With more threads than slots some threads share one: so
 * additions are atomic, which costs a few ns while no other core needs the line.
 *
 * why_relaxed: each counter is complete in itself. A reader that sees one counter's latest count
 * and not yet another's sees nothing wrong, only an earlier moment. */
#define SLOTS 128 /* the maximum of order workers plus HTTP threads */
#define CACHE_LINE 64
#define NS_PER_S UINT64_C(1000000000)

/* Upper bounds, as observed: in ns and in orders. */
static const uint64_t bounds_seconds[] = {
    10000,     20000,      50000,      100000,     200000,      500000,    1000000,
    2000000,   5000000,    10000000,   20000000,   50000000,    100000000, 200000000,
    500000000, 1000000000, 2000000000, 5000000000, 10000000000,
};
static const uint64_t bounds_orders[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
enum { CALLS_FROM = 6, BOUNDS_MAX = COUNT_OF(bounds_seconds) }; /* calls: from 1 ms on */

static_assert(COUNT_OF(bounds_orders) <= BOUNDS_MAX, "BOUNDS_MAX is the longest list");

struct histogram_kind {
    const char *name;
    const char *labels;
    const char *help;
    const uint64_t *bounds;
    size_t bound_count;
    double unit; /* what Prometheus reads as 1 */
};

#define KIND_SECONDS bounds_seconds, COUNT_OF(bounds_seconds), 1e9
#define KIND_CALL_SECONDS bounds_seconds + CALLS_FROM, COUNT_OF(bounds_seconds) - CALLS_FROM, 1e9
#define KIND_ORDERS bounds_orders, COUNT_OF(bounds_orders), 1

static const struct histogram_kind histogram_kinds[HISTOGRAM_COUNT] = {
#define HISTOGRAM_KIND(id, name, labels, unit, help) {name, labels, help, KIND_##unit},
    METRICS_HISTOGRAMS(HISTOGRAM_KIND)
#undef HISTOGRAM_KIND
};

struct counter_kind {
    const char *name;
    const char *labels;
    const char *help;
};

#define HTTP_NAME "seckill_http_responses_total"

#define COUNTER_KIND(id, name, labels, help) {name, labels, help},
#define STATUS_KIND(status) {HTTP_NAME, "status=\"" #status "\"", "HTTP answers by status."},

static const struct counter_kind counter_kinds[METRIC_COUNT] = {
    METRICS_COUNTERS(COUNTER_KIND) METRICS_STATUSES(STATUS_KIND){HTTP_NAME, "status=\"other\"", ""},
};

struct histogram {
    /* One per range, so that an observation changes one; the last is for +Inf. */
    _Atomic uint64_t buckets[BOUNDS_MAX + 1];
    _Atomic uint64_t sum;
};

/* A slot starts and so ends on a cache line: neighbours share none. */
struct slot {
    _Alignas(CACHE_LINE) _Atomic uint64_t counters[METRIC_COUNT];
    struct histogram histograms[HISTOGRAM_COUNT];
};

static struct slot slots[SLOTS];
static _Atomic int64_t gauges[GAUGE_COUNT];
static _Atomic unsigned threads_seen;
static _Thread_local struct slot *thread_slot;

static struct slot *slot_of_thread(void)
{
    if (!thread_slot) { /* first count; the thread keeps the slot for good */
        unsigned number = atomic_fetch_add_explicit(&threads_seen, 1, memory_order_relaxed);
        thread_slot = &slots[number % SLOTS];
    }
    return thread_slot;
}

static void add(_Atomic uint64_t *target, uint64_t n)
{
    atomic_fetch_add_explicit(target, n, memory_order_relaxed);
}

static uint64_t read_cell(_Atomic uint64_t *cell)
{
    return atomic_load_explicit(cell, memory_order_relaxed);
}

void metrics_count(enum metrics_counter counter)
{
    metrics_add(counter, 1);
}

void metrics_add(enum metrics_counter counter, uint64_t n)
{
    assert(counter < METRIC_COUNT);
    add(&slot_of_thread()->counters[counter], n);
}

void metrics_count_status(unsigned status)
{
    switch (status) {
#define STATUS_CASE(number)                                                                        \
    case number:                                                                                   \
        metrics_count(METRIC_HTTP_##number);                                                       \
        break;
        METRICS_STATUSES(STATUS_CASE)
#undef STATUS_CASE
    default:
        metrics_count(METRIC_HTTP_OTHER);
    }
}

void metrics_observe(enum metrics_histogram histogram, uint64_t value)
{
    metrics_observe_times(histogram, value, 1);
}

void metrics_observe_times(enum metrics_histogram histogram, uint64_t value, uint64_t times)
{
    assert(histogram < HISTOGRAM_COUNT);
    const struct histogram_kind *kind = &histogram_kinds[histogram];
    struct histogram *mine = &slot_of_thread()->histograms[histogram];
    size_t bucket = 0;
    while (bucket < kind->bound_count && value > kind->bounds[bucket])
        bucket++;
    add(&mine->buckets[bucket], times);
    add(&mine->sum, value * times);
}

void metrics_gauge_set(enum metrics_gauge gauge, int64_t value)
{
    assert(gauge < GAUGE_COUNT);
    atomic_store_explicit(&gauges[gauge], value, memory_order_relaxed);
}

/* The slots in use; a thread that arrives meanwhile has counted nothing yet. */
static size_t slots_used(void)
{
    unsigned seen = atomic_load_explicit(&threads_seen, memory_order_relaxed);
    return seen < SLOTS ? seen : SLOTS;
}

uint64_t metrics_read(enum metrics_counter counter)
{
    assert(counter < METRIC_COUNT);
    uint64_t sum = 0;
    for (size_t i = 0, count = slots_used(); i < count; i++)
        sum += read_cell(&slots[i].counters[counter]);
    return sum;
}

static_assert((int)BOUNDS_MAX < (int)METRICS_BUCKETS_MAX, "a reading has room for every bucket");

void metrics_read_histogram(enum metrics_histogram histogram, struct metrics_reading *reading_out)
{
    assert(histogram < HISTOGRAM_COUNT);
    const struct histogram_kind *kind = &histogram_kinds[histogram];
    *reading_out =
        (struct metrics_reading){.bounds = kind->bounds, .bound_count = kind->bound_count};
    for (size_t i = 0, count = slots_used(); i < count; i++) {
        struct histogram *part = &slots[i].histograms[histogram];
        reading_out->sum += read_cell(&part->sum);
        for (size_t bucket = 0; bucket <= kind->bound_count; bucket++)
            reading_out->buckets[bucket] += read_cell(&part->buckets[bucket]);
    }
    for (size_t bucket = 0; bucket <= kind->bound_count; bucket++)
        reading_out->count += reading_out->buckets[bucket];
}

/* ---- the page ---- */

void metrics_print_head(FILE *page, const char *name, const char *type, const char *help)
{
    fprintf(page, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metrics_print_label(FILE *page, const char *value)
{
    fputc('"', page);
    for (; *value != '\0'; value++)
        if (*value == '\n')
            fputs("\\n", page);
        else
            fprintf(page, "%s%c", *value == '\\' || *value == '"' ? "\\" : "", *value);
    fputc('"', page);
}

static void print_series(FILE *page, const char *name, const char *suffix, const char *labels)
{
    bool labelled = labels[0] != '\0';
    fprintf(page, "%s%s%s%s%s ", name, suffix, labelled ? "{" : "", labels, labelled ? "}" : "");
}

static void print_counter(FILE *page, enum metrics_counter counter)
{
    const struct counter_kind *kind = &counter_kinds[counter];
    if (counter == 0 || strcmp(kind->name, counter_kinds[counter - 1].name) != 0)
        metrics_print_head(page, kind->name, "counter", kind->help);
    print_series(page, kind->name, "", kind->labels);
    fprintf(page, "%" PRIu64 "\n", metrics_read(counter));
}

static void print_gauge(FILE *page, const char *name, const char *help, _Atomic int64_t *value)
{
    metrics_print_head(page, name, "gauge", help);
    fprintf(page, "%s %" PRId64 "\n", name, atomic_load_explicit(value, memory_order_relaxed));
}

static void print_histogram(FILE *page, enum metrics_histogram histogram)
{
    const struct histogram_kind *kind = &histogram_kinds[histogram];
    struct metrics_reading reading;
    metrics_read_histogram(histogram, &reading);
    if (kind->help[0] != '\0')
        metrics_print_head(page, kind->name, "histogram", kind->help);
    uint64_t count = 0; /* Prometheus needs cumulative buckets */
    for (size_t bucket = 0; bucket <= kind->bound_count; bucket++) {
        char bound[24] = "+Inf";
        if (bucket < kind->bound_count)
            snprintf(bound, sizeof bound, "%g", (double)kind->bounds[bucket] / kind->unit);
        count += reading.buckets[bucket];
        fprintf(page, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", kind->name, kind->labels,
                kind->labels[0] != '\0' ? "," : "", bound, count);
    }
    print_series(page, kind->name, "_sum", kind->labels);
    if (kind->bounds == bounds_orders)
        fprintf(page, "%" PRIu64 "\n", reading.sum);
    else
        fprintf(page, "%" PRIu64 ".%09" PRIu64 "\n", reading.sum / NS_PER_S,
                reading.sum % NS_PER_S);
    /* Derives the count from the buckets, so that the two agree while other threads count. */
    print_series(page, kind->name, "_count", kind->labels);
    fprintf(page, "%" PRIu64 "\n", count);
}

void metrics_print(FILE *page)
{
    for (int counter = 0; counter < METRIC_COUNT; counter++)
        print_counter(page, (enum metrics_counter)counter);
#define PRINT_GAUGE(id, name, help) print_gauge(page, name, help, &gauges[GAUGE_##id]);
    METRICS_GAUGES(PRINT_GAUGE)
#undef PRINT_GAUGE
    for (int histogram = 0; histogram < HISTOGRAM_COUNT; histogram++)
        print_histogram(page, (enum metrics_histogram)histogram);
}
