/* Counters, gauges and histograms, and their Prometheus text. */
#include "service/metrics/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/*
 * why_striped: each thread counts in a slot of its own, so that no two cores fight over a cache
 * line; only a reader adds the slots up. Where there are more threads than slots, some threads
 * share one: therefore additions are atomic, which costs a few ns while no other core wants the
 * line.
 *
 * why_relaxed: each counter is complete in itself. A reader that sees one counter's latest count
 * and not yet another's reads nothing wrong, only an earlier moment.
 */
#define SLOTS 128 /* as many as the most order workers and HTTP threads together */
#define CACHE_LINE 64
#define BOUNDS_MAX 19 /* of one histogram */

/* Upper bounds: the value as it is observed, and as Prometheus reads it. */
struct bound {
    uint64_t value;
    const char *text;
};

static const struct bound bounds_seconds[] = {
    {10000, "1e-05"},   {20000, "2e-05"},   {50000, "5e-05"},    {100000, "0.0001"},
    {200000, "0.0002"}, {500000, "0.0005"}, {1000000, "0.001"},  {2000000, "0.002"},
    {5000000, "0.005"}, {10000000, "0.01"}, {20000000, "0.02"},  {50000000, "0.05"},
    {100000000, "0.1"}, {200000000, "0.2"}, {500000000, "0.5"},  {1000000000, "1"},
    {2000000000, "2"},  {5000000000, "5"},  {10000000000, "10"},
};

static const struct bound bounds_calls[] = {
    {1000000, "0.001"},  {2000000, "0.002"}, {5000000, "0.005"}, {10000000, "0.01"},
    {20000000, "0.02"},  {50000000, "0.05"}, {100000000, "0.1"}, {200000000, "0.2"},
    {500000000, "0.5"},  {1000000000, "1"},  {2000000000, "2"},  {5000000000, "5"},
    {10000000000, "10"},
};

static const struct bound bounds_orders[] = {
    {1, "1"},   {2, "2"},   {4, "4"},     {8, "8"},     {16, "16"},
    {32, "32"}, {64, "64"}, {128, "128"}, {256, "256"}, {512, "512"},
};

enum unit { SECONDS, CALL_SECONDS, ORDERS };

struct histogram_kind {
    const char *name;
    const char *labels;
    const char *help;
    enum unit unit;
    const struct bound *bounds;
    size_t bound_count;
};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static_assert(COUNT_OF(bounds_seconds) <= BOUNDS_MAX, "BOUNDS_MAX is the longest list");
static_assert(COUNT_OF(bounds_calls) <= BOUNDS_MAX, "BOUNDS_MAX is the longest list");
static_assert(COUNT_OF(bounds_orders) <= BOUNDS_MAX, "BOUNDS_MAX is the longest list");

#define BOUNDS_SECONDS bounds_seconds, COUNT_OF(bounds_seconds)
#define BOUNDS_CALL_SECONDS bounds_calls, COUNT_OF(bounds_calls)
#define BOUNDS_ORDERS bounds_orders, COUNT_OF(bounds_orders)

static const struct histogram_kind histogram_kinds[HISTOGRAM_COUNT] = {
#define HISTOGRAM_KIND(id, name, labels, unit, help) {name, labels, help, unit, BOUNDS_##unit},
    METRICS_HISTOGRAMS(HISTOGRAM_KIND)
#undef HISTOGRAM_KIND
};

struct series_kind {
    const char *name;
    const char *labels;
    const char *help;
};

#define HTTP_NAME "seckill_http_responses_total"

#define COUNTER_KIND(id, name, labels, help) {name, labels, help},
#define STATUS_KIND(status) {HTTP_NAME, "status=\"" #status "\"", "HTTP answers by status."},

static const struct series_kind counter_kinds[METRIC_COUNT] = {
    METRICS_COUNTERS(COUNTER_KIND) METRICS_STATUSES(STATUS_KIND){HTTP_NAME, "status=\"other\"", ""},
};

static const struct series_kind gauge_kinds[GAUGE_COUNT] = {
#define GAUGE_KIND(id, name, help) {name, "", help},
    METRICS_GAUGES(GAUGE_KIND)
#undef GAUGE_KIND
};

struct histogram {
    /* Each for its own range, so that an observation changes one; the last is for +Inf. */
    _Atomic uint64_t buckets[BOUNDS_MAX + 1];
    _Atomic uint64_t sum;
};

/* A slot begins on a cache line, and so it ends on one: neighbours share none. */
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
    if (!thread_slot) { /* the thread's first count; it keeps the slot for good */
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
    while (bucket < kind->bound_count && value > kind->bounds[bucket].value)
        bucket++;
    add(&mine->buckets[bucket], times);
    add(&mine->sum, value * times);
}

void metrics_gauge_set(enum metrics_gauge gauge, int64_t value)
{
    assert(gauge < GAUGE_COUNT);
    atomic_store_explicit(&gauges[gauge], value, memory_order_relaxed);
}

/* Slots that a thread has: a thread which comes meanwhile has counted nothing yet. */
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

static_assert(BOUNDS_MAX + 1 <= METRICS_BUCKETS_MAX, "a reading has room for every bucket");

void metrics_read_histogram(enum metrics_histogram histogram, struct metrics_reading *reading_out)
{
    assert(histogram < HISTOGRAM_COUNT);
    const struct histogram_kind *kind = &histogram_kinds[histogram];
    *reading_out = (struct metrics_reading){.bound_count = kind->bound_count};
    for (size_t bucket = 0; bucket < kind->bound_count; bucket++)
        reading_out->bounds[bucket] = kind->bounds[bucket].value;
    for (size_t i = 0, count = slots_used(); i < count; i++) {
        struct histogram *part = &slots[i].histograms[histogram];
        reading_out->sum += read_cell(&part->sum);
        for (size_t bucket = 0; bucket <= kind->bound_count; bucket++)
            reading_out->buckets[bucket] += read_cell(&part->buckets[bucket]);
    }
    for (size_t bucket = 0; bucket <= kind->bound_count; bucket++)
        reading_out->count += reading_out->buckets[bucket];
}

static void print_counters(struct metrics_text *text)
{
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        const struct series_kind *kind = &counter_kinds[i];
        if (i == 0 || strcmp(kind->name, counter_kinds[i - 1].name) != 0)
            metrics_text_head(text, kind->name, "counter", kind->help);
        bool labelled = kind->labels[0] != '\0';
        metrics_text_add(text, "%s%s%s%s %" PRIu64 "\n", kind->name, labelled ? "{" : "",
                         kind->labels, labelled ? "}" : "", metrics_read((enum metrics_counter)i));
    }
}

static void print_gauges(struct metrics_text *text)
{
    for (size_t i = 0; i < GAUGE_COUNT; i++) {
        metrics_text_head(text, gauge_kinds[i].name, "gauge", gauge_kinds[i].help);
        metrics_text_add(text, "%s %" PRId64 "\n", gauge_kinds[i].name,
                         atomic_load_explicit(&gauges[i], memory_order_relaxed));
    }
}

static void print_sum(struct metrics_text *text, const struct histogram_kind *kind, uint64_t sum)
{
    if (kind->unit == ORDERS)
        metrics_text_add(text, " %" PRIu64 "\n", sum);
    else
        metrics_text_add(text, " %" PRIu64 ".%09" PRIu64 "\n", sum / 1000000000, sum % 1000000000);
}

static void print_histogram(struct metrics_text *text, size_t histogram)
{
    const struct histogram_kind *kind = &histogram_kinds[histogram];
    struct metrics_reading reading;
    metrics_read_histogram((enum metrics_histogram)histogram, &reading);
    if (kind->help[0] != '\0')
        metrics_text_head(text, kind->name, "histogram", kind->help);
    bool labelled = kind->labels[0] != '\0';
    uint64_t count = 0; /* Prometheus wants the buckets cumulative */
    for (size_t bucket = 0; bucket <= kind->bound_count; bucket++) {
        count += reading.buckets[bucket];
        metrics_text_add(text, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", kind->name, kind->labels,
                         labelled ? "," : "",
                         bucket < kind->bound_count ? kind->bounds[bucket].text : "+Inf", count);
    }
    const char *open = labelled ? "{" : "", *close = labelled ? "}" : "";
    metrics_text_add(text, "%s_sum%s%s%s", kind->name, open, kind->labels, close);
    print_sum(text, kind, reading.sum);
    /* The count comes from the buckets, so that the two agree while others go on counting. */
    metrics_text_add(text, "%s_count%s%s%s %" PRIu64 "\n", kind->name, open, kind->labels, close,
                     count);
}

size_t metrics_print(char *buffer, size_t size)
{
    struct metrics_text text = {.buffer = buffer, .size = size, .length = 0};
    if (size > 0)
        buffer[0] = '\0';
    print_counters(&text);
    print_gauges(&text);
    for (size_t i = 0; i < HISTOGRAM_COUNT; i++)
        print_histogram(&text, i);
    return text.length;
}

/* ---- the text of the page ---- */

void metrics_text_add(struct metrics_text *text, const char *format, ...)
{
    bool full = text->length >= text->size;
    char *end = full ? NULL : text->buffer + text->length;
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(end, full ? 0 : text->size - text->length, format, arguments);
    va_end(arguments);
    assert(written >= 0);
    text->length += (size_t)written;
}

void metrics_text_head(struct metrics_text *text, const char *name, const char *type,
                       const char *help)
{
    metrics_text_add(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metrics_text_label(struct metrics_text *text, const char *value)
{
    metrics_text_add(text, "\"");
    for (; *value != '\0'; value++)
        if (*value == '\n')
            metrics_text_add(text, "\\n");
        else
            metrics_text_add(text, "%s%c", *value == '\\' || *value == '"' ? "\\" : "", *value);
    metrics_text_add(text, "\"");
}
