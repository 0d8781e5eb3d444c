/* GET /stock/{sku} and GET /admin/stock/{sku}: sold and available units, and the settings.
 *
 * why_the_ledger: snapshots come from the ledger, not from Redis, because units that left Redis may
 * yet come back from a refused commit. */
#include "service/calls/calls.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "service/metrics/metrics.h"
#include "service/request/faults.h"
#include "service/request/order_answer.h"
#include "service/request/prepared.h"
#include "service/request/stock_snapshot.h"
#include "sql/ledger/ledger.h"
#include "sql/sales/sales.h"

/* A browser asks again each time. Caches between the shop's servers and its clients may answer for
 * a second, the shortest time that the header can express, which takes the crowd off the shop. */
static const char page_caching[] = "public, max-age=0, s-maxage=1";
static const char exact_caching[] = "no-store";

/* ---- the text ---- */

static char *put_segment(char *at, const struct ledger_segment *row)
{
    at = order_put_number(at, "{\"segment\":", row->segment);
    at = order_put_number(at, ",\"capacity\":", row->capacity);
    at = order_put_number(at, ",\"sold\":", row->sold);
    return stpcpy(order_put_number(at, ",\"available\":", row->capacity - row->sold), "},");
}

/* The JSON without the segments, which may be many. */
static char *head_text(const struct ledger_sale *sale, int64_t as_of_ms)
{
    char as_of[LEDGER_TIME_SIZE];
    ledger_time_format(as_of_ms, as_of);
    json_t *head = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i}", "sku", sale->sku, "as_of", as_of,
                             "round", (int)sale->round, "total", (int)sale->total, "sold",
                             (int)sale->sold, "available", (int)(sale->total - sale->sold));
    sale_settings_add(head, &sale->settings);
    char *text = memory_must(json_dumps(head, JSON_COMPACT));
    json_decref(head);
    return text;
}

/* The sale as JSON, malloc'ed, ending in a line feed instead of a NUL. */
static char *stock_text(const struct ledger_sale *sale, const struct ledger_segment *rows,
                        size_t count, int64_t as_of_ms, size_t *length_out)
{
    static const char names[] = "{\"segment\":,\"capacity\":,\"sold\":,\"available\":},";
    enum { SEGMENT_SIZE = sizeof names + 4 * DECIMAL_DIGITS_MAX, TAIL_SIZE = 32 };
    char *head = head_text(sale, as_of_ms);
    size_t length = strlen(head);
    char *text = memory_must(realloc(head, length + count * SEGMENT_SIZE + TAIL_SIZE));
    assert(count > 0);
    char *at = stpcpy(text + length - 1, ",\"segments\":["); /* over the last brace */
    for (size_t i = 0; i < count; i++)
        at = put_segment(at, &rows[i]);
    at = stpcpy(at - 1, "]}\n"); /* over the last comma */
    *length_out = (size_t)(at - text);
    char *shrunk = realloc(text, *length_out); /* snapshots stay in memory */
    return shrunk ? shrunk : text;
}

/* ---- reading snapshots ---- */

/* The skus that one statement reads, sorted. */
struct reading {
    struct service *service;
    bool exact; /* for one request only: not kept as a snapshot */
    int64_t asked_ns;
    int64_t asked_ms; /* UTC */
    size_t count;     /* number of different skus */
    const char *skus[LEDGER_STOCK_SKUS_MAX];
    uint64_t changes[LEDGER_STOCK_SKUS_MAX];
    struct prepared *answers[LEDGER_STOCK_SKUS_MAX]; /* NULL: no such sale */
    bool damaged; /* a sale was skipped, so a missing sale may still exist */
};

static void add_sku(struct reading *reading, const char *sku)
{
    size_t i = reading->count++;
    reading->skus[i] = sku;
    reading->changes[i] = stock_snapshot_changes(reading->service->stock_snapshots, sku);
    reading->answers[i] = NULL;
}

static void prepare(const struct ledger_sale *sale, const struct ledger_segment *rows, size_t count,
                    void *context)
{
    struct reading *reading = context;
    size_t length = 0;
    for (size_t i = 0; i < reading->count; i++) {
        if (strcmp(reading->skus[i], sale->sku) != 0)
            continue;
        char *text = stock_text(sale, rows, count, reading->asked_ms, &length);
        reading->answers[i] = prepared_new(
            "application/json", reading->exact ? exact_caching : page_caching, text, length);
    }
}

static void answer_all(struct reading *reading, struct request **requests, size_t count)
{
    for (size_t i = 0, sku = 0; i < count; i++) {
        while (strcmp(reading->skus[sku], requests[i]->call.sku) != 0)
            sku++;
        assert(sku < reading->count);
        struct prepared *answer = reading->answers[sku];
        if (answer)
            answer_prepared(&requests[i]->answer, prepared_hold(answer));
        else
            answer_problem(&requests[i]->answer,
                           reading->damaged ? PROBLEM_LEDGER_DAMAGED : PROBLEM_UNKNOWN_SKU);
    }
}

/* Reads for all waiting requests in one statement. Without the ledger's answer they get none
 * either: an old snapshot never passes for a new one. */
static void read_anew(struct service_worker *worker, struct reading *reading,
                      struct request **requests, size_t count)
{
    reading->asked_ns = clock_now_ns();
    reading->asked_ms = synced_clock_ms(&reading->service->clock);
    if (!reading->exact)
        metrics_add(METRIC_STOCK_READS, reading->count);
    enum ledger_result result = ledger_stock_find(stock_ledger(worker->stock), reading->skus,
                                                  reading->count, false, prepare, reading);
    reading->damaged = result == LEDGER_DAMAGED;
    if (result != LEDGER_OK && result != LEDGER_DAMAGED) {
        for (size_t i = 0; i < count; i++)
            answer_problem(&requests[i]->answer, faults_problem(worker->stock));
        return;
    }
    answer_all(reading, requests, count);
    for (size_t i = 0; i < reading->count; i++) {
        bool known = reading->answers[i] || !reading->damaged;
        if (known && !reading->exact)
            stock_snapshot_keep(reading->service->stock_snapshots, reading->skus[i],
                                reading->changes[i], reading->asked_ns, reading->answers[i]);
        prepared_release(&reading->answers[i]);
    }
}

static int by_sku(const void *a, const void *b)
{
    const struct request *const *first = a, *const *second = b;
    return strcmp((*first)->call.sku, (*second)->call.sku);
}

/* Answers from memory, if the ledger need not be asked about the sku. */
static bool answer_from_memory(struct service *service, struct request *request, bool worker)
{
    struct prepared *held;
    if (!stock_snapshot_find(service->stock_snapshots, request->call.sku, clock_now_ns(), worker,
                             &held))
        return false;
    if (held)
        answer_prepared(&request->answer, held);
    else
        answer_problem(&request->answer, PROBLEM_UNKNOWN_SKU);
    return true;
}

/* All look-ups of a process go through one worker, so a sku is read once however many wait. */
static void work_get(struct service_worker *worker, struct request **requests, size_t count)
{
    struct request *due[CALL_BATCH_MAX];
    struct reading reading = {.service = worker->service};
    size_t from = 0, left = 0;
    assert(count <= CALL_BATCH_MAX);
    /* Later requests for a sku may find that the first one has refreshed it. */
    for (size_t i = 0; i < count; i++)
        if (!answer_from_memory(worker->service, requests[i], true))
            due[left++] = requests[i];
    qsort(due, left, sizeof due[0], by_sku);
    for (size_t i = 0; i < left; i++) {
        if (i > from && strcmp(due[i - 1]->call.sku, due[i]->call.sku) == 0)
            continue;
        if (reading.count == LEDGER_STOCK_SKUS_MAX) {
            read_anew(worker, &reading, due + from, i - from);
            reading.count = 0;
            from = i;
        }
        add_sku(&reading, due[i]->call.sku);
    }
    if (left > 0)
        read_anew(worker, &reading, due + from, left - from);
}

static void work_get_exact(struct service_worker *worker, struct request **requests, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct reading reading = {.service = worker->service, .exact = true};
        add_sku(&reading, requests[i]->call.sku);
        read_anew(worker, &reading, requests + i, 1);
    }
}

/* ---- the handlers ---- */

enum call_start call_stock_get(struct request *request, const struct call *call)
{
    if (!call_read_sku(request, call) || answer_from_memory(call->service, request, false))
        return START_ANSWERED;
    return call_send(request, work_get, false);
}

enum call_start call_stock_get_exact(struct request *request, const struct call *call)
{
    if (!call_read_sku(request, call))
        return START_ANSWERED;
    return call_send(request, work_get_exact, false);
}
