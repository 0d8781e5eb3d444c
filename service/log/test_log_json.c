/* Lines of the log as JSON: valid whatever they hold, with one type for each key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "service/log/log.h"
#include "service/log/log_json.h"
#include "service/request/test_json.h"

static const char *convert_part(const char *line, size_t length, bool cut, size_t size)
{
    static char out[2 * LOG_LINE_MAX];
    memset(out, 'X', sizeof out);
    size_t written = log_json(line, length, cut, out, size);
    assert_true(written <= size);
    assert_int_equal(out[written], 'X');
    out[written] = '\0';
    return out;
}

static const char *convert(const char *line)
{
    return convert_part(line, strlen(line), false, LOG_LINE_MAX);
}

static void test_pairs_become_members(void **state)
{
    (void)state;
    assert_string_equal(
        convert("ts=2026-11-20T21:30:00.123Z level=warn event=e n=7 x=-1.5 ok=true"),
        "{\"ts\":\"2026-11-20T21:30:00.123Z\",\"level\":\"warn\",\"event\":\"e\","
        "\"n\":7,\"x\":-1.5,\"ok\":true}");
    assert_string_equal(convert("a=\"b c\" d= e=\"\""), "{\"a\":\"b c\",\"d\":\"\",\"e\":\"\"}");
    assert_string_equal(convert(""), "{}");
}

static void test_a_key_has_one_type(void **state)
{
    (void)state;
    assert_string_equal(convert("sku=12 request_id=34 error=5"),
                        "{\"sku\":\"12\",\"request_id\":\"34\",\"error\":\"5\"}");
    assert_string_equal(convert("a=\"12\" b=\"true\""), "{\"a\":\"12\",\"b\":\"true\"}");
}

static void test_only_numbers_of_json_are_numbers(void **state)
{
    (void)state;
    assert_string_equal(convert("a=007 b=1e9 c=. d=1. e=- f=0x1 g=1234567890123456 h=0 i=0.50"),
                        "{\"a\":\"007\",\"b\":\"1e9\",\"c\":\".\",\"d\":\"1.\",\"e\":\"-\","
                        "\"f\":\"0x1\",\"g\":\"1234567890123456\",\"h\":0,\"i\":0.50}");
}

static void test_quotes_are_read_as_log_quote_writes_them(void **state)
{
    (void)state;
    char line[256];
    static const char value[] = "a \"b\" \\ c=d\n\te";
    snprintf(line, sizeof line, "v=%s n=1", LOG_QUOTE(value));
    json_t *object = parse(convert(line), strlen(convert(line)));
    assert_string_equal(member(object, "v"), value);
    assert_int_equal(json_integer_value(json_object_get(object, "n")), 1);
    json_decref(object);
}

static void test_words_without_a_key_stay(void **state)
{
    (void)state;
    assert_string_equal(convert("a=b c d e=f"), "{\"a\":\"b c d\",\"e\":\"f\"}");
    assert_string_equal(convert("a=\"b\" c"), "{\"a\":\"b\",\"text\":\"c\"}");
    assert_string_equal(convert("a=\"b"), "{\"a\":\"b\"}");
}

static void test_bytes_that_are_no_utf8_are_replaced(void **state)
{
    (void)state;
#define NO "\xef\xbf\xbd"
    assert_string_equal(convert("a=\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"),
                        "{\"a\":\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"}");
    assert_string_equal(convert("a=\xff\xc3 b=\xc0\x80 c=\xed\xa0\x80 d=\xe2\x82"),
                        "{\"a\":\"" NO NO "\",\"b\":\"" NO NO "\",\"c\":\"" NO NO NO
                        "\",\"d\":\"" NO NO "\"}");
    assert_string_equal(convert("a=\x01\x1b[0m"), "{\"a\":\"\\u0001\\u001b[0m\"}");
}

static void test_a_cut_line_stays_valid(void **state)
{
    (void)state;
    assert_string_equal(convert_part("a=b c=\"d", 8, true, 100),
                        "{\"a\":\"b\",\"c\":\"d\",\"truncated\":true}");
    static const char line[] = "first=\"a\xc3\xa4\\n\\\"\" number=123456 second=\"plain text\"";
    for (size_t size = LOG_JSON_MIN; size < 120; size++) {
        const char *text = convert_part(line, sizeof line - 1, false, size);
        json_t *object = parse(text, strlen(text));
        const json_t *number = json_object_get(object, "number");
        assert_true(!number || json_integer_value(number) == 123456);
        assert_true(json_object_get(object, "truncated") || json_object_size(object) == 3);
        json_decref(object);
    }
}

static void test_any_bytes_give_valid_json(void **state)
{
    (void)state;
    static const char likely[] = "a=\"\\ \xc3\xa4\x80n0-.";
    char line[64];
    unsigned seed = 1;
    for (int round = 0; round < 20000; round++) {
        size_t length = (size_t)rand_r(&seed) % sizeof line;
        for (size_t i = 0; i < length; i++) {
            if (rand_r(&seed) % 4 == 0)
                line[i] = (char)(rand_r(&seed) % 256);
            else
                line[i] = likely[(size_t)rand_r(&seed) % (sizeof likely - 1)];
        }
        size_t size = LOG_JSON_MIN + (size_t)rand_r(&seed) % 400;
        const char *text = convert_part(line, length, rand_r(&seed) % 2 == 0, size);
        json_error_t error;
        json_t *object = json_loads(text, 0, &error); /* keys may come twice here */
        if (!object)
            fail_msg("%s in %s", error.text, text);
        json_decref(object);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs_become_members),
        cmocka_unit_test(test_a_key_has_one_type),
        cmocka_unit_test(test_only_numbers_of_json_are_numbers),
        cmocka_unit_test(test_quotes_are_read_as_log_quote_writes_them),
        cmocka_unit_test(test_words_without_a_key_stay),
        cmocka_unit_test(test_bytes_that_are_no_utf8_are_replaced),
        cmocka_unit_test(test_a_cut_line_stays_valid),
        cmocka_unit_test(test_any_bytes_give_valid_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
