/* The answers to orders, by their outcome. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "service/request/order_answer.h"
#include "service/request/test_json.h"

#define WORD_64 "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-"

static struct request request;

static int start(void **state)
{
    (void)state;
    memset(&request, 0, sizeof request);
    request.answer.problem = PROBLEM_NONE;
    return 0;
}

static int finish(void **state)
{
    (void)state;
    answer_clear(&request.answer);
    stock_order_clear(&request.order);
    return 0;
}

static void decide(enum stock_outcome outcome)
{
    request.order = (struct stock_order){.sku = "s",
                                         .user_id = "u",
                                         .qty = 3,
                                         .order_id = 42,
                                         .round = 5,
                                         .segment = 7,
                                         .outcome = outcome};
    strcpy(request.order.created_at, "2026-11-20T21:30:00.123Z");
}

static void test_accepted_order_is_told_in_full(void **state)
{
    (void)state;
    decide(STOCK_ACCEPTED);
    order_answer(&request, PROBLEM_LEDGER_UNAVAILABLE);
    assert_int_equal(request.answer.status, 201);
    assert_int_equal(request.answer.problem, PROBLEM_NONE);
    assert_string_equal(request.answer.content_type, "application/json");
    static const char text[] = "{\"order_id\":\"42\",\"sku\":\"s\",\"round\":5,\"user_id\":\"u\","
                               "\"qty\":3,\"segment\":7,\"status\":\"reserved\","
                               "\"created_at\":\"2026-11-20T21:30:00.123Z\"}\n";
    assert_int_equal(request.answer.length, sizeof text - 1);
    assert_memory_equal(request.answer.text, text, sizeof text - 1);
}

static void test_user_ids_are_escaped(void **state)
{
    (void)state;
    static const char *const ids[] = {"o'neil@b.org", "\"", "\\", "a\\\"b", "\\\\", "{%2F}"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        decide(STOCK_ACCEPTED);
        strcpy(request.order.user_id, ids[i]);
        order_answer(&request, PROBLEM_LEDGER_UNAVAILABLE);
        json_t *object = parse(request.answer.text, request.answer.length);
        assert_string_equal(member(object, "user_id"), ids[i]);
        json_decref(object);
        answer_clear(&request.answer);
    }
}

static void test_longest_order_fits_inline(void **state)
{
    (void)state;
    decide(STOCK_ACCEPTED);
    struct stock_order *order = &request.order;
    strcpy(order->sku, WORD_64);
    memset(order->user_id, '"', USER_ID_SIZE - 1);
    order->order_id = UINT64_MAX;
    order->qty = order->round = order->segment = UINT32_MAX;
    strcpy(order->expires_at, order->created_at);
    order_answer(&request, PROBLEM_LEDGER_UNAVAILABLE);
    assert_ptr_equal(request.answer.text, request.answer.inline_text);
    json_t *object = parse(request.answer.text, request.answer.length);
    assert_int_equal(strlen(member(object, "user_id")), USER_ID_SIZE - 1);
    json_decref(object);
}

static void test_replayed_order_is_told_as_the_first_time(void **state)
{
    (void)state;
    char first[ANSWER_INLINE_MAX];
    decide(STOCK_ACCEPTED);
    order_answer(&request, PROBLEM_LEDGER_UNAVAILABLE);
    size_t length = request.answer.length;
    memcpy(first, request.answer.text, length);
    decide(STOCK_REPLAYED);
    strcpy(request.order.status, "reserved");
    order_answer(&request, PROBLEM_LEDGER_UNAVAILABLE);
    assert_int_equal(request.answer.status, 200);
    assert_int_equal(request.answer.length, length);
    assert_memory_equal(request.answer.text, first, length);
}

static void test_other_outcomes_are_problems(void **state)
{
    (void)state;
    static const struct {
        enum stock_outcome outcome;
        enum problem problem;
    } rows[] = {{STOCK_KEY_REUSED, PROBLEM_KEY_REUSED},
                {STOCK_SOLD_OUT, PROBLEM_SOLD_OUT},
                {STOCK_PAUSED, PROBLEM_PAUSED},
                {STOCK_UNKNOWN_SKU, PROBLEM_UNKNOWN_SKU},
                {STOCK_UNAVAILABLE, PROBLEM_LEDGER_UNAVAILABLE},
                {STOCK_AGAIN, PROBLEM_LEDGER_UNAVAILABLE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        decide(rows[i].outcome);
        order_answer(&request, PROBLEM_LEDGER_UNAVAILABLE);
        assert_int_equal(request.answer.problem, rows[i].problem);
        assert_int_equal(request.answer.status, problem_status(rows[i].problem));
    }
    decide(STOCK_COUNTING);
    order_answer(&request, PROBLEM_LEDGER_UNAVAILABLE);
    json_t *told = parse(request.answer.text, request.answer.length);
    assert_int_equal(request.answer.status, 503);
    assert_string_equal(member(told, "code"), "unavailable");
    assert_int_equal(request.answer.retry_after_s, 1);
    json_decref(told);
    decide(STOCK_IN_DOUBT);
    order_answer(&request, PROBLEM_LEDGER_UNAVAILABLE);
    assert_int_equal(request.answer.problem, PROBLEM_NONE);
    json_t *object = parse(request.answer.text, request.answer.length);
    assert_string_equal(member(object, "order_id"), "42");
    json_decref(object);
}

/* Parses the answer, a problem with a member of its own. */
static json_t *refuse(enum stock_outcome outcome, const char *code)
{
    request.order.outcome = outcome;
    order_answer(&request, PROBLEM_LEDGER_UNAVAILABLE);
    assert_int_equal(request.answer.problem, PROBLEM_NONE);
    assert_int_equal(request.answer.status, 409);
    json_t *object = parse(request.answer.text, request.answer.length);
    assert_string_equal(member(object, "code"), code);
    return object;
}

static void test_closed_sale_tells_when_it_opens_or_ended(void **state)
{
    (void)state;
    static const struct {
        int64_t wait_ms;
        unsigned retry_after_s;
    } rows[] = {{1, 1},
                {1000, 1},
                {1001, 2},
                {59999, 60},
                {3600001, RETRY_AFTER_S_MAX},
                {INT64_C(300000000000), RETRY_AFTER_S_MAX}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        request.order.created_ms = 1795210200123 - rows[i].wait_ms;
        request.order.at_ms = 1795210200123;
        json_t *object = refuse(STOCK_NOT_STARTED, "sale_not_started");
        assert_string_equal(member(object, "starts_at"), "2026-11-20T21:30:00.123Z");
        assert_int_equal(request.answer.retry_after_s, rows[i].retry_after_s);
        json_decref(object);
    }
    json_t *object = refuse(STOCK_ENDED, "sale_ended");
    assert_string_equal(member(object, "ends_at"), "2026-11-20T21:30:00.123Z");
    assert_int_equal(request.answer.retry_after_s, 0);
    json_decref(object);
}

static void test_limit_names_the_orders_there_are(void **state)
{
    (void)state;
    for (size_t count = 0; count <= LEDGER_QUOTA_ORDERS_MAX; count += 5) {
        request.order.history = calloc(1, sizeof *request.order.history);
        assert_non_null(request.order.history);
        request.order.history->limit = UINT32_MAX;
        request.order.history->order_count = count;
        for (size_t i = 0; i < count; i++)
            request.order.history->order_ids[i] = UINT64_MAX - i;
        json_t *object = refuse(STOCK_LIMIT, "limit_reached");
        const json_t *orders = json_object_get(object, "orders");
        assert_null(request.order.history);
        assert_int_equal(number(object, "limit"), UINT32_MAX);
        assert_int_equal(json_array_size(orders), count);
        if (count > 0)
            assert_string_equal(json_string_value(json_array_get(orders, 0)),
                                "18446744073709551615");
        json_decref(object);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_accepted_order_is_told_in_full),
        TEST(test_user_ids_are_escaped),
        TEST(test_longest_order_fits_inline),
        TEST(test_replayed_order_is_told_as_the_first_time),
        TEST(test_other_outcomes_are_problems),
        TEST(test_closed_sale_tells_when_it_opens_or_ended),
        TEST(test_limit_names_the_orders_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
