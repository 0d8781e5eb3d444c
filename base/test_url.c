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
    const char *own = url_scheme(text), *end = own ? url_scheme_end(text) : NULL;
    if (url_parse(text, scheme, &url, error, sizeof error))
        fail_msg("accepted \"%s\"", text);
    if (own && strcmp(own, scheme) == 0)
        snprintf(form, sizeof form, "not of the form %.*s://", (int)(end - text), text);
    else
        snprintf(form, sizeof form, "not of the form %s://", scheme);
    if (strncmp(error, form, strlen(form)) != 0 || !strstr(error, words) || strstr(error, "pw") ||
        strlen(error) + 1 >= sizeof error)
        fail_msg("\"%s\": %s", text, error);
}

static void test_redis(void **state)
{
    (void)state;
    struct url url = good("redis", "redis://h");
    assert_string_equal(url.servers[0].host, "h");
    assert_string_equal(url.user, "");
    assert_string_equal(url.password, "");
    assert_int_equal(url.servers[0].port, 6379);
    assert_int_equal(url.database_number, 0);
    url = good("redis", "REDIS://us%65r:p%40%3a%2F@[::1]:65535/15");
    assert_string_equal(url.servers[0].host, "::1");
    assert_string_equal(url.user, "user");
    assert_string_equal(url.password, "p@:/");
    assert_int_equal(url.servers[0].port, 65535);
    assert_int_equal(url.database_number, 15);
    url = good("redis", "redis://:a:b@c@h/");
    assert_string_equal(url.user, "");
    assert_string_equal(url.password, "a:b@c");
    assert_string_equal(good("redis", "redis://alone@h").user, "alone");
    assert_string_equal(good("redis", "redis://[fe80::1%eth0]").servers[0].host, "fe80::1%eth0");
}

static void test_mysql(void **state)
{
    (void)state;
    struct url url = good("mysql", "mysql://u:p%2f@h/d%2Fb");
    assert_string_equal(url.servers[0].host, "h");
    assert_string_equal(url.user, "u");
    assert_string_equal(url.password, "p/");
    assert_string_equal(url.database, "d/b");
    assert_string_equal(url.socket, "");
    assert_int_equal(url.servers[0].port, 3306);
    url = good("mysql", "mysql://u@/db?socket=/run/a%3F@b:1/s");
    assert_string_equal(url.servers[0].host, "");
    assert_string_equal(url.database, "db");
    assert_string_equal(url.socket, "/run/a?@b:1/s");
    url = good("mysql", "MySQL://u:@[::1]:1/my_db");
    assert_string_equal(url.servers[0].host, "::1");
    assert_string_equal(url.password, "");
    assert_int_equal(url.servers[0].port, 1);
}

static void test_redis_over_tls(void **state)
{
    (void)state;
    struct url url = good("redis", "rediss://u:p@h");
    assert_true(url.tls && url.kind == URL_SINGLE);
    assert_int_equal(url.servers[0].port, 6379);
    assert_string_equal(url.ca, "");
    url = good("redis", "rediss://h:1/2?ca=/a%26b&cert=/c&key=/k=@");
    assert_int_equal(url.database_number, 2);
    assert_string_equal(url.ca, "/a&b");
    assert_string_equal(url.cert, "/c");
    assert_string_equal(url.key, "/k=@");
    bad("redis", "rediss://h?", "option");
    bad("redis", "rediss://h?ca", "no value");
    bad("redis", "rediss://h?ca=", "no value");
    bad("redis", "rediss://h?ca=/a&ca=/b", "twice");
    bad("redis", "rediss://h?ca=/a&", "option");
    bad("redis", "rediss://h?cert=/a", "only one");
    bad("redis", "rediss://h?key=/a", "only one");
    bad("redis", "rediss://h?c=/a", "no option of that name");
    bad("redis", "rediss://h?caa=/a", "no option of that name");
    bad("redis", "rediss://h?ca=/%zz", "value");
    bad("redis", "rediss://h?sentinel_password=pw", "no option of that name");
    bad("redis", "redis://h?ca=/a", "no option of that name");
}

static void test_mysql_over_tls(void **state)
{
    (void)state;
    struct url url = good("mysql", "mysqls://u:p@h,i:1/d?ca=/a&cert=/c&key=/k");
    assert_true(url.tls);
    assert_int_equal(url.server_count, 2);
    assert_int_equal(url.servers[0].port, 3306);
    assert_string_equal(url.ca, "/a");
    assert_string_equal(url.cert, "/c");
    assert_string_equal(url.key, "/k");
    assert_false(good("mysql", "mysql://u@h/d").tls);
    bad("mysql", "mysqls://u@h/d?cert=/a", "only one");
    bad("mysql", "mysqls://u@h/d?socket=/s", "no option of that name");
    bad("mysql", "mysqls://u@/d?ca=/a", "the host is missing");
    bad("mysql", "mysql://u@h/d?ca=/a", "no option of that name");
}

static void test_redis_by_its_socket(void **state)
{
    (void)state;
    struct url url = good("redis", "redis+unix://u:p@/run/redis%3F/s?db=3");
    assert_int_equal(url.server_count, 0);
    assert_string_equal(url.socket, "/run/redis?/s");
    assert_string_equal(url.user, "u");
    assert_int_equal(url.database_number, 3);
    assert_string_equal(good("redis", "redis+unix:///s").socket, "/s");
    bad("redis", "redis+unix://", "path is missing");
    bad("redis", "redis+unix:///", "path is missing");
    bad("redis", "redis+unix://h/s", "there is a host");
    bad("redis", "redis+unix:///s?db=", "number");
    bad("redis", "redis+unix:///s?db=x", "number");
    bad("redis", "redis+unix:///s?ca=/a", "no option of that name");
    bad("redis", "rediss+unix:///s", "another scheme");
}

static void test_sentinels(void **state)
{
    (void)state;
    struct url url = good("redis", "redis+sentinel://u:p@a,[::1]:2,c/m%2Fy/4");
    assert_int_equal(url.kind, URL_SENTINEL);
    assert_int_equal(url.server_count, 3);
    assert_string_equal(url.servers[1].host, "::1");
    assert_int_equal(url.servers[0].port, 26379);
    assert_int_equal(url.servers[1].port, 2);
    assert_string_equal(url.name, "m/y");
    assert_int_equal(url.database_number, 4);
    url = good("redis", "rediss+sentinel://a/m?sentinel_user=s&sentinel_password=t%20u&ca=/a");
    assert_true(url.tls);
    assert_string_equal(url.sentinel_user, "s");
    assert_string_equal(url.sentinel_password, "t u");
    assert_string_equal(url.ca, "/a");
    bad("redis", "redis+sentinel://a,b", "name is missing");
    bad("redis", "redis+sentinel://a,b/", "name is missing");
    bad("redis", "redis+sentinel://a,,b/m", "host is missing");
    bad("redis", "redis+sentinel://a,b/m/x", "number");
    bad("redis", "redis+sentinel://a,b/%zz", "name");
    bad("redis", "redis+sentinel://a/m?ca=/a", "no option of that name");
    bad("redis", "redis+sentinel://a/m?sentinel_user=s", "without a sentinel_password");
    good("redis", "redis+sentinel://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16/m");
    bad("redis", "redis+sentinel://1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17/m", "16 hosts");
}

static void test_clusters(void **state)
{
    (void)state;
    struct url url = good("redis", "redis+cluster://u:p@a:1,b");
    assert_int_equal(url.kind, URL_CLUSTER);
    assert_int_equal(url.server_count, 2);
    assert_int_equal(url.servers[0].port, 1);
    assert_int_equal(url.servers[1].port, 6379);
    assert_true(good("redis", "rediss+cluster://a/0?ca=/a").tls);
    bad("redis", "redis+cluster://a/1", "but 0");
    bad("redis", "redis+cluster://a/x", "but 0");
    bad("redis", "redis+cluster://a,", "host is missing");
    bad("redis", "redis+cluster://a?db=1", "no option of that name");
    bad("redis", "redis://a,b", "more than one host");
    bad("redis", "redis://a;b", "a host has other characters");
    bad("mysql", "mysql://a;b:1/db", "a host has other characters");
    bad("redis", "redis+sentinel://a,b%20/m", "a host has other characters");
    assert_string_equal(good("redis", "redis://my_redis-1.shop.").servers[0].host,
                        "my_redis-1.shop.");
}

static void test_several_hosts_of_mysql(void **state)
{
    (void)state;
    struct url url = good("mysql", "mysql://u:p@a:1,[::1],c/db");
    assert_int_equal(url.server_count, 3);
    assert_string_equal(url.servers[1].host, "::1");
    assert_int_equal(url.servers[0].port, 1);
    assert_int_equal(url.servers[2].port, 3306);
    assert_int_equal(good("mysql", "mysql://u@/db?socket=/s").server_count, 1);
    bad("mysql", "mysql://a,/db", "host is missing");
    bad("mysql", "mysql://a,b/db?socket=/s", "several hosts");
    bad("mysql", "mysql://a,b", "@host[:port][,host[:port]...]/db");
    bad("mysql", "mysql://u:p@a/db,mysql://u:p@b/db", "a second URL");
    bad("redis", "redis://:p@a/0,redis://:p@b/0", "a second URL");
}

static void test_families(void **state)
{
    (void)state;
    assert_string_equal(url_scheme("REDISS+Cluster://x"), "redis");
    assert_string_equal(url_scheme("mysql://"), "mysql");
    assert_null(url_scheme("redis+://x"));
    assert_null(url_scheme("redis+unix:/x"));
    assert_null(url_scheme(""));
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
    struct url url = good("zookeeper", "zookeeper://u:p%40@a:1,b/x");
    assert_string_equal(url.user, "u");
    assert_string_equal(url.password, "p@");
    bad("zookeeper", "zookeeper://u@a", "only one");
    bad("zookeeper", "zookeeper://:pw@a", "only one");
    bad("zookeeper", "zookeeper://u%3Ax:pw@a", "colon");
    bad("zookeeper", "zookeeper://u:pw%@a", "password");
    bad("zookeeper", "zookeeper://a?b", "no options");
    char error[URL_ERROR_SIZE];
    assert_false(url_parse("zookeepers://u:pw@a?ca=/b", "zookeeper", &url, error, sizeof error));
    assert_non_null(strstr(error, "not of the form zookeeper://"));
    assert_non_null(strstr(error, "client library has no TLS"));
}

static void test_etcd(void **state)
{
    (void)state;
    struct url url = good("etcd", "etcd://u:p%40@a:1,[::1],c");
    assert_int_equal(url.server_count, 3);
    assert_int_equal(url.servers[0].port, 1);
    assert_int_equal(url.servers[2].port, 2379);
    assert_string_equal(url.password, "p@");
    assert_false(url.tls);
    url = good("etcd", "etcds://a/?ca=/c&cert=/d&key=/e");
    assert_true(url.tls);
    assert_string_equal(url.ca, "/c");
    assert_string_equal(url_scheme("ETCDS://a"), "etcd");
    bad("etcd", "etcd://", "host is missing");
    bad("etcd", "etcd://a,", "host is missing");
    bad("etcd", "etcd://a/b", "there is a path");
    bad("etcd", "etcd://u@a", "of user and password there is only one");
    bad("etcd", "etcd://a?ca=/c", "no option of that name");
    bad("etcd", "etcds://a?key=/c", "of cert and key there is only one");
    bad("etcd", "https://a", "another scheme");
}

static void test_bad_schemes_and_characters(void **state)
{
    (void)state;
    static const char *const others[] = {
        "",         "h",    "h:1",          "redis",     "redis:", "redis:/h", "redisss://h",
        "redi://h", "://h", "mysql://h/db", " redis://h"};
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
        {"redis://[$]", "not an IPv6 address"},
        {"redis://[127.0.0.1]", "not an IPv6 address"},
        {"redis://[::1%]", "not an IPv6 address"},
        {"redis://[fe80::1%eth$0]", "not an IPv6 address"},
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
    bad("mysql", "mysql://u:pw@/db?socket=s", "host is missing");
    bad("mysql", "mysql://u:pw@/db?socket=", "option has no value");
    bad("mysql", "mysql://h/db?", "option");
    bad("mysql", "mysql://h/db?sock=/s", "option");
    bad("mysql", "mysql://h/db?socket=/%", "option's value");
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
        {"redis://[::1%%%0*d]", "redis", URL_PART_SIZE - 4},
        {"redis://%0*d:p@h", "redis", URL_USER_SIZE},
        {"redis://u:%0*d@h", "redis", URL_PART_SIZE},
        {"mysql://h/%0*d", "mysql", URL_PART_SIZE},
        {"mysql://h/db?socket=/%0*d", "mysql", URL_PART_SIZE - 1},
        {"redis+unix:///%0*d", "redis", URL_SOCKET_SIZE - 1},
        {"redis+sentinel://h/%0*d", "redis", URL_PART_SIZE},
        {"rediss://h?ca=%0*d", "redis", URL_PART_SIZE},
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

static void test_hosts(void **state)
{
    (void)state;
    assert_string_equal(url_hosts("zookeeper://a:1,b/x"), "a:1,b/x");
    assert_string_equal(url_hosts("ZooKeeper://u:p@ss@a:1,b/x"), "a:1,b/x");
    assert_string_equal(url_hosts("no URL"), "no URL");
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
    place("redis+unix://u:secret@/run/s?db=1", "redis", "/run/s");
    place("redis+sentinel://u:secret@a,[::1]:2/m?sentinel_password=secret", "redis",
          "a:26379,[::1]:2");
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
    mask("zookeeper://u:secret@h:1,i/x", "zookeeper://u:***@h:1,i/x");
    mask("mysql://u@h/db", "mysql://u@h/db");
    mask("redis+sentinel://u:secret@a:1,b/m?sentinel_password=secret&ca=/a",
         "redis+sentinel://u:***@a:1,b/m?sentinel_password=***&ca=/a");
    mask("redis+sentinel://a/m?Password=secret", "redis+sentinel://a/m?Password=***");
    mask("redis+sentinel://u:se@a/m?sentinel_password=sec@ret", "redis+sentinel://u:***");
    mask("redis+sentinel://a/m?sentinel_password=s@c&password=t@c", "redis+sentinel://***");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_redis),
        cmocka_unit_test(test_mysql),
        cmocka_unit_test(test_redis_over_tls),
        cmocka_unit_test(test_mysql_over_tls),
        cmocka_unit_test(test_redis_by_its_socket),
        cmocka_unit_test(test_sentinels),
        cmocka_unit_test(test_clusters),
        cmocka_unit_test(test_several_hosts_of_mysql),
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_zookeeper),
        cmocka_unit_test(test_etcd),
        cmocka_unit_test(test_bad_schemes_and_characters),
        cmocka_unit_test(test_bad_parts),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_scheme_end),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_place_says_where_the_server_is_and_nothing_else),
        cmocka_unit_test(test_mask_hides_the_password_of_what_need_not_be_a_url),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
