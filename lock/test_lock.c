/* The lock as its callers see it: one holder at a time, leases, waiting, groups. */
#include "lock/lock.h"
#include "lua/test_server.h"

#include <time.h>

enum { LEASE_MS = 60, GROUP = 3 };

static struct lock_client *mine, *other;

static int64_t clock_ns;      /* what the injected clock says */
static int64_t clock_step_ns; /* how far it goes with every look */

static int64_t fake_now_ns(void)
{
    clock_ns += clock_step_ns;
    return clock_ns;
}

static void fake_sleep_ms(int ms)
{
    clock_ns += ms * INT64_C(1000000);
}

static void sleep_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static struct lock_client *open_client(int lease_ms, bool injected)
{
    char error[128] = "";
    struct lock_options options = {
        .kind = "redis",
        .url = redis_server_url(),
        .prefix = "unit:",
        .lease_ms = lease_ms,
        .timeout_ms = 1000,
        .now_ns = injected ? fake_now_ns : NULL,
        .sleep_ms = injected ? fake_sleep_ms : NULL,
    };
    struct lock_client *client = lock_open(&options, error, sizeof error);
    if (!client)
        fail_msg("%s", error);
    return client;
}

static int start(void **state)
{
    (void)state;
    redis_server_do("FLUSHALL");
    clock_ns = 1000;
    clock_step_ns = 0;
    mine = open_client(10000, true);
    other = open_client(10000, true);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    lock_close(&mine);
    lock_close(&other);
    return 0;
}

static void test_options_out_of_range_are_refused(void **state)
{
    (void)state;
    char error[128] = "";
    struct lock_options options = {.kind = "none",
                                   .url = "redis://h",
                                   .prefix = "unit:",
                                   .lease_ms = 1000,
                                   .timeout_ms = 1000};
    assert_null(lock_open(&options, error, sizeof error));
    assert_string_not_equal(error, "");
    options.kind = "redis";
    options.lease_ms = 0;
    assert_null(lock_open(&options, error, sizeof error));
    options.lease_ms = 1000;
    options.prefix = "a-prefix-that-is-longer-than-it-may-be:";
    assert_null(lock_open(&options, error, sizeof error));
    options.prefix = "unit:";
    options.url = "http://h";
    assert_null(lock_open(&options, error, sizeof error));
}

static void test_one_holds_it_and_the_other_is_told_busy(void **state)
{
    (void)state;
    struct lock_hold a, b;
    assert_int_equal(lock_try(mine, "l", &a), LOCK_OK);
    assert_int_equal(a.state, LOCK_HELD);
    assert_in_range(lock_remaining_ms(mine, &a), 9000, 9999);
    assert_int_equal(lock_try(other, "l", &b), LOCK_BUSY);
    assert_int_equal(b.state, LOCK_RELEASED);
    assert_int_equal(lock_remaining_ms(other, &b), 0);
    assert_int_equal(lock_try(other, "l2", &b), LOCK_OK);
}

static void test_release_lets_the_next_in_with_a_greater_fence(void **state)
{
    (void)state;
    struct lock_hold a, b;
    assert_int_equal(lock_try(mine, "l", &a), LOCK_OK);
    assert_int_equal(lock_release(mine, &a), LOCK_OK);
    assert_int_equal(a.state, LOCK_RELEASED);
    assert_int_equal(lock_try(other, "l", &b), LOCK_OK);
    assert_true(b.fence > a.fence);
    assert_string_not_equal(a.token, b.token);
}

static void test_release_twice_is_harmless(void **state)
{
    (void)state;
    struct lock_hold a, b;
    assert_int_equal(lock_try(mine, "l", &a), LOCK_OK);
    assert_int_equal(lock_release(mine, &a), LOCK_OK);
    assert_int_equal(lock_try(other, "l", &b), LOCK_OK);
    assert_int_equal(lock_release(mine, &a), LOCK_OK);
    assert_int_equal(redis_server_do("EXISTS unit:{l}:lock"), 1);
}

static void test_hold_is_valid_until_its_deadline_on_the_clock(void **state)
{
    (void)state;
    struct lock_hold a;
    assert_int_equal(lock_try(mine, "l", &a), LOCK_OK);
    clock_ns = a.deadline_ns - 1000000;
    assert_int_equal(lock_remaining_ms(mine, &a), 1);
    clock_ns = a.deadline_ns;
    assert_int_equal(lock_remaining_ms(mine, &a), 0);
}

static void test_renew_sets_the_whole_lease_from_now(void **state)
{
    (void)state;
    struct lock_hold a;
    assert_int_equal(lock_try(mine, "l", &a), LOCK_OK);
    int64_t deadline_ns = a.deadline_ns;
    fake_sleep_ms(4000);
    assert_int_equal(lock_renew(mine, &a), LOCK_OK);
    assert_int_equal(a.deadline_ns, deadline_ns + INT64_C(4000000000));
}

static void test_lease_that_ran_out_is_lost(void **state)
{
    (void)state;
    struct lock_hold a, b;
    struct lock_client *quick = open_client(LEASE_MS, false);
    assert_int_equal(lock_try(quick, "l", &a), LOCK_OK);
    assert_int_equal(lock_try(quick, "l2", &b), LOCK_OK);
    sleep_ms(LEASE_MS + 20);
    assert_int_equal(lock_remaining_ms(quick, &a), 0);
    assert_int_equal(lock_renew(quick, &a), LOCK_LOST);
    assert_int_equal(a.state, LOCK_GONE);
    assert_int_equal(lock_renew(quick, &a), LOCK_LOST);
    assert_int_equal(lock_release(quick, &b), LOCK_LOST);
    assert_int_equal(lock_try(mine, "l", &a), LOCK_OK);
    lock_close(&quick);
}

static void test_answer_that_came_after_the_lease_is_busy_and_lets_go(void **state)
{
    (void)state;
    struct lock_hold a;
    clock_step_ns = INT64_C(20000000000);
    assert_int_equal(lock_try(mine, "l", &a), LOCK_BUSY);
    assert_int_equal(redis_server_do("EXISTS unit:{l}:lock"), 0);
}

static void test_acquire_waits_no_longer_than_told(void **state)
{
    (void)state;
    struct lock_hold a, b;
    assert_int_equal(lock_try(other, "l", &b), LOCK_OK);
    int64_t start_ns = clock_ns;
    assert_int_equal(lock_acquire(mine, "l", 100, &a), LOCK_TIMEOUT);
    assert_in_range(clock_ns - start_ns, 100000000, 150000000);
}

static void test_acquire_gets_what_becomes_free(void **state)
{
    (void)state;
    struct lock_hold a, b;
    struct lock_client *quick = open_client(LEASE_MS, false);
    struct lock_client *patient = open_client(10000, false);
    assert_int_equal(lock_try(quick, "l", &b), LOCK_OK);
    assert_int_equal(lock_acquire(patient, "l", 2000, &a), LOCK_OK);
    assert_true(a.fence > b.fence);
    lock_close(&quick);
    lock_close(&patient);
}

static void test_unreachable_server_is_failed(void **state)
{
    (void)state;
    char error[128];
    struct lock_hold a;
    struct lock_options options = {.kind = "redis",
                                   .url = "redis://127.0.0.1:1",
                                   .prefix = "unit:",
                                   .lease_ms = 1000,
                                   .timeout_ms = 100};
    struct lock_client *lost = lock_open(&options, error, sizeof error);
    assert_non_null(lost);
    assert_int_equal(lock_acquire(lost, "l", 100, &a), LOCK_FAILED);
    assert_int_equal(a.state, LOCK_RELEASED);
    assert_string_not_equal(lock_error(lost), "");
    lock_close(&lost);
}

/* ---- groups ---- */

static const char *const names[GROUP] = {"l0", "l1", "l2"};

static void test_group_holds_all_and_releases_all(void **state)
{
    (void)state;
    struct lock_hold holds[GROUP], b;
    assert_int_equal(lock_group_acquire(mine, names, GROUP, 100, holds), LOCK_OK);
    for (int i = 0; i < GROUP; i++) {
        assert_int_equal(holds[i].state, LOCK_HELD);
        assert_int_equal(lock_try(other, names[i], &b), LOCK_BUSY);
    }
    lock_group_release(mine, holds, GROUP);
    for (int i = 0; i < GROUP; i++)
        assert_int_equal(lock_try(other, names[i], &b), LOCK_OK);
}

static void test_group_that_lacks_one_holds_none(void **state)
{
    (void)state;
    struct lock_hold holds[GROUP], b;
    assert_int_equal(lock_try(other, names[2], &b), LOCK_OK);
    assert_int_equal(lock_group_acquire(mine, names, GROUP, 200, holds), LOCK_TIMEOUT);
    for (int i = 0; i < GROUP; i++)
        assert_int_equal(holds[i].state, LOCK_RELEASED);
    assert_int_equal(redis_server_do("EXISTS unit:{l0}:lock unit:{l1}:lock"), 0);
    assert_int_equal(redis_server_do("EXISTS unit:{l2}:lock"), 1);
}

static void test_group_of_none_is_held_at_once(void **state)
{
    (void)state;
    assert_int_equal(lock_group_acquire(mine, names, 0, 0, NULL), LOCK_OK);
    lock_group_release(mine, NULL, 0);
}

static void test_group_keeps_what_it_holds_while_it_waits(void **state)
{
    (void)state;
    struct lock_hold holds[GROUP], b;
    struct lock_client *quick = open_client(200, false), *slow = open_client(600, false);
    assert_int_equal(lock_try(slow, names[2], &b), LOCK_OK);
    assert_int_equal(lock_group_acquire(quick, names, GROUP, 3000, holds), LOCK_OK);
    for (int i = 0; i < GROUP; i++)
        assert_true(lock_remaining_ms(quick, &holds[i]) > 0);
    lock_close(&quick);
    lock_close(&slow);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_options_out_of_range_are_refused),
        TEST(test_one_holds_it_and_the_other_is_told_busy),
        TEST(test_release_lets_the_next_in_with_a_greater_fence),
        TEST(test_release_twice_is_harmless),
        TEST(test_hold_is_valid_until_its_deadline_on_the_clock),
        TEST(test_renew_sets_the_whole_lease_from_now),
        TEST(test_lease_that_ran_out_is_lost),
        TEST(test_answer_that_came_after_the_lease_is_busy_and_lets_go),
        TEST(test_acquire_waits_no_longer_than_told),
        TEST(test_acquire_gets_what_becomes_free),
        TEST(test_unreachable_server_is_failed),
        TEST(test_group_holds_all_and_releases_all),
        TEST(test_group_that_lacks_one_holds_none),
        TEST(test_group_of_none_is_held_at_once),
        TEST(test_group_keeps_what_it_holds_while_it_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
