/* Names as addresses: within a time limit, whatever the resolver does. */
#include "base/resolve.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { SLOW_MS = 1000, LIMIT_MS = 50 };

/* Takes the place of the library's: the name "slow" is a resolver that does not answer in time. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **list_out)
{
    static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (strcmp(node, "slow") != 0 || hints->ai_flags & AI_NUMERICHOST)
        return real(node, service, hints, list_out);
    usleep(SLOW_MS * 1000);
    return real("127.0.0.9", service, hints, list_out);
}

static void test_addresses_come_back_as_they_are(void **state)
{
    (void)state;
    static const char *const hosts[] = {"127.0.0.1", "::1", "2001:db8::7"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct resolved found;
        assert_null(resolve_host(hosts[i], 1, &found));
        assert_int_equal(found.count, 1);
        assert_string_equal(found.addresses[0], hosts[i]);
    }
}

static void test_names_have_addresses_or_a_reason(void **state)
{
    (void)state;
    struct resolved found;
    assert_null(resolve_host("localhost", 5000, &found));
    assert_true(found.count > 0);
    assert_non_null(resolve_host("no such name", 5000, &found));
    assert_int_equal(found.count, 0);
}

static void test_slow_name_is_not_waited_for(void **state)
{
    (void)state;
    struct resolved found;
    int64_t start_ms = clock_now_ms();
    assert_non_null(strstr(resolve_host("slow", LIMIT_MS, &found), "too long"));
    assert_in_range(clock_now_ms() - start_ms, LIMIT_MS, SLOW_MS - LIMIT_MS);
    assert_int_equal(found.count, 0);
    assert_null(resolve_host("slow", 10 * SLOW_MS, &found));
    assert_string_equal(found.addresses[0], "127.0.0.9");
}

static void test_hanging_lookups_are_bounded(void **state)
{
    (void)state;
    struct resolved found;
    usleep(SLOW_MS * 1000); /* those of the test before have ended */
    for (int i = 0; i < RESOLVE_HANGING_MAX; i++)
        assert_non_null(strstr(resolve_host("slow", 1, &found), "too long"));
    for (int i = 0; i < RESOLVE_HANGING_MAX; i++)
        assert_non_null(strstr(resolve_host("slow", 1, &found), "too many"));
    assert_null(resolve_host("127.0.0.1", 1, &found)); /* an address needs no look-up */
    usleep(2 * SLOW_MS * 1000);
    assert_null(resolve_host("localhost", 5000, &found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_come_back_as_they_are),
        cmocka_unit_test(test_names_have_addresses_or_a_reason),
        cmocka_unit_test(test_slow_name_is_not_waited_for),
        cmocka_unit_test(test_hanging_lookups_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
