/* A sale's settings as JSON: which numbers and fields are read and how they are written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "service/calls/calls.h"
#include "service/service.h"

static const char *read_text(const char *text, struct stock_change *change)
{
    json_t *object = json_loads(text, 0, NULL);
    assert_non_null(object);
    const char *detail = sale_settings_read(object, change);
    json_decref(object);
    return detail;
}

static void test_only_the_fields_given_are_changed(void **state)
{
    (void)state;
    struct stock_change change;
    assert_null(read_text("{\"sku\":\"s\"}", &change));
    assert_int_equal(change.fields, 0);
    assert_null(read_text("{\"per_user_limit\":3,\"starts_at\":null}", &change));
    assert_int_equal(change.fields, STOCK_CHANGE_LIMIT | STOCK_CHANGE_STARTS);
    assert_int_equal(change.settings.per_user_limit, 3);
    assert_int_equal(change.settings.starts_ms, 0);
    assert_null(read_text("{\"paused\":true,\"pay_within_s\":2592000,"
                          "\"ends_at\":\"2026-11-20T21:30:00Z\"}",
                          &change));
    assert_int_equal(change.fields, STOCK_CHANGE_PAUSED | STOCK_CHANGE_PAY | STOCK_CHANGE_ENDS);
    assert_true(change.settings.paused);
    assert_int_equal(change.settings.pay_within_s, PAY_WITHIN_S_MAX);
    assert_int_equal(change.settings.ends_ms, 1795210200000);
}

static void test_bad_fields_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text, *field;
    } rows[] = {
        {"{\"starts_at\":7}", "starts_at"},
        {"{\"starts_at\":\"\"}", "starts_at"},
        {"{\"ends_at\":true}", "ends_at"},
        {"{\"ends_at\":\"2026-11-20T21:30:00\"}", "ends_at"},
        {"{\"per_user_limit\":0}", "per_user_limit"},
        {"{\"per_user_limit\":10000001}", "per_user_limit"},
        {"{\"per_user_limit\":\"1\"}", "per_user_limit"},
        {"{\"per_user_limit\":1.0}", "per_user_limit"},
        {"{\"per_user_limit\":false}", "per_user_limit"},
        {"{\"pay_within_s\":-1}", "pay_within_s"},
        {"{\"pay_within_s\":2592001}", "pay_within_s"},
        {"{\"pay_within_s\":4294967297}", "pay_within_s"},
        {"{\"paused\":null}", "paused"},
        {"{\"paused\":1}", "paused"},
        {"{\"late_payment\":\"keep\"}", "late_payment"},
        {"{\"late_payment\":null}", "late_payment"},
        {"{\"hold_max_s\":0}", "hold_max_s"},
        {"{\"grace_s\":86401}", "grace_s"},
        {"{\"starts_at\":\"2026-11-20T21:30:00Z\",\"ends_at\":\"2026-11-20T21:30:00Z\"}",
         "ends_at"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stock_change change;
        const char *detail = read_text(rows[i].text, &change);
        assert_non_null(detail);
        assert_int_equal(strncmp(detail, rows[i].field, strlen(rows[i].field)), 0);
    }
}

static void test_settings_are_written_when_they_are_set(void **state)
{
    (void)state;
    struct ledger_sale sale = {.sku = "s", .round = 1, .total = 10, .segments = 2, .sold = 4};
    json_t *object = sale_json(&sale);
    assert_int_equal(json_object_size(object), 8);
    assert_string_equal(json_string_value(json_object_get(object, "late_payment")), "retake");
    assert_true(json_is_false(json_object_get(object, "paused")));
    json_decref(object);
    sale.settings = (struct ledger_settings){.starts_ms = 1795210200123,
                                             .ends_ms = 1795210200124,
                                             .per_user_limit = 3,
                                             .pay_within_s = 60,
                                             .hold_max_s = 90,
                                             .grace_s = 7,
                                             .refund_late = true,
                                             .paused = true,
                                             .counting = true};
    object = sale_json(&sale);
    assert_int_equal(json_object_size(object), 15);
    assert_true(json_is_true(json_object_get(object, "counting")));
    assert_string_equal(json_string_value(json_object_get(object, "starts_at")),
                        "2026-11-20T21:30:00.123Z");
    assert_int_equal(json_integer_value(json_object_get(object, "per_user_limit")), 3);
    assert_int_equal(json_integer_value(json_object_get(object, "pay_within_s")), 60);
    assert_true(json_is_true(json_object_get(object, "paused")));
    assert_string_equal(json_string_value(json_object_get(object, "late_payment")), "refund");
    assert_int_equal(json_integer_value(json_object_get(object, "hold_max_s")), 90);
    assert_int_equal(json_integer_value(json_object_get(object, "grace_s")), 7);
    json_decref(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_the_fields_given_are_changed),
        cmocka_unit_test(test_bad_fields_are_told_apart),
        cmocka_unit_test(test_settings_are_written_when_they_are_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
