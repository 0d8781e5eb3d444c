/* Delays double up to their limit, with jitter, and begin anew after a success. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/test_range.h"

/* How long after now_ms the next try may be. */
static int64_t delay_of(const struct backoff *backoff, int64_t now_ms)
{
    int64_t delay_ms = 0;
    while (!backoff_over(backoff, now_ms + delay_ms))
        delay_ms++;
    return delay_ms;
}

static void test_no_failure_no_delay(void **state)
{
    (void)state;
    struct backoff backoff;
    backoff_init(&backoff, 20, 1000, 1);
    assert_true(backoff_over(&backoff, 0));
}

static void test_delays_double(void **state)
{
    (void)state;
    static const int expected_ms[] = {20, 40, 80, 160, 320, 640, 1000, 1000, 1000};
    int64_t now_ms = 5000;
    for (unsigned seed = 0; seed < 50; seed++) {
        struct backoff backoff;
        backoff_init(&backoff, 20, 1000, seed);
        for (size_t i = 0; i < sizeof expected_ms / sizeof *expected_ms; i++) {
            backoff_fail(&backoff, now_ms);
            int64_t delay_ms = delay_of(&backoff, now_ms);
            assert_int_in_range(delay_ms, expected_ms[i] / 2, expected_ms[i]);
            now_ms += delay_ms;
        }
    }
}

static void test_jitter_differs(void **state)
{
    (void)state;
    int64_t least_ms = INT64_MAX, most_ms = 0;
    for (unsigned seed = 0; seed < 100; seed++) {
        struct backoff backoff;
        backoff_init(&backoff, 1000, 1000, seed);
        backoff_fail(&backoff, 0);
        int64_t delay_ms = delay_of(&backoff, 0);
        least_ms = delay_ms < least_ms ? delay_ms : least_ms;
        most_ms = delay_ms > most_ms ? delay_ms : most_ms;
    }
    assert_true(most_ms - least_ms > 250);
}

static void test_success_begins_anew(void **state)
{
    (void)state;
    struct backoff backoff;
    backoff_init(&backoff, 20, 1000, 7);
    for (int i = 0; i < 5; i++)
        backoff_fail(&backoff, 0);
    backoff_reset(&backoff);
    assert_true(backoff_over(&backoff, 0));
    backoff_fail(&backoff, 0);
    assert_int_in_range(delay_of(&backoff, 0), 10, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_failure_no_delay),
        cmocka_unit_test(test_delays_double),
        cmocka_unit_test(test_jitter_differs),
        cmocka_unit_test(test_success_begins_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
