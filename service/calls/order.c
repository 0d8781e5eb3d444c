/* POST /order.
 *
 * why_two_readers: every order pays for reading its body, so a scanner reads the plain form that
 * nearly every client sends (no escapes, no signs, the three fields once each, in any order). It
 * accepts only what is certainly right; jansson decides on everything else, wrong or merely
 * unusual. */
#include "service/calls/calls.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/identifier.h"
#include "service/metrics/metrics.h"
#include "service/request/order_answer.h"

/* ---- the body, see why_two_readers ---- */

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at;
}

/* Reads a "text" without escapes; NULL for anything else. */
static const char *scan_string(const char *at, const char *end, const char **text_out,
                               size_t *length_out)
{
    if (at == end || *at != '"')
        return NULL;
    *text_out = ++at;
    while (at < end && *at != '"' && *at != '\\')
        at++;
    if (at == end || *at != '"')
        return NULL;
    *length_out = (size_t)(at - *text_out);
    return at + 1;
}

/* Reads a qty in range: one to four digits without a leading zero. */
static const char *scan_qty(const char *at, const char *end, uint32_t *qty_out)
{
    const char *from = at;
    uint32_t qty = 0;
    while (at < end && at - from < 4 && *at >= '0' && *at <= '9')
        qty = qty * 10 + (uint32_t)(*at++ - '0');
    if (at == from || *from == '0' || qty > STOCK_QTY_MAX)
        return NULL;
    *qty_out = qty;
    return at;
}

static bool is(const char *text, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(text, name, length) == 0;
}

/* Reads one "name": value; NULL when the field is not in plain form, or comes twice. */
static const char *scan_field(const char *at, const char *end, struct stock_order *order)
{
    const char *name = NULL, *value = NULL;
    size_t name_length = 0, value_length = 0;
    at = scan_string(at, end, &name, &name_length);
    if (!at)
        return NULL;
    at = skip_space(at, end);
    if (at == end || *at != ':')
        return NULL;
    at = skip_space(at + 1, end);
    if (is(name, name_length, "qty"))
        return order->qty == 0 ? scan_qty(at, end, &order->qty) : NULL;
    at = scan_string(at, end, &value, &value_length);
    if (!at)
        return NULL;
    bool good = false;
    if (is(name, name_length, "sku"))
        good = order->sku[0] == '\0' && identifier_copy(value, value_length, order->sku);
    else if (is(name, name_length, "user_id"))
        good = order->user_id[0] == '\0' && user_id_copy(value, value_length, order->user_id);
    return good ? at : NULL;
}

/* Reads the whole body: three fields in braces, and nothing behind. */
static bool scan_order(const char *at, const char *end, struct stock_order *order)
{
    order->sku[0] = order->user_id[0] = '\0';
    order->qty = 0;
    at = skip_space(at, end);
    for (int fields = 0; fields < 3; fields++) {
        if (at == end || *at != (fields == 0 ? '{' : ','))
            return false;
        at = scan_field(skip_space(at + 1, end), end, order);
        if (!at)
            return false;
        at = skip_space(at, end);
    }
    return at < end && *at == '}' && skip_space(at + 1, end) == end;
}

bool order_body_parse_json(const char *text, size_t length, struct stock_order *order,
                           const char **detail_out)
{
    static const char qty[] = "qty must be a whole number from 1 to 1000.";
    static const struct call_field fields[FIELDS_MAX] = {
        {"sku", FIELD_TEXT, offsetof(struct stock_order, sku), "sku must be a string of " SKU_FORM,
         .must = true, .copy = identifier_copy},
        {"user_id", FIELD_TEXT, offsetof(struct stock_order, user_id),
         "user_id must be a string of " USER_ID_FORM ".", .must = true, .copy = user_id_copy},
        {"qty", FIELD_NUMBER, offsetof(struct stock_order, qty), qty, .must = true, .min = 1,
         .max = STOCK_QTY_MAX},
    };
    unsigned found = 0;
    json_t *object = call_parse_object(text, length, qty, detail_out); /* the only number */
    if (object)
        *detail_out = call_read_fields(object, fields, order, &found);
    if (object && !*detail_out && json_object_size(object) != 3)
        *detail_out = "There is a field other than sku, user_id and qty.";
    json_decref(object);
    return *detail_out == NULL;
}

bool order_body_parse(const char *text, size_t length, struct stock_order *order,
                      const char **detail_out)
{
    *detail_out = NULL;
    return scan_order(text, text + length, order) ||
           order_body_parse_json(text, length, order, detail_out);
}

/* ---- POST ---- */

/* Leaves STOCK_OPEN unless the sale's cache refuses the order. */
static void decide_by_cache(struct service *service, struct sale *sale, struct stock_order *order,
                            int64_t now_ns)
{
    struct ledger_settings settings;
    /* The cached window may refuse only if the ledger has confirmed it recently. */
    if (sale_window_cached(sale, now_ns, &settings)) {
        order->created_ms = synced_clock_ms(&service->clock);
        order->outcome = stock_window_check(&settings, order->created_ms, &order->at_ms);
    }
    /* Most of a flash sale's traffic comes after the last unit: it must not reach the queue. */
    if (order->outcome == STOCK_OPEN && sale_known_short(sale, order->qty, now_ns)) {
        metrics_count(METRIC_SOLD_OUT_FAST);
        order->outcome = STOCK_SOLD_OUT;
    }
}

/* Refuses an order at once if the sale's cache does. An order with a key goes on: its first try may
 * have been accepted, and an order worker finds it. */
static bool refuse_at_once(struct service *service, struct request *request, int64_t now_ns)
{
    struct stock_order *order = &request->order;
    order->outcome = STOCK_OPEN;
    if (order->key[0] != '\0')
        return false;
    unsigned section = sale_cache_enter(service->sale_cache);
    struct sale *sale = sale_cache_find(service->sale_cache, order->sku);
    if (sale)
        decide_by_cache(service, sale, order, now_ns);
    sale_cache_leave(service->sale_cache, section);
    if (order->outcome == STOCK_OPEN)
        return false;
    order_answer(request, PROBLEM_UNAVAILABLE);
    return true;
}

enum call_start call_order_post(struct request *request, const struct call *call)
{
    struct stock_order *order = &request->order;
    const char *detail = NULL;
    order->attempts = order->passes = 0;
    order->rate_passed = false;
    order->payment_ref = NULL;
    if (order_body_parse(call->body, call->body_length, order, &detail))
        detail = call_read_key(call, order->key);
    if (detail)
        return call_refuse(request, detail);
    if (!atomic_load(&call->service->prepared)) {
        metrics_count(METRIC_ORDERS_UNAVAILABLE);
        answer_detail(&request->answer, PROBLEM_UNAVAILABLE,
                      "The service is starting and has not prepared the ledger; nothing was done.");
        return START_ANSWERED;
    }
    if (refuse_at_once(call->service, request, call->now_ns))
        return START_ANSWERED;
    return START_TO_ORDER_WORKER;
}
