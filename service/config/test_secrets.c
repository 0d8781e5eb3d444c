/* Lists of secrets, from an option and from a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/config/tokens.h"

static void test_list_is_split_at_commas(void **state)
{
    struct secrets secrets;
    (void)state;
    assert_true(secrets_parse("", &secrets));
    assert_int_equal(secrets.count, 0);
    assert_true(secrets_parse("one", &secrets));
    assert_int_equal(secrets.count, 1);
    assert_true(secrets_parse("one,two,three", &secrets));
    assert_int_equal(secrets.count, 3);
    assert_string_equal(secrets.list[0], "one");
    assert_string_equal(secrets.list[2], "three");
}

static void test_list_that_is_none_is_refused(void **state)
{
    static const char *const bad[] = {
        ",", "one,", ",one", "one,,two", "one, two", "t\xc3\xb6", "1,2,3,4,5,6,7,8,9"};
    struct secrets secrets;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(secrets_parse(bad[i], &secrets));
        assert_int_equal(secrets.count, 0);
    }
}

static void test_secret_is_bounded(void **state)
{
    char text[SECRET_MAX + 2];
    struct secrets secrets;
    (void)state;
    memset(text, 'x', sizeof text);
    text[SECRET_MAX + 1] = '\0';
    assert_false(secrets_parse(text, &secrets));
    text[SECRET_MAX] = '\0';
    assert_true(secrets_parse(text, &secrets));
    assert_string_equal(secrets.list[0], text);
}

/* Reads a file with this content. */
static bool read_content(const char *content, char text_out[SECRETS_TEXT_SIZE])
{
    char name[] = "/tmp/seckill-secrets.XXXXXX";
    const char *reason = NULL;
    int fd = mkstemp(name);
    assert_true(fd >= 0 && write(fd, content, strlen(content)) == (ssize_t)strlen(content));
    close(fd);
    bool good = secrets_read_file(name, text_out, &reason);
    assert_int_equal(good, reason == NULL);
    unlink(name);
    return good;
}

static void test_file_has_one_a_line(void **state)
{
    char text[SECRETS_TEXT_SIZE];
    (void)state;
    assert_true(read_content("one", text));
    assert_string_equal(text, "one");
    assert_true(read_content("\n  one \r\n\ntwo\n", text));
    assert_string_equal(text, "one,two");
    assert_false(read_content("", text));
    assert_false(read_content(" \n\n", text));
    assert_false(read_content("one two\n", text));
    assert_false(read_content("one,two\n", text));
    assert_false(read_content("1\n2\n3\n4\n5\n6\n7\n8\n9\n", text));
}

static void test_longest_file_fits(void **state)
{
    char content[SECRETS_TEXT_SIZE + 1] = "", text[SECRETS_TEXT_SIZE];
    (void)state;
    memset(content, 'x', SECRETS_TEXT_SIZE);
    for (size_t i = 1; i <= SECRETS_MAX; i++)
        content[i * (SECRET_MAX + 1) - 1] = '\n';
    assert_true(read_content(content, text));
    assert_int_equal(strlen(text), SECRETS_TEXT_SIZE - 1);
    content[SECRETS_TEXT_SIZE - 1] = 'x'; /* the last one is too long */
    assert_false(read_content(content, text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_is_split_at_commas),
        cmocka_unit_test(test_list_that_is_none_is_refused),
        cmocka_unit_test(test_secret_is_bounded),
        cmocka_unit_test(test_file_has_one_a_line),
        cmocka_unit_test(test_longest_file_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
