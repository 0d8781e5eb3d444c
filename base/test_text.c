/* Digits as printf writes them; FNV-1a: the published values, and slots that are evenly used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/test_range.h"
#include "base/text.h"

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

static void test_digits_as_printf(void **state)
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

/* From the authors' test vectors. */
static void test_published_values(void **state)
{
    (void)state;
    assert_true(hash_text("") == UINT64_C(0xcbf29ce484222325));
    assert_true(hash_text("a") == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(hash_text("foobar") == UINT64_C(0x85944171f73967e8));
}

static void test_slots_are_evenly_used(void **state)
{
    (void)state;
    enum { SLOTS = 64, EACH = 100 };
    int used[SLOTS] = {0};
    char text[32];
    for (int i = 0; i < SLOTS * EACH; i++) {
        snprintf(text, sizeof text, "sku-%d", i);
        size_t slot = hash_slot(text, SLOTS);
        assert_true(slot < SLOTS);
        used[slot]++;
    }
    for (int i = 0; i < SLOTS; i++)
        assert_int_in_range(used[i], EACH / 2, EACH * 2);
    assert_int_equal(hash_slot("any", 1), 0);
}

static void test_slots_of_addresses_are_evenly_used(void **state)
{
    (void)state;
    enum { SLOTS = 64, EACH = 100 };
    static struct {
        char size[48];
    } objects[SLOTS * EACH];
    int used[SLOTS] = {0};
    for (int i = 0; i < SLOTS * EACH; i++) {
        size_t slot = hash_address_slot(&objects[i], SLOTS);
        assert_true(slot < SLOTS);
        used[slot]++;
    }
    for (int i = 0; i < SLOTS; i++)
        assert_int_in_range(used[i], EACH / 2, EACH * 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digits_as_printf),
        cmocka_unit_test(test_published_values),
        cmocka_unit_test(test_slots_are_evenly_used),
        cmocka_unit_test(test_slots_of_addresses_are_evenly_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
