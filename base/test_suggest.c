/* A wrong name is near to the one that was meant, and to no other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/suggest.h"

static const char *const names[] = {"limit", "pay-within", "starts", "ends", "end-round", "for"};

/* What is suggested for a wrong name, "" for nothing. */
static const char *suggested(const char *wanted)
{
    static struct suggestion suggestion;
    suggestion = (struct suggestion){.wanted = wanted, .distance = SIZE_MAX};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        suggest(&suggestion, names[i]);
    return suggestion.name;
}

static void test_typing_errors(void **state)
{
    (void)state;
    assert_string_equal(suggested("limt"), "limit");
    assert_string_equal(suggested("paywithin"), "pay-within");
    assert_string_equal(suggested("pay-within-s"), "pay-within");
    assert_string_equal(suggested("ennds"), "ends");
    assert_string_equal(suggested("end_round"), "end-round");
}

static void test_names_within_longer_ones(void **state)
{
    (void)state;
    assert_string_equal(suggested("per-user-limit"), "limit");
    assert_string_equal(suggested("per_user_limit"), "limit");
    assert_string_equal(suggested("starts-at"), "starts");
    assert_string_equal(suggested("ends-at"), "ends");
}

static void test_nothing_near(void **state)
{
    (void)state;
    assert_string_equal(suggested(""), "");
    assert_string_equal(suggested("fly"), ""); /* of "for" hardly anything is left */
    assert_string_equal(suggested("unlimited"), "");
    assert_string_equal(suggested("limitless"), "");
    assert_string_equal(suggested("a-name-longer-than-any-that-can-be-suggested-limits"), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_typing_errors),
        cmocka_unit_test(test_names_within_longer_ones),
        cmocka_unit_test(test_nothing_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
