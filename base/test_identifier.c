/* The alphabet of identifiers: each of its characters, and no other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/identifier.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-";

static void test_alphabet(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        char text = (char)c;
        bool expected = c != 0 && strchr(letters, c) != NULL;
        assert_int_equal(identifier_alphabet[c], expected);
        assert_int_equal(identifier_valid(&text, 1), expected);
    }
}

static void test_length(void **state)
{
    (void)state;
    char text[IDENTIFIER_SIZE], copy[IDENTIFIER_SIZE] = "x";
    memset(text, 'a', sizeof text);
    assert_false(identifier_copy(text, 0, copy));
    assert_string_equal(copy, "");
    assert_false(identifier_copy(text, sizeof text, copy));
    assert_string_equal(copy, "");
    assert_true(identifier_copy(text, sizeof text - 1, copy));
    assert_int_equal(strlen(copy), sizeof text - 1);
}

static void test_copy(void **state)
{
    (void)state;
    char copy[IDENTIFIER_SIZE] = "x";
    assert_true(identifier_copy("sku-1/rest", 5, copy));
    assert_string_equal(copy, "sku-1");
    assert_false(identifier_copy("sku-1/rest", 6, copy));
    assert_string_equal(copy, "");
    assert_false(identifier_copy("a\0b", 3, copy));
    assert_string_equal(copy, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alphabet),
        cmocka_unit_test(test_length),
        cmocka_unit_test(test_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
