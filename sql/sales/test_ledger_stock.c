/* Sales read together with their segments. */
#include "base/fault.h"
#include "sql/sales/sales.h"
#include "sql/server/server.h"
#include "sql/test_server.h"

static struct ledger *ledger;

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
    return 0;
}

static void reset(const char *sku, uint32_t total, uint32_t segments)
{
    struct ledger_sale sale = {.round = 0};
    static struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    static const uint64_t fences[LEDGER_SEGMENTS_MAX];
    struct ledger_reset beginning = {.fences = fences, .end_round = true};
    ledger_sale_find(ledger, sku, &sale);
    sale.total = total;
    sale.segments = segments;
    strcpy(sale.sku, sku);
    assert_int_equal(ledger_reset(ledger, &beginning, &sale, rows), LEDGER_OK);
}

/* What `note` was called with. */
struct seen {
    size_t sales;
    struct ledger_sale sale[8];
    size_t counts[8];
    struct ledger_segment last[8];
};

static void note(const struct ledger_sale *sale, const struct ledger_segment *segments,
                 size_t count, void *context)
{
    struct seen *seen = context;
    assert_true(seen->sales < 8);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(segments[i].segment, i);
    seen->sale[seen->sales] = *sale;
    seen->counts[seen->sales] = count;
    seen->last[seen->sales++] = segments[count - 1];
}

static void test_one_sale_with_its_segments(void **state)
{
    (void)state;
    struct seen seen = {.sales = 0};
    const char *sku = "s";
    reset("s", 9, 3);
    reset("s", 10, 3);
    sql_server_do("UPDATE stock_segment SET sold=segment+1 WHERE sku='s'");
    sql_server_do("UPDATE sale SET starts_at='2026-11-20 21:30:00.123',paused=1,per_user_limit=4");
    assert_int_equal(ledger_stock_find(ledger, &sku, 1, false, note, &seen), LEDGER_OK);
    assert_int_equal(seen.sales, 1);
    assert_string_equal(seen.sale[0].sku, "s");
    assert_int_equal(seen.sale[0].round, 2);
    assert_int_equal(seen.sale[0].total, 10);
    assert_int_equal(seen.sale[0].sold, 6);
    assert_int_equal(seen.sale[0].settings.starts_ms, 1795210200123);
    assert_int_equal(seen.sale[0].settings.ends_ms, 0);
    assert_int_equal(seen.sale[0].settings.per_user_limit, 4);
    assert_true(seen.sale[0].settings.paused);
    assert_int_equal(seen.counts[0], 3);
    assert_int_equal(seen.last[0].capacity, 3);
    assert_int_equal(seen.last[0].sold, 3);
}

static void test_several_sales_each_with_its_own(void **state)
{
    (void)state;
    struct seen seen = {.sales = 0};
    const char *skus[] = {"b", "none", "a", "B", "c"};
    reset("a", 5, 5);
    reset("b", 7, 2);
    reset("c", LEDGER_SEGMENTS_MAX, LEDGER_SEGMENTS_MAX);
    reset("d", 1, 1);
    assert_int_equal(ledger_stock_find(ledger, skus, 5, false, note, &seen), LEDGER_OK);
    assert_int_equal(seen.sales, 3);
    assert_string_equal(seen.sale[0].sku, "a");
    assert_int_equal(seen.counts[0], 5);
    assert_string_equal(seen.sale[1].sku, "b");
    assert_int_equal(seen.counts[1], 2);
    assert_string_equal(seen.sale[2].sku, "c");
    assert_int_equal(seen.counts[2], LEDGER_SEGMENTS_MAX);
}

static void test_unknown_skus_are_left_out(void **state)
{
    (void)state;
    struct seen seen = {.sales = 0};
    const char *skus[] = {"none", "neither"};
    assert_int_equal(ledger_stock_find(ledger, skus, 2, false, note, &seen), LEDGER_OK);
    assert_int_equal(seen.sales, 0);
}

static void test_damaged_sale_is_left_out_and_the_others_are_not(void **state)
{
    (void)state;
    const char *skus[] = {"far", "few", "good", "none", "other"};
    for (size_t i = 0; i < 5; i++)
        if (i != 3)
            reset(skus[i], 4, 2);
    sql_server_do("UPDATE stock_segment SET round=9 WHERE sku='other' AND segment=1");
    sql_server_do("DELETE FROM stock_segment WHERE sku='few'");
    sql_server_do("UPDATE stock_segment SET segment=5000 WHERE sku='far' AND segment=1");
    struct seen seen = {.sales = 0};
    fault_clear(ledger_fault(ledger));
    assert_int_equal(ledger_stock_find(ledger, skus, 5, false, note, &seen), LEDGER_DAMAGED);
    assert_int_equal(seen.sales, 1);
    assert_string_equal(seen.sale[0].sku, "good");
    assert_int_equal(seen.counts[0], 2);
    assert_true(ledger_fault(ledger)->damaged);
    assert_int_equal(ledger_fault(ledger)->count, 3);
    assert_non_null(strstr(ledger_fault(ledger)->error, "other"));
}

static void test_without_a_server_it_fails(void **state)
{
    (void)state;
    struct seen seen = {.sales = 0};
    const char *sku = "s";
    char error[128];
    struct ledger *away = ledger_open("mysql://u:p@127.0.0.1:1/x", 200, error, sizeof error);
    assert_non_null(away);
    assert_int_equal(ledger_stock_find(away, &sku, 1, false, note, &seen), LEDGER_FAILED);
    assert_int_equal(seen.sales, 0);
    ledger_close(&away);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_one_sale_with_its_segments, start),
        cmocka_unit_test_setup(test_several_sales_each_with_its_own, start),
        cmocka_unit_test_setup(test_unknown_skus_are_left_out, start),
        cmocka_unit_test_setup(test_damaged_sale_is_left_out_and_the_others_are_not, start),
        cmocka_unit_test_setup(test_without_a_server_it_fails, start),
    };
    return cmocka_run_group_tests(tests, start_group, stop_group);
}
