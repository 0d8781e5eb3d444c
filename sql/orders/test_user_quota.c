/* Units per user: what the ledger counts, refuses above the limit, and gives back. */
#include "sql/sales/sales.h"
#include "sql/orders/orders.h"
#include "sql/server/server.h"
#include "sql/orders/user_quota.h"
#include "sql/test_server.h"

#include <signal.h>

enum { TOTAL = 100, FENCE = 1000 };

static struct ledger *ledger;
static uint64_t fence;

static int start_group(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    ledger = sql_server_ledger();
    return 0;
}

static int stop_group(void **state)
{
    (void)state;
    ledger_close(&ledger);
    return 0;
}

static void reset(const char *sku)
{
    struct ledger_sale sale = {.round = 0};
    struct ledger_segment row;
    struct ledger_reset reset = {.fences = &fence, .end_round = true};
    ledger_sale_find(ledger, sku, &sale);
    sale.total = TOTAL;
    sale.segments = 1;
    sale.settings = (struct ledger_settings){.version = sale.settings.version};
    snprintf(sale.sku, sizeof sale.sku, "%s", sku);
    fence++;
    assert_int_equal(ledger_reset(ledger, &reset, &sale, &row), LEDGER_OK);
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
    struct user_quota_return order = {.sku = "s", .round = 1, .order_id = order_id, .qty = qty};
    snprintf(order.user_id, sizeof order.user_id, "%s", user_id);
    user_quota_text_return(&sql, &order, 1);
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

/* Another transaction counts the same users by name: one waits for the other. */
static void test_batches_of_the_same_users_do_not_deadlock(void **state)
{
    (void)state;
    struct sql_rival rival;
    struct ledger_order batch[] = {order(1, "v", 1, 5), order(2, "u", 1, 5)};
    uint64_t retries = ledger_stats(ledger).retries;
    sql_rival_start_awaiting(&rival, "INSERT INTO user_quota VALUES('s',1,'u',1,5,'')",
                             "INSERT INTO user_quota VALUES('s',1,'v',1,5,'');COMMIT");
    assert_int_equal(commit(batch, 2), LEDGER_OK);
    assert_int_equal(sql_rival_join(&rival), DB_OK);
    assert_int_equal(ledger_stats(ledger).retries, retries);
    assert_int_equal(find("u").units + find("v").units, 4);
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

/* Whatever a user was allowed when he bought before. */
static void test_lower_limit_is_the_one_that_counts(void **state)
{
    (void)state;
    assert_int_equal(commit_one(1, "u", 3, 5), LEDGER_OK);
    assert_int_equal(commit_one(2, "u", 2, 4), LEDGER_LIMIT);
    assert_int_equal(commit_one(3, "u", 1, 4), LEDGER_OK);
    assert_int_equal(find("u").units, 4);
}

/* Sets a limit and counts, in pieces of many rows. */
static enum ledger_result count_all(struct ledger_settings *settings)
{
    enum ledger_result result = ledger_settings_change(ledger, "s", settings, true);
    while (result == LEDGER_OK)
        result = ledger_count_step(ledger, "s", 1000);
    return result == LEDGER_NO ? LEDGER_OK : result;
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
    assert_int_equal(count_all(&settings), LEDGER_OK);
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
                  "SELECT 7000000000000000000+seq,'s',1,'u',1,0,NOW() FROM " SQL_NUMBERS,
                  ORDERS);
    sql_server_do("UPDATE stock_segment SET capacity=%d,sold=%d", ORDERS, ORDERS);
    assert_int_equal(count_all(&settings), LEDGER_OK);
    struct ledger_quota quota = find("u");
    assert_int_equal(quota.units, ORDERS);
    assert_int_equal(quota.order_count, LEDGER_QUOTA_ORDERS_MAX);
    assert_true(quota.order_ids[0] == 7000000000000000000 + ORDERS);
}

/* Five orders of two users, counted two rows at a time: as when they are many. */
static struct ledger_settings begin_count(void)
{
    struct ledger_settings settings = {.version = 1, .per_user_limit = 2};
    for (uint64_t id = 1; id <= 5; id++)
        assert_int_equal(commit_one(id, id % 2 ? "u" : "v", 1, 0), LEDGER_OK);
    assert_int_equal(ledger_settings_change(ledger, "s", &settings, true), LEDGER_OK);
    return settings;
}

static enum ledger_result step(void)
{
    return ledger_count_step(ledger, "s", 2);
}

static struct ledger_settings settings_now(void)
{
    struct ledger_sale sale;
    assert_int_equal(ledger_sale_find(ledger, "s", &sale), LEDGER_OK);
    return sale.settings;
}

static void test_sale_is_closed_until_all_orders_are_counted(void **state)
{
    (void)state;
    char sku[IDENTIFIER_SIZE];
    struct ledger_settings settings = begin_count();
    assert_true(settings.counting);
    assert_int_equal(settings.version, 2);
    for (int steps = 0; steps < 4; steps++) { /* one deletes, three count */
        assert_true(settings_now().counting);
        assert_int_equal(commit_one(9, "w", 1, 2), LEDGER_NO);
        assert_int_equal(ledger_count_find(ledger, sku), LEDGER_OK);
        assert_string_equal(sku, "s");
        assert_int_equal(step(), steps < 3 ? LEDGER_OK : LEDGER_NO); /* the last opens */
    }
    assert_false(settings_now().counting);
    assert_int_equal(settings_now().version, 3);
    assert_int_equal(step(), LEDGER_NO);
    assert_int_equal(ledger_count_find(ledger, sku), LEDGER_NO);
    struct ledger_quota quota = find("u");
    assert_int_equal(quota.units, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(quota.order_ids[i], 5 - 2 * i);
    assert_int_equal(find("v").units, 2);
    assert_int_equal(commit_one(9, "v", 1, 2), LEDGER_LIMIT);
    assert_int_equal(commit_one(9, "w", 1, 2), LEDGER_OK);
}

static void test_another_process_goes_on_counting(void **state)
{
    (void)state;
    char error[128];
    begin_count();
    step();
    step();
    struct ledger *mine = ledger;
    ledger = ledger_open(sql_server_url(), 5000, error, sizeof error);
    while (step() == LEDGER_OK)
        ;
    ledger_close(&ledger);
    ledger = mine;
    assert_int_equal(find("u").units, 3);
    assert_int_equal(commit_one(9, "w", 1, 2), LEDGER_OK);
}

/* Returns an order as a cancel does. */
static void cancel(uint64_t id)
{
    struct ledger_return_segment segment = {.sku = "s", .segments = 1, .fence = ++fence};
    struct ledger_return_order order = {.order_id = id};
    struct ledger_return returned = {.to = LEDGER_CANCELLED,
                                     .orders = &order,
                                     .order_count = 1,
                                     .segments = &segment,
                                     .segment_count = 1};
    assert_int_equal(ledger_return(ledger, &returned), LEDGER_OK);
    assert_true(order.moved);
}

/* At each point of the counting, an order that is counted already and one that is not. */
static void test_orders_returned_while_they_are_counted(void **state)
{
    (void)state;
    for (int before = 0; before <= 5; before++) {
        start(NULL);
        begin_count();
        for (int i = 0; i < before; i++)
            step();
        cancel(1);
        cancel(4);
        cancel(5);
        while (step() == LEDGER_OK)
            ;
        assert_int_equal(find("u").units, 1);
        assert_int_equal(find("u").order_count, 1);
        assert_int_equal(find("u").order_ids[0], 3);
        assert_int_equal(find("v").units, 1);
        assert_int_equal(commit_one(9, "v", 1, 2), LEDGER_OK);
        assert_int_equal(commit_one(10, "v", 1, 2), LEDGER_LIMIT);
    }
}

static void test_settings_changed_while_the_orders_are_counted(void **state)
{
    (void)state;
    struct ledger_settings settings = begin_count();
    step();
    step();
    settings.per_user_limit = 5;
    settings.paused = true;
    assert_int_equal(ledger_settings_change(ledger, "s", &settings, false), LEDGER_OK);
    assert_true(settings.counting);
    assert_int_equal(commit_one(9, "w", 1, 5), LEDGER_NO);
    while (step() == LEDGER_OK)
        ;
    assert_true(settings_now().paused);
    assert_int_equal(settings_now().per_user_limit, 5);
    assert_int_equal(settings_now().version, 4);
    assert_int_equal(find("u").units, 3);
    assert_int_equal(commit_one(9, "u", 3, 5), LEDGER_LIMIT);
    assert_int_equal(commit_one(9, "u", 2, 5), LEDGER_OK);
}

static void test_limit_taken_away_and_set_again_while_the_orders_are_counted(void **state)
{
    (void)state;
    struct ledger_settings settings = begin_count();
    step();
    step();
    settings.per_user_limit = 0;
    assert_int_equal(ledger_settings_change(ledger, "s", &settings, false), LEDGER_OK);
    assert_false(settings.counting);
    assert_int_equal(step(), LEDGER_NO);
    assert_int_equal(commit_one(9, "u", 1, 0), LEDGER_OK);
    settings.per_user_limit = 2;
    assert_int_equal(ledger_settings_change(ledger, "s", &settings, true), LEDGER_OK);
    while (step() == LEDGER_OK)
        ;
    assert_int_equal(find("u").units, 4);
    assert_int_equal(find("u").order_count, 4);
    assert_int_equal(commit_one(10, "v", 1, 2), LEDGER_LIMIT);
}

static void test_units_added_while_the_orders_are_counted(void **state)
{
    (void)state;
    struct ledger_sale sale;
    struct ledger_segment row;
    begin_count();
    step();
    fence++;
    struct ledger_restock restock = {
        .sku = "s", .key = "", .units = 10, .total_max = 1000, .fences = &fence, .fence_count = 1};
    assert_int_equal(ledger_restock(ledger, &restock, &sale, &row), LEDGER_OK);
    assert_true(sale.settings.counting);
    assert_int_equal(commit_one(9, "w", 1, 2), LEDGER_NO);
    while (step() == LEDGER_OK)
        ;
    assert_int_equal(find("u").units, 3);
    assert_int_equal(commit_one(9, "w", 1, 2), LEDGER_OK);
}

static void test_reset_ends_the_counting(void **state)
{
    (void)state;
    char sku[IDENTIFIER_SIZE];
    begin_count();
    step();
    step();
    reset("s");
    assert_false(settings_now().counting);
    assert_int_equal(ledger_count_find(ledger, sku), LEDGER_NO);
    assert_int_equal(step(), LEDGER_NO);
    struct ledger_order row = order(9, "u", 1, 2);
    row.round = 2;
    struct ledger_stock_update move = {.sku = "s", .round = 2, .units = 1, .settled = fence};
    move.fence = fence + 1;
    move.settings_version = settings_now().version;
    assert_int_equal(ledger_commit(ledger, &move, 1, &row, 1), LEDGER_OK);
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
        TEST(test_batches_of_the_same_users_do_not_deadlock),
        TEST(test_duplicate_key_is_told_before_the_limit),
        TEST(test_last_ten_orders_are_named_newest_first),
        TEST(test_returned_units_can_be_bought_again),
        TEST(test_lower_limit_takes_nothing_away),
        TEST(test_lower_limit_is_the_one_that_counts),
        TEST(test_limit_set_in_mid_sale_counts_what_was_bought),
        TEST(test_limit_set_in_mid_sale_counts_however_many_orders_a_user_has),
        TEST(test_sale_is_closed_until_all_orders_are_counted),
        TEST(test_another_process_goes_on_counting),
        TEST(test_orders_returned_while_they_are_counted),
        TEST(test_settings_changed_while_the_orders_are_counted),
        TEST(test_limit_taken_away_and_set_again_while_the_orders_are_counted),
        TEST(test_units_added_while_the_orders_are_counted),
        TEST(test_reset_ends_the_counting),
        TEST(test_buyers_of_several_sales_are_found_at_once),
    };
    return cmocka_run_group_tests(tests, start_group, stop_group);
}
