/* Lines of the log as JSON: valid whatever they hold, with one type for each key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/log/log.h"
#include "service/log/log_sink.h"

static int log_pipe[2];

static int open_log(void **state)
{
    (void)state;
    int failed = pipe(log_pipe);
    log_setup(LOG_INFO, log_pipe[1]);
    log_style(LOG_JSON, false);
    return failed;
}

static const char *read_line(void)
{
    static char line[LOG_LINE_MAX + 1];
    log_sink_flush();
    ssize_t length = read(log_pipe[0], line, LOG_LINE_MAX);
    assert_true(length > 0 && line[length - 1] == '\n');
    line[length - 1] = '\0';
    return line;
}

/* What stands behind the event of the line that was just written. */
static const char *members(void)
{
    const char *after = strstr(read_line(), "\"event\":\"e\"");
    assert_non_null(after);
    return after + strlen("\"event\":\"e\"");
}

static json_t *object_of(const char *line)
{
    json_error_t error;
    json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        fail_msg("%s in %s", error.text, line);
    return object;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static void test_pairs_become_members(void **state)
{
    (void)state;
    log_each(LOG_WARN, "e", "n=%d x=%.1f ok=true a=%s d= f=%s", 7, -1.5, LOG_QUOTE("b c"), "g");
    const char *line = read_line();
    assert_int_equal(strncmp(line, "{\"ts\":\"2", 8), 0);
    assert_non_null(strstr(line, "Z\",\"level\":\"warn\",\"event\":\"e\",\"n\":7,\"x\":-1.5,"
                                 "\"ok\":true,\"a\":\"b c\",\"d\":\"\",\"f\":\"g\"}"));
    log_each(LOG_INFO, "e", NULL);
    assert_string_equal(members(), "}");
}

static void test_a_key_has_one_type(void **state)
{
    (void)state;
    log_each(LOG_INFO, "e", "sku=%s request_id=%s error=%s", "12", "34", LOG_QUOTE("5"));
    assert_string_equal(members(), ",\"sku\":\"12\",\"request_id\":\"34\",\"error\":\"5\"}");
}

static void test_only_numbers_of_json_are_numbers(void **state)
{
    (void)state;
    log_each(LOG_INFO, "e", "%s",
             "a=007 b=1e9 c=. d=1. f=- g=0x1 h=1234567890123456 i=0 j=0.50 k=1.2.3");
    assert_string_equal(members(), ",\"a\":\"007\",\"b\":\"1e9\",\"c\":\".\",\"d\":\"1.\","
                                   "\"f\":\"-\",\"g\":\"0x1\",\"h\":\"1234567890123456\",\"i\":0,"
                                   "\"j\":0.50,\"k\":\"1.2.3\"}");
}

static void test_a_quoted_value_is_read_as_it_was(void **state)
{
    (void)state;
    static const char value[] = "a \"b\" \\ c=d\n\te \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80";
    log_each(LOG_INFO, "e", "v=%s n=1", LOG_QUOTE(value));
    json_t *object = object_of(read_line());
    assert_string_equal(text_of(object, "v"), value);
    assert_int_equal(json_integer_value(json_object_get(object, "n")), 1);
    json_decref(object);
}

static void test_bytes_that_are_no_utf8_are_replaced(void **state)
{
    (void)state;
#define NO "\xef\xbf\xbd"
    log_each(LOG_INFO, "e", "a=%s b=%s c=%s d=%s", LOG_QUOTE("\xff\xc3"), LOG_QUOTE("\xc0\x80"),
             LOG_QUOTE("\xed\xa0\x80"), LOG_QUOTE("\xe2\x82"));
    assert_string_equal(members(), ",\"a\":\"" NO NO "\",\"b\":\"" NO NO "\",\"c\":\"" NO NO NO
                                   "\",\"d\":\"" NO NO "\"}");
    log_each(LOG_INFO, "e", "a=%s b=%s", LOG_QUOTE("\x01\x1b[0m"), "\xff\"");
    assert_string_equal(members(), ",\"a\":\"??[0m\",\"b\":\"??\"}");
}

/* A line that is cut anywhere, also within an escape or a number, keeps the members before. */
static void test_a_cut_line_stays_valid(void **state)
{
    (void)state;
    char filler[LOG_LINE_MAX];
    memset(filler, 'x', sizeof filler);
    for (int length = LOG_LINE_MAX - 160; length < LOG_LINE_MAX - 1; length++) {
        log_each(LOG_INFO, "e", "a=%.*s quoted=%s number=123456 last=%s", length, filler,
                 LOG_QUOTE("a\xc3\xa4\n\""), LOG_QUOTE("plain text"));
        const char *line = read_line();
        json_t *object = object_of(line);
        const json_t *number = json_object_get(object, "number");
        const char *quoted = text_of(object, "quoted");
        assert_true(!number || json_integer_value(number) == 123456);
        assert_true(quoted[0] == '\0' || strcmp(quoted, "a\xc3\xa4\n\"") == 0);
        assert_true(strlen(line) < LOG_LINE_MAX);
        assert_true(json_object_get(object, "truncated") || json_object_get(object, "last"));
        json_decref(object);
    }
}

static void test_any_bytes_give_valid_json(void **state)
{
    (void)state;
    static const char likely[] = "a=\"\\ \xc3\xa4\x80n0-.";
    char value[64];
    unsigned seed = 1;
    for (int round = 0; round < 20000; round++) {
        size_t length = (size_t)rand_r(&seed) % sizeof value;
        for (size_t i = 0; i < length; i++)
            value[i] = (char)(rand_r(&seed) % 4 == 0
                                  ? (int)(rand_r(&seed) % 256)
                                  : likely[(size_t)rand_r(&seed) % (sizeof likely - 1)]);
        value[length] = '\0';
        char small[24];
        log_each(LOG_INFO, "e", "a=%s b=%s", LOG_QUOTE(value),
                 log_quote(value, small, 3 + (size_t)rand_r(&seed) % (sizeof small - 3)));
        json_decref(object_of(read_line()));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs_become_members),
        cmocka_unit_test(test_a_key_has_one_type),
        cmocka_unit_test(test_only_numbers_of_json_are_numbers),
        cmocka_unit_test(test_a_quoted_value_is_read_as_it_was),
        cmocka_unit_test(test_bytes_that_are_no_utf8_are_replaced),
        cmocka_unit_test(test_a_cut_line_stays_valid),
        cmocka_unit_test(test_any_bytes_give_valid_json),
    };
    return cmocka_run_group_tests(tests, open_log, NULL);
}
