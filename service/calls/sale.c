/* The operator's calls on sales: /admin/stock/reset, /admin/stock/add, /admin/sale/{sku} and
 * /admin/reconcile. */
#include "service/calls/calls.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/identifier.h"
#include "base/memory.h"
#include "service/log/log.h"
#include "service/metrics/metrics.h"
#include "service/request/faults.h"
#include "service/request/stock_snapshot.h"
#include "stock/sales/sales.h"

#define SKU_FIELD                                                                                  \
    {                                                                                              \
        "sku", FIELD_TEXT, offsetof(struct request_call, sku),                                     \
            "sku must be a string of " SKU_FORM, .must = true, .copy = identifier_copy             \
    }

#define SETTINGS                                                                                   \
    "starts_at, ends_at, per_user_limit, pay_within_s, paused, late_payment, hold_max_s, grace_s"

/* The log word and answer of each result. Without a problem the result is a server's failure: the
 * call was certainly not carried out. */
static const struct result {
    const char *name;
    enum problem problem;
    const char *detail; /* NULL: the problem's own */
} results[] = {
    [STOCK_ADMIN_OK] = {"ok", PROBLEM_NONE, NULL},
    [STOCK_ADMIN_NO_SALE] = {"unknown_sku", PROBLEM_UNKNOWN_SKU, NULL},
    [STOCK_ADMIN_BUSY] = {"busy", PROBLEM_UNAVAILABLE,
                          "Other calls keep changing the sale; nothing was done."},
    [STOCK_ADMIN_FAILED] = {"failed", PROBLEM_NONE, NULL},
    [STOCK_ADMIN_IN_DOUBT] = {"outcome_unknown", PROBLEM_OUTCOME_UNKNOWN, NULL},
    [STOCK_ADMIN_FULL] = {"full", PROBLEM_INVALID_REQUEST, "There are 10000 sales already."},
    [STOCK_ADMIN_IN_USE] = {"in_use", PROBLEM_SALE_IN_USE, NULL},
    [STOCK_ADMIN_WINDOW] = {"window", PROBLEM_INVALID_REQUEST,
                            "ends_at must be later than starts_at."},
    [STOCK_ADMIN_ENDED] = {"ended", PROBLEM_INVALID_REQUEST,
                           "The sale's ends_at, which a reset keeps, has passed; name another, or "
                           "null."},
    [STOCK_ADMIN_KEY_REUSED] = {"key_reused", PROBLEM_KEY_REUSED,
                                "Another change of this sale was made with this Idempotency-Key."},
    [STOCK_ADMIN_KEY_OVER] =
        {"key_over", PROBLEM_KEY_REUSED,
         "This Idempotency-Key belongs to an earlier round of this sale, or to "
         "a sale of this sku that was retired."},
    [STOCK_ADMIN_TOO_MANY] = {"too_many", PROBLEM_INVALID_REQUEST,
                              "The sale would have more than 10000000 units."},
    [STOCK_ADMIN_OTHER_ROUND] = {"round_mismatch", PROBLEM_OTHER_ROUND, NULL},
    [STOCK_ADMIN_ROUND_IN_USE] = {"round_in_use", PROBLEM_ROUND_IN_USE, NULL},
    [STOCK_ADMIN_REFUNDS_DUE] = {"refunds_due", PROBLEM_REFUNDS_DUE, NULL},
    [STOCK_ADMIN_COUNTING] = {"counting", PROBLEM_UNAVAILABLE,
                              "The sale's orders are still being counted; nothing was done. The "
                              "next call goes on counting."},
};

static const struct result *result_of(enum stock_admin_result result)
{
    assert(result < sizeof results / sizeof *results);
    return &results[result];
}

/* Answers a call on a sale; `done` is the sale's state after it. */
static void answer_result(const struct service_worker *worker, struct request *request,
                          enum stock_admin_result result, json_t *done)
{
    const struct result *row = result_of(result);
    if (result == STOCK_ADMIN_OK)
        answer_json(&request->answer, 200, json_incref(done));
    else if (row->detail)
        answer_detail(&request->answer, row->problem, row->detail);
    else
        answer_problem(&request->answer,
                       row->problem != PROBLEM_NONE ? row->problem : faults_problem(worker->stock));
    json_decref(done);
}

static enum log_level result_level(enum stock_admin_result result)
{
    return result == STOCK_ADMIN_OK ? LOG_INFO : LOG_WARN;
}

/* Reads the optional Idempotency-Key and hands the call to its worker. */
static enum call_start send_with_key(struct request *request, const struct call *call,
                                     call_work_one *work)
{
    const char *detail = call_read_key(call, request->call.key);
    return detail ? call_refuse(request, detail) : call_send_one(request, work, true);
}

/* ---- reset ---- */

/* Refuses with the orders that would be lost, so that the operator decides, and a repeat sent by
 * mistake ends here. */
static void answer_round_in_use(struct answer *answer, const struct ledger_sale *sale,
                                const struct ledger_round_use *use)
{
    char detail[200];
    const char *least = use->all_read ? "" : "at least ";
    snprintf(detail, sizeof detail,
             "Orders of round %u hold %u units: %s%u are reserved, %s%u are paid. "
             "\"end_round\": true ends the reserved ones; paid ones stay paid.",
             sale->round, sale->sold, least, use->reserved, least, use->paid);
    answer_members(answer, PROBLEM_ROUND_IN_USE, detail,
                   ",\"round\":%u,\"units\":%u,\"reserved\":%u,\"paid\":%u,\"counted\":%s",
                   sale->round, sale->sold, use->reserved, use->paid,
                   use->all_read ? "true" : "false");
}

static void reset(struct service_worker *worker, struct request *request)
{
    const struct request_call *call = &request->call;
    const struct stock_reset asked = {
        .sku = call->sku,
        .total = call->total,
        .segments = call->segments,
        .change = call->change,
        .key = call->key,
        .only_if = call->only_if,
        .if_round = call->if_round,
        .end_round = call->end_round,
        .now_ms = synced_clock_ms(&worker->service->clock),
    };
    struct ledger_sale sale = {.round = 0};
    struct ledger_round_use use = {.all_read = false};
    uint64_t ended = 0;
    enum stock_admin_result result =
        stock_reset(worker->stock, &asked, call_lock_wait_ms(worker, request), &sale, &use, &ended);
    metrics_add(METRIC_ORDERS_EXPIRED, ended);
    stock_snapshot_changed(worker->service->stock_snapshots, call->sku);
    if (result == STOCK_ADMIN_OTHER_ROUND)
        answer_members(&request->answer, PROBLEM_OTHER_ROUND, NULL, ",\"round\":%u", sale.round);
    else if (result == STOCK_ADMIN_ROUND_IN_USE)
        answer_round_in_use(&request->answer, &sale, &use);
    else
        answer_result(worker, request, result, sale_json(&sale));
    call_end_action(result_level(result), "reset", worker->service, request, call->sku,
                    "total=%u segments=%u%s end_round=%d result=%s round=%u", call->total,
                    call->segments,
                    sale_settings_log(&call->change, (char[SALE_SETTINGS_LOG_SIZE]){0}),
                    call->end_round, result_of(result)->name, sale.round);
}

enum call_start call_sale_reset(struct request *request, const struct call *call)
{
    static const struct call_body body = {
        .fields =
            {
                {"if_round", FIELD_NUMBER, offsetof(struct request_call, if_round),
                 "if_round must be a whole number from 0, for no sale, to 4294967295.",
                 .max = UINT32_MAX},
                {"end_round", FIELD_SWITCH, offsetof(struct request_call, end_round),
                 .detail = "end_round must be true or false."},
                SKU_FIELD,
                {"total", FIELD_NUMBER, offsetof(struct request_call, total),
                 "total must be a whole number from 1 to 10000000.", .must = true, .min = 1,
                 .max = STOCK_TOTAL_MAX},
                {"segments", FIELD_NUMBER, offsetof(struct request_call, segments),
                 "segments must be a whole number from 1 to 1024.", .must = true, .min = 1,
                 .max = LEDGER_SEGMENTS_MAX},
            },
        .settings = true,
        .other = "There is a field other than sku, total, segments, " SETTINGS
                 ", if_round and end_round.",
    };
    struct request_call *asked = &request->call;
    asked->if_round = 0;
    asked->end_round = false;
    if (!call_read_body(request, call, &body, asked))
        return START_ANSWERED;
    asked->only_if = (asked->found & 1U) != 0; /* the first field, if_round */
    if (asked->segments > asked->total)
        return call_refuse(request, "There cannot be more segments than units.");
    return send_with_key(request, call, reset);
}

/* ---- restock ---- */

static void restock(struct service_worker *worker, struct request *request)
{
    struct ledger_sale sale = {.round = 0};
    const struct request_call *call = &request->call;
    enum stock_admin_result result = stock_restock(worker->stock, call->sku, call->total, call->key,
                                                   call_lock_wait_ms(worker, request), &sale);
    stock_snapshot_changed(worker->service->stock_snapshots, call->sku);
    answer_result(worker, request, result, sale_json(&sale));
    call_end_action(result_level(result), "restock", worker->service, request, call->sku,
                    "units=%u key=%s result=%s", call->total, call->key[0] ? call->key : "none",
                    result_of(result)->name);
}

enum call_start call_sale_restock(struct request *request, const struct call *call)
{
    static const struct call_body body = {
        .fields =
            {
                SKU_FIELD,
                {"units", FIELD_NUMBER, offsetof(struct request_call, total),
                 "units must be a whole number from 1 to 10000000.", .must = true, .min = 1,
                 .max = STOCK_TOTAL_MAX},
            },
        .other = "There is a field other than sku and units.",
    };
    return call_read_body(request, call, &body, &request->call)
               ? send_with_key(request, call, restock)
               : START_ANSWERED;
}

/* ---- change ---- */

static void change(struct service_worker *worker, struct request *request)
{
    struct ledger_sale sale = {.round = 0};
    const struct request_call *call = &request->call;
    enum stock_admin_result result = stock_change(worker->stock, call->sku, &call->change, &sale);
    stock_snapshot_changed(worker->service->stock_snapshots, call->sku);
    answer_result(worker, request, result, sale_json(&sale));
    call_end_action(result_level(result), "change", worker->service, request, call->sku,
                    "%s result=%s settings=%u",
                    sale_settings_log(&call->change, (char[SALE_SETTINGS_LOG_SIZE]){0}) + 1,
                    result_of(result)->name, result == STOCK_ADMIN_OK ? sale.settings.version : 0);
}

enum call_start call_sale_change(struct request *request, const struct call *call)
{
    static const struct call_body body = {
        .settings = true,
        .other = "The fields must be some of " SETTINGS ".",
    };
    if (!call_read_sku(request, call) || !call_read_body(request, call, &body, &request->call))
        return START_ANSWERED;
    if (request->call.change.fields == 0)
        return call_refuse(request, body.other);
    return call_send_one(request, change, true);
}

/* ---- retire ---- */

static void answer_in_use(struct answer *answer, const struct ledger_held *held)
{
    answer_members(answer, PROBLEM_SALE_IN_USE,
                   "Orders of the sale are reserved: let them be paid, cancelled or expire first.",
                   ",\"reserved\":%llu,\"paid\":%llu,\"counted\":%s",
                   (unsigned long long)held->reserved, (unsigned long long)held->paid,
                   held->done ? "true" : "false");
}

static void retire(struct service_worker *worker, struct request *request)
{
    struct ledger_sale sale = {.round = 0};
    struct ledger_held held = {.reserved = 0};
    const char *sku = request->call.sku;
    enum stock_admin_result result =
        stock_retire(worker->stock, sku, request->call.refunds_elsewhere,
                     call_lock_wait_ms(worker, request), &sale, &held);
    stock_snapshot_changed(worker->service->stock_snapshots, sku);
    if (result == STOCK_ADMIN_IN_USE)
        answer_in_use(&request->answer, &held);
    else if (result == STOCK_ADMIN_REFUNDS_DUE)
        answer_members(&request->answer, PROBLEM_REFUNDS_DUE, NULL, ",\"refunds_due\":%u",
                       held.refunds_due);
    else
        answer_result(worker, request, result, sale_json(&sale));
    call_end_action(result_level(result), "retire", worker->service, request, sku,
                    "result=%s round=%u reserved=%llu paid=%llu refunds_due=%u",
                    result_of(result)->name, sale.round, (unsigned long long)held.reserved,
                    (unsigned long long)held.paid, held.refunds_due);
}

enum call_start call_sale_retire(struct request *request, const struct call *call)
{
    static const struct call_body body = {
        .fields = {{"refunds_elsewhere", FIELD_SWITCH,
                    offsetof(struct request_call, refunds_elsewhere),
                    .detail = "refunds_elsewhere must be true or false."}},
        .other = "There is a field other than refunds_elsewhere.",
    };
    request->call.refunds_elsewhere = false;
    if (!call_read_sku(request, call) ||
        (call->body_length > 0 && !call_read_body(request, call, &body, &request->call)))
        return START_ANSWERED;
    return call_send_one(request, retire, true);
}

/* ---- reconcile ---- */

static json_t *difference_json(const struct stock_difference *difference)
{
    json_t *redis = difference->redis_available < 0
                        ? json_null()
                        : json_integer((json_int_t)difference->redis_available);
    return json_pack("{s:i, s:s, s:o, s:I}", "segment", (int)difference->segment, "reason",
                     difference->reason, "redis_available", redis, "ledger_available",
                     (json_int_t)difference->ledger_available);
}

static json_t *report_json(const char *sku, const struct stock_report *report)
{
    json_t *differences = json_array();
    for (size_t i = 0; i < report->difference_count; i++)
        json_array_append_new(differences, difference_json(&report->differences[i]));
    return json_pack("{s:s, s:i, s:i, s:o, s:i, s:b}", "sku", sku, "round", (int)report->round,
                     "segments", (int)report->segments, "differences", differences, "repaired",
                     (int)report->repaired, "consistent", report->consistent);
}

/* Allocates the report: with a row per segment it is too large for a thread's stack. */
static void reconcile(struct service_worker *worker, struct request *request)
{
    struct stock_report *report = memory_must(malloc(sizeof *report));
    const char *sku = request->call.sku;
    enum stock_admin_result result =
        stock_reconcile(worker->stock, sku, call_lock_wait_ms(worker, request), report);
    bool done = result == STOCK_ADMIN_OK;
    answer_result(worker, request, result, done ? report_json(sku, report) : NULL);
    call_end_action(result_level(result), "reconcile", worker->service, request, sku,
                    "result=%s differences=%zu repaired=%zu consistent=%s", result_of(result)->name,
                    done ? report->difference_count : 0, done ? report->repaired : 0,
                    done && report->consistent ? "yes" : "no");
    free(report);
}

enum call_start call_sale_reconcile(struct request *request, const struct call *call)
{
    static const struct call_body body = {
        .fields = {SKU_FIELD},
        .other = "There is a field other than sku.",
    };
    return call_read_body(request, call, &body, &request->call)
               ? call_send_one(request, reconcile, true)
               : START_ANSWERED;
}
