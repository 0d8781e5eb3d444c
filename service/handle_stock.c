/* GET /stock/{sku}: what is sold and what is left, and the terms, by the ledger. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "service/desk.h"
#include "service/handlers.h"
#include "service/sale_terms.h"
#include "base/identifier.h"

static json_t *segment_json(const struct ledger_segment *row)
{
    return json_pack("{s:i, s:i, s:i, s:i}", "segment", (int)row->segment, "capacity",
                     (int)row->capacity, "sold", (int)row->sold, "available",
                     (int)(row->capacity - row->sold));
}

static json_t *stock_json(const struct ledger_sale *sale, const struct ledger_segment *rows,
                          size_t count)
{
    json_int_t total = 0, sold = 0;
    json_t *segments = json_array();
    for (size_t i = 0; i < count; i++) {
        total += rows[i].capacity;
        sold += rows[i].sold;
        json_array_append_new(segments, segment_json(&rows[i]));
    }
    json_t *stock =
        json_pack("{s:s, s:i, s:I, s:I, s:I, s:o}", "sku", sale->sku, "round", (int)rows[0].round,
                  "total", total, "sold", sold, "available", total - sold, "segments", segments);
    sale_terms_add(stock, &sale->settings);
    return stock;
}

static void work_stock_get(struct desk *desk, struct request *request)
{
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    size_t count = 0;
    struct ledger *ledger = stock_ledger(desk->stock);
    struct ledger_sale sale;
    enum ledger_result result = ledger_sale_find(ledger, request->order.sku, &sale);
    if (result == LEDGER_OK)
        result = ledger_segments(ledger, sale.sku, rows, &count);
    switch (result) {
    case LEDGER_OK:
        desk_answer(request, 200, stock_json(&sale, rows, count));
        break;
    case LEDGER_NO:
        answer_problem(&request->answer, PROBLEM_UNKNOWN_SKU);
        break;
    default:
        answer_problem(&request->answer, PROBLEM_UNAVAILABLE);
        break;
    }
}

enum start_result handle_stock_get(struct service *service, struct request *request,
                                   const struct call *call)
{
    (void)service;
    if (!identifier_copy(call->tail, strlen(call->tail), request->order.sku)) {
        answer_problem(&request->answer, PROBLEM_UNKNOWN_SKU);
        return START_ANSWERED;
    }
    request->work = work_stock_get;
    return START_TO_DESK;
}
