/* URLs of servers: the parts of good ones, and why others are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/url.h"

static struct url good(const char *scheme, const char *text)
{
    struct url url;
    char error[URL_ERROR_SIZE] = "";
    if (!url_parse(text, scheme, &url, error, sizeof error))
        fail_msg("refused \"%s\": %s", text, error);
    return url;
}

/* The reason must have these words, and quote nothing that was written. */
static void bad(const char *scheme, const char *text, const char *words)
{
    struct url url;
    char error[URL_ERROR_SIZE] = "", form[32];
    if (url_parse(text, scheme, &url, error, sizeof error))
        fail_msg("accepted \"%s\"", text);
    snprintf(form, sizeof form, "not of the form %s://", scheme);
    if (strncmp(error, form, strlen(form)) != 0 || !strstr(error, words) || strstr(error, "pw") ||
        strlen(error) + 1 >= sizeof error)
        fail_msg("\"%s\": %s", text, error);
}

static void test_redis(void **state)
{
    (void)state;
    struct url url = good("redis", "redis://h");
    assert_string_equal(url.host, "h");
    assert_string_equal(url.user, "");
    assert_string_equal(url.password, "");
    assert_int_equal(url.port, 6379);
    assert_int_equal(url.database_number, 0);
    url = good("redis", "REDIS://us%65r:p%40%3a%2F@[::1]:65535/15");
    assert_string_equal(url.host, "::1");
    assert_string_equal(url.user, "user");
    assert_string_equal(url.password, "p@:/");
    assert_int_equal(url.port, 65535);
    assert_int_equal(url.database_number, 15);
    url = good("redis", "redis://:a:b@c@h/");
    assert_string_equal(url.user, "");
    assert_string_equal(url.password, "a:b@c");
    assert_string_equal(good("redis", "redis://alone@h").user, "alone");
    assert_string_equal(good("redis", "redis://[fe80::1%eth0]").host, "fe80::1%eth0");
}

static void test_mysql(void **state)
{
    (void)state;
    struct url url = good("mysql", "mysql://u:p%2f@h/d%2Fb");
    assert_string_equal(url.host, "h");
    assert_string_equal(url.user, "u");
    assert_string_equal(url.password, "p/");
    assert_string_equal(url.database, "d/b");
    assert_string_equal(url.socket, "");
    assert_int_equal(url.port, 3306);
    url = good("mysql", "mysql://u@/db?socket=/run/a%3F@b:1/s");
    assert_string_equal(url.host, "");
    assert_string_equal(url.database, "db");
    assert_string_equal(url.socket, "/run/a?@b:1/s");
    url = good("mysql", "MySQL://u:@[::1]:1/my_db");
    assert_string_equal(url.host, "::1");
    assert_string_equal(url.password, "");
    assert_int_equal(url.port, 1);
}

static void test_zookeeper(void **state)
{
    (void)state;
    good("zookeeper", "zookeeper://h");
    good("zookeeper", "zookeeper://a:1,b:2,[::1]:3/shop/x");
    bad("zookeeper", "zookeeper://", "host is missing");
    bad("zookeeper", "zookeeper://a,", "host is missing");
    bad("zookeeper", "zookeeper://a,,b", "host is missing");
    bad("zookeeper", "zookeeper://a:1,b:x", "port");
    bad("zookeeper", "zookeeper://u:pw@a", "no users");
    bad("zookeeper", "zookeeper://a?b", "no options");
}

static void test_bad_schemes_and_characters(void **state)
{
    (void)state;
    static const char *const others[] = {
        "",           "h",        "h:1",  "redis",        "redis:",    "redis:/h",
        "rediss://h", "redi://h", "://h", "mysql://h/db", " redis://h"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        bad("redis", others[i], "another scheme");
    bad("redis", "redis://h ", "visible");
    bad("redis", "redis://u:pw\xff@h", "visible");
    bad("redis", "redis://u:pw\n@h", "visible");
    bad("redis", "redis://u:x/pw@h:1", "%2F");
    bad("mysql", "mysql://u:x/pw@h:1/db", "%2F");
}

static void test_bad_parts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } others[] = {
        {"redis://", "host is missing"},
        {"redis://:1", "host is missing"},
        {"redis://:pw@", "host is missing"},
        {"redis://h:", "port"},
        {"redis://h:0", "port"},
        {"redis://h:-1", "port"},
        {"redis://h:+1", "port"},
        {"redis://h:65536", "port"},
        {"redis://h:99999999999", "port"},
        {"redis://h:1:2", "port"},
        {"redis://[::1", "bracket"},
        {"redis://[]:1", "bracket"},
        {"redis://[::1]1", "brackets"},
        {"redis://[::1]:", "port"},
        {"redis://h/x", "database"},
        {"redis://h/1x", "database"},
        {"redis://h/-1", "database"},
        {"redis://h/99999999999", "database"},
        {"redis://u:pw%@h", "password"},
        {"redis://u:pw%4@h", "password"},
        {"redis://u:pw%4g@h", "password"},
        {"redis://u:pw%00@h", "password"},
        {"redis://%-1:pw@h", "user"},
        {"redis://%zz", "host"},
        {"redis://h?x=1", "option"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        bad("redis", others[i].text, others[i].words);
    bad("mysql", "mysql://h", "database is missing");
    bad("mysql", "mysql://h/", "database is missing");
    bad("mysql", "mysql://h/?socket=/s", "database is missing");
    bad("mysql", "mysql://h/%zz", "database");
    bad("mysql", "mysql:///db", "host is missing");
    bad("mysql", "mysql://u:pw@/db?socket=", "host is missing");
    bad("mysql", "mysql://h/db?", "option");
    bad("mysql", "mysql://h/db?sock=/s", "option");
    bad("mysql", "mysql://h/db?socket=/%", "socket");
}

/* The longest that fits, and one more. */
static void test_lengths(void **state)
{
    (void)state;
    static const struct {
        const char *format, *scheme;
        int size;
    } parts[] = {
        {"redis://%0*d", "redis", URL_PART_SIZE},
        {"redis://[%0*d]", "redis", URL_PART_SIZE},
        {"redis://%0*d:p@h", "redis", URL_USER_SIZE},
        {"redis://u:%0*d@h", "redis", URL_PART_SIZE},
        {"mysql://h/%0*d", "mysql", URL_PART_SIZE},
        {"mysql://h/db?socket=/%0*d", "mysql", URL_PART_SIZE - 1},
    };
    char text[2 * URL_PART_SIZE];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(text, sizeof text, parts[i].format, parts[i].size - 1, 0);
        good(parts[i].scheme, text);
        snprintf(text, sizeof text, parts[i].format, parts[i].size, 0);
        bad(parts[i].scheme, text, "too long");
    }
}

static void test_scheme_end(void **state)
{
    (void)state;
    const char *text = "http://h";
    assert_ptr_equal(url_scheme_end(text), text + 4);
    assert_null(url_scheme_end("http:/h"));
    assert_null(url_scheme_end("://h"));
    assert_null(url_scheme_end(""));
}

static void place(const char *text, const char *scheme, const char *wanted)
{
    char shown[URL_PLACE_SIZE];
    url_place(text, scheme, shown);
    assert_string_equal(shown, wanted);
}

static void test_place_says_where_the_server_is_and_nothing_else(void **state)
{
    (void)state;
    place("redis://app:secret@h/3", "redis", "h:6379");
    place("REDIS://:secret@[::1]:7", "redis", "[::1]:7");
    place("mysql://u:secret@h:1/db?socket=/run/s", "mysql", "/run/s");
    place("redis//app:secret@h", "redis", "?");
}

static void mask(const char *text, const char *wanted)
{
    char shown[URL_PART_SIZE];
    url_mask(text, shown, sizeof shown);
    assert_string_equal(shown, wanted);
}

static void test_mask_hides_the_password_of_what_need_not_be_a_url(void **state)
{
    (void)state;
    mask("redis://app:secret@h:1/3", "redis://app:***@h:1/3");
    mask("REDIS://:secret@h", "REDIS://:***@h");
    mask("Redis://secret@h", "Redis://***@h"); /* some clients read it as a password */
    mask("mysql://u:se:cr@t@h/db", "mysql://u:***@h/db");
    mask("mysql:/u:secret@h", "mysql:***@h");
    mask("u:secret@h", "u:***@h");
    mask("mysql://u@h/db", "mysql://u@h/db");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_redis),
        cmocka_unit_test(test_mysql),
        cmocka_unit_test(test_zookeeper),
        cmocka_unit_test(test_bad_schemes_and_characters),
        cmocka_unit_test(test_bad_parts),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_scheme_end),
        cmocka_unit_test(test_place_says_where_the_server_is_and_nothing_else),
        cmocka_unit_test(test_mask_hides_the_password_of_what_need_not_be_a_url),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
