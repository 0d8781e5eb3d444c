/* When the deadline of a request comes, and what its client is told then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "service/config/options.h"
#include "service/request/request.h"

enum { COMPLETE_NS = 1000, ORDER_ID = 77 };

static struct request request;
static struct answer answer;

static int start(void **state)
{
    (void)state;
    memset(&request, 0, sizeof request);
    request.http.complete_ns = COMPLETE_NS;
    return 0;
}

static void expire(enum request_state state, enum call_kind kind, int64_t sold_ns)
{
    atomic_store(&request.state, (int)state);
    request_answer_late(&request, kind, sold_ns, &answer);
}

static void test_deadline_counts_from_the_first_line(void **state)
{
    (void)state;
    struct config config = {.deadline_ms = 2000, .lease_ms = 3000};
    request.arrived_ns = 5;
    request_set_deadline(&request, &config, CALL_ORDER);
    assert_int_equal(request.http.until_ns, 5 + 2000 * CLOCK_NS_PER_MS);
    assert_int_equal(request.order.until_ns, request.http.until_ns);
    request_set_deadline(&request, &config, CALL_CANCEL);
    assert_int_equal(request.http.until_ns, 5 + 4000 * CLOCK_NS_PER_MS);
}

static void test_order_that_no_worker_took_is_withdrawn(void **state)
{
    (void)state;
    expire(REQUEST_QUEUED, CALL_ORDER, COMPLETE_NS + 1);
    assert_int_equal(answer.problem, PROBLEM_OVERLOADED);
    assert_int_equal(atomic_load(&request.state), REQUEST_WITHDRAWN);
    expire(REQUEST_QUEUED, CALL_ORDER, COMPLETE_NS); /* nothing was sold since */
    assert_int_equal(answer.problem, PROBLEM_UNAVAILABLE);
}

static void check_unknown(void)
{
    assert_int_equal(answer.problem, PROBLEM_NONE);
    assert_int_equal(answer.status, 503);
    char text[ANSWER_INLINE_MAX + 1];
    snprintf(text, sizeof text, "%.*s", (int)answer.length, answer.text);
    assert_non_null(strstr(text, "\"code\":\"outcome_unknown\""));
    assert_non_null(strstr(text, "\"order_id\":\"77\""));
}

static void test_order_that_a_worker_took_is_unknown_with_its_id(void **state)
{
    (void)state;
    atomic_store(&request.published_id, ORDER_ID);
    expire(REQUEST_TAKEN, CALL_ORDER, 0);
    check_unknown();
    assert_int_equal(atomic_load(&request.state), REQUEST_TIMED_OUT);
    expire(REQUEST_DONE, CALL_ORDER, 0); /* it has just been decided */
    check_unknown();
    assert_int_equal(atomic_load(&request.state), REQUEST_DONE);
}

static void test_calls_are_unknown_only_when_they_change_something(void **state)
{
    (void)state;
    expire(REQUEST_TAKEN, CALL_LOOKUP, 0);
    assert_int_equal(answer.problem, PROBLEM_UNAVAILABLE);
    request.call.changes = true;
    expire(REQUEST_TAKEN, CALL_CANCEL, 0);
    assert_int_equal(answer.problem, PROBLEM_OUTCOME_UNKNOWN);
    expire(REQUEST_QUEUED, CALL_CANCEL, 0); /* no worker took it */
    assert_int_equal(answer.problem, PROBLEM_UNAVAILABLE);
}

#define TEST(name) cmocka_unit_test_setup(name, start)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_deadline_counts_from_the_first_line),
        TEST(test_order_that_no_worker_took_is_withdrawn),
        TEST(test_order_that_a_worker_took_is_unknown_with_its_id),
        TEST(test_calls_are_unknown_only_when_they_change_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
