/* Sales that end. */
#include "sql/ledger_retire.h"
#include "sql/ledger_setup.h"
#include "sql/test_server.h"

static struct ledger *ledger;

static int start_group(void **state)
{
    (void)state;
    char error[128];
    sql_server_clear();
    ledger = ledger_open(sql_server_url(), 5000, error, sizeof error);
    if (!ledger)
        fail_msg("%s", error);
    return ledger_migrate(ledger) == LEDGER_OK ? 0 : -1;
}

static int stop_group(void **state)
{
    (void)state;
    ledger_close(&ledger);
    return 0;
}

static void add_order(uint64_t id, const char *status)
{
    sql_server_do("INSERT INTO orders(order_id,sku,round,user_id,qty,segment,status,created_at)"
                  "VALUES(%llu,'s',3,'u',1,0,'%s',NOW())",
                  (unsigned long long)id, status);
}

/* A sale of 4 units in 2 segments, of which one order is paid. */
static int start(void **state)
{
    (void)state;
    sql_server_empty();
    sql_server_do("INSERT INTO sale(sku,round,total,segments)VALUES('s',3,4,2)");
    sql_server_do("INSERT INTO stock_segment(sku,segment,round,capacity,sold,fence)"
                  "VALUES('s',0,3,2,1,50),('s',1,3,2,0,40)");
    add_order(1000, "paid");
    return 0;
}

static struct ledger_held count_held(void)
{
    struct ledger_held held = {.done = false};
    while (!held.done)
        assert_int_equal(ledger_held_count(ledger, "s", &held), LEDGER_OK);
    return held;
}

static enum ledger_result retire(const struct ledger_held *held)
{
    const struct ledger_sale sale = {.sku = "s", .round = 3, .total = 4, .segments = 2};
    return ledger_retire(ledger, &sale, held);
}

static void test_sale_without_reserved_orders_ends(void **state)
{
    (void)state;
    struct ledger_held held = count_held();
    assert_int_equal(held.reserved, 0);
    assert_int_equal(held.paid, 1);
    assert_int_equal(retire(&held), LEDGER_OK);
    assert_int_equal(sql_server_do("SELECT COUNT(*)FROM sale"), 0);
    assert_int_equal(sql_server_do("SELECT COUNT(*)FROM stock_segment"), 0);
    assert_int_equal(sql_server_do("SELECT COUNT(*)FROM orders"), 1);
    assert_int_equal(retire(&held), LEDGER_NO);
}

static void test_reserved_orders_are_counted(void **state)
{
    (void)state;
    add_order(2000, "reserved");
    struct ledger_held held = count_held();
    assert_int_equal(held.reserved, 1);
    assert_int_equal(held.paid, 1);
}

/* As many units are sold as before: the paid order is cancelled, and another has its unit. Its id
 * is of a daemon whose clock is behind. */
static void test_order_behind_the_count_keeps_the_sale(void **state)
{
    (void)state;
    struct ledger_held held = count_held();
    sql_server_do("UPDATE orders SET status='cancelled';"
                  "UPDATE stock_segment SET sold=0,fence=60 WHERE segment=0;"
                  "UPDATE stock_segment SET sold=1,fence=61 WHERE segment=0");
    add_order(500, "reserved");
    assert_int_equal(retire(&held), LEDGER_NO);
    held = count_held();
    assert_int_equal(held.reserved, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_sale_without_reserved_orders_ends, start),
        cmocka_unit_test_setup(test_reserved_orders_are_counted, start),
        cmocka_unit_test_setup(test_order_behind_the_count_keeps_the_sale, start),
    };
    return cmocka_run_group_tests(tests, start_group, stop_group);
}
