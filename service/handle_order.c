/* POST /order and GET /order/{order_id}. */
#include <jansson.h>
#include <string.h>

#include "service/desk.h"
#include "service/handlers.h"
#include "service/metrics.h"
#include "service/order_body.h"
#include "service/order_json.h"
#include "service/snowflake.h"
#include "base/clock.h"
#include "base/identifier.h"

/* Refuses at once what is known to be refused. With a key its first try may have been accepted
 * before: then the lane looks. */
static bool refuse_at_once(struct service *service, struct request *request, int64_t now_ns)
{
    struct ledger_settings terms;
    struct stock_order *order = &request->order;
    struct sale *sale =
        order->key[0] == '\0' ? sale_cache_find(service->sale_cache, order->sku) : NULL;
    if (!sale)
        return false;
    order->outcome = STOCK_OPEN;
    if (sale_window_cached(sale, now_ns, &terms)) {
        order->created_ms = clock_wall_ms();
        order->outcome = stock_closed(&terms, order->created_ms, &order->at_ms);
    }
    if (order->outcome == STOCK_OPEN && sale_known_short(sale, order->qty, now_ns)) {
        metrics_count(METRIC_SOLD_OUT_FAST);
        order->outcome = STOCK_SOLD_OUT;
    }
    if (order->outcome == STOCK_OPEN)
        return false;
    answer_order(request);
    return true;
}

enum start_result handle_order_post(struct service *service, struct request *request,
                                    const struct call *call)
{
    struct stock_order *order = &request->order;
    const char *detail = NULL;
    order->key[0] = '\0';
    order->attempts = order->passes = 0;
    order->rate_passed = false;
    if (!order_body_parse(call->body, call->body_length, order, &detail)) {
        answer_detail(&request->answer, PROBLEM_INVALID_REQUEST, detail);
        return START_ANSWERED;
    }
    if (call->key && !identifier_copy(call->key, strlen(call->key), order->key)) {
        answer_detail(&request->answer, PROBLEM_INVALID_REQUEST,
                      "Idempotency-Key must be 1 to 64 characters out of A-Z a-z 0-9 . _ : -");
        return START_ANSWERED;
    }
    if (!atomic_load_explicit(&service->prepared, memory_order_relaxed)) {
        metrics_count(METRIC_ORDERS_UNAVAILABLE);
        answer_problem(&request->answer, PROBLEM_UNAVAILABLE);
        return START_ANSWERED;
    }
    return refuse_at_once(service, request, call->now_ns) ? START_ANSWERED : START_TO_LANE;
}

static void work_order_get(struct desk *desk, struct request *request)
{
    struct ledger_record record;
    switch (ledger_order_find(stock_ledger(desk->stock), request->order_id, &record)) {
    case LEDGER_OK:
        desk_answer(request, 200, order_json(&record));
        break;
    case LEDGER_NO:
        answer_problem(&request->answer, PROBLEM_UNKNOWN_ORDER);
        break;
    default:
        answer_problem(&request->answer, PROBLEM_UNAVAILABLE);
        break;
    }
}

enum start_result handle_order_get(struct service *service, struct request *request,
                                   const struct call *call)
{
    (void)service;
    if (!snowflake_parse(call->tail, &request->order_id)) {
        answer_problem(&request->answer, PROBLEM_UNKNOWN_ORDER);
        return START_ANSWERED;
    }
    request->work = work_order_get;
    return START_TO_DESK;
}
