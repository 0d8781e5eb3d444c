/* Which calls wait behind orders, and for how long at most. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/clock.h"
#include "service/http/http.h"

/* See fair.c, and README.md: "Orders first". */
enum {
    ORDERS = 32,
    CROWD = 256,
    CROWD_OPERATORS = 64,
    HOLD_MS_MAX = 1000,
    HOLD_OPERATORS_MS_MAX = 250,
    STUCK_MS = 250,
    CALLS = CROWD + 1
};

static struct http_thread thread;
static struct request calls[CALLS];

static int start(void **state)
{
    (void)state;
    memset(&thread, 0, sizeof thread);
    memset(calls, 0, sizeof calls);
    thread.now_ns = CLOCK_NS_PER_S;
    for (int i = 0; i < ORDERS; i++)
        fair_sent(&thread, CALL_ORDER);
    fair_returned(&thread, CALL_ORDER);
    fair_sent(&thread, CALL_ORDER);
    return 0;
}

static const struct route *route_of(const char *path)
{
    enum problem problem;
    const char *allow;
    const struct route_path whole = {path, strlen(path), strlen(path)};
    const struct route *route = route_find(ROUTE_ALL, "GET", &whole, &problem, &allow);
    assert_non_null(route);
    return route;
}

static bool admit(int number, const char *path)
{
    calls[number].http.route = route_of(path);
    calls[number].http.until_ns = INT64_MAX;
    return fair_admit(&thread, &calls[number]);
}

/* A turn a millisecond later, in which orders are answered, and calls that went ahead have used up
 * all credit. */
static void turn_without_credit(void)
{
    thread.now_ns += CLOCK_NS_PER_MS;
    fair_returned(&thread, CALL_ORDER);
    fair_sent(&thread, CALL_ORDER);
    for (int i = 0; i < CROWD; i++)
        fair_sent(&thread, CALL_LIST);
    fair_begin_turn(&thread);
}

/* Admits a crowd in one turn, all but its last call. */
static void assert_crowd(int crowd, const char *path)
{
    turn_without_credit();
    for (int i = 0; i < crowd; i++)
        assert_true(admit(i, path));
    assert_false(admit(crowd, path));
}

/* For how many milliseconds a call is held that gets no credit. */
static int held_ms(int number, const char *path)
{
    int ms = 0;
    while (!admit(number, path)) {
        turn_without_credit();
        assert_true(++ms < 100 * HOLD_MS_MAX);
    }
    return ms;
}

static void test_buyers_and_the_shop_wait_for_a_second_at_most(void **state)
{
    (void)state;
    static const char *const paths[] = {"/stock/demo", "/order/1", "/user/u/orders"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        start(state);
        assert_crowd(CROWD, paths[i]);
        assert_int_equal(held_ms(CROWD, paths[i]), HOLD_MS_MAX);
    }
}

static void test_operators_wait_for_a_quarter_of_a_second_at_most(void **state)
{
    (void)state;
    static const char *const paths[] = {"/admin/sales", "/healthz", "/readyz", "/metrics",
                                        "/dashboard/live"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        start(state);
        assert_crowd(CROWD_OPERATORS, paths[i]);
        assert_int_equal(held_ms(CROWD_OPERATORS, paths[i]), HOLD_OPERATORS_MS_MAX);
    }
}

static void test_operators_and_the_shop_do_not_wait_behind_buyers(void **state)
{
    (void)state;
    assert_crowd(CROWD, "/stock/demo");
    assert_true(admit(0, "/readyz"));
    assert_true(admit(1, "/user/u/orders"));
    assert_false(admit(2, "/order/1"));
}

static void test_nobody_waits_while_orders_stand_still(void **state)
{
    (void)state;
    assert_crowd(CROWD, "/stock/demo");
    thread.now_ns += STUCK_MS * CLOCK_NS_PER_MS;
    assert_true(admit(CROWD, "/stock/demo"));
}

static void test_nobody_waits_beside_a_few_orders(void **state)
{
    (void)state;
    memset(&thread.fair, 0, sizeof thread.fair);
    for (int i = 0; i < ORDERS - 1; i++)
        fair_sent(&thread, CALL_ORDER);
    thread.fair.answered_ns = thread.now_ns;
    for (int i = 0; i < CALLS; i++)
        assert_true(admit(i, "/stock/demo"));
}

static void test_answered_orders_let_calls_go_on(void **state)
{
    (void)state;
    assert_crowd(CROWD, "/stock/demo");
    turn_without_credit();
    assert_false(admit(CROWD, "/stock/demo"));
    thread.fair.credit = 0;
    for (int i = 0; i < ORDERS; i++) {
        fair_returned(&thread, CALL_ORDER);
        fair_sent(&thread, CALL_ORDER);
    }
    fair_begin_turn(&thread);
    assert_true(admit(CROWD, "/stock/demo"));
}

static void test_order_never_waits(void **state)
{
    (void)state;
    enum problem problem;
    const char *allow;
    const struct route_path path = {"/order", strlen("/order"), strlen("/order")};
    assert_crowd(CROWD, "/stock/demo");
    calls[0].http.route = route_find(ROUTE_ALL, "POST", &path, &problem, &allow);
    assert_true(fair_admit(&thread, &calls[0]));
}

#define TEST(name) cmocka_unit_test_setup(name, start)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_buyers_and_the_shop_wait_for_a_second_at_most),
        TEST(test_operators_wait_for_a_quarter_of_a_second_at_most),
        TEST(test_operators_and_the_shop_do_not_wait_behind_buyers),
        TEST(test_nobody_waits_while_orders_stand_still),
        TEST(test_nobody_waits_beside_a_few_orders),
        TEST(test_answered_orders_let_calls_go_on),
        TEST(test_order_never_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
