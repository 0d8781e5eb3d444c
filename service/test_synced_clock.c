/* The ledger's time: what its answers tell, and steps of its clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/test_range.h"
#include "service/synced_clock.h"

static struct synced_clock known;
static int64_t now_ns;

static int start(void **state)
{
    (void)state;
    synced_clock_init(&known);
    now_ns = clock_boot_ns();
    return 0;
}

/* The ledger answers that its clock is so far ahead of the machine's start, a part of the round
 * trip later. */
static int64_t note(int64_t ahead_ms, int64_t there_ms, int64_t back_ms)
{
    int64_t asked_ns = now_ns;
    int64_t read_ns = asked_ns + there_ms * CLOCK_NS_PER_MS;
    now_ns = read_ns + back_ms * CLOCK_NS_PER_MS;
    return synced_clock_note(&known, asked_ns, now_ns,
                             (read_ns + ahead_ms * CLOCK_NS_PER_MS) / 1000);
}

/* How far the ledger's clock is ahead, to the ms. */
static void assert_ahead(int64_t ms)
{
    int64_t before_ms = clock_boot_ns() / CLOCK_NS_PER_MS;
    int64_t boot_ms = synced_clock_ms(&known) - ms;
    assert_true(boot_ms >= before_ms - 1 && boot_ms <= clock_boot_ns() / CLOCK_NS_PER_MS + 1);
}

static void test_unknown_clock_is_the_daemons_own(void **state)
{
    (void)state;
    assert_false(synced_clock_known(&known) || synced_clock_steady(&known));
    assert_int_in_range(clock_wall_ms() - synced_clock_ms(&known) + 1, 0, 1000);
}

static void test_first_answer_counts_however_far_it_is(void **state)
{
    (void)state;
    assert_int_equal(note(7200000, 1, 1), 0);
    assert_true(synced_clock_steady(&known));
    assert_ahead(7200000);
}

static void test_answer_that_may_err_least_counts(void **state)
{
    (void)state;
    note(5000, 1, 1);
    note(5000, 200, 10); /* the middle of this one is wrong by 95 ms */
    assert_ahead(5000);
    now_ns += 20 * CLOCK_NS_PER_S; /* in which the clocks may have drifted apart by as much */
    note(5000, 30, 10);
    assert_ahead(5010);
    note(5000, 1, 1);
    assert_ahead(5000);
}

/* The machine stood still after the ledger had answered. */
static void test_answer_that_was_read_late_moves_nothing(void **state)
{
    (void)state;
    note(5000, 1, 1);
    assert_int_equal(note(5000, 1, 4000), 0);
    assert_ahead(5000);
}

static void test_answer_that_contradicts_counts_at_once(void **state)
{
    (void)state;
    note(5000, 1, 1);
    assert_int_equal(note(5600, 50, 50), 0);
    assert_ahead(5600);
    assert_true(synced_clock_steady(&known));
}

/* As after a failover to a server with another clock. */
static void test_step_is_followed_and_told_of(void **state)
{
    (void)state;
    note(5000, 1, 1);
    assert_int_equal(note(65000, 1, 1), 60000);
    assert_ahead(65000);
    assert_false(synced_clock_steady(&known));
    assert_int_equal(note(65000, 1, 1), 0);
    assert_int_equal(note(5000, 1, 1), -60000);
    assert_ahead(5000);
    atomic_store(&known.steady_ns, clock_boot_ns()); /* as a second later */
    assert_true(synced_clock_steady(&known));
}

static void test_drift_is_followed_without_a_word(void **state)
{
    (void)state;
    for (int64_t ahead_ms = 5000; ahead_ms < 15000; ahead_ms += 100) {
        assert_int_equal(note(ahead_ms, 1, 1), 0);
        assert_ahead(ahead_ms);
    }
    assert_true(synced_clock_steady(&known));
}

#define TEST(name) cmocka_unit_test_setup(name, start)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_unknown_clock_is_the_daemons_own),
        TEST(test_first_answer_counts_however_far_it_is),
        TEST(test_answer_that_may_err_least_counts),
        TEST(test_answer_that_was_read_late_moves_nothing),
        TEST(test_answer_that_contradicts_counts_at_once),
        TEST(test_step_is_followed_and_told_of),
        TEST(test_drift_is_followed_without_a_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
