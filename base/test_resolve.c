/* Names as addresses: within a time limit, whatever the resolver does. */
#include "base/resolve.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>

#include "base/clock.h"

enum { LIMIT_MS = 50, PATIENCE_MS = 20000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool silent; /* the resolver that is asked for "slow" */
static int hanging; /* calls that wait for it */

static void set_silent(bool value)
{
    pthread_mutex_lock(&mutex);
    silent = value;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void wait_while_silent(void)
{
    pthread_mutex_lock(&mutex);
    hanging++;
    while (silent)
        pthread_cond_wait(&changed, &mutex);
    hanging--;
    pthread_mutex_unlock(&mutex);
}

static int count_hanging(void)
{
    pthread_mutex_lock(&mutex);
    int count = hanging;
    pthread_mutex_unlock(&mutex);
    return count;
}

/* Takes the place of the library's: "slow" is answered when its resolver is not silent. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **list_out)
{
    static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (strcmp(node, "slow") != 0 || hints->ai_flags & AI_NUMERICHOST)
        return real(node, service, hints, list_out);
    wait_while_silent();
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

static void test_silent_resolver_is_not_waited_for(void **state)
{
    (void)state;
    struct resolved found;
    set_silent(true);
    int64_t start_ms = clock_now_ms();
    assert_non_null(strstr(resolve_host("slow", LIMIT_MS, &found), "too long"));
    assert_true(clock_now_ms() - start_ms >= LIMIT_MS);
    assert_int_equal(found.count, 0);
    set_silent(false);
    assert_null(resolve_host("slow", PATIENCE_MS, &found));
    assert_string_equal(found.addresses[0], "127.0.0.9");
}

static void test_hanging_lookups_are_bounded(void **state)
{
    (void)state;
    struct resolved found;
    set_silent(true);
    int64_t until_ms = clock_now_ms() + PATIENCE_MS;
    while (count_hanging() <
           RESOLVE_HANGING_MAX) { /* that of the test before may yet have to end */
        assert_non_null(strstr(resolve_host("slow", 1, &found), "too "));
        assert_true(clock_now_ms() < until_ms);
    }
    for (int i = 0; i < RESOLVE_HANGING_MAX; i++)
        assert_non_null(strstr(resolve_host("slow", 1, &found), "too many"));
    assert_int_equal(count_hanging(), RESOLVE_HANGING_MAX);
    assert_null(resolve_host("127.0.0.1", 1, &found)); /* an address needs no look-up */
    set_silent(false);
    while (resolve_host("localhost", PATIENCE_MS, &found)) { /* until the first of them has ended */
        assert_true(clock_now_ms() < until_ms);
        sched_yield();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_come_back_as_they_are),
        cmocka_unit_test(test_names_have_addresses_or_a_reason),
        cmocka_unit_test(test_silent_resolver_is_not_waited_for),
        cmocka_unit_test(test_hanging_lookups_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
