/* The alphabets of identifiers and of user ids: each of their characters, and no other. */
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

static void test_user_id_alphabet(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        char text[] = {'a', (char)c, 'b'};
        assert_int_equal(user_id_valid(text, sizeof text), c >= 0x21 && c <= 0x7e);
        assert_int_equal(user_id_valid(text + 1, 1), c >= 0x21 && c <= 0x7e);
    }
}

static void test_user_id_length(void **state)
{
    (void)state;
    static const struct {
        size_t length;
        bool valid;
    } rows[] = {{0, false}, {1, true}, {64, true}, {65, true}, {128, true}, {129, false}};
    char text[USER_ID_SIZE + 1], copy[USER_ID_SIZE];
    memset(text, '@', sizeof text);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memset(copy, 'x', sizeof copy);
        assert_int_equal(user_id_valid(text, rows[i].length), rows[i].valid);
        assert_int_equal(user_id_copy(text, rows[i].length, copy), rows[i].valid);
        assert_int_equal(strlen(copy), rows[i].valid ? rows[i].length : 0);
    }
    assert_false(user_id_valid(text, SIZE_MAX));
}

static void test_user_id_copy(void **state)
{
    (void)state;
    char copy[USER_ID_SIZE];
    assert_true(user_id_copy("o'neil+\"x\"\\{1}%2F/@b.org rest", 24, copy));
    assert_string_equal(copy, "o'neil+\"x\"\\{1}%2F/@b.org");
    assert_false(user_id_copy("a\0b", 3, copy));
    assert_string_equal(copy, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alphabet),       cmocka_unit_test(test_length),
        cmocka_unit_test(test_copy),           cmocka_unit_test(test_user_id_alphabet),
        cmocka_unit_test(test_user_id_length), cmocka_unit_test(test_user_id_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
