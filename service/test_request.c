/* A request's states, and the texts of its answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "service/request.h"

#define WORD_64 "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-"

enum { RACERS = 4, RACES = 500 };

static struct request request;

static int start(void **state)
{
    (void)state;
    memset(&request, 0, sizeof request);
    request.answer.problem = PROBLEM_NONE;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    answer_clear(&request.answer);
    stock_order_clear(&request.order);
    return 0;
}

/* ---- states ---- */

static void test_request_goes_its_way(void **state)
{
    (void)state;
    assert_true(request_move(&request, REQUEST_RECEIVING, REQUEST_QUEUED));
    assert_true(request_move(&request, REQUEST_QUEUED, REQUEST_TAKEN));
    assert_true(request_move(&request, REQUEST_TAKEN, REQUEST_QUEUED));
    assert_true(request_move(&request, REQUEST_QUEUED, REQUEST_TAKEN));
    assert_true(request_move(&request, REQUEST_TAKEN, REQUEST_DONE));
    assert_int_equal(atomic_load(&request.state), REQUEST_DONE);
}

static void test_request_given_up_cannot_be_taken(void **state)
{
    (void)state;
    assert_true(request_move(&request, REQUEST_RECEIVING, REQUEST_QUEUED));
    assert_true(request_move(&request, REQUEST_QUEUED, REQUEST_GIVEN_UP));
    assert_false(request_move(&request, REQUEST_QUEUED, REQUEST_TAKEN));
    assert_int_equal(atomic_load(&request.state), REQUEST_GIVEN_UP);
}

static void test_request_taken_cannot_be_given_up(void **state)
{
    (void)state;
    atomic_store(&request.state, REQUEST_TAKEN);
    assert_false(request_move(&request, REQUEST_QUEUED, REQUEST_GIVEN_UP));
    assert_int_equal(atomic_load(&request.state), REQUEST_TAKEN);
}

static bool dies_of(enum request_state from, enum request_state to)
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGABRT, SIG_DFL); /* not cmocka's affair */
        if (!freopen("/dev/null", "w", stderr))
            _exit(2);
        atomic_store(&request.state, (int)from);
        request_move(&request, from, to);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void test_moves_that_the_table_does_not_have_are_fatal(void **state)
{
    (void)state;
    static const enum request_state moves[][2] = {
        {REQUEST_RECEIVING, REQUEST_TAKEN}, {REQUEST_RECEIVING, REQUEST_DONE},
        {REQUEST_QUEUED, REQUEST_DONE},     {REQUEST_TAKEN, REQUEST_GIVEN_UP},
        {REQUEST_DONE, REQUEST_TAKEN},      {REQUEST_GIVEN_UP, REQUEST_QUEUED}};
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        assert_true(dies_of(moves[i][0], moves[i][1]));
    assert_false(dies_of(REQUEST_QUEUED, REQUEST_TAKEN));
}

static void *race_for(void *argument)
{
    struct request *all = argument;
    size_t won = 0;
    for (int i = 0; i < RACES; i++)
        won += request_move(&all[i], REQUEST_QUEUED, REQUEST_TAKEN);
    return (void *)(uintptr_t)won;
}

static void test_one_thread_wins_each_move(void **state)
{
    (void)state;
    pthread_t threads[RACERS];
    size_t won = 0;
    struct request *all = calloc(RACES, sizeof *all);
    assert_non_null(all);
    for (int i = 0; i < RACES; i++)
        atomic_store(&all[i].state, REQUEST_QUEUED);
    for (int i = 0; i < RACERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, race_for, all), 0);
    for (int i = 0; i < RACERS; i++) {
        void *mine = NULL;
        pthread_join(threads[i], &mine);
        won += (size_t)(uintptr_t)mine;
    }
    assert_int_equal(won, RACES);
    free(all);
}

/* ---- problems ---- */

static json_t *parse(const char *text, size_t length)
{
    json_error_t error;
    json_t *object = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        fail_msg("%s in %.*s", error.text, (int)length, text);
    assert_true(json_is_object(object));
    return object;
}

static const char *member(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    if (!text)
        fail_msg("no text \"%s\"", name);
    return text;
}

static int64_t number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static void test_every_problem_is_a_problem_document(void **state)
{
    (void)state;
    for (int i = 0; i < PROBLEM_COUNT; i++) {
        enum problem problem = (enum problem)i;
        char text[ANSWER_INLINE_MAX], type[128];
        size_t length = problem_text(problem, NULL, "", text, sizeof text);
        json_t *object = parse(text, length);
        assert_int_equal(length, strlen(text));
        snprintf(type, sizeof type, "urn:seckill:problem:%s", member(object, "code"));
        assert_string_equal(member(object, "type"), type);
        assert_int_equal(number(object, "status"), problem_status(problem));
        assert_string_not_equal(member(object, "title"), "");
        assert_int_equal(json_object_size(object), 5);
        assert_in_range(problem_status(problem), 400, 599);
        bool later = problem_status(problem) == 503 || problem == PROBLEM_NOT_STARTED ||
                     problem == PROBLEM_PAUSED || problem == PROBLEM_RATE_LIMITED;
        assert_int_equal(problem_retry_after(problem) > 0, later);
        json_decref(object);
    }
}

static void test_problem_codes_differ(void **state)
{
    (void)state;
    char seen[PROBLEM_COUNT][64];
    for (int i = 0; i < PROBLEM_COUNT; i++) {
        char text[ANSWER_INLINE_MAX];
        json_t *object = parse(text, problem_text((enum problem)i, NULL, "", text, sizeof text));
        snprintf(seen[i], sizeof seen[i], "%s", member(object, "code"));
        for (int j = 0; j < i; j++)
            assert_string_not_equal(seen[i], seen[j]);
        json_decref(object);
    }
}

static void test_detail_of_its_own_is_quoted(void **state)
{
    (void)state;
    static const char *const details[] = {"plain", "with \"quotes\" and \\ and \n and \xc3\xa9",
                                          ""};
    for (size_t i = 0; i < 3; i++) {
        answer_detail(&request.answer, PROBLEM_INVALID_REQUEST, details[i]);
        assert_int_equal(request.answer.problem, PROBLEM_NONE);
        assert_int_equal(request.answer.status, 400);
        assert_string_equal(request.answer.content_type, "application/problem+json");
        json_t *object = parse(request.answer.text, request.answer.length);
        assert_string_equal(member(object, "detail"), details[i]);
        json_decref(object);
    }
}

static void test_detail_that_is_not_utf8_still_makes_a_document(void **state)
{
    (void)state;
    char text[ANSWER_INLINE_MAX];
    json_t *object =
        parse(text, problem_text(PROBLEM_INTERNAL_ERROR, "\xff", "", text, sizeof text));
    assert_string_equal(member(object, "detail"), "");
    json_decref(object);
}

static void test_problem_is_cut_to_its_buffer(void **state)
{
    (void)state;
    char text[64];
    memset(text, 'x', sizeof text);
    assert_int_equal(problem_text(PROBLEM_SOLD_OUT, NULL, "", text, 40), 39);
    assert_int_equal(strlen(text), 39);
    assert_int_equal(text[40], 'x');
}

static void test_unknown_order_outcome_names_the_order(void **state)
{
    (void)state;
    answer_order_unknown(&request.answer, UINT64_MAX);
    assert_int_equal(request.answer.status, 503);
    assert_true(request.answer.retry_after_s > 0);
    json_t *object = parse(request.answer.text, request.answer.length);
    assert_string_equal(member(object, "code"), "outcome_unknown");
    assert_string_equal(member(object, "order_id"), "18446744073709551615");
    json_decref(object);
}

/* ---- answers ---- */

static void decide(enum stock_outcome outcome)
{
    request.order = (struct stock_order){
        .sku = "s", .user_id = "u", .qty = 3, .order_id = 42, .segment = 7, .outcome = outcome};
    strcpy(request.order.created_at, "2026-11-20T21:30:00.123Z");
}

static void test_accepted_order_is_told_in_full(void **state)
{
    (void)state;
    decide(STOCK_ACCEPTED);
    answer_order(&request);
    assert_int_equal(request.answer.status, 201);
    assert_int_equal(request.answer.problem, PROBLEM_NONE);
    assert_string_equal(request.answer.content_type, "application/json");
    static const char text[] = "{\"order_id\":\"42\",\"sku\":\"s\",\"user_id\":\"u\",\"qty\":3,"
                               "\"segment\":7,\"status\":\"reserved\","
                               "\"created_at\":\"2026-11-20T21:30:00.123Z\"}\n";
    assert_int_equal(request.answer.length, sizeof text - 1);
    assert_memory_equal(request.answer.text, text, sizeof text - 1);
}

static void test_replayed_order_is_told_as_the_first_time(void **state)
{
    (void)state;
    char first[ANSWER_INLINE_MAX];
    decide(STOCK_ACCEPTED);
    answer_order(&request);
    size_t length = request.answer.length;
    memcpy(first, request.answer.text, length);
    decide(STOCK_REPLAYED);
    answer_order(&request);
    assert_int_equal(request.answer.status, 200);
    assert_int_equal(request.answer.length, length);
    assert_memory_equal(request.answer.text, first, length);
}

static void accept_in_pieces(size_t count)
{
    decide(STOCK_ACCEPTED);
    struct stock_order *order = &request.order;
    strcpy(order->sku, WORD_64);
    strcpy(order->user_id, WORD_64);
    order->order_id = UINT64_MAX;
    order->allocations = calloc(count, sizeof *order->allocations);
    assert_non_null(order->allocations);
    order->allocation_count = count;
    for (size_t i = 0; i < count; i++)
        order->allocations[i] = (struct ledger_allocation){UINT32_MAX - (uint32_t)i, UINT32_MAX};
    answer_order(&request);
    assert_null(order->allocations);
    assert_int_equal(order->allocation_count, 0);
}

static void test_order_of_many_segments_tells_them_all(void **state)
{
    (void)state;
    for (size_t count = 2; count <= LEDGER_SEGMENTS_MAX; count *= 2) {
        accept_in_pieces(count);
        json_t *object = parse(request.answer.text, request.answer.length);
        const json_t *list = json_object_get(object, "allocations");
        assert_int_equal(json_array_size(list), count);
        for (size_t i = 0; i < count; i++) {
            const json_t *piece = json_array_get(list, i);
            assert_int_equal(number(piece, "segment"), UINT32_MAX - (uint32_t)i);
            assert_int_equal(number(piece, "qty"), UINT32_MAX);
        }
        assert_string_equal(member(object, "order_id"), "18446744073709551615");
        assert_string_equal(member(object, "sku"), WORD_64);
        json_decref(object);
    }
}

static void test_other_outcomes_are_problems(void **state)
{
    (void)state;
    static const struct {
        enum stock_outcome outcome;
        enum problem problem;
    } rows[] = {{STOCK_KEY_REUSED, PROBLEM_KEY_REUSED},   {STOCK_SOLD_OUT, PROBLEM_SOLD_OUT},
                {STOCK_PAUSED, PROBLEM_PAUSED},           {STOCK_UNKNOWN_SKU, PROBLEM_UNKNOWN_SKU},
                {STOCK_UNAVAILABLE, PROBLEM_UNAVAILABLE}, {STOCK_AGAIN, PROBLEM_UNAVAILABLE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        decide(rows[i].outcome);
        answer_order(&request);
        assert_int_equal(request.answer.problem, rows[i].problem);
        assert_int_equal(request.answer.status, problem_status(rows[i].problem));
    }
    decide(STOCK_IN_DOUBT);
    answer_order(&request);
    assert_int_equal(request.answer.problem, PROBLEM_NONE);
    json_t *object = parse(request.answer.text, request.answer.length);
    assert_string_equal(member(object, "order_id"), "42");
    json_decref(object);
}

/* Parses the answer, a problem with a member of its own. */
static json_t *refuse(enum stock_outcome outcome, const char *code)
{
    request.order.outcome = outcome;
    answer_order(&request);
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

static void test_answer_owns_its_text_until_it_is_cleared(void **state)
{
    (void)state;
    char *text = strdup("{}");
    assert_non_null(text);
    answer_text(&request.answer, 200, "application/json", text, 2);
    assert_ptr_equal(request.answer.text, text);
    answer_problem(&request.answer, PROBLEM_OVERLOADED); /* frees it */
    assert_null(request.answer.text);
    assert_int_equal(request.answer.status, 503);
    answer_clear(&request.answer);
    answer_clear(&request.answer);
    assert_int_equal(request.answer.problem, PROBLEM_NONE);
    assert_int_equal(request.answer.length, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_request_goes_its_way),
        TEST(test_request_given_up_cannot_be_taken),
        TEST(test_request_taken_cannot_be_given_up),
        TEST(test_moves_that_the_table_does_not_have_are_fatal),
        TEST(test_one_thread_wins_each_move),
        TEST(test_every_problem_is_a_problem_document),
        TEST(test_problem_codes_differ),
        TEST(test_detail_of_its_own_is_quoted),
        TEST(test_detail_that_is_not_utf8_still_makes_a_document),
        TEST(test_problem_is_cut_to_its_buffer),
        TEST(test_unknown_order_outcome_names_the_order),
        TEST(test_accepted_order_is_told_in_full),
        TEST(test_replayed_order_is_told_as_the_first_time),
        TEST(test_order_of_many_segments_tells_them_all),
        TEST(test_other_outcomes_are_problems),
        TEST(test_closed_sale_tells_when_it_opens_or_ended),
        TEST(test_limit_names_the_orders_there_are),
        TEST(test_answer_owns_its_text_until_it_is_cleared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
