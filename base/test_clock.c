/* The clocks: each goes forwards, sleeps are long enough, waits end at their time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/test_range.h"

static void test_units(void **state)
{
    (void)state;
    int64_t before_ns = clock_now_ns(), ms = clock_now_ms(), after_ns = clock_now_ns();
    assert_true(before_ns / CLOCK_NS_PER_MS <= ms && ms <= after_ns / CLOCK_NS_PER_MS);
    int64_t from_s = time(NULL), wall_ms = clock_wall_ms();
    assert_int_in_range(wall_ms, from_s * 1000, (from_s + 10) * 1000);
}

static void test_timespec(void **state)
{
    (void)state;
    struct timespec none = clock_timespec(0), much = clock_timespec(INT64_C(7000000042));
    assert_true(none.tv_sec == 0 && none.tv_nsec == 0);
    assert_true(much.tv_sec == 7 && much.tv_nsec == 42);
}

static void ignore(int number)
{
    (void)number;
}

/* A signal in the middle must not make the sleep shorter. */
static void test_sleep_is_long_enough(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = ignore};
    sigaction(SIGALRM, &action, NULL);
    ualarm(5000, 0);
    int64_t from_ns = clock_now_ns();
    clock_sleep_ns(30 * CLOCK_NS_PER_MS);
    assert_true(clock_now_ns() - from_ns >= 30 * CLOCK_NS_PER_MS);
    clock_sleep_ns(0);
    clock_sleep_ns(-1);
}

static void test_wait_ends_at_its_time(void **state)
{
    (void)state;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition;
    clock_condition_init(&condition);
    pthread_mutex_lock(&mutex);
    int64_t until_ns = clock_now_ns() + 20 * CLOCK_NS_PER_MS;
    while (clock_wait(&condition, &mutex, until_ns))
        continue;
    assert_true(clock_now_ns() >= until_ns);
    pthread_mutex_unlock(&mutex);
    pthread_cond_destroy(&condition);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_timespec),
        cmocka_unit_test(test_sleep_is_long_enough),
        cmocka_unit_test(test_wait_ends_at_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
