/* Counts of connections by address. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "service/http/address_count.h"

static struct address address(const char *text)
{
    struct address address;
    assert_true(address_parse(text, strlen(text), &address));
    return address;
}

static void address_is_full_until_one_goes(void **state)
{
    (void)state;
    struct address_count *count = address_count_open(2);
    struct address one = address("192.0.2.1"), other = address("192.0.2.2");
    assert_false(address_count_full(count, &one));
    address_count_add(count, &one);
    assert_false(address_count_full(count, &one));
    address_count_add(count, &one);
    assert_true(address_count_full(count, &one));
    assert_false(address_count_full(count, &other));
    address_count_remove(count, &one);
    assert_false(address_count_full(count, &one));
    address_count_remove(count, &one);
    address_count_close(&count);
    assert_null(count);
}

static void ipv6_address_counts_as_its_64(void **state)
{
    (void)state;
    struct address_count *count = address_count_open(1);
    struct address one = address("2001:db8:0:1::1"), near = address("2001:db8:0:1:ffff::2"),
                   far = address("2001:db8:0:2::1");
    address_count_add(count, &one);
    assert_true(address_count_full(count, &near));
    assert_false(address_count_full(count, &far));
    address_count_remove(count, &near);
    address_count_close(&count);
}

static void many_addresses_share_the_table(void **state)
{
    (void)state;
    enum { ADDRESSES = 20000 };
    struct address_count *count = address_count_open(1);
    struct address one = address("10.0.0.0");
    for (unsigned i = 0; i < ADDRESSES; i++) {
        memcpy(one.bytes + 12, &i, sizeof i);
        assert_false(address_count_full(count, &one));
        address_count_add(count, &one);
    }
    for (unsigned i = 0; i < ADDRESSES; i++) {
        memcpy(one.bytes + 12, &i, sizeof i);
        assert_true(address_count_full(count, &one));
        address_count_remove(count, &one);
        assert_false(address_count_full(count, &one));
    }
    address_count_close(&count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(address_is_full_until_one_goes),
        cmocka_unit_test(ipv6_address_counts_as_its_64),
        cmocka_unit_test(many_addresses_share_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
