/* PATCH /admin/sale/{sku}: changes a sale's terms while it runs. */
#include <string.h>

#include "service/admin.h"
#include "service/desk.h"
#include "service/log.h"
#include "service/sale_terms.h"
#include "base/identifier.h"

static void work_change(struct desk *desk, struct request *request)
{
    struct ledger_sale sale;
    const char *sku = request->order.sku;
    enum stock_admin_result result = stock_change(desk->stock, sku, &request->change, &sale);
    log_event(result == STOCK_ADMIN_OK ? LOG_INFO : LOG_WARN, "change",
              "sku=%s fields=%u result=%d terms=%u", sku, request->change.fields, (int)result,
              result == STOCK_ADMIN_OK ? sale.settings.version : 0);
    if (result == STOCK_ADMIN_OK)
        desk_answer(request, 200, sale_json(&sale));
    else
        admin_answer_failure(request, result);
}

enum start_result handle_admin_sale(struct service *service, struct request *request,
                                    const struct call *call)
{
    (void)service;
    if (!identifier_copy(call->tail, strlen(call->tail), request->order.sku)) {
        answer_problem(&request->answer, PROBLEM_UNKNOWN_SKU);
        return START_ANSWERED;
    }
    json_t *object = admin_read_object(request, call);
    if (!object)
        return START_ANSWERED;
    const char *detail = sale_terms_read(object, &request->change);
    size_t count = sale_terms_count(&request->change);
    if (!detail && (count == 0 || json_object_size(object) > count))
        detail = "The fields must be some of starts_at, ends_at, per_user_limit, pay_within_s and "
                 "paused.";
    json_decref(object);
    if (detail) {
        answer_detail(&request->answer, PROBLEM_INVALID_REQUEST, detail);
        return START_ANSWERED;
    }
    request->work = work_change;
    request->changes = true;
    return START_TO_DESK;
}
