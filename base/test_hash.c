/* FNV-1a: the published values, and slots that are evenly used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/hash.h"

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
        assert_in_range(used[i], EACH / 2, EACH * 2);
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
        assert_in_range(used[i], EACH / 2, EACH * 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_values),
        cmocka_unit_test(test_slots_are_evenly_used),
        cmocka_unit_test(test_slots_of_addresses_are_evenly_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
