/* Texts in SQL: a user id stays one value, whatever signs it has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "sql/db/sql_text.h"

static void expect(const char *user_id, const char *wanted)
{
    struct sql_text sql = {0};
    sql_printf(&sql, "%s", user_id);
    sql_append(&sql, "", 1);
    assert_string_equal(sql.text, wanted);
    sql_free(&sql);
}

static void test_quotes_and_backslashes_are_doubled(void **state)
{
    (void)state;
    expect("u1", "'u1'");
    expect("a@b.org", "'a@b.org'");
    expect("'", "''''");
    expect("\\", "'\\\\'");
    expect("o'neil", "'o''neil'");
    expect("\\'--", "'\\\\''--'");
    expect("'';DROP/**/TABLE/**/orders#\"", "''''';DROP/**/TABLE/**/orders#\"'");
    expect("a\\", "'a\\\\'");
}

/* Whatever the server takes a backslash for, the text ends with its last quote. */
static void test_no_text_ends_early(void **state)
{
    (void)state;
    static const char signs[] = "'\\a";
    for (int n = 0; n < 3 * 3 * 3 * 3 * 3 * 3; n++) {
        char user_id[7] = "";
        struct sql_text sql = {0};
        for (int i = 0, rest = n; i < 6; i++, rest /= 3)
            user_id[i] = signs[rest % 3];
        sql_printf(&sql, "%s", user_id);
        sql_printf(&sql, ";"); /* no quote, whatever was there before */
        for (int escapes = 0; escapes < 2; escapes++) {
            size_t at = 1;
            while (sql.text[at] != '\'' || sql.text[at + 1] == '\'')
                at += sql.text[at] == '\'' || (escapes && sql.text[at] == '\\') ? 2 : 1;
            assert_int_equal(at, sql.length - 2);
        }
        sql_free(&sql);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quotes_and_backslashes_are_doubled),
        cmocka_unit_test(test_no_text_ends_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
