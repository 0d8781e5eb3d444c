/* Units per user: what the ledger counts, refuses above the limit, and gives back. */
#include "sql/ledger_quota.h"
#include "sql/ledger_reset.h"
#include "sql/ledger_settings.h"
#include "sql/ledger_setup.h"
#include "sql/user_quota.h"
#include "sql/test_server.h"

#include <signal.h>

enum { TOTAL = 100, FENCE = 1000 };

static struct ledger *ledger;
static uint64_t fence;

static int start_group(void **state)
{
    (void)state;
    char error[128];
    signal(SIGPIPE, SIG_IGN);
    sql_server_clear();
    ledger = ledger_open(sql_server_url(), 5000, error, sizeof error);
    return ledger && ledger_migrate(ledger) == LEDGER_OK ? 0 : -1;
}

static int stop_group(void **state)
{
    (void)state;
    ledger_close(&ledger);
    return 0;
}

static void reset(const char *sku)
{
    struct ledger_sale sale = {.total = TOTAL, .segments = 1};
    struct ledger_segment row;
    snprintf(sale.sku, sizeof sale.sku, "%s", sku);
    fence++;
    assert_int_equal(ledger_reset(ledger, &sale, &fence, &row), LEDGER_OK);
}

/* Begins each test with one sale "s" of one segment. */
static int start(void **state)
{
    (void)state;
    sql_server_empty();
    fence = FENCE;
    reset("s");
    return 0;
}

static struct ledger_order order(uint64_t id, const char *user_id, uint32_t qty, uint32_t limit)
{
    return (struct ledger_order){.order_id = id,
                                 .sku = "s",
                                 .user_id = user_id,
                                 .round = 1,
                                 .qty = qty,
                                 .limit = limit,
                                 .created_ms = 1790000000123};
}

static enum ledger_result commit(const struct ledger_order *orders, size_t count)
{
    struct ledger_stock_update move = {
        .sku = "s", .round = 1, .settled = fence, .fence = fence + 1};
    move.settings_version =
        (uint32_t)sql_server_do("SELECT settings_version FROM sale WHERE sku='s'");
    for (size_t i = 0; i < count; i++)
        move.units += orders[i].qty;
    enum ledger_result result = ledger_commit(ledger, &move, 1, orders, count);
    fence += result == LEDGER_OK;
    return result;
}

static enum ledger_result commit_one(uint64_t id, const char *user_id, uint32_t qty, uint32_t limit)
{
    struct ledger_order row = order(id, user_id, qty, limit);
    return commit(&row, 1);
}

static struct ledger_quota find(const char *user_id)
{
    struct ledger_quota quota = {.sku = "s", .user_id = user_id, .round = 1};
    assert_int_equal(ledger_quotas_find(ledger, &quota, 1), LEDGER_OK);
    return quota;
}

static void give_back(const char *user_id, uint64_t order_id, uint32_t qty)
{
    struct sql_text sql = {0};
    user_quota_text_return(&sql, "s", 1, user_id, order_id, qty);
    sql_server_do("%.*s", (int)sql.length, sql.text);
    sql_free(&sql);
}

static void test_units_are_counted_up_to_the_limit(void **state)
{
    (void)state;
    assert_int_equal(commit_one(1, "u", 1, 3), LEDGER_OK);
    assert_int_equal(commit_one(2, "u", 3, 3), LEDGER_LIMIT);
    assert_int_equal(commit_one(3, "u", 2, 3), LEDGER_OK);
    assert_int_equal(commit_one(4, "u", 1, 3), LEDGER_LIMIT);
    assert_int_equal(commit_one(5, "v", 4, 3), LEDGER_LIMIT);
    assert_int_equal(sql_server_do("SELECT SUM(qty) FROM orders"), 3);
    assert_int_equal(sql_server_do("SELECT sold FROM stock_segment"), 3);
    assert_int_equal(find("u").units, 3);
    assert_int_equal(find("v").units, 0);
}

static void test_one_order_above_the_limit_stops_its_whole_batch(void **state)
{
    (void)state;
    struct ledger_order rows[40];
    char users[40][24];
    for (size_t i = 0; i < 40; i++) {
        snprintf(users[i], sizeof users[i], "u%zu", i == 39 ? 3 : i);
        rows[i] = order(i + 1, users[i], 1, 1);
    }
    assert_int_equal(commit(rows, 40), LEDGER_LIMIT);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM orders"), 0);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM user_quota"), 0);
    assert_int_equal(commit(rows, 39), LEDGER_OK);
    assert_int_equal(sql_server_do("SELECT SUM(units) FROM user_quota"), 39);
}

static void test_orders_without_a_limit_are_not_counted(void **state)
{
    (void)state;
    struct ledger_order rows[] = {order(1, "u", 5, 0), order(2, "v", 1, 1)};
    assert_int_equal(commit(rows, 2), LEDGER_OK);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM user_quota"), 1);
    assert_int_equal(find("v").units, 1);
}

static void test_duplicate_key_is_told_before_the_limit(void **state)
{
    (void)state;
    struct ledger_order row = order(1, "u", 1, 1);
    row.key = "k";
    assert_int_equal(commit(&row, 1), LEDGER_OK);
    row.order_id = 2;
    assert_int_equal(commit(&row, 1), LEDGER_DUPLICATE);
}

static void test_last_ten_orders_are_named_newest_first(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 12; id++)
        assert_int_equal(commit_one(UINT64_MAX - 100 + id, "u", 1, 50), LEDGER_OK);
    struct ledger_quota quota = find("u");
    assert_int_equal(quota.units, 12);
    assert_int_equal(quota.order_count, LEDGER_QUOTA_ORDERS_MAX);
    for (uint64_t i = 0; i < LEDGER_QUOTA_ORDERS_MAX; i++)
        assert_true(quota.order_ids[i] == UINT64_MAX - 100 + 12 - i);
}

static void test_returned_units_can_be_bought_again(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 3; id++)
        assert_int_equal(commit_one(id, "u", 1, 3), LEDGER_OK);
    give_back("u", 2, 1);
    struct ledger_quota quota = find("u");
    assert_int_equal(quota.units, 2);
    assert_int_equal(quota.order_count, 2);
    assert_int_equal(quota.order_ids[0], 3);
    assert_int_equal(quota.order_ids[1], 1);
    give_back("u", 3, 1);
    give_back("u", 1, 1);
    assert_int_equal(find("u").units, 0);
    assert_int_equal(find("u").order_count, 0);
    assert_int_equal(commit_one(13, "u", 3, 3), LEDGER_OK);
    assert_int_equal(find("u").order_count, 1);
    assert_int_equal(find("u").order_ids[0], 13);
    give_back("nobody", 1, 1);
}

static void test_lower_limit_takes_nothing_away(void **state)
{
    (void)state;
    assert_int_equal(commit_one(1, "u", 5, 5), LEDGER_OK);
    assert_int_equal(commit_one(2, "u", 1, 2), LEDGER_LIMIT);
    assert_int_equal(find("u").units, 5);
    give_back("u", 1, 4);
    assert_int_equal(commit_one(3, "u", 1, 2), LEDGER_OK);
}

static void test_limit_set_in_mid_sale_counts_what_was_bought(void **state)
{
    (void)state;
    struct ledger_settings settings = {.version = 1, .per_user_limit = 2};
    assert_int_equal(commit_one(1, "u", 1, 0), LEDGER_OK);
    assert_int_equal(commit_one(2, "u", 2, 0), LEDGER_OK);
    assert_int_equal(commit_one(3, "v", 1, 0), LEDGER_OK);
    assert_int_equal(commit_one(4, "w", 1, 0), LEDGER_OK);
    sql_server_do("UPDATE orders SET status='cancelled' WHERE order_id=4");
    sql_server_do("INSERT INTO user_quota VALUES('s',1,'gone',1,1,'99'),('t',1,'u',1,1,'98')");
    assert_int_equal(ledger_settings_change(ledger, "s", &settings, true), LEDGER_OK);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM user_quota WHERE sku='s'"), 2);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM user_quota WHERE sku='t'"), 1);
    assert_int_equal(find("u").units, 3);
    assert_int_equal(find("u").order_ids[0], 2);
    assert_int_equal(find("u").order_ids[1], 1);
    assert_int_equal(commit_one(5, "u", 1, 2), LEDGER_LIMIT);
    assert_int_equal(commit_one(6, "v", 1, 2), LEDGER_OK);
    assert_int_equal(commit_one(7, "v", 1, 2), LEDGER_LIMIT);
    assert_int_equal(commit_one(8, "w", 2, 2), LEDGER_OK);
}

static void test_limit_set_in_mid_sale_counts_however_many_orders_a_user_has(void **state)
{
    (void)state;
    enum { ORDERS = 60000 }; /* whose ids are more than a megabyte of text */
    struct ledger_settings settings = {.version = 1, .per_user_limit = 2};
    sql_server_do("INSERT INTO orders(order_id,sku,round,user_id,qty,segment,created_at)"
                  "SELECT 7000000000000000000+seq,'s',1,'u',1,0,NOW() FROM seq_1_to_%d",
                  ORDERS);
    assert_int_equal(ledger_settings_change(ledger, "s", &settings, true), LEDGER_OK);
    struct ledger_quota quota = find("u");
    assert_int_equal(quota.units, ORDERS);
    assert_int_equal(quota.order_count, LEDGER_QUOTA_ORDERS_MAX);
    assert_true(quota.order_ids[0] == 7000000000000000000 + ORDERS);
}

/* As with millions of orders, the server needs longer than any other query may take. */
static void test_limit_set_in_mid_sale_may_take_long_to_count(void **state)
{
    (void)state;
    char error[128];
    struct ledger_settings settings = {.version = 1, .per_user_limit = 2};
    assert_int_equal(commit_one(1, "u", 1, 0), LEDGER_OK);
    sql_server_do(
        "CREATE TRIGGER slow BEFORE INSERT ON user_quota FOR EACH ROW SET @slept=SLEEP(3)");
    struct ledger *hasty = ledger_open(sql_server_url(), 1000, error, sizeof error);
    enum ledger_result result = ledger_settings_change(hasty, "s", &settings, true);
    ledger_close(&hasty);
    sql_server_do("DROP TRIGGER slow");
    assert_int_equal(result, LEDGER_OK);
    assert_int_equal(find("u").units, 1);
}

static void test_buyers_of_several_sales_are_found_at_once(void **state)
{
    (void)state;
    sql_server_do("INSERT INTO user_quota VALUES('a',1,'u',1,9,'11'),('a',2,'u',2,9,'12'),"
                  "('a',2,'w',3,9,'13'),('b',7,'v',4,9,'14,15')");
    struct ledger_quota buyers[] = {
        {.sku = "a", .round = 2, .user_id = "u"}, {.sku = "a", .round = 2, .user_id = "v"},
        {.sku = "a", .round = 2, .user_id = "w"}, {.sku = "b", .round = 7, .user_id = "v"},
        {.sku = "b", .round = 7, .user_id = "x"},
    };
    const uint32_t units[] = {2, 0, 3, 4, 0};
    assert_int_equal(ledger_quotas_find(ledger, buyers, 5), LEDGER_OK);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(buyers[i].units, units[i]);
    assert_int_equal(buyers[3].order_count, 2);
    assert_int_equal(buyers[3].order_ids[1], 15);
}

#define TEST(name) cmocka_unit_test_setup(name, start)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_units_are_counted_up_to_the_limit),
        TEST(test_one_order_above_the_limit_stops_its_whole_batch),
        TEST(test_orders_without_a_limit_are_not_counted),
        TEST(test_duplicate_key_is_told_before_the_limit),
        TEST(test_last_ten_orders_are_named_newest_first),
        TEST(test_returned_units_can_be_bought_again),
        TEST(test_lower_limit_takes_nothing_away),
        TEST(test_limit_set_in_mid_sale_counts_what_was_bought),
        TEST(test_limit_set_in_mid_sale_counts_however_many_orders_a_user_has),
        TEST(test_limit_set_in_mid_sale_may_take_long_to_count),
        TEST(test_buyers_of_several_sales_are_found_at_once),
    };
    return cmocka_run_group_tests(tests, start_group, stop_group);
}
