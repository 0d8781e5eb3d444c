/* /admin/stock/reset, /admin/sales and /admin/reconcile. */
#include <stdlib.h>
#include <string.h>

#include "service/admin.h"
#include "service/desk.h"
#include "service/log.h"
#include "service/sale_terms.h"
#include "stock/sale_reconcile.h"
#include "stock/sale_reset.h"
#include "stock/sale_restock.h"

static void work_reset(struct desk *desk, struct request *request)
{
    struct ledger_sale sale = {
        .total = request->total,
        .segments = request->segments,
        .settings = request->change.settings,
    };
    const char *sku = request->order.sku;
    memcpy(sale.sku, sku, sizeof sale.sku);
    enum stock_admin_result result = stock_reset(desk->stock, &sale, desk_lock_wait_ms(desk));
    log_event(result == STOCK_ADMIN_OK ? LOG_INFO : LOG_WARN, "reset",
              "sku=%s total=%u segments=%u result=%d round=%u", sku, request->total,
              request->segments, (int)result, result == STOCK_ADMIN_OK ? sale.round : 0);
    if (result == STOCK_ADMIN_OK)
        desk_answer(request, 200, sale_json(&sale));
    else
        admin_answer_failure(request, result);
}

enum start_result handle_admin_reset(struct service *service, struct request *request,
                                     const struct call *call)
{
    (void)service;
    json_t *object = admin_read_sale(request, call);
    if (!object)
        return START_ANSWERED;
    const char *detail = sale_terms_read(object, &request->change);
    if (detail || request->change.fields & STOCK_CHANGE_PAUSED ||
        json_object_size(object) > 3 + sale_terms_count(&request->change))
        detail = detail ? detail
                        : "There is a field other than sku, total, segments, starts_at, ends_at, "
                          "per_user_limit and pay_within_s.";
    else if (!admin_read_number(object, "total", STOCK_TOTAL_MAX, &request->total))
        detail = "total must be a whole number from 1 to 10000000.";
    else if (!admin_read_number(object, "segments", LEDGER_SEGMENTS_MAX, &request->segments))
        detail = "segments must be a whole number from 1 to 1024.";
    else if (request->segments > request->total)
        detail = "There cannot be more segments than units.";
    json_decref(object);
    if (detail) {
        answer_detail(&request->answer, PROBLEM_INVALID_REQUEST, detail);
        return START_ANSWERED;
    }
    request->work = work_reset;
    request->changes = true;
    return START_TO_DESK;
}

static void add_sale(const struct ledger_sale *sale, void *list)
{
    json_array_append_new(list, sale_json(sale));
}

static void work_sales(struct desk *desk, struct request *request)
{
    json_t *list = json_array();
    if (!list)
        abort();
    if (ledger_sales_each(stock_ledger(desk->stock), add_sale, list) == LEDGER_OK) {
        desk_answer(request, 200, json_pack("{s:o}", "sales", list));
    } else {
        json_decref(list);
        answer_problem(&request->answer, PROBLEM_UNAVAILABLE);
    }
}

enum start_result handle_admin_sales(struct service *service, struct request *request,
                                     const struct call *call)
{
    (void)service;
    (void)call;
    request->work = work_sales;
    return START_TO_DESK;
}

static json_t *difference_json(const struct stock_difference *difference)
{
    static const char *const reasons[] = {
        [STOCK_MISSING] = "missing",
        [STOCK_OTHER_ROUND] = "round",
        [STOCK_DIRTY] = "dirty",
        [STOCK_MISMATCH] = "mismatch",
    };
    json_t *redis = difference->redis_available < 0
                        ? json_null()
                        : json_integer((json_int_t)difference->redis_available);
    return json_pack("{s:i, s:s, s:o, s:I}", "segment", (int)difference->segment, "reason",
                     reasons[difference->reason], "redis_available", redis, "ledger_available",
                     (json_int_t)difference->ledger_available);
}

static json_t *report_json(const char *sku, const struct stock_report *report)
{
    json_t *differences = json_array();
    for (size_t i = 0; i < report->difference_count; i++)
        json_array_append_new(differences, difference_json(&report->differences[i]));
    return json_pack("{s:s, s:i, s:i, s:o, s:i, s:b}", "sku", sku, "round", (int)report->round,
                     "segments", (int)report->segments, "differences", differences, "repaired",
                     (int)report->difference_count, "consistent", 1);
}

static void work_reconcile(struct desk *desk, struct request *request)
{
    struct stock_report *report = malloc(sizeof *report);
    if (!report)
        abort();
    enum stock_admin_result result =
        stock_reconcile(desk->stock, request->order.sku, desk_lock_wait_ms(desk), report);
    log_event(result == STOCK_ADMIN_OK ? LOG_INFO : LOG_WARN, "reconcile",
              "sku=%s result=%d differences=%zu", request->order.sku, (int)result,
              report->difference_count);
    if (result == STOCK_ADMIN_OK)
        desk_answer(request, 200, report_json(request->order.sku, report));
    else
        admin_answer_failure(request, result);
    free(report);
}

enum start_result handle_admin_reconcile(struct service *service, struct request *request,
                                         const struct call *call)
{
    (void)service;
    json_t *object = admin_read_sale(request, call);
    if (!object)
        return START_ANSWERED;
    size_t members = json_object_size(object);
    json_decref(object);
    if (members > 1) {
        answer_detail(&request->answer, PROBLEM_INVALID_REQUEST,
                      "There is a field other than sku.");
        return START_ANSWERED;
    }
    request->work = work_reconcile;
    request->changes = true;
    return START_TO_DESK;
}
