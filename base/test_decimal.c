/* Numbers are written as printf writes them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"

static void check(uint64_t number)
{
    char expected[32], written[DECIMAL_DIGITS_MAX + 1];
    snprintf(expected, sizeof expected, "%" PRIu64, number);
    memset(written, '#', sizeof written);
    char *end = decimal_put(written, number);
    assert_int_equal(end - written, strlen(expected));
    assert_int_equal(*end, '#'); /* no NUL, and nothing further */
    assert_memory_equal(written, expected, strlen(expected));
}

static void test_as_printf(void **state)
{
    (void)state;
    check(0);
    check(UINT64_MAX);
    for (uint64_t power = 1; power < UINT64_MAX / 10; power *= 10) {
        check(power - 1);
        check(power);
        check(power + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_printf)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
