/* GET /user/{user_id}/orders, GET /admin/orders, GET /payments, GET /admin/payments and GET
 * /admin/sales: lists, page by page. */
#include "service/calls/calls.h"

#include <assert.h>
#include <string.h>

#include "base/identifier.h"
#include "base/memory.h"
#include "base/text.h"
#include "service/request/faults.h"
#include "service/request/order_answer.h"
#include "service/request/order_id.h"
#include "service/request/unescape.h"

/* ---- the query ---- */

static bool copy_status(const char *text, size_t length, char *status_out)
{
    (void)length; /* the text ends at its only NUL */
    bool known = ledger_status_known(text);
    strcpy(status_out, known ? text : "");
    return known;
}

static const struct call_body orders_query = {
    .fields =
        {
            {"sku", FIELD_TEXT, offsetof(struct request_call, filter.sku), "sku must be " SKU_FORM,
             .copy = identifier_copy},
            {"status", FIELD_TEXT, offsetof(struct request_call, filter.status),
             "status must be reserved, paid, cancelled, expired or refunded.", .copy = copy_status},
            {"after", FIELD_TEXT, offsetof(struct request_call, after),
             "after must be an order id, as next gives it.", .copy = call_copy_order_id},
            LIMIT_FIELD,
        },
    .other = "There is a query parameter other than sku, status, after and limit.",
};

/* ---- pages as JSON ---- */

static void answer_page(struct answer *answer, const struct ledger_record *orders, size_t count,
                        uint64_t next)
{
    enum { FRAME_MAX = 64 }; /* everything except the orders */
    size_t size = FRAME_MAX + count * (ORDER_TEXT_MAX + 1);
    char *text = memory_must(malloc(size));
    char *at = stpcpy(text, "{\"orders\":[");
    for (size_t i = 0; i < count; i++) {
        struct order_text order = ORDER_TEXT(&orders[i], orders[i].status);
        order.version = orders[i].version;
        at = order_put(i == 0 ? at : stpcpy(at, ","), &order);
    }
    at = stpcpy(at, "]");
    if (next != 0) {
        at = decimal_put(stpcpy(at, ",\"next\":\""), next);
        at = stpcpy(at, "\"");
    }
    at = stpcpy(at, "}\n");
    size_t length = (size_t)(at - text);
    assert(length <= size);
    char *shrunk = realloc(text, length); /* the answer may wait for a slow client */
    answer_text(answer, 200, "application/json", shrunk ? shrunk : text, length);
}

#define TOO_MANY_ANSWERS "Too many long answers wait for their clients; try again later."

/* Limits the memory for pages, because clients may not read their answers; the shop's limit is
 * lower, so that its lists of users' orders cannot lock operators out. */
static void page(struct service_worker *worker, struct request *request)
{
    struct request_call *asked = &request->call;
    size_t count = 0;
    bool shop = asked->filter.user_id[0] != '\0';
    if (answers_bytes() > (shop ? ANSWERS_SHOP_MAX : ANSWERS_BYTES_MAX)) {
        answer_detail(&request->answer, PROBLEM_OVERLOADED, TOO_MANY_ANSWERS);
        return;
    }
    uint64_t unconfirmed = call_unconfirmed(worker);
    struct ledger_record *orders = memory_must(calloc(asked->limit, sizeof *orders));
    enum ledger_result result =
        ledger_orders_list(stock_ledger(worker->stock), &asked->filter, asked->after, asked->limit,
                           orders, &count, &asked->after);
    if (result == LEDGER_OK)
        answer_page(&request->answer, orders, count, asked->after);
    else
        answer_problem(&request->answer, result == LEDGER_LIMIT ? PROBLEM_TOO_MANY_ORDERS
                                                                : faults_problem(worker->stock));
    call_confirm(worker, unconfirmed, &request, 1, 200);
    free(orders);
}

/* Reads the path's {user_id}; a slash in it is encoded. */
static bool read_user(struct request_call *asked, const char *tail)
{
    char user_id[USER_ID_SIZE];
    size_t length = strcspn(tail, "/");
    asked->filter.user_id[0] = '\0';
    if (length >= sizeof user_id)
        return false;
    unescape_slashes(tail, length, user_id);
    return user_id_copy(user_id, length, asked->filter.user_id);
}

enum call_start call_list_user(struct request *request, const struct call *call)
{
    if (!call_read_query(request, call, &orders_query))
        return START_ANSWERED;
    if (!read_user(&request->call, call->tail))
        return call_refuse(request, "The user_id in the path must be " USER_ID_FORM
                                    ", and percent-encoded.");
    return call_send_one(request, page, false);
}

enum call_start call_list_all(struct request *request, const struct call *call)
{
    return call_read_query(request, call, &orders_query) ? call_send_one(request, page, false)
                                                         : START_ANSWERED;
}

/* ---- payments ---- */

static bool copy_state(const char *text, size_t length, char *state_out)
{
    enum ledger_payment_state *state = (void *)state_out;
    (void)length; /* the text ends at its only NUL */
    *state = ledger_payment_state_of(text);
    return *state != LEDGER_PAYMENT_NONE;
}

/* 0 is no order's id, and would stand for all. */
static bool copy_order(const char *text, size_t length, char *id_out)
{
    return call_copy_order_id(text, length, id_out) && *(const uint64_t *)(void *)id_out != 0;
}

/* A place is an order's id, a dot, and the name of one of its payments. */
static bool copy_place(const char *text, size_t length, char *place_out)
{
    struct ledger_payment_place *place = (void *)place_out;
    char id[ORDER_ID_TEXT_SIZE] = "";
    size_t id_length = strcspn(text, ".");
    if (id_length >= sizeof id || id_length == length)
        return false;
    memcpy(id, text, id_length);
    const char *ref = text + id_length + 1;
    return order_id_parse(id, &place->order_id) && user_id_copy(ref, strlen(ref), place->ref);
}

static json_t *payment_json(const struct ledger_payment_row *row)
{
    char id[24] = "";
    decimal_put(id, row->order_id);
    json_t *payment =
        json_pack("{s:s, s:s, s:s, s:i, s:s, s:s, s:s, s:s, s:s}", "order_id", id, "payment_ref",
                  row->ref, "sku", row->sku, "round", (int)row->round, "user_id", row->user_id,
                  "order_status", row->order_status, "state", ledger_payment_state_name(row->state),
                  "outcome", ledger_payment_outcome_name(row->outcome), "told_at", row->told_at);
    if (row->refunded_at[0] != '\0')
        json_object_set_new(payment, "refunded_at", json_string(row->refunded_at));
    return payment;
}

static json_t *payments_json(const struct ledger_payment_row *rows, size_t count,
                             const struct ledger_payment_place *next)
{
    char place[PAYMENT_REF_SIZE + 24];
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, payment_json(&rows[i]));
    json_t *page = json_pack("{s:o}", "payments", list);
    stpcpy(stpcpy(decimal_put(place, next->order_id), "."), next->ref);
    if (next->order_id != 0)
        json_object_set_new(page, "next", json_string(place));
    return page;
}

static void page_payments(struct service_worker *worker, struct request *request)
{
    struct request_call *asked = &request->call;
    uint64_t unconfirmed = call_unconfirmed(worker);
    struct ledger_payment_row *rows = memory_must(calloc(asked->limit, sizeof *rows));
    size_t count = 0;
    if (ledger_payments_list(stock_ledger(worker->stock), &asked->payments, &asked->place,
                             asked->limit, rows, &count) != LEDGER_OK)
        answer_problem(&request->answer, faults_problem(worker->stock));
    else if (answers_bytes() > ANSWERS_SHOP_MAX)
        answer_detail(&request->answer, PROBLEM_OVERLOADED, TOO_MANY_ANSWERS);
    else
        answer_json(&request->answer, 200, payments_json(rows, count, &asked->place));
    call_confirm(worker, unconfirmed, &request, 1, 200);
    free(rows);
}

enum call_start call_list_payments(struct request *request, const struct call *call)
{
    static const struct call_body query = {
        .fields =
            {
                {"state", FIELD_TEXT, offsetof(struct request_call, payments.state),
                 "state must be taken, refund_due, refunded or failed.", .copy = copy_state},
                {"sku", FIELD_TEXT, offsetof(struct request_call, payments.sku),
                 "sku must be " SKU_FORM, .copy = identifier_copy},
                {"order_id", FIELD_TEXT, offsetof(struct request_call, payments.order_id),
                 "order_id must be an order's id.", .copy = copy_order},
                {"after", FIELD_TEXT, offsetof(struct request_call, place),
                 "after must be a place in the list, as next gives it.", .copy = copy_place},
                LIMIT_FIELD,
            },
        .other = "There is a query parameter other than state, sku, order_id, after and limit.",
    };
    request->call.payments = (struct ledger_payment_filter){.order_id = 0};
    request->call.place = (struct ledger_payment_place){.order_id = 0};
    return call_read_query(request, call, &query) ? call_send_one(request, page_payments, false)
                                                  : START_ANSWERED;
}

/* ---- sales ---- */

static json_t *page_json(const struct ledger_sale *sales, size_t count, bool full)
{
    json_t *list = memory_must(json_array());
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, sale_json(&sales[i]));
    json_t *page = json_pack("{s:o}", "sales", list);
    if (full)
        json_object_set_new(page, "next", json_string(sales[count - 1].sku));
    return page;
}

static void list(struct service_worker *worker, struct request *request)
{
    const struct request_call *asked = &request->call;
    size_t count = 0;
    struct ledger_sale *sales = memory_must(calloc(asked->limit, sizeof *sales));
    if (ledger_sale_list(stock_ledger(worker->stock), asked->sku, asked->limit, sales, &count) ==
        LEDGER_OK)
        answer_json(&request->answer, 200, page_json(sales, count, count == asked->limit));
    else
        answer_problem(&request->answer, faults_problem(worker->stock));
    free(sales);
}

enum call_start call_sale_list(struct request *request, const struct call *call)
{
    static const struct call_body query = {
        .fields =
            {
                {"after", FIELD_TEXT, offsetof(struct request_call, sku),
                 "after must be a sku, as next gives it.", .copy = identifier_copy},
                LIMIT_FIELD,
            },
        .other = "There is a query parameter other than after and limit.",
    };
    return call_read_query(request, call, &query) ? call_send_one(request, list, false)
                                                  : START_ANSWERED;
}
