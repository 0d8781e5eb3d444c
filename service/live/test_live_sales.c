/* The figures of the sales follow the ledger, and are bounded however many sales there are. */
#include "service/live/live_sales.h"
#include "sql/server/server.h"
#include "sql/test_server.h"

static struct ledger *ledger;
static struct live_sales *sales;
static struct live_figures view;

enum { NOW_MS = 1000000000, PAGES = 3, MANY = (PAGES - 1) * LIVE_PAGE_MAX + 50 };

static int start_group(void **state)
{
    (void)state;
    ledger = sql_server_ledger();
    return 0;
}

static int stop_group(void **state)
{
    (void)state;
    ledger_close(&ledger);
    return 0;
}

static int start(void **state)
{
    (void)state;
    sql_server_empty();
    sales = live_sales_open(false);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    live_sales_close(&sales);
    return 0;
}

/* Two turns, of which one reads a page. */
static void turn(int64_t now_ms)
{
    assert_true(live_sales_read(sales, ledger, now_ms));
    assert_true(live_sales_read(sales, ledger, now_ms));
    live_sales_figures(sales, &view);
    assert_int_equal(view.read_ms, now_ms);
    for (size_t i = 1; i < view.shown; i++)
        assert_true(strcmp(view.sales[i - 1].sku, view.sales[i].sku) < 0);
}

/* Sales that ended long ago, of one segment with 10 units each, from s1000 on. */
static void make_sales(unsigned count)
{
    sql_server_do("INSERT INTO sale(sku,round,total,segments,ends_at)"
                  " SELECT CONCAT('s',999+seq),1,10,1,'1970-01-02' FROM " SQL_NUMBERS,
                  (int)count);
    sql_server_do("INSERT INTO stock_segment(sku,segment,round,capacity,sold,fence)"
                  " SELECT CONCAT('s',999+seq),0,1,10,0,1 FROM " SQL_NUMBERS,
                  (int)count);
}

static const struct ledger_sale *shown(const char *sku)
{
    for (size_t i = 0; i < view.shown; i++)
        if (strcmp(view.sales[i].sku, sku) == 0)
            return &view.sales[i];
    return NULL;
}

static void test_no_sale(void **state)
{
    (void)state;
    turn(NOW_MS);
    assert_int_equal(view.known, 0);
    assert_int_equal(view.shown, 0);
}

static void test_figures_follow_the_ledger(void **state)
{
    (void)state;
    make_sales(2);
    turn(NOW_MS);
    assert_int_equal(view.known, 2);
    assert_int_equal(shown("s1001")->total, 10);
    assert_int_equal(shown("s1001")->sold, 0);
    sql_server_do("UPDATE stock_segment SET sold=7 WHERE sku='s1001'");
    sql_server_do("UPDATE sale SET paused=1 WHERE sku='s1000'");
    turn(NOW_MS);
    assert_int_equal(shown("s1001")->sold, 7);
    assert_true(shown("s1000")->settings.paused);
    sql_server_do("DELETE FROM sale WHERE sku='s1000'"); /* retired */
    turn(NOW_MS);
    assert_int_equal(view.known, 1);
    assert_null(shown("s1000"));
    assert_non_null(shown("s1001"));
}

/* Each turn reads one page; when all are known, what changes comes to be shown. */
static void test_many_sales_are_bounded(void **state)
{
    (void)state;
    make_sales(MANY);
    for (unsigned i = 1; i <= PAGES; i++) {
        turn(NOW_MS + i);
        assert_int_equal(view.shown, LIVE_FIGURES_MAX);
    }
    assert_int_equal(view.known, MANY);
    assert_null(shown("s1020")); /* of the first page, so read longest ago */
    sql_server_do("UPDATE stock_segment SET sold=1 WHERE sku='s1020'");
    for (unsigned i = 1; i <= PAGES; i++)
        turn(NOW_MS + 1000 + i);
    assert_int_equal(shown("s1020")->sold, 1);
    sql_server_do("UPDATE stock_segment SET sold=2 WHERE sku='s1020'");
    turn(NOW_MS + 2000); /* a shown one is read in each turn */
    assert_int_equal(shown("s1020")->sold, 2);
    assert_int_equal(view.known, MANY);
}

/* Even where nothing has happened in it yet, and much in all others. */
static void test_sale_that_runs_or_opens_within_the_hour_is_shown(void **state)
{
    (void)state;
    make_sales(MANY);
    sql_server_do("UPDATE sale SET ends_at=NULL WHERE sku IN('s1020','s1021','s1022');"
                  "UPDATE sale SET starts_at='1970-01-01'+INTERVAL %d SECOND WHERE sku='s1021';"
                  "UPDATE sale SET starts_at='1970-01-01'+INTERVAL %d SECOND WHERE sku='s1022'",
                  NOW_MS / 1000 + 59 * 60, NOW_MS / 1000 + 61 * 60);
    for (unsigned i = 1; i <= PAGES; i++)
        turn(NOW_MS + i);
    sql_server_do("UPDATE stock_segment SET sold=1 WHERE sku NOT IN('s1020','s1021','s1022')");
    for (unsigned i = 1; i <= PAGES; i++)
        turn(NOW_MS + 1000 + i);
    assert_non_null(shown("s1020"));
    assert_non_null(shown("s1021"));
    assert_null(shown("s1022"));
    assert_int_equal(view.shown, LIVE_FIGURES_MAX);
}

static void test_open_window(void **state)
{
    (void)state;
    struct ledger_sale sale = {.settings = {.starts_ms = 0, .ends_ms = 0}};
    assert_true(live_sale_open_at(&sale, 5));
    sale.settings = (struct ledger_settings){.starts_ms = 5, .ends_ms = 7, .paused = true};
    assert_false(live_sale_open_at(&sale, 4));
    assert_true(live_sale_open_at(&sale, 5));
    assert_true(live_sale_open_at(&sale, 6));
    assert_false(live_sale_open_at(&sale, 7));
}

/* The figures stay as they were. */
static void test_a_ledger_that_fails(void **state)
{
    (void)state;
    make_sales(1);
    turn(NOW_MS);
    char error[128];
    struct ledger *nowhere = ledger_open("mysql://u:p@127.0.0.1:1/none", 100, error, sizeof error);
    assert_non_null(nowhere);
    assert_false(live_sales_read(sales, nowhere, NOW_MS + 1));
    live_sales_figures(sales, &view);
    assert_int_equal(view.read_ms, NOW_MS);
    assert_int_equal(view.shown, 1);
    ledger_close(&nowhere);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_no_sale),
        TEST(test_figures_follow_the_ledger),
        TEST(test_many_sales_are_bounded),
        TEST(test_sale_that_runs_or_opens_within_the_hour_is_shown),
        TEST(test_open_window),
        TEST(test_a_ledger_that_fails),
    };
    return cmocka_run_group_tests(tests, start_group, stop_group);
}
