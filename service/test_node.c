/* The lease of a node number follows the ledger, also when another server takes over. */
#include "base/clock.h"
#include "service/node.h"
#include "sql/test_server.h"

static struct ledger *ledger;
static struct order_ids ids;
static struct node node;

static uint64_t read_clock(void *context)
{
    (void)context;
    return (uint64_t)clock_wall_ms();
}

static int start(void **state)
{
    (void)state;
    ledger = sql_server_ledger();
    order_ids_init(&ids, read_clock, NULL, 0);
    node_init(&node, -1);
    assert_true(node_keep(&node, &ids, ledger));
    return 0;
}

static int finish(void **state)
{
    (void)state;
    ledger_close(&ledger);
    return 0;
}

/* How many numbers a daemon holds in the ledger, with a lease that has not ended. */
static int64_t leases(void)
{
    return sql_server_do("SELECT COUNT(*) FROM node_lease WHERE holder IS NOT NULL"
                         " AND leased_until>UTC_TIMESTAMP(6)");
}

/* As on a replica that has an earlier lease of this daemon, and not the newest. */
static void lose_newest_lease(void)
{
    sql_server_do("UPDATE node_lease SET leased_until='2025-01-01' WHERE holder IS NOT NULL");
    assert_int_equal(leases(), 0);
}

static void test_lease_in_doubt_is_renewed_at_once(void **state)
{
    (void)state;
    assert_int_equal(leases(), 1);
    lose_newest_lease();
    node_doubt(&node);
    assert_true(node_keep(&node, &ids, ledger));
    assert_int_equal(leases(), 1);
}

static void test_lease_in_doubt_is_not_given_back(void **state)
{
    (void)state;
    node_doubt(&node);
    node_release(&node, &ids, ledger);
    assert_int_equal(leases(), 1);
}

static void test_lease_is_given_back(void **state)
{
    (void)state;
    node_release(&node, &ids, ledger);
    assert_int_equal(leases(), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_lease_in_doubt_is_renewed_at_once),
        TEST(test_lease_in_doubt_is_not_given_back),
        TEST(test_lease_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
