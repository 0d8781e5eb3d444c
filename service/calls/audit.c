/* GET /admin/audit and GET /admin/audit/{sku}: the figures that an audit compares. */
#include "service/calls/calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/identifier.h"
#include "base/memory.h"
#include "service/request/faults.h"
#include "service/request/order_id.h"
#include "sql/ledger/ledger.h"
#include "sql/sales/sales.h"
#include "stock/sales/sales.h"

/* Writes a number as text, which JavaScript would round. */
static json_t *long_number(uint64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, number);
    return json_string(text);
}

/* ---- orders ---- */

/* A sku's sums are adjacent, but in no order of skus, so the page is searched by name. */
static json_t *sale_of(json_t *sales, const struct ledger_audit_sum *sum)
{
    json_t *sale = json_object_get(sales, sum->sku);
    if (sale)
        return sale;
    sale =
        json_pack("{s:s, s:I, s:{s:i, s:i, s:i, s:i, s:i}, s:i, s:s, s:i, s:i, s:i, s:{s:i, s:i, "
                  "s:i, s:i}, s:i}",
                  "sku", sum->sku, "round", (json_int_t)sum->round, "states", "reserved", 0, "paid",
                  0, "cancelled", 0, "expired", 0, "refunded", 0, "units", 0, "weighed", "0",
                  "unreturned", 0, "unkeyed", 0, "unlisted", 0, "payments", "taken", 0,
                  "refund_due", 0, "refunded", 0, "failed", 0, "unmatched", 0);
    json_object_set_new(sales, sum->sku, sale);
    return sale;
}

static void add(json_t *object, const char *name, uint64_t number)
{
    json_int_t old = json_integer_value(json_object_get(object, name));
    json_object_set_new(object, name, json_integer(old + (json_int_t)number));
}

static void add_orders(json_t *sale, const struct ledger_audit_sum *sum)
{
    add(json_object_get(sale, "states"), sum->status, sum->orders);
    const char *weighed = json_string_value(json_object_get(sale, "weighed"));
    uint64_t old = strtoull(weighed, NULL, 10);
    add(sale, "units", sum->units);
    add(sale, "unreturned", sum->unreturned);
    json_object_set_new(sale, "weighed", long_number(old + sum->weighed));
}

static void take_sum(const struct ledger_audit_sum *sum, void *context)
{
    static const char *const faults[] = {
        [LEDGER_AUDIT_UNKEYED] = "unkeyed",
        [LEDGER_AUDIT_UNLISTED] = "unlisted",
        [LEDGER_AUDIT_UNMATCHED] = "unmatched",
    };
    json_t *sale = sale_of(context, sum);
    if (sum->kind == LEDGER_AUDIT_ORDERS)
        add_orders(sale, sum);
    else if (sum->kind == LEDGER_AUDIT_PAYMENTS)
        add(json_object_get(sale, "payments"), sum->status, sum->orders);
    else
        add(sale, faults[sum->kind], sum->orders);
}

static json_t *orders_json(json_t *sales, uint64_t next)
{
    const char *sku;
    json_t *sale, *list = json_array();
    json_object_foreach(sales, sku, sale)
    {
        json_array_append(list, sale);
    }
    json_t *page = json_pack("{s:o}", "sales", list);
    if (next != 0)
        json_object_set_new(page, "next", long_number(next));
    return page;
}

static void audit_orders(struct service_worker *worker, struct request *request)
{
    uint64_t end = 0;
    const struct request_call *asked = &request->call;
    struct ledger *ledger = stock_ledger(worker->stock);
    json_t *sales = json_object();
    if (ledger_audit_end(ledger, asked->after, &end) == LEDGER_OK &&
        ledger_audit_orders(ledger, asked->filter.sku, asked->after, end, take_sum, sales) ==
            LEDGER_OK)
        answer_json(&request->answer, 200, orders_json(sales, end == UINT64_MAX ? 0 : end));
    else
        answer_problem(&request->answer, faults_problem(worker->stock));
    json_decref(sales);
}

/* ---- a sale ---- */

static json_t *segment_json(const struct ledger_segment *row, const struct stock_cached *cached)
{
    json_t *redis = json_null();
    if (cached->present)
        redis = json_pack("{s:I, s:I, s:b, s:o}", "available", (json_int_t)cached->available,
                          "round", (json_int_t)cached->round, "open", cached->open, "settled",
                          long_number(cached->settled));
    return json_pack("{s:I, s:I, s:I, s:o, s:o, s:s}", "segment", (json_int_t)row->segment,
                     "capacity", (json_int_t)row->capacity, "sold", (json_int_t)row->sold, "fence",
                     long_number(row->fence), "redis", redis, "state",
                     stock_audit_state(row, cached));
}

static json_t *audit_json(const struct stock_audit *audit, int64_t as_of_ms)
{
    char as_of[LEDGER_TIME_SIZE];
    const struct ledger_sale *sale = &audit->sale;
    json_t *segments = json_array();
    for (size_t i = 0; i < audit->count; i++)
        json_array_append_new(segments, segment_json(&audit->segments[i], &audit->cached[i]));
    ledger_time_format(as_of_ms, as_of);
    uint32_t limit = sale->settings.per_user_limit;
    return json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:o, s:b, s:I, s:o}", "sku", sale->sku, "as_of", as_of, "round",
        (json_int_t)sale->round, "total", (json_int_t)sale->total, "sold", (json_int_t)sale->sold,
        "per_user_limit", limit == 0 ? json_null() : json_integer((json_int_t)limit), "counting",
        sale->settings.counting, "segment_count", (json_int_t)sale->segments, "segments", segments);
}

/* Adds nothing for a sale without a limit per user: its users are not counted. */
static bool add_users(struct service_worker *worker, const struct request_call *asked,
                      const struct ledger_sale *sale, json_t *page)
{
    struct ledger_audit_users users = {.users = 0};
    if (sale->settings.per_user_limit != 0 &&
        ledger_audit_users(stock_ledger(worker->stock), sale->sku, sale->round,
                           asked->filter.user_id, &users) != LEDGER_OK)
        return false;
    json_object_set_new(page, "users",
                        json_pack("{s:I, s:I, s:o, s:I}", "users", (json_int_t)users.users, "units",
                                  (json_int_t)users.units, "weighed", long_number(users.weighed),
                                  "above", (json_int_t)users.above));
    if (users.next[0] != '\0')
        json_object_set_new(page, "next", json_string(users.next));
    return true;
}

/* Allocates the audit: with a row per segment it is too large for a thread's stack. */
static void audit_sale(struct service_worker *worker, struct request *request)
{
    struct stock_audit *audit = memory_must(malloc(sizeof *audit));
    int64_t asked_ms = synced_clock_ms(&worker->service->clock);
    enum stock_admin_result result = stock_audit(worker->stock, request->call.sku, audit);
    json_t *page = result == STOCK_ADMIN_OK ? audit_json(audit, asked_ms) : NULL;
    if (page && add_users(worker, &request->call, &audit->sale, page))
        answer_json(&request->answer, 200, json_incref(page));
    else if (result == STOCK_ADMIN_NO_SALE)
        answer_problem(&request->answer, PROBLEM_UNKNOWN_SKU);
    else
        answer_problem(&request->answer, faults_problem(worker->stock));
    json_decref(page);
    free(audit);
}

/* ---- the handlers ---- */

#define OTHER_DETAIL "There is a query parameter that this call does not take."

enum call_start call_audit_orders(struct request *request, const struct call *call)
{
    static const struct call_body query = {
        .fields =
            {
                {"after", FIELD_TEXT, offsetof(struct request_call, after),
                 "after must be an order id, as next gives it.", .copy = call_copy_order_id},
                {"sku", FIELD_TEXT, offsetof(struct request_call, filter.sku),
                 "sku must be " SKU_FORM, .copy = identifier_copy},
            },
        .other = OTHER_DETAIL,
    };
    return call_read_query(request, call, &query) ? call_send_one(request, audit_orders, false)
                                                  : START_ANSWERED;
}

enum call_start call_audit_sale(struct request *request, const struct call *call)
{
    static const struct call_body query = {
        .fields = {{"after", FIELD_TEXT, offsetof(struct request_call, filter.user_id),
                    "after must be a user id, as next gives it.", .copy = user_id_copy}},
        .other = OTHER_DETAIL,
    };
    if (!call_read_query(request, call, &query) || !call_read_sku(request, call))
        return START_ANSWERED;
    return call_send_one(request, audit_sale, false);
}
