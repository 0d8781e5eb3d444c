/* GET /order/{order_id}: one query for all orders that are asked for at the same time.
 *
 * why_no_cache: every look-up asks the ledger, so a client that was told of an order, a payment or
 * a cancellation sees it at once, at every daemon. */
#include "service/calls/order_get.h"

#include <stdlib.h>

#include "service/request/order_answer.h"
#include "service/request/faults.h"
#include "service/request/order_id.h"
#include "sql/orders/orders.h"

static void answer_found(struct call_worker *worker, struct request *request,
                         enum ledger_result found, const struct ledger_record *record)
{
    if (found == LEDGER_OK && record->damaged)
        answer_problem(&request->answer, PROBLEM_LEDGER_DAMAGED);
    else if (found != LEDGER_OK)
        answer_problem(&request->answer, faults_problem(worker->stock));
    else if (record->status[0] == '\0')
        call_answer_no_order(worker->service, request);
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

enum call_start call_order_get(struct service *service, struct request *request,
                               const struct call *call)
{
    (void)service;
    if (!order_id_parse(call->tail, &request->call.order_id)) { /* no order has such an id */
        answer_problem(&request->answer, PROBLEM_UNKNOWN_ORDER);
        return START_ANSWERED;
    }
    return call_send(request, work_get, false);
}
