/* The admin's calls: /admin/stock/reset, /admin/stock/add, /admin/sale/{sku} and
 * /admin/reconcile. */
#include "service/calls/calls.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/identifier.h"
#include "service/calls/call.h"
#include "service/calls/sale_settings.h"
#include "service/log/log.h"
#include "service/metrics/metrics.h"
#include "service/request/faults.h"
#include "service/request/stock_snapshot.h"
#include "stock/sales/sales.h"

/* Reads the body as a JSON object with the member sku, which goes to request->call; the caller
 * releases the object. NULL when the body is none: then the request is answered. */
static json_t *read_sale(struct request *request, const struct call *call)
{
    json_t *object = call_read_object(request, call);
    const json_t *sku = json_object_get(object, "sku");
    if (!object ||
        (json_is_string(sku) &&
         identifier_copy(json_string_value(sku), json_string_length(sku), request->call.sku)))
        return object;
    call_refuse(request, "sku must be a string of 1 to 64 characters out of A-Z a-z 0-9 . _ : -");
    json_decref(object);
    return NULL;
}

/* Answers a call that was not carried out, or that may not have been. */
static void answer_failure(const struct call_worker *worker, struct request *request,
                           enum stock_admin_result result)
{
    struct answer *answer = &request->answer;
    switch (result) {
    case STOCK_ADMIN_NO_SALE:
        answer_problem(answer, PROBLEM_UNKNOWN_SKU);
        break;
    case STOCK_ADMIN_BUSY:
        answer_detail(answer, PROBLEM_UNAVAILABLE,
                      "Other calls keep changing the sale; nothing was done.");
        break;
    case STOCK_ADMIN_COUNTING:
        answer_detail(answer, PROBLEM_UNAVAILABLE,
                      "The sale's orders are still being counted; nothing was done. The next "
                      "call goes on counting.");
        break;
    case STOCK_ADMIN_TOO_MANY:
        answer_detail(answer, PROBLEM_INVALID_REQUEST,
                      "The sale would have more than 10000000 units.");
        break;
    case STOCK_ADMIN_FULL:
        answer_detail(answer, PROBLEM_INVALID_REQUEST, "There are 10000 sales already.");
        break;
    case STOCK_ADMIN_WINDOW:
        answer_detail(answer, PROBLEM_INVALID_REQUEST, "ends_at must be later than starts_at.");
        break;
    case STOCK_ADMIN_ENDED:
        answer_detail(
            answer, PROBLEM_INVALID_REQUEST,
            "The sale's ends_at, which a reset keeps, has passed; name another, or null.");
        break;
    case STOCK_ADMIN_KEY_REUSED:
        answer_detail(answer, PROBLEM_KEY_REUSED,
                      "Another reset of this sale was made with this Idempotency-Key.");
        break;
    case STOCK_ADMIN_KEY_OVER:
        answer_detail(answer, PROBLEM_KEY_REUSED,
                      "This Idempotency-Key belongs to a sale of this sku that was retired.");
        break;
    case STOCK_ADMIN_IN_DOUBT: /* the commit may have happened: never a failure */
        answer_problem(answer, PROBLEM_OUTCOME_UNKNOWN);
        break;
    default: /* certainly not carried out */
        answer_problem(answer, faults_problem(worker->stock));
        break;
    }
}

/* Changes are logged by name, with their values and the caller's address, as operators ask later
 * who changed what, and when. */
static const char *result_name(enum stock_admin_result result)
{
    static const char *const names[] = {
        [STOCK_ADMIN_OK] = "ok",
        [STOCK_ADMIN_NO_SALE] = "unknown_sku",
        [STOCK_ADMIN_BUSY] = "busy",
        [STOCK_ADMIN_FAILED] = "failed",
        [STOCK_ADMIN_FULL] = "full",
        [STOCK_ADMIN_IN_DOUBT] = "outcome_unknown",
        [STOCK_ADMIN_WINDOW] = "window",
        [STOCK_ADMIN_IN_USE] = "in_use",
        [STOCK_ADMIN_ENDED] = "ended",
        [STOCK_ADMIN_KEY_REUSED] = "key_reused",
        [STOCK_ADMIN_KEY_OVER] = "key_over",
        [STOCK_ADMIN_TOO_MANY] = "too_many",
        [STOCK_ADMIN_OTHER_ROUND] = "round_mismatch",
        [STOCK_ADMIN_ROUND_IN_USE] = "round_in_use",
        [STOCK_ADMIN_COUNTING] = "counting",
    };
    bool known = (size_t)result < sizeof names / sizeof *names && names[result];
    return known ? names[result] : "refused";
}

static enum log_level result_level(bool done)
{
    return done ? LOG_INFO : LOG_WARN;
}

/* ---- reset ---- */

/* An operator who is told what would be lost decides; a repeat sent by mistake ends here. */
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

static void note_reset(const struct call_worker *worker, const struct request *request,
                       const char *result, const struct ledger_sale *sale)
{
    const struct request_call *call = &request->call;
    bool done = strcmp(result, result_name(STOCK_ADMIN_OK)) == 0;
    char settings[SALE_SETTINGS_LOG_SIZE];
    sale_settings_log(&call->change, settings);
    log_event(result_level(done), "reset",
              "sku=%s total=%u segments=%u%s end_round=%d result=%s round=%u address=%s%s",
              call->sku, call->total, call->segments, settings, call->end_round, result,
              done ? sale->round : 0, call_address(request), TRACE_LOG(&request->trace));
    call_note_action(worker->service, request, "reset",
                     "total=%u segments=%u%s%s result=%s round=%u", call->total, call->segments,
                     settings, call->end_round ? " end_round=true" : "", result, sale->round);
}

static void reset(struct call_worker *worker, struct request *request)
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
    const char *sku = request->call.sku;
    struct ledger_sale sale = {.round = 0};
    struct ledger_round_use use = {.all_read = false};
    uint64_t ended = 0;
    enum stock_admin_result result =
        stock_reset(worker->stock, &asked, call_lock_wait_ms(worker, request), &sale, &use, &ended);
    metrics_add(METRIC_ORDERS_EXPIRED, ended);
    stock_snapshot_changed(worker->service->stock_snapshots, sku);
    if (result == STOCK_ADMIN_OK)
        answer_json(&request->answer, 200, sale_json(&sale));
    else if (result == STOCK_ADMIN_OTHER_ROUND)
        answer_members(&request->answer, PROBLEM_OTHER_ROUND, NULL, ",\"round\":%u", sale.round);
    else if (result == STOCK_ADMIN_ROUND_IN_USE)
        answer_round_in_use(&request->answer, &sale, &use);
    else
        answer_failure(worker, request, result);
    note_reset(worker, request, result_name(result), &sale);
}

/* Reads the conditions of a reset. NULL, or what is wrong with them. */
static const char *read_conditions(const json_t *object, struct request_call *reset)
{
    const json_t *if_round = json_object_get(object, "if_round");
    const json_t *end_round = json_object_get(object, "end_round");
    json_int_t round = json_integer_value(if_round);
    reset->only_if = if_round != NULL;
    reset->if_round = (uint32_t)round;
    reset->end_round = json_is_true(end_round);
    if (if_round && (!json_is_integer(if_round) || round < 0 || round > UINT32_MAX))
        return "if_round must be a whole number from 0, for no sale, to 4294967295.";
    if (end_round && !json_is_boolean(end_round))
        return "end_round must be true or false.";
    size_t known = 3 + sale_settings_count(&reset->change) + !!if_round + !!end_round;
    return json_object_size(object) > known
               ? "There is a field other than sku, total, segments, starts_at, ends_at, "
                 "per_user_limit, pay_within_s, paused, if_round and end_round."
               : NULL;
}

/* NULL, or what is wrong with the body. */
static const char *read_reset(const json_t *object, struct request_call *reset)
{
    const char *detail = sale_settings_read(object, &reset->change);
    if (!detail)
        detail = read_conditions(object, reset);
    if (detail)
        return detail;
    if (!call_read_number(object, "total", 1, STOCK_TOTAL_MAX, &reset->total))
        return "total must be a whole number from 1 to 10000000.";
    if (!call_read_number(object, "segments", 1, LEDGER_SEGMENTS_MAX, &reset->segments))
        return "segments must be a whole number from 1 to 1024.";
    return reset->segments > reset->total ? "There cannot be more segments than units." : NULL;
}

enum call_start call_sale_reset(struct request *request, const struct call *call)
{
    json_t *object = read_sale(request, call);
    if (!object)
        return START_ANSWERED;
    const char *detail = read_reset(object, &request->call);
    if (!detail)
        detail = call_read_key(call, request->call.key);
    json_decref(object);
    if (detail)
        return call_refuse(request, detail);
    return call_send_one(request, reset, true);
}

/* ---- restock ---- */

static void restock(struct call_worker *worker, struct request *request)
{
    struct ledger_sale sale;
    const char *sku = request->call.sku;
    enum stock_admin_result result =
        stock_restock(worker->stock, sku, request->call.total, request->call.key,
                      call_lock_wait_ms(worker, request), &sale);
    stock_snapshot_changed(worker->service->stock_snapshots, sku);
    log_event(result_level(result == STOCK_ADMIN_OK), "restock",
              "sku=%s units=%u key=%s result=%s address=%s%s", sku, request->call.total,
              request->call.key[0] ? request->call.key : "none", result_name(result),
              call_address(request), TRACE_LOG(&request->trace));
    if (result == STOCK_ADMIN_OK)
        answer_json(&request->answer, 200, sale_json(&sale));
    else if (result == STOCK_ADMIN_KEY_REUSED)
        answer_detail(&request->answer, PROBLEM_KEY_REUSED,
                      "Other units were added to this sale with this Idempotency-Key.");
    else if (result == STOCK_ADMIN_KEY_OVER)
        answer_detail(&request->answer, PROBLEM_KEY_REUSED,
                      "This Idempotency-Key belongs to an earlier round of this sale.");
    else
        answer_failure(worker, request, result);
    call_note_action(worker->service, request, "restock", "units=%u result=%s", request->call.total,
                     result_name(result));
}

enum call_start call_sale_restock(struct request *request, const struct call *call)
{
    json_t *object = read_sale(request, call);
    const char *detail = NULL;
    if (!object)
        return START_ANSWERED;
    if (json_object_size(object) > 2)
        detail = "There is a field other than sku and units.";
    else if (!call_read_number(object, "units", 1, STOCK_TOTAL_MAX, &request->call.total))
        detail = "units must be a whole number from 1 to 10000000.";
    else
        detail = call_read_key(call, request->call.key);
    json_decref(object);
    if (detail)
        return call_refuse(request, detail);
    return call_send_one(request, restock, true);
}

/* ---- change ---- */

static void change(struct call_worker *worker, struct request *request)
{
    struct ledger_sale sale;
    const char *sku = request->call.sku;
    enum stock_admin_result result = stock_change(worker->stock, sku, &request->call.change, &sale);
    stock_snapshot_changed(worker->service->stock_snapshots, sku);
    log_event(result_level(result == STOCK_ADMIN_OK), "change",
              "sku=%s%s result=%s settings=%u address=%s%s", sku,
              sale_settings_log(&request->call.change, (char[SALE_SETTINGS_LOG_SIZE]){0}),
              result_name(result), result == STOCK_ADMIN_OK ? sale.settings.version : 0,
              call_address(request), TRACE_LOG(&request->trace));
    if (result == STOCK_ADMIN_OK)
        answer_json(&request->answer, 200, sale_json(&sale));
    else
        answer_failure(worker, request, result);
    call_note_action(worker->service, request, "change", "%s result=%s",
                     sale_settings_log(&request->call.change, (char[SALE_SETTINGS_LOG_SIZE]){0}) +
                         1,
                     result_name(result));
}

enum call_start call_sale_change(struct request *request, const struct call *call)
{
    if (!call_read_sku(request, call))
        return START_ANSWERED;
    json_t *object = call_read_object(request, call);
    if (!object)
        return START_ANSWERED;
    const char *detail = sale_settings_read(object, &request->call.change);
    size_t count = sale_settings_count(&request->call.change);
    if (!detail && (count == 0 || json_object_size(object) > count))
        detail = "The fields must be some of starts_at, ends_at, per_user_limit, pay_within_s and "
                 "paused.";
    json_decref(object);
    if (detail)
        return call_refuse(request, detail);
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

static void retire(struct call_worker *worker, struct request *request)
{
    struct ledger_sale sale = {.round = 0};
    struct ledger_held held = {.reserved = 0};
    const char *sku = request->call.sku;
    enum stock_admin_result result =
        stock_retire(worker->stock, sku, call_lock_wait_ms(worker, request), &sale, &held);
    stock_snapshot_changed(worker->service->stock_snapshots, sku);
    log_event(result_level(result == STOCK_ADMIN_OK), "retire",
              "sku=%s result=%s round=%u reserved=%llu paid=%llu address=%s%s", sku,
              result_name(result), sale.round, (unsigned long long)held.reserved,
              (unsigned long long)held.paid, call_address(request), TRACE_LOG(&request->trace));
    if (result == STOCK_ADMIN_OK)
        answer_json(&request->answer, 200, sale_json(&sale));
    else if (result == STOCK_ADMIN_IN_USE)
        answer_in_use(&request->answer, &held);
    else
        answer_failure(worker, request, result);
    call_note_action(worker->service, request, "retire", "result=%s", result_name(result));
}

enum call_start call_sale_retire(struct request *request, const struct call *call)
{
    if (!call_read_sku(request, call))
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

/* The report has a row per segment: too large for the stack of a thread. */
static void reconcile(struct call_worker *worker, struct request *request)
{
    struct stock_report *report = malloc(sizeof *report);
    if (!report)
        abort();
    enum stock_admin_result result = stock_reconcile(worker->stock, request->call.sku,
                                                     call_lock_wait_ms(worker, request), report);
    log_event(result_level(result == STOCK_ADMIN_OK), "reconcile",
              "sku=%s result=%s differences=%zu address=%s%s", request->call.sku,
              result_name(result), report->difference_count, call_address(request),
              TRACE_LOG(&request->trace));
    if (result == STOCK_ADMIN_OK)
        answer_json(&request->answer, 200, report_json(request->call.sku, report));
    else
        answer_failure(worker, request, result);
    call_note_action(worker->service, request, "reconcile",
                     "differences=%zu repaired=%zu result=%s",
                     result == STOCK_ADMIN_OK ? report->difference_count : 0,
                     result == STOCK_ADMIN_OK ? (size_t)report->repaired : 0, result_name(result));
    free(report);
}

enum call_start call_sale_reconcile(struct request *request, const struct call *call)
{
    json_t *object = read_sale(request, call);
    if (!object)
        return START_ANSWERED;
    size_t members = json_object_size(object);
    json_decref(object);
    if (members > 1)
        return call_refuse(request, "There is a field other than sku.");
    return call_send_one(request, reconcile, true);
}
