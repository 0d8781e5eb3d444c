/* POST /admin/stock/add. */
#include <string.h>

#include "service/admin.h"
#include "service/desk.h"
#include "service/log.h"
#include "service/sale_terms.h"
#include "base/identifier.h"
#include "stock/sale_restock.h"

static void work_add(struct desk *desk, struct request *request)
{
    struct ledger_sale sale;
    const char *sku = request->order.sku;
    enum stock_admin_result why = STOCK_ADMIN_OK;
    enum stock_restock_result result = stock_restock(
        desk->stock, sku, request->total, request->order.key, desk_lock_wait_ms(desk), &sale, &why);
    log_event(result == STOCK_RESTOCK_DONE ? LOG_INFO : LOG_WARN, "restock",
              "sku=%s units=%u result=%d why=%d", sku, request->total, (int)result, (int)why);
    switch (result) {
    case STOCK_RESTOCK_DONE:
        desk_answer(request, 200, sale_json(&sale));
        break;
    case STOCK_RESTOCK_TOO_MANY:
        answer_detail(&request->answer, PROBLEM_INVALID_REQUEST,
                      "The sale would have more than 10000000 units.");
        break;
    case STOCK_RESTOCK_KEY_REUSED:
        answer_detail(&request->answer, PROBLEM_KEY_REUSED,
                      "Other units were added to this sale with this Idempotency-Key.");
        break;
    default:
        admin_answer_failure(request, why);
        break;
    }
}

enum start_result handle_admin_add(struct service *service, struct request *request,
                                   const struct call *call)
{
    (void)service;
    json_t *object = admin_read_sale(request, call);
    const char *detail = NULL;
    if (!object)
        return START_ANSWERED;
    request->order.key[0] = '\0';
    if (json_object_size(object) > 2)
        detail = "There is a field other than sku and units.";
    else if (!admin_read_number(object, "units", STOCK_TOTAL_MAX, &request->total))
        detail = "units must be a whole number from 1 to 10000000.";
    else if (call->key && !identifier_copy(call->key, strlen(call->key), request->order.key))
        detail = "Idempotency-Key must be 1 to 64 characters out of A-Z a-z 0-9 . _ : -";
    json_decref(object);
    if (detail) {
        answer_detail(&request->answer, PROBLEM_INVALID_REQUEST, detail);
        return START_ANSWERED;
    }
    request->work = work_add;
    request->changes = true;
    return START_TO_DESK;
}
