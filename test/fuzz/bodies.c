/* Fuzzes the bodies of every call that takes one. The first line is the Idempotency-Key, if it is
 * not empty; the rest is the body.
 *
 * Both readers of an order agree. What goes on to a worker is in its bounds; all else is refused
 * with a stable code. Settings that are written and read again are the same. */
#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/identifier.h"
#include "test/fuzz/fuzz.h"
#include "test/fuzz/fuzz_service.h"

enum { TOTAL_MAX = 10000000 };

static bool is_name(const char *text)
{
    return identifier_valid(text, strlen(text));
}

static bool is_user(const char *text)
{
    return user_id_valid(text, strlen(text));
}

static bool is_key(const char *text)
{
    return text[0] == '\0' || is_name(text);
}

/* ---- orders ---- */

static void check_readers(const struct call *call)
{
    struct stock_order one, other;
    const char *why = NULL, *why_other = NULL;
    memset(&one, 0x5a, sizeof one);
    memset(&other, 0x5a, sizeof other);
    bool good = order_body_parse(call->body, call->body_length, &one, &why);
    bool good_other = order_body_parse_json(call->body, call->body_length, &other, &why_other);
    assert(good == good_other && good == !why && good_other == !why_other);
    if (!good) {
        assert(strcmp(why, why_other) == 0);
        return;
    }
    assert(one.qty == other.qty && one.qty >= 1 && one.qty <= STOCK_QTY_MAX);
    assert(strcmp(one.sku, other.sku) == 0 && is_name(one.sku));
    assert(strcmp(one.user_id, other.user_id) == 0 && is_user(one.user_id));
}

static void check_order(const struct request *request)
{
    const struct stock_order *order = &request->order;
    assert(is_name(order->sku) && is_user(order->user_id) && is_key(order->key));
    assert(order->qty >= 1 && order->qty <= STOCK_QTY_MAX);
}

/* ---- settings ---- */

static void check_settings(const struct stock_change *change)
{
    const struct ledger_settings *settings = &change->settings;
    assert((change->fields & ~(unsigned)STOCK_CHANGE_ALL) == 0);
    assert(settings->per_user_limit <= PER_USER_LIMIT_MAX);
    assert(settings->pay_within_s <= PAY_WITHIN_S_MAX && settings->grace_s <= GRACE_S_MAX);
    assert(settings->hold_max_s <= PAY_WITHIN_S_MAX);
    assert(settings->ends_ms == 0 || settings->ends_ms > settings->starts_ms);
    char log[SALE_SETTINGS_LOG_SIZE];
    assert(strlen(sale_settings_log(change, log)) < sizeof log);
    struct stock_change again;
    json_t *object = json_object();
    sale_settings_add(object, settings);
    const char *wrong = sale_settings_read(object, &again);
    json_decref(object);
    assert(!wrong && memcmp(settings, &again.settings, sizeof *settings) == 0);
}

static void check_change(const struct request *request)
{
    assert(is_name(request->call.sku) && request->call.change.fields != 0);
    check_settings(&request->call.change);
}

/* ---- the other calls ---- */

static void check_reset(const struct request *request)
{
    const struct request_call *asked = &request->call;
    assert(is_name(asked->sku) && is_key(asked->key));
    assert(asked->total >= 1 && asked->total <= TOTAL_MAX);
    assert(asked->segments >= 1 && asked->segments <= LEDGER_SEGMENTS_MAX);
    assert(asked->segments <= asked->total && (asked->only_if || asked->if_round == 0));
    check_settings(&asked->change);
}

static void check_restock(const struct request *request)
{
    assert(is_name(request->call.sku) && is_key(request->call.key));
    assert(request->call.total >= 1 && request->call.total <= TOTAL_MAX);
}

static void check_reconcile(const struct request *request)
{
    assert(is_name(request->call.sku));
}

static void check_state(const struct request *request)
{
    const struct request_call *asked = &request->call;
    assert(asked->order_id == 17 && asked->keep <= STOCK_QTY_MAX &&
           asked->late == LEDGER_LATE_ASKED);
    assert(asked->payment_ref[0] == '\0' || is_user(asked->payment_ref));
}

static void check_refund(const struct request *request)
{
    check_state(request);
    assert(is_user(request->call.payment_ref));
}

static void check_extend(const struct request *request)
{
    char text[LEDGER_TIME_SIZE];
    check_state(request);
    ledger_time_format(request->call.expires_ms, text);
}

static void check_retire(const struct request *request)
{
    assert(is_name(request->call.sku));
}

static const struct {
    call_handler *start;
    const char *tail;
    void (*check)(const struct request *request);
} calls[] = {
    {call_order_post, "", check_order},
    {call_sale_reset, "", check_reset},
    {call_sale_restock, "", check_restock},
    {call_sale_change, "demo", check_change},
    {call_sale_reconcile, "", check_reconcile},
    {call_state_pay, "17/pay", check_state},
    {call_state_cancel, "17/cancel", check_state},
    {call_state_refund, "17/refund", check_refund},
    {call_state_extend, "17/extend", check_extend},
    {call_sale_retire, "demo", check_retire},
};

static void check_call(size_t i, struct call *call)
{
    static struct request request; /* as in the daemon, one has the memory of those before */
    call->tail = calls[i].tail;
    enum call_start next = calls[i].start(&request, call);
    if (next == START_ANSWERED) {
        fuzz_check_refusal(&request);
    } else {
        assert((next == START_TO_ORDER_WORKER) == (calls[i].start == call_order_post));
        calls[i].check(&request);
    }
    answer_clear(&request.answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    char *key = fuzz_text(&input, '\n', NULL);
    size_t length = input.left < BODY_MAX ? input.left : BODY_MAX;
    char *body = malloc(length + 1); /* of exactly its length, but for an empty one */
    if (!body)
        abort();
    body = realloc(body, length > 0 ? length : 1);
    if (length > 0)
        memcpy(body, input.at, length);
    struct call call = {.service = fuzz_service(),
                        .body = body,
                        .body_length = length,
                        .key = key[0] ? key : NULL,
                        .now_ns = 1};
    check_readers(&call);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        check_call(i, &call);
    free(body);
    free(key);
    return 0;
}
