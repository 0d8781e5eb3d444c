/* POST /order/{order_id}/pay and /cancel. */
#include <jansson.h>
#include <string.h>

#include "base/clock.h"
#include "service/desk.h"
#include "service/handlers.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/order_json.h"
#include "service/snowflake.h"
#include "stock/return_order.h"

enum { TURN_MS = 5 }; /* for a cancel whose segments are held, before other calls have a turn */

static const char late_detail[] = "The time to pay this order is over.";

static void answer_state(struct request *request, enum stock_state_result result,
                         const struct ledger_record *record, const char *late)
{
    bool is_late = strcmp(record->status, ledger_status_name(LEDGER_RESERVED)) == 0;
    switch (result) {
    case STOCK_STATE_OK:
        desk_answer(request, 200, order_json(record));
        break;
    case STOCK_STATE_NO_ORDER:
        answer_problem(&request->answer, PROBLEM_UNKNOWN_ORDER);
        break;
    case STOCK_STATE_REFUSED:
        answer_invalid_state(&request->answer, record->status, is_late ? late : NULL);
        break;
    case STOCK_STATE_BUSY:
        answer_detail(&request->answer, PROBLEM_UNAVAILABLE,
                      "The order's segments could not be locked in time; nothing was done.");
        break;
    case STOCK_STATE_IN_DOUBT:
        answer_order_unknown(&request->answer, request->order_id);
        break;
    default:
        answer_problem(&request->answer, PROBLEM_UNAVAILABLE);
        break;
    }
}

static void log_doubt(const struct desk *desk, const char *event, enum stock_state_result result)
{
    if (result == STOCK_STATE_IN_DOUBT || result == STOCK_STATE_FAILED)
        log_event(LOG_WARN, event, "doubt=%d redis=%s ledger=%s", result == STOCK_STATE_IN_DOUBT,
                  LOG_QUOTE(stock_redis_error(desk->stock)),
                  LOG_QUOTE(ledger_error(stock_ledger(desk->stock))));
}

static void work_pay(struct desk *desk, struct request *request)
{
    struct ledger_record record = {.status = ""};
    bool moved = false;
    enum stock_state_result result = stock_pay(desk->stock, request->order_id, &record, &moved);
    metrics_add(METRIC_ORDERS_PAID, moved);
    log_doubt(desk, "pay_failed", result);
    answer_state(request, result, &record, late_detail);
}

/* Two orders of a segment whose holder has died would else keep both desks until its lease ends. */
static void work_cancel(struct desk *desk, struct request *request)
{
    struct ledger_record record = {.status = ""};
    bool moved = false;
    enum stock_state_result result =
        stock_cancel(desk->stock, request->order_id, TURN_MS, &record, &moved);
    int64_t waited_ms = (clock_now_ns() - request->arrived_ns) / 1000000;
    request->again = result == STOCK_STATE_BUSY && waited_ms < desk_lock_wait_ms(desk);
    if (request->again)
        return;
    metrics_add(METRIC_ORDERS_CANCELLED, moved);
    log_doubt(desk, "cancel_failed", result);
    answer_state(request, result, &record, NULL);
}

/* Clients send nothing, or an empty object because they always send one. */
static bool body_is_empty(const struct call *call)
{
    json_t *object = json_loadb(call->body, call->body_length, 0, NULL);
    bool empty =
        call->body_length == 0 || (json_is_object(object) && json_object_size(object) == 0);
    json_decref(object);
    return empty;
}

static enum start_result begin(struct request *request, const struct call *call,
                               void (*work)(struct desk *desk, struct request *request))
{
    char id[SNOWFLAKE_TEXT_SIZE] = "";
    size_t length = strcspn(call->tail, "/");
    if (length < sizeof id)
        memcpy(id, call->tail, length);
    if (!snowflake_parse(id, &request->order_id)) {
        answer_problem(&request->answer, PROBLEM_UNKNOWN_ORDER);
        return START_ANSWERED;
    }
    if (!body_is_empty(call)) {
        answer_detail(&request->answer, PROBLEM_INVALID_REQUEST, "This call takes no body.");
        return START_ANSWERED;
    }
    request->work = work;
    request->changes = true;
    return START_TO_DESK;
}

enum start_result handle_order_pay(struct service *service, struct request *request,
                                   const struct call *call)
{
    (void)service;
    return begin(request, call, work_pay);
}

enum start_result handle_order_cancel(struct service *service, struct request *request,
                                      const struct call *call)
{
    (void)service;
    return begin(request, call, work_cancel);
}
