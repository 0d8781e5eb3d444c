/* GET /stock/{sku}: what is sold and what is left, and the settings, by the ledger. */
#include "service/calls/stock.h"

#include <assert.h>
#include <jansson.h>

#include "service/calls/sale_settings.h"
#include "sql/ledger_segment.h"

static json_t *segment_json(const struct ledger_segment *row)
{
    return json_pack("{s:i, s:i, s:i, s:i}", "segment", (int)row->segment, "capacity",
                     (int)row->capacity, "sold", (int)row->sold, "available",
                     (int)(row->capacity - row->sold));
}

static json_t *stock_json(const struct ledger_sale *sale, const struct ledger_segment *rows,
                          size_t count)
{
    /* Sums of the rows, which are one consistent picture; the sale was read a moment before. */
    json_int_t total = 0, sold = 0;
    assert(count > 0);
    json_t *segments = json_array();
    for (size_t i = 0; i < count; i++) {
        total += rows[i].capacity;
        sold += rows[i].sold;
        json_array_append_new(segments, segment_json(&rows[i]));
    }
    json_t *stock =
        json_pack("{s:s, s:i, s:I, s:I, s:I, s:o}", "sku", sale->sku, "round", (int)rows[0].round,
                  "total", total, "sold", sold, "available", total - sold, "segments", segments);
    sale_settings_add(stock, &sale->settings);
    return stock;
}

/* The ledger is asked, not Redis: units that left Redis may yet come back from a refused commit. */
static void get(struct call_worker *worker, struct request *request)
{
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    size_t count = 0;
    struct ledger *ledger = stock_ledger(worker->stock);
    struct ledger_sale sale;
    enum ledger_result result = ledger_sale_find(ledger, request->call.sku, &sale);
    if (result == LEDGER_OK)
        result = ledger_segments(ledger, sale.sku, rows, &count);
    if (result == LEDGER_OK && count == 0) /* only tables changed by hand have such a sale */
        result = LEDGER_NO;
    switch (result) {
    case LEDGER_OK:
        answer_json(&request->answer, 200, stock_json(&sale, rows, count));
        break;
    case LEDGER_NO:
        answer_problem(&request->answer, PROBLEM_UNKNOWN_SKU);
        break;
    default:
        answer_problem(&request->answer, PROBLEM_UNAVAILABLE);
        break;
    }
}

static void work_get(struct call_worker *worker, struct request **requests, size_t count)
{
    for (size_t i = 0; i < count; i++)
        get(worker, requests[i]);
}

enum call_start call_stock_get(struct service *service, struct request *request,
                               const struct call *call)
{
    (void)service;
    return call_read_sku(request, call) ? call_send(request, work_get, false) : START_ANSWERED;
}
