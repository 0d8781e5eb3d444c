/* Calls for an existing order: GET /order/{order_id}, and POST /pay and /cancel behind it.
 *
 * why_no_cache: every look-up asks the ledger, so once a client has been told of an order, a
 * payment or a cancellation, look-ups show it at once, at every daemon. */
#include "service/calls/calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "service/metrics/metrics.h"
#include "service/request/faults.h"
#include "service/request/order_answer.h"
#include "service/request/order_id.h"
#include "sql/orders/orders.h"
#include "stock/returns/returns.h"

/* An order whose id names another pod may exist there: the answer says so, as the call was probably
 * sent to the wrong daemons. */
static void answer_no_order(const struct service *service, struct request *request)
{
    char detail[128];
    unsigned pod = order_id_pod(request->call.order_id);
    snprintf(detail, sizeof detail,
             "Pod %u, which was asked, has no such order; its id names pod %u.",
             service->config.pod, pod);
    answer_detail(&request->answer, PROBLEM_UNKNOWN_ORDER,
                  pod == service->config.pod ? NULL : detail);
}

static void answer_found(struct call_worker *worker, struct request *request,
                         enum ledger_result found, const struct ledger_record *record)
{
    if (found == LEDGER_OK && record->damaged)
        answer_problem(&request->answer, PROBLEM_LEDGER_DAMAGED);
    else if (found != LEDGER_OK)
        answer_problem(&request->answer, faults_problem(worker->stock));
    else if (record->status[0] == '\0')
        answer_no_order(worker->service, request);
    else
        order_answer_record(&request->answer, record);
}

static void work_get(struct call_worker *worker, struct request **requests, size_t count)
{
    struct ledger *ledger = stock_ledger(worker->stock);
    struct ledger_record *found = malloc(count * sizeof *found), *records[CALL_BATCH_MAX];
    if (!found)
        abort();
    for (size_t i = 0; i < count; i++) {
        records[i] = &found[i];
        found[i].order_id = requests[i]->call.order_id;
    }
    enum ledger_result result = ledger_orders_find(ledger, records, count);
    for (size_t i = 0; i < count; i++)
        answer_found(worker, requests[i], result, &found[i]);
    free(found);
}

enum call_start call_order_get(struct request *request, const struct call *call)
{
    if (!order_id_parse(call->tail, &request->call.order_id)) { /* not an order's id */
        answer_problem(&request->answer, PROBLEM_UNKNOWN_ORDER);
        return START_ANSWERED;
    }
    return call_send(request, work_get, false);
}

enum { TURN_MS = 5 }; /* one try waits so long for locked orders, see work_state */

/* The differences between payment and cancellation. */
struct state_work {
    void (*change)(struct stock *stock, struct stock_status_change *changes, size_t count,
                   int wait_ms);
    /* Milliseconds that the request may still wait for locks. */
    int (*wait_ms)(const struct call_worker *worker, const struct request *request);
    enum metrics_counter moved;
    const char *refused[LEDGER_STATUSES]; /* details by order status; NULL: never refuses */
    const char *busy;                     /* detail when the wait is over */
};

/* A shop that has taken the money must know whether it was too late, or the units were given back
 * before: the detail and the member order_status say so. */
static void answer_refused(struct answer *answer, const struct ledger_record *record,
                           const char *const details[LEDGER_STATUSES])
{
    const char *detail = NULL, *status = record->status;
    for (int i = 0; i < LEDGER_STATUSES; i++)
        if (strcmp(status, ledger_status_name(i)) == 0)
            detail = details[i];
    /* Its reserved orders may expire a little later. */
    if (record->round_over && strcmp(status, ledger_status_name(LEDGER_CANCELLED)) != 0)
        detail = "The sale is in a later round: the order was not paid before its round ended.";
    answer_members(answer, PROBLEM_INVALID_STATE, detail, ",\"order_status\":\"%s\"", status);
}

static void answer_state(struct call_worker *worker, struct request *request,
                         const struct stock_status_change *change, const struct state_work *work,
                         enum problem unavailable)
{
    switch (change->result) {
    case STOCK_STATE_OK:
        order_answer_record(&request->answer, &change->record);
        break;
    case STOCK_STATE_NO_ORDER:
        answer_no_order(worker->service, request);
        break;
    case STOCK_STATE_REFUSED:
        answer_refused(&request->answer, &change->record, work->refused);
        break;
    case STOCK_STATE_BUSY:
        answer_detail(&request->answer, PROBLEM_UNAVAILABLE, work->busy);
        break;
    case STOCK_STATE_DAMAGED:
        answer_problem(&request->answer, PROBLEM_LEDGER_DAMAGED);
        break;
    case STOCK_STATE_IN_DOUBT: /* the id lets the client ask for the order's status */
        answer_unknown_outcome(&request->answer, request->call.order_id);
        break;
    default:
        answer_problem(&request->answer, unavailable);
        break;
    }
}

/* ---- batches ---- */

/* True when the request must be tried again: somebody else has locked its order, and it may still
 * wait. */
static bool wait_on(const struct call_worker *worker, struct request *request,
                    const struct stock_status_change *change, const struct state_work *work)
{
    request->call.again = change->result == STOCK_STATE_BUSY && work->wait_ms(worker, request) > 0;
    return request->call.again;
}

/* An order's segments and rows are mostly free again soon, but a dead holder keeps a segment until
 * its lease ends. So a batch tries briefly, answers what it can, and sends the rest to the end of
 * the queue until their waiting time is over. */
static void work_state(struct call_worker *worker, struct request **requests, size_t count,
                       const struct state_work *work)
{
    struct stock_status_change *changes = malloc(count * sizeof *changes);
    uint64_t moved = 0;
    if (!changes)
        abort();
    for (size_t i = 0; i < count; i++)
        changes[i].record.order_id = requests[i]->call.order_id;
    work->change(worker->stock, changes, count, TURN_MS);
    enum problem unavailable = faults_problem(worker->stock);
    for (size_t i = 0; i < count; i++) {
        moved += changes[i].moved;
        if (!wait_on(worker, requests[i], &changes[i], work))
            answer_state(worker, requests[i], &changes[i], work, unavailable);
    }
    metrics_add(work->moved, moved);
    free(changes);
}

/* A payment needs no segment lock, and another change of its order is quick. It gives up before its
 * deadline, so that its client learns that nothing was done. */
static int pay_wait_ms(const struct call_worker *worker, const struct request *request)
{
    int64_t passed_ms = (clock_now_ns() - request->arrived_ns) / CLOCK_NS_PER_MS;
    return (int)(worker->service->config.deadline_ms / 2 - passed_ms);
}

static void work_pay(struct call_worker *worker, struct request **requests, size_t count)
{
    static const struct state_work pay = {
        .change = stock_pay,
        .wait_ms = pay_wait_ms,
        .moved = METRIC_ORDERS_PAID,
        .refused =
            {
                [LEDGER_RESERVED] = "The payment came too late: the order's time to pay is over.",
                [LEDGER_CANCELLED] =
                    "The order was cancelled before it was paid; its units went back.",
                [LEDGER_EXPIRED] =
                    "The payment came too late: the order has expired, and its units went back.",
            },
        .busy = "Another request is changing the order; nothing was done.",
    };
    work_state(worker, requests, count, &pay);
}

static void work_cancel(struct call_worker *worker, struct request **requests, size_t count)
{
    static const struct state_work cancel = {
        .change = stock_cancel,
        .wait_ms = call_lock_wait_ms,
        .moved = METRIC_ORDERS_CANCELLED,
        .refused =
            {
                [LEDGER_PAID] = "The order is paid already; a paid order cannot be cancelled.",
                [LEDGER_EXPIRED] = "The order has expired already; its units went back.",
            },
        .busy = "The order's segments could not be locked in time; nothing was done.",
    };
    work_state(worker, requests, count, &cancel);
}

/* ---- the handlers ---- */

static enum call_start start(struct request *request, const struct call *call, call_work *work)
{
    /* Some clients always send a body, so an empty object is allowed. */
    static const struct call_body none = {.other = "This call takes no body."};
    char id[ORDER_ID_TEXT_SIZE] = ""; /* stays empty, so invalid, when the path has more */
    size_t length = strcspn(call->tail, "/");
    if (length < sizeof id)
        memcpy(id, call->tail, length);
    if (!order_id_parse(id, &request->call.order_id)) {
        answer_problem(&request->answer, PROBLEM_UNKNOWN_ORDER);
        return START_ANSWERED;
    }
    if (call->body_length > 0 && !call_read_body(request, call, &none, NULL))
        return START_ANSWERED;
    return call_send(request, work, true);
}

enum call_start call_state_pay(struct request *request, const struct call *call)
{
    return start(request, call, work_pay);
}

enum call_start call_state_cancel(struct request *request, const struct call *call)
{
    return start(request, call, work_cancel);
}
