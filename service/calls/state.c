/* POST /order/{order_id}/pay and /cancel. */
#include "service/calls/state.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "service/calls/order_answer.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/order_id.h"
#include "stock/return_order.h"

enum { TURN_MS = 5 }; /* how long one try of a cancel waits for held segments, see work_cancel */

static const char late_detail[] = "The time to pay this order is over.";

/* `late`: what a reserved order is refused for, NULL for nothing of its own. */
static void answer_refused(struct answer *answer, const char *status, const char *late)
{
    char extra[64];
    bool reserved = strcmp(status, ledger_status_name(LEDGER_RESERVED)) == 0;
    snprintf(extra, sizeof extra, ",\"order_status\":\"%s\"", status);
    answer_members(answer, PROBLEM_INVALID_STATE, reserved ? late : NULL, extra);
}

static void answer_state(struct request *request, enum stock_state_result result,
                         const struct ledger_record *record, const char *late)
{
    switch (result) {
    case STOCK_STATE_OK:
        order_answer_record(&request->answer, record);
        break;
    case STOCK_STATE_NO_ORDER:
        answer_problem(&request->answer, PROBLEM_UNKNOWN_ORDER);
        break;
    case STOCK_STATE_REFUSED:
        answer_refused(&request->answer, record->status, late);
        break;
    case STOCK_STATE_BUSY:
        answer_detail(&request->answer, PROBLEM_UNAVAILABLE,
                      "The order's segments could not be locked in time; nothing was done.");
        break;
    case STOCK_STATE_IN_DOUBT: /* the id lets the client ask for the order's status */
        answer_unknown_outcome(&request->answer, request->call.order_id);
        break;
    default:
        answer_problem(&request->answer, PROBLEM_UNAVAILABLE);
        break;
    }
}

/* A refusal is the client's affair; a failure is the operator's. */
static void log_doubt(const struct call_worker *worker, const char *event,
                      enum stock_state_result result)
{
    if (result == STOCK_STATE_IN_DOUBT || result == STOCK_STATE_FAILED)
        log_event(LOG_WARN, event, "doubt=%d redis=%s ledger=%s", result == STOCK_STATE_IN_DOUBT,
                  LOG_QUOTE(stock_redis_error(worker->stock)),
                  LOG_QUOTE(ledger_error(stock_ledger(worker->stock))));
}

static void pay(struct call_worker *worker, struct request *request)
{
    struct ledger_record record = {.status = ""};
    bool moved = false;
    enum stock_state_result result =
        stock_pay(worker->stock, request->call.order_id, &record, &moved);
    metrics_add(METRIC_ORDERS_PAID, moved);
    log_doubt(worker, "pay_failed", result);
    answer_state(request, result, &record, late_detail);
}

static void work_pay(struct call_worker *worker, struct request **requests, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pay(worker, requests[i]);
}

/* A segment whose holder has died stays held until its lease ends. A cancel does not wait so long
 * in one go: other cancels would wait behind it. So it tries for a moment and goes to the end of
 * the queue, until it has waited long enough. */
static void cancel(struct call_worker *worker, struct request *request)
{
    struct ledger_record record = {.status = ""};
    bool moved = false;
    enum stock_state_result result =
        stock_cancel(worker->stock, request->call.order_id, TURN_MS, &record, &moved);
    int64_t waited_ms = (clock_now_ns() - request->arrived_ns) / 1000000;
    request->call.again = result == STOCK_STATE_BUSY && waited_ms < call_lock_wait_ms(worker);
    if (request->call.again)
        return;
    metrics_add(METRIC_ORDERS_CANCELLED, moved);
    log_doubt(worker, "cancel_failed", result);
    answer_state(request, result, &record, NULL);
}

static void work_cancel(struct call_worker *worker, struct request **requests, size_t count)
{
    for (size_t i = 0; i < count; i++)
        cancel(worker, requests[i]);
}

/* Some clients always send a body: an empty object is none. */
static bool body_is_empty(const struct call *call)
{
    json_t *object = json_loadb(call->body, call->body_length, 0, NULL);
    bool empty =
        call->body_length == 0 || (json_is_object(object) && json_object_size(object) == 0);
    json_decref(object);
    return empty;
}

static enum call_start start(struct request *request, const struct call *call, call_work *work)
{
    char id[ORDER_ID_TEXT_SIZE] = ""; /* stays empty, and is no id, when the path has more */
    size_t length = strcspn(call->tail, "/");
    if (length < sizeof id)
        memcpy(id, call->tail, length);
    if (!order_id_parse(id, &request->call.order_id)) {
        answer_problem(&request->answer, PROBLEM_UNKNOWN_ORDER);
        return START_ANSWERED;
    }
    if (!body_is_empty(call))
        return call_refuse(request, "This call takes no body.");
    return call_send(request, work, true);
}

enum call_start call_state_pay(struct service *service, struct request *request,
                               const struct call *call)
{
    (void)service;
    return start(request, call, work_pay);
}

enum call_start call_state_cancel(struct service *service, struct request *request,
                                  const struct call *call)
{
    (void)service;
    return start(request, call, work_cancel);
}
