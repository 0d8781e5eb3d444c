/* Calls for an existing order: GET /order/{order_id}, and POST /pay, /cancel, /refund, /unpay and
 * /extend behind it.
 *
 * why_no_cache: every look-up asks the ledger, so once a client has been told of an order, a
 * payment or a cancellation, look-ups show it at once, at every daemon. */
#include "service/calls/calls.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
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

static void answer_found(struct service_worker *worker, struct request *request,
                         enum ledger_result found, const struct ledger_record *record)
{
    if (found == LEDGER_OK && record->damaged)
        answer_problem(&request->answer, PROBLEM_LEDGER_DAMAGED);
    else if (found != LEDGER_OK)
        answer_problem(&request->answer, faults_problem(worker->stock));
    else if (record->status[0] == '\0')
        answer_no_order(worker->service, request);
    else
        order_answer_record(&request->answer, record, record->version);
}

static void work_get(struct service_worker *worker, struct request **requests, size_t count)
{
    struct ledger *ledger = stock_ledger(worker->stock);
    struct ledger_record *found = memory_must(malloc(count * sizeof *found));
    struct ledger_record *records[CALL_BATCH_MAX];
    for (size_t i = 0; i < count; i++) {
        records[i] = &found[i];
        found[i].order_id = requests[i]->call.order_id;
    }
    uint64_t unconfirmed = call_unconfirmed(worker);
    enum ledger_result result = ledger_orders_find(ledger, records, count);
    for (size_t i = 0; i < count; i++)
        answer_found(worker, requests[i], result, &found[i]);
    call_confirm(worker, unconfirmed, requests, count, 200);
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

/* The differences between the calls that change an order. */
struct state_work {
    void (*change)(struct stock *stock, struct stock_status_change *changes, size_t count,
                   int wait_ms);
    /* Milliseconds that the request may still wait for locks. */
    int (*wait_ms)(const struct service_worker *worker, const struct request *request);
    /* Counts a change that was made, and answers one. */
    void (*count)(const struct stock_status_change *change);
    void (*answer)(struct answer *answer, const struct stock_status_change *change);
    const char *const *refused; /* details by order status; a NULL entry: the problem's own */
    const char *busy;           /* detail when the wait is over */
    struct call_body body;
};

/* A shop that has taken the money must know whether it was too late, or the units were given back
 * before: the detail and the member order_status say so. */
static void answer_refused(struct answer *answer, const struct ledger_record *record,
                           const char *const details[LEDGER_STATUSES])
{
    enum ledger_status status = ledger_status_of(record->status);
    const char *detail = status != LEDGER_STATUSES ? details[status] : NULL;
    /* Its reserved orders may expire a little later. */
    if (record->round_over && status != LEDGER_CANCELLED)
        detail = "The sale is over or in a later round: the order was not paid before that.";
    answer_members(answer, PROBLEM_INVALID_STATE, detail, ",\"order_status\":\"%s\"",
                   record->status);
}

/* A payment is due back, was refunded or has failed; the same answer each time. */
static void answer_payment_refused(struct answer *answer, const struct stock_status_change *change)
{
    static const enum problem problems[LEDGER_PAYMENT_OUTCOMES] = {
        [LEDGER_OUTCOME_NONE] = PROBLEM_INVALID_STATE, [LEDGER_IN_TIME] = PROBLEM_INVALID_STATE,
        [LEDGER_RETAKEN] = PROBLEM_INVALID_STATE,      [LEDGER_TOO_LATE] = PROBLEM_PAYMENT_TOO_LATE,
        [LEDGER_ALREADY_PAID] = PROBLEM_ALREADY_PAID,
    };
    static const char unnamed[] =
        "The order was paid before by a call without a payment_ref. If that told of this money, "
        "keep it, and take it off the list by refund; else pay it back, see payment_state.";
    static const char refunded[] = "The payment was paid back: nothing is owed any more.";
    enum problem problem = problems[change->payment.outcome];
    const char *detail =
        problem == PROBLEM_ALREADY_PAID && change->payment.unnamed ? unnamed : NULL;
    char members[PAYMENT_MEMBERS_MAX];
    order_put_payment(members, &change->payment);
    if (change->payment.state == LEDGER_PAYMENT_FAILED)
        problem = PROBLEM_PAYMENT_FAILED;
    if (change->payment.state == LEDGER_PAYMENT_REFUNDED)
        detail = refunded;
    answer_members(answer, problem, detail, ",\"order_status\":\"%s\"%s", change->record.status,
                   members);
}

static void answer_state(struct service_worker *worker, struct request *request,
                         const struct stock_status_change *change, const struct state_work *work,
                         enum problem unavailable)
{
    struct answer *answer = &request->answer;
    char latest[LEDGER_TIME_SIZE];
    switch (change->result) {
    case STOCK_STATE_OK:
        work->answer(answer, change);
        break;
    case STOCK_STATE_NO_ORDER:
        answer_no_order(worker->service, request);
        break;
    case STOCK_STATE_NO_PAYMENT:
        answer_problem(answer, PROBLEM_UNKNOWN_PAYMENT);
        break;
    case STOCK_STATE_HOLD_LIMIT:
        ledger_time_format(change->extension.latest_ms, latest);
        answer_members(answer, PROBLEM_HOLD_LIMIT, NULL, ",\"latest\":\"%s\"", latest);
        break;
    case STOCK_STATE_KEEP_LIMIT:
        answer_problem(answer, PROBLEM_KEEP_LIMIT);
        break;
    case STOCK_STATE_REFUSED:
        if ((work->change == stock_pay || work->change == stock_pay_late) &&
            change->payment.state != LEDGER_PAYMENT_NONE)
            answer_payment_refused(answer, change);
        else
            answer_refused(answer, &change->record, work->refused);
        break;
    case STOCK_STATE_BUSY:
        answer_detail(answer, PROBLEM_UNAVAILABLE, work->busy);
        break;
    case STOCK_STATE_DAMAGED:
        answer_problem(answer, PROBLEM_LEDGER_DAMAGED);
        break;
    case STOCK_STATE_IN_DOUBT: /* the id lets the client ask for the order's status */
        answer_unknown_outcome(answer, request->call.order_id);
        break;
    default:
        answer_problem(answer, unavailable);
        break;
    }
}

/* ---- batches ---- */

static const struct state_work pay_late;

/* True when the request must be tried again: somebody else has locked its order, and it may still
 * wait; or a late payment needs its order's units. */
static bool wait_on(const struct service_worker *worker, struct request *request,
                    const struct stock_status_change *change, const struct state_work *work)
{
    bool needs_units = change->result == STOCK_STATE_EXPIRED;
    bool waits = change->result == STOCK_STATE_BUSY && work->wait_ms(worker, request) > 0;
    request->call.again = waits || needs_units;
    request->call.late = change->payment.late;
    if (needs_units)
        request->call.state = &pay_late;
    return request->call.again;
}

static void fill_change(struct stock_status_change *change, const struct request_call *asked,
                        int64_t now_ms)
{
    change->record.order_id = asked->order_id;
    change->payment.ref = asked->payment_ref;
    change->payment.late = asked->late;
    change->extension.expires_ms = asked->expires_ms;
    change->keep = asked->keep;
    change->restock = asked->restock;
    change->now_ms = now_ms;
}

/* An order's segments and rows are mostly free again soon, but a dead holder keeps a segment until
 * its lease ends. So a batch tries briefly, answers what it can, and sends the rest to the end of
 * the queue until their waiting time is over. */
static void work_state(struct service_worker *worker, struct request **requests, size_t count)
{
    const struct state_work *work = requests[0]->call.state;
    struct stock_status_change *changes = memory_must(malloc(count * sizeof *changes));
    int64_t now_ms = synced_clock_ms(&worker->service->clock);
    for (size_t i = 0; i < count; i++)
        fill_change(&changes[i], &requests[i]->call, now_ms);
    uint64_t unconfirmed = call_unconfirmed(worker);
    work->change(worker->stock, changes, count, TURN_MS);
    enum problem unavailable = faults_problem(worker->stock);
    for (size_t i = 0; i < count; i++) {
        work->count(&changes[i]);
        if (!wait_on(worker, requests[i], &changes[i], work))
            answer_state(worker, requests[i], &changes[i], work, unavailable);
    }
    call_confirm(worker, unconfirmed, requests, count, 400); /* those above rest on a commit */
    free(changes);
}

/* ---- pay and extend ---- */

#define BUSY_ORDER "Another request is changing the order; nothing was done."
#define BUSY_SEGMENTS "The order's segments could not be locked in time; nothing was done."
#define REF_FIELD                                                                                  \
    "payment_ref", FIELD_TEXT, offsetof(struct request_call, payment_ref),                         \
        "payment_ref must be a string of " USER_ID_FORM "."
#define KEEP_FIELD                                                                                 \
    {                                                                                              \
        "keep", FIELD_NUMBER, offsetof(struct request_call, keep),                                 \
            "keep must be a whole number from 1 to 1000.", .min = 1, .max = STOCK_QTY_MAX          \
    }

/* These need no segment lock, and another change of an order is quick. They give up before their
 * deadline, so that clients learn that nothing was done. */
static int pay_wait_ms(const struct service_worker *worker, const struct request *request)
{
    int64_t passed_ms = (clock_now_ns() - request->arrived_ns) / CLOCK_NS_PER_MS;
    return (int)(worker->service->config.deadline_ms / 2 - passed_ms);
}

static void count_paid(const struct stock_status_change *change)
{
    static const enum metrics_counter told[LEDGER_PAYMENT_OUTCOMES] = {
        [LEDGER_IN_TIME] = METRIC_PAYMENTS_IN_TIME,
        [LEDGER_RETAKEN] = METRIC_PAYMENTS_RETAKEN,
        [LEDGER_TOO_LATE] = METRIC_PAYMENTS_TOO_LATE,
        [LEDGER_ALREADY_PAID] = METRIC_PAYMENTS_ALREADY_PAID,
    };
    metrics_add(METRIC_ORDERS_PAID, change->moved);
    if (change->told && change->payment.outcome != LEDGER_OUTCOME_NONE)
        metrics_count(told[change->payment.outcome]);
}

static void answer_paid(struct answer *answer, const struct stock_status_change *change)
{
    char members[PAYMENT_MEMBERS_MAX], *at = members;
    if (change->payment.state == LEDGER_PAYMENT_NONE) {
        order_answer_record(answer, &change->record, 0);
        return;
    }
    at = order_put_escaped(stpcpy(at, ",\"payment_ref\":\""), change->payment.ref);
    stpcpy(at, change->payment.outcome == LEDGER_RETAKEN ? "\",\"retaken\":true" : "\"");
    order_answer_payment(answer, &change->record, members);
}

static const char *const pay_refused[LEDGER_STATUSES] = {
    [LEDGER_RESERVED] = "The payment came too late: the order's time to pay is over.",
    [LEDGER_CANCELLED] = "The order was cancelled before it was paid; its units went back.",
    [LEDGER_EXPIRED] = "The payment came too late: the order has expired, and its units went back.",
    [LEDGER_REFUNDED] = "The order's payment was paid back.",
};

static const struct state_work pay = {
    .change = stock_pay,
    .wait_ms = pay_wait_ms,
    .count = count_paid,
    .answer = answer_paid,
    .refused = pay_refused,
    .busy = BUSY_ORDER,
    .body = {.fields = {{REF_FIELD, .copy = user_id_copy}},
             .other = "There is a field other than payment_ref."},
};

static const struct state_work pay_late = {
    .change = stock_pay_late,
    .wait_ms = pay_wait_ms,
    .count = count_paid,
    .answer = answer_paid,
    .refused = pay_refused,
    .busy = BUSY_ORDER,
};

static void count_extended(const struct stock_status_change *change)
{
    metrics_add(METRIC_ORDERS_EXTENDED, change->moved);
}

static void answer_order(struct answer *answer, const struct stock_status_change *change)
{
    order_answer_record(answer, &change->record, 0);
}

static const struct state_work extend = {
    .change = stock_extend,
    .wait_ms = pay_wait_ms,
    .count = count_extended,
    .answer = answer_order,
    .refused =
        (const char *const[LEDGER_STATUSES]){
            [LEDGER_RESERVED] = "The order's time to pay is over; it cannot be extended.",
            [LEDGER_EXPIRED] = "The order has expired already; its units went back.",
        },
    .busy = BUSY_ORDER,
    .body = {.fields = {{"expires_at", FIELD_TIME, offsetof(struct request_call, expires_ms),
                         "expires_at must be an RFC 3339 time with Z or an offset, like "
                         "2026-11-20T21:30:00Z.",
                         .must = true}},
             .other = "There is a field other than expires_at."},
};

/* ---- cancel, refund and unpay ---- */

static void count_cancelled(const struct stock_status_change *change)
{
    metrics_add(change->keep > 0 ? METRIC_ORDERS_CUT : METRIC_ORDERS_CANCELLED, change->moved);
}

static const struct state_work cancel = {
    .change = stock_cancel,
    .wait_ms = call_lock_wait_ms,
    .count = count_cancelled,
    .answer = answer_order,
    .refused =
        (const char *const[LEDGER_STATUSES]){
            [LEDGER_PAID] = "The order is paid already; a paid order cannot be cancelled.",
            [LEDGER_EXPIRED] = "The order has expired already; no unit is left to keep.",
            [LEDGER_REFUNDED] = "The order was refunded already.",
        },
    .busy = BUSY_SEGMENTS,
    .body = {.fields = {KEEP_FIELD}, .other = "There is a field other than keep."},
};

static void count_ended(const struct stock_status_change *change)
{
    bool failed = change->payment.state == LEDGER_PAYMENT_FAILED;
    bool ended = strcmp(change->record.status, ledger_status_name(LEDGER_REFUNDED)) == 0;
    metrics_add(METRIC_ORDERS_CUT, change->moved && change->keep > 0);
    metrics_add(METRIC_ORDERS_REFUNDED, change->moved && change->keep == 0 && ended);
    metrics_add(failed ? METRIC_PAYMENTS_FAILED : METRIC_PAYMENTS_REFUNDED, change->told);
}

static void answer_ended(struct answer *answer, const struct stock_status_change *change)
{
    char members[PAYMENT_MEMBERS_MAX];
    order_put_payment(members, &change->payment);
    order_answer_payment(answer, &change->record, members);
}

static const struct state_work refund = {
    .change = stock_refund,
    .wait_ms = call_lock_wait_ms,
    .count = count_ended,
    .answer = answer_ended,
    .refused =
        (const char *const[LEDGER_STATUSES]){[0 ... LEDGER_STATUSES - 1] =
                                                 "keep is for the payment that pays the order; one "
                                                 "that has failed cannot be refunded."},
    .busy = BUSY_SEGMENTS,
    .body = {.fields = {{REF_FIELD, .must = true, .copy = user_id_copy},
                        {"restock", FIELD_SWITCH, offsetof(struct request_call, restock),
                         .detail = "restock must be true or false."},
                        KEEP_FIELD},
             .other = "There is a field other than payment_ref, restock and keep."},
};

static const struct state_work unpay = {
    .change = stock_unpay,
    .wait_ms = call_lock_wait_ms,
    .count = count_ended,
    .answer = answer_ended,
    .refused =
        (const char *const[LEDGER_STATUSES]){[0 ... LEDGER_STATUSES - 1] =
                                                 "The payment does not pay the order any more, or "
                                                 "the order's round is over: see refund."},
    .busy = BUSY_ORDER,
    .body = {.fields = {{REF_FIELD, .must = true, .copy = user_id_copy}},
             .other = "There is a field other than payment_ref."},
};

/* ---- the handlers ---- */

/* Some clients always send a body, so an empty object is allowed where no field is needed. */
static enum call_start start(struct request *request, const struct call *call,
                             const struct state_work *state)
{
    struct request_call *asked = &request->call;
    char id[ORDER_ID_TEXT_SIZE] = ""; /* stays empty, so invalid, when the path has more */
    size_t length = strcspn(call->tail, "/");
    if (length < sizeof id)
        memcpy(id, call->tail, length);
    if (!order_id_parse(id, &asked->order_id)) {
        answer_problem(&request->answer, PROBLEM_UNKNOWN_ORDER);
        return START_ANSWERED;
    }
    asked->state = state;
    asked->payment_ref[0] = '\0';
    asked->keep = 0;
    asked->restock = false;
    asked->late = LEDGER_LATE_ASKED;
    if ((call->body_length > 0 || state->body.fields[0].must) &&
        !call_read_body(request, call, &state->body, asked))
        return START_ANSWERED;
    return call_send(request, work_state, true);
}

enum call_start call_state_pay(struct request *request, const struct call *call)
{
    return start(request, call, &pay);
}

enum call_start call_state_cancel(struct request *request, const struct call *call)
{
    return start(request, call, &cancel);
}

enum call_start call_state_refund(struct request *request, const struct call *call)
{
    return start(request, call, &refund);
}

enum call_start call_state_unpay(struct request *request, const struct call *call)
{
    return start(request, call, &unpay);
}

enum call_start call_state_extend(struct request *request, const struct call *call)
{
    return start(request, call, &extend);
}
