/* Networks, addresses, and what X-Forwarded-For is believed to say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <string.h>

#include "service/config/address.h"

static struct address address(const char *text)
{
    struct address address;
    if (!address_parse(text, strlen(text), &address))
        fail_msg("%s is no address", text);
    return address;
}

static bool holds(const char *list, const char *text)
{
    struct networks networks;
    struct address one = address(text);
    assert_true(networks_parse(list, &networks));
    return networks_hold(&networks, &one);
}

static void test_network_holds_its_addresses_only(void **state)
{
    (void)state;
    assert_true(holds("10.0.0.0/8", "10.255.0.1"));
    assert_false(holds("10.0.0.0/8", "11.0.0.1"));
    assert_true(holds("192.0.2.128/25", "192.0.2.200"));
    assert_false(holds("192.0.2.128/25", "192.0.2.127"));
    assert_true(holds("0.0.0.0/0", "192.0.2.1"));
    assert_false(holds("0.0.0.0/0", "2001:db8::1"));
    assert_true(holds("::/0", "2001:db8::1"));
    assert_true(holds("2001:db8::/33", "2001:db8:7fff::1"));
    assert_false(holds("2001:db8::/33", "2001:db8:8000::1"));
    assert_true(holds("fd00::/8,192.0.2.7 , ::1", "192.0.2.7"));
    assert_true(holds("fd00::/8,192.0.2.7 , ::1", "::1"));
    assert_true(holds("192.0.2.7", "::ffff:192.0.2.7")); /* one and the same */
    assert_false(holds("", "192.0.2.7"));
    assert_false(holds("  ", "192.0.2.7"));
}

static void test_list_that_is_none_is_refused(void **state)
{
    static const char *const bad[] = {"x",
                                      "10.0.0.0/33",
                                      "10.0.0.0/-1",
                                      "10.0.0.0/",
                                      "10.0.0.0/8x",
                                      "10.0.0.1/8",
                                      "10.0.0/8",
                                      "256.0.0.1",
                                      "10.0.0.0/0008",
                                      "::/129",
                                      "::1/64",
                                      "fd00::/8;::1",
                                      ",",
                                      "::1,",
                                      ",::1",
                                      "::1 ::2",
                                      "::1,,::2",
                                      "localhost",
                                      "10.0.0.0/4294967304",
                                      "10.0.0.0:80"};
    struct networks networks;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (networks_parse(bad[i], &networks))
            fail_msg("\"%s\" was taken", bad[i]);
}

static void test_list_is_bounded(void **state)
{
    char text[NETWORKS_MAX * 4 + 8] = "";
    struct networks networks;
    (void)state;
    for (int i = 0; i < NETWORKS_MAX; i++)
        strcat(text, i == 0 ? "::1" : ",::1");
    assert_true(networks_parse(text, &networks));
    assert_int_equal(networks.count, NETWORKS_MAX);
    strcat(text, ",::1");
    assert_false(networks_parse(text, &networks));
}

static void expect_text(const char *from, const char *expected)
{
    char text[NETWORKS_TEXT_SIZE];
    struct address one = address(from);
    address_text(&one, text);
    assert_string_equal(text, expected);
}

static void test_address_goes_by_its_text(void **state)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000201)};
    struct sockaddr local = {.sa_family = AF_UNIX};
    struct address found, same = address("192.0.2.1");
    (void)state;
    expect_text("192.0.2.1", "192.0.2.1");
    expect_text("192.0.2.1:80", "192.0.2.1");
    expect_text("::ffff:192.0.2.1", "192.0.2.1");
    expect_text("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::");
    expect_text("[2001:db8:1:2::9]:443", "2001:db8:1:2::");
    assert_true(address_of((const struct sockaddr *)&in, &found));
    assert_memory_equal(&found, &same, sizeof same);
    assert_false(address_of(&local, &found));
}

static void test_what_is_no_address(void **state)
{
    static const char *const bad[] = {
        "",    "unknown", "[::1", "[]",         "1.2.3",
        ":80", "::1::",   "_x",   "192.0.2.1 ", "12345:12345:12345:12345:12345:12345:12345:12345"};
    struct address found;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (address_parse(bad[i], strlen(bad[i]), &found))
            fail_msg("\"%s\" was taken", bad[i]);
}

/* The client behind 10.0.0.1, which has passed `list` on. */
static void expect_client(const char *list, const char *expected, bool on)
{
    struct networks trusted;
    struct address found = address("10.0.0.1"), client = address(expected);
    assert_true(networks_parse("10.0.0.0/8", &trusted));
    assert_int_equal(address_forwarded(&trusted, list, &found), on);
    assert_memory_equal(&found, &client, sizeof client);
}

static void test_client_is_the_last_that_no_proxy_of_ours_is(void **state)
{
    (void)state;
    expect_client("192.0.2.1", "192.0.2.1", false);
    expect_client("192.0.2.9,192.0.2.1", "192.0.2.1", false);
    expect_client(" 192.0.2.9 ,\t192.0.2.1 , 10.2.3.4 ", "192.0.2.1", false);
    expect_client("10.1.1.1", "10.1.1.1", true);
    expect_client("10.1.1.1, 10.1.1.2", "10.1.1.1", true);
    expect_client("", "10.0.0.1", true);
    expect_client("192.0.2.1,", "10.0.0.1", false);
    expect_client("192.0.2.1, unknown", "10.0.0.1", false);
    expect_client("192.0.2.1, unknown, 10.7.7.7", "10.7.7.7", false);
}

static void test_loopback(void **state)
{
    static const char *const own[] = {"127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.1"};
    static const char *const others[] = {
        "126.0.0.1", "128.0.0.1", "0.0.0.0", "::", "::2", "::127.0.0.1", "fe80::1", "7f00::1"};
    (void)state;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        struct address one = address(own[i]);
        assert_true(address_is_loopback(&one));
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct address one = address(others[i]);
        assert_false(address_is_loopback(&one));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loopback),
        cmocka_unit_test(test_network_holds_its_addresses_only),
        cmocka_unit_test(test_list_that_is_none_is_refused),
        cmocka_unit_test(test_list_is_bounded),
        cmocka_unit_test(test_address_goes_by_its_text),
        cmocka_unit_test(test_what_is_no_address),
        cmocka_unit_test(test_client_is_the_last_that_no_proxy_of_ours_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
