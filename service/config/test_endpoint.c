/* Addresses to listen on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "service/config/address.h"

static void test_path_of_a_socket(void **state)
{
    char longest[ENDPOINT_PATH_SIZE + 1];
    (void)state;
    assert_string_equal(endpoint_path("/run/a.sock"), "/run/a.sock");
    assert_string_equal(endpoint_path("unix:/run/a.sock"), "/run/a.sock");
    assert_null(endpoint_path(""));
    assert_null(endpoint_path("unix:"));
    assert_null(endpoint_path("unix:a.sock"));
    assert_null(endpoint_path("a.sock"));
    assert_null(endpoint_path("127.0.0.1:80"));
    assert_null(endpoint_path("/run/a b"));
    memset(longest, '/', sizeof longest);
    longest[ENDPOINT_PATH_SIZE] = '\0';
    assert_null(endpoint_path(longest));
    longest[ENDPOINT_PATH_SIZE - 1] = '\0';
    assert_non_null(endpoint_path(longest));
}

static bool loopback(const char *text)
{
    struct endpoint endpoint;
    assert_true(endpoint_parse(text, &endpoint));
    return endpoint_is_loopback(&endpoint);
}

static void test_loopback(void **state)
{
    (void)state;
    assert_true(loopback("127.0.0.1:80"));
    assert_true(loopback("127.1.2.3:80"));
    assert_true(loopback("[::1]:80"));
    assert_true(loopback("localhost:80"));
    assert_false(loopback("0.0.0.0:80"));
    assert_false(loopback("[::]:80"));
    assert_false(loopback("192.0.2.7:80"));
    assert_false(loopback("shop.example:80"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path_of_a_socket),
        cmocka_unit_test(test_loopback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
