/* Problems and texts as answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/test_range.h"
#include "service/request/answer.h"
#include "service/request/prepared.h"
#include "service/request/test_json.h"

static struct answer answer;

static int start(void **state)
{
    (void)state;
    memset(&answer, 0, sizeof answer);
    answer.problem = PROBLEM_NONE;
    return 0;
}

static int finish(void **state)
{
    (void)state;
    answer_clear(&answer);
    return 0;
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
        assert_int_in_range(problem_status(problem), 400, 599);
        bool later = problem_status(problem) == 503 || problem == PROBLEM_NOT_STARTED ||
                     problem == PROBLEM_PAUSED || problem == PROBLEM_RATE_LIMITED;
        assert_int_equal(problem_retry_after(problem) > 0, later);
        json_decref(object);
    }
}

/* Several problems may share a code: then they differ in the detail, and in nothing else. */
static void test_problems_of_one_code_differ_in_the_detail_alone(void **state)
{
    (void)state;
    json_t *seen[PROBLEM_COUNT];
    for (int i = 0; i < PROBLEM_COUNT; i++) {
        char text[ANSWER_INLINE_MAX];
        seen[i] = parse(text, problem_text((enum problem)i, NULL, "", text, sizeof text));
        for (int j = 0; j < i; j++) {
            if (strcmp(member(seen[i], "code"), member(seen[j], "code")) != 0)
                continue;
            assert_string_equal(member(seen[i], "code"), "unavailable");
            assert_int_equal(problem_status((enum problem)i), problem_status((enum problem)j));
            assert_string_equal(member(seen[i], "title"), member(seen[j], "title"));
            assert_string_not_equal(member(seen[i], "detail"), member(seen[j], "detail"));
        }
    }
    for (int i = 0; i < PROBLEM_COUNT; i++)
        json_decref(seen[i]);
}

static void test_detail_of_its_own_is_quoted(void **state)
{
    (void)state;
    static const char *const details[] = {"plain", "with \"quotes\" and \\ and \n and \xc3\xa9",
                                          ""};
    for (size_t i = 0; i < 3; i++) {
        answer_detail(&answer, PROBLEM_INVALID_REQUEST, details[i]);
        assert_int_equal(answer.problem, PROBLEM_NONE);
        assert_int_equal(answer.status, 400);
        assert_string_equal(answer.content_type, "application/problem+json");
        json_t *object = parse(answer.text, answer.length);
        assert_string_equal(member(object, "detail"), details[i]);
        json_decref(object);
    }
}

static void test_detail_that_is_not_utf8_still_makes_a_document(void **state)
{
    (void)state;
    char text[ANSWER_INLINE_MAX];
    json_t *object =
        parse(text, problem_text(PROBLEM_INVALID_REQUEST, "\xff", "", text, sizeof text));
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
    answer_unknown_outcome(&answer, UINT64_MAX);
    assert_int_equal(answer.status, 503);
    assert_true(answer.retry_after_s > 0);
    json_t *object = parse(answer.text, answer.length);
    assert_string_equal(member(object, "code"), "outcome_unknown");
    assert_string_equal(member(object, "order_id"), "18446744073709551615");
    json_decref(object);
}

static void test_answer_owns_its_text_until_it_is_cleared(void **state)
{
    (void)state;
    char *text = strdup("{}");
    assert_non_null(text);
    answer_text(&answer, 200, "application/json", text, 2);
    assert_ptr_equal(answer.text, text);
    answer_problem(&answer, PROBLEM_OVERLOADED); /* frees it */
    assert_null(answer.text);
    assert_int_equal(answer.status, 503);
    answer_clear(&answer);
    answer_clear(&answer);
    assert_int_equal(answer.problem, PROBLEM_NONE);
    assert_int_equal(answer.length, 0);
}

/* A request's answer is used again, for another request. */
static void test_long_texts_are_counted_until_they_are_freed(void **state)
{
    (void)state;
    size_t before = answers_bytes();
    answer_text(&answer, 200, "text/plain", calloc(1, 2000), 2000);
    assert_int_equal(answers_bytes(), before + 2000);
    answer_text(&answer, 200, "text/plain", strdup("short"), 5);
    assert_int_equal(answers_bytes(), before + 5);
    answer_begin(&answer, 200, "text/plain");
    assert_int_equal(answers_bytes(), before);
}

static void test_status_is_that_of_the_last_answer(void **state)
{
    (void)state;
    answer_problem(&answer, PROBLEM_UNAVAILABLE);
    answer_prepared(&answer, prepared_new("text/plain", "no-store", strdup("x"), 1));
    assert_int_equal(answer.status, 200);
    answer_clear(&answer);
    assert_int_equal(answer.status, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_every_problem_is_a_problem_document),
        TEST(test_problems_of_one_code_differ_in_the_detail_alone),
        TEST(test_detail_of_its_own_is_quoted),
        TEST(test_detail_that_is_not_utf8_still_makes_a_document),
        TEST(test_problem_is_cut_to_its_buffer),
        TEST(test_unknown_order_outcome_names_the_order),
        TEST(test_answer_owns_its_text_until_it_is_cleared),
        TEST(test_long_texts_are_counted_until_they_are_freed),
        TEST(test_status_is_that_of_the_last_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
