/* Shared helpers of the calls: they read parts of a call, and refuse it. */
#include "service/calls/calls.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/identifier.h"
#include "service/live/admin_actions.h"
#include "service/request/order_id.h"
#include "sql/orders/orders.h"

enum call_start call_refuse(struct request *request, const char *detail)
{
    answer_detail(&request->answer, PROBLEM_INVALID_REQUEST, detail);
    return START_ANSWERED;
}

const char *call_address(const struct request *request)
{
    return request->order.address[0] != '\0' ? request->order.address : "unix";
}

enum call_start call_send(struct request *request, call_work *work, bool changes)
{
    request->call.work = work;
    request->call.changes = changes;
    return START_TO_CALL_WORKER;
}

static void work_each(struct service_worker *worker, struct request **requests, size_t count)
{
    for (size_t i = 0; i < count; i++)
        requests[i]->call.work_one(worker, requests[i]);
}

enum call_start call_send_one(struct request *request, call_work_one *work, bool changes)
{
    request->call.work_one = work;
    return call_send(request, work_each, changes);
}

static bool is_told(const struct request *request, int from)
{
    return !request->call.again && (int)request->answer.status >= from &&
           request->answer.status < 500;
}

uint64_t call_unconfirmed(struct service_worker *worker)
{
    return atomic_load(&worker->service->replicated) ? ledger_connect(stock_ledger(worker->stock))
                                                     : UINT64_MAX;
}

void call_confirm(struct service_worker *worker, uint64_t unconfirmed, struct request **requests,
                  size_t count, int from)
{
    size_t told = 0;
    for (size_t i = 0; i < count; i++)
        told += is_told(requests[i], from);
    if (unconfirmed == UINT64_MAX || told == 0 ||
        ledger_confirm(stock_ledger(worker->stock), unconfirmed) == LEDGER_OK)
        return;
    for (size_t i = 0; i < count; i++) {
        struct request *request = requests[i];
        if (!is_told(request, from))
            continue;
        if (request->call.changes) /* a payment that came too late is noted */
            answer_unknown_outcome(&request->answer, request->call.order_id);
        else
            answer_problem(&request->answer, PROBLEM_LEDGER_UNAVAILABLE);
    }
}

const char *call_read_key(const struct call *call, char *key_out)
{
    const char *key = call->key;
    size_t length = key ? strlen(key) : 0;
    bool quoted = length >= 2 && key[0] == '"' && key[length - 1] == '"';
    key_out[0] = '\0';
    if (!key || identifier_copy(key + quoted, length - 2 * quoted, key_out))
        return NULL;
    return "Idempotency-Key must be 1 to 64 characters out of A-Z a-z 0-9 . _ : -";
}

bool call_read_sku(struct request *request, const struct call *call)
{
    if (identifier_copy(call->tail, strlen(call->tail), request->call.sku))
        return true;
    answer_problem(&request->answer, PROBLEM_UNKNOWN_SKU);
    return false;
}

void call_end_action(enum log_level level, const char *event, struct service *service,
                     const struct request *request, const char *sku, const char *format, ...)
{
    char detail[320];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    log_event(level, event, "%s%s%s%s address=%s%s", sku[0] ? "sku=" : "", sku, sku[0] ? " " : "",
              detail, call_address(request), TRACE_LOG(&request->trace));
    const struct admin_action noted = {
        .action = event,
        .sku = sku,
        .detail = detail,
        .address = call_address(request),
        .status = request->answer.status,
    };
    admin_actions_note(service->admin_actions, &noted);
}

int call_lock_wait_ms(const struct service_worker *worker, const struct request *request)
{
    enum { EXTRA_MS = 2000 }; /* to recover the segment, and for other waiting calls */
    const struct config *config = &worker->service->config;
    int64_t most_ms = (int64_t)config->lease_ms + EXTRA_MS;
    int64_t bound_ms = call_bound_ms(config, true) - (int64_t)config->deadline_ms / 4;
    int64_t passed_ms = (clock_now_ns() - request->arrived_ns) / CLOCK_NS_PER_MS;
    int64_t left_ms = (most_ms < bound_ms ? most_ms : bound_ms) - passed_ms;
    return left_ms > 0 ? (int)left_ms : 0;
}

/* ---- bodies ---- */

/* Checks the number of members last, so that a misspelt name is reported as the missing field. */
static const char *read_members(const json_t *object, const struct call_body *body,
                                struct request_call *asked, void *out)
{
    const char *detail = call_read_fields(object, body->fields, out, &asked->found);
    size_t known = (size_t)__builtin_popcount(asked->found);
    if (!detail && body->settings) {
        detail = sale_settings_read(object, &asked->change);
        known += (size_t)__builtin_popcount(asked->change.fields);
    }
    return !detail && json_object_size(object) > known ? body->other : detail;
}

bool call_read_body(struct request *request, const struct call *call, const struct call_body *body,
                    void *out)
{
    const char *detail = NULL;
    json_t *object = call_parse_object(call->body, call->body_length,
                                       "The number of a field is out of range.", &detail);
    if (object)
        detail = read_members(object, body, &request->call, out);
    json_decref(object);
    if (detail)
        call_refuse(request, detail);
    return !detail;
}

/* ---- queries ---- */

bool call_copy_order_id(const char *text, size_t length, char *id_out)
{
    uint64_t *id = (void *)id_out;
    (void)length; /* the text ends at its only NUL */
    return order_id_parse(text, id);
}

/* Collects the query's parameters in an object of texts. */
static const char *read_parameters(const struct call *call, json_t *object)
{
    if (call->parameter_count > PARAMETERS_MAX)
        return "There are too many query parameters.";
    for (size_t i = 0; i < call->parameter_count; i++) {
        const struct call_parameter *given = &call->parameters[i];
        if (json_object_get(object, given->name))
            return "A query parameter comes twice.";
        if (json_object_set_new(object, given->name, json_string(given->value)) != 0)
            return "A query parameter is not UTF-8.";
    }
    return NULL;
}

bool call_read_query(struct request *request, const struct call *call,
                     const struct call_body *query)
{
    enum { LIMIT = 100 }; /* default rows of a page */
    struct request_call *asked = &request->call;
    json_t *object = json_object();
    asked->filter = (struct ledger_filter){.sku = ""};
    asked->sku[0] = '\0';
    asked->after = 0;
    asked->limit = LIMIT;
    const char *detail = read_parameters(call, object);
    if (!detail)
        detail = read_members(object, query, asked, asked);
    json_decref(object);
    if (detail)
        call_refuse(request, detail);
    return !detail;
}
