/* Units added to a running sale: each once, in equal parts, and to be sold at once. */
#include <pthread.h>

#include "base/clock.h"
#include "sql/sales/sales.h"
#include "sql/ledger/ledger.h"
#include "stock/sales/sales.h"
#include "stock/test_stage.h"

static struct ledger_sale sale;

static enum stock_admin_result add(uint32_t units, const char *key)
{
    return stock_restock(stock, "s", units, key, WAIT_MS, &sale);
}

static int64_t total(void)
{
    int64_t of_segments = sql_server_do("SELECT SUM(capacity) FROM stock_segment");
    assert_int_equal(sql_server_do("SELECT total FROM sale"), of_segments);
    return of_segments;
}

/* The most that one segment has left above another. */
static int64_t unevenness(void)
{
    return sql_server_do("SELECT MAX(left_)-MIN(left_) FROM(SELECT CAST(capacity AS SIGNED)-sold"
                         " left_ FROM stock_segment)g");
}

static void test_units_are_there_at_once_and_in_equal_parts(void **state)
{
    (void)state;
    reset(10, 4);
    assert_true(buy(3) != 0);
    assert_true(buy(4) != 0);
    assert_int_equal(add(6, ""), STOCK_ADMIN_OK);
    assert_int_equal(sale.total, 16);
    assert_int_equal(sale.sold, 7);
    assert_int_equal(sale_snapshot(sale_cache_find(cache, "s")).total, 16);
    assert_int_equal(total(), 16);
    assert_int_equal(unevenness(), 1);
    assert_int_equal(sell_out(), 9);
    audit(16);
}

static void test_sold_out_sale_sells_on(void **state)
{
    (void)state;
    reset(5, 2);
    assert_int_equal(sell_out(), 5);
    assert_true(sale_known_short(sale_cache_find(cache, "s"), 1, 0));
    assert_int_equal(add(1, ""), STOCK_ADMIN_OK);
    assert_false(sale_known_short(sale_cache_find(cache, "s"), 1, 0));
    assert_int_equal(sell_out(), 1);
    audit(6);
}

static void test_other_process_hears_of_it_from_the_ledger(void **state)
{
    (void)state;
    reset(5, 2);
    struct sale_cache *mine = cache;
    cache = sale_cache_open();
    struct stock *other = open_stock(sql_server_url());
    assert_int_equal(stock_restock(other, "s", 7, "", WAIT_MS, &sale), STOCK_ADMIN_OK);
    stock_close(&other);
    sale_cache_close(&cache);
    cache = mine;
    assert_int_equal(sale_snapshot(sale_cache_find(cache, "s")).total, 5);
    assert_int_equal(sell_out(), 12);
    assert_int_equal(sale_snapshot(sale_cache_find(cache, "s")).total, 12);
    audit(12);
}

static void test_key_adds_once(void **state)
{
    (void)state;
    reset(5, 2);
    for (int times = 0; times < 3; times++) {
        assert_int_equal(add(3, "k"), STOCK_ADMIN_OK);
        assert_int_equal(sale.total, 8);
    }
    assert_int_equal(add(4, "k"), STOCK_ADMIN_KEY_REUSED);
    assert_int_equal(add(3, "other"), STOCK_ADMIN_OK);
    assert_int_equal(sale.total, 11);
    assert_int_equal(add(3, ""), STOCK_ADMIN_OK);
    assert_int_equal(add(3, ""), STOCK_ADMIN_OK);
    assert_int_equal(total(), 17);
    assert_int_equal(sell_out(), 17);
    audit(17);
}

/* The first may be visible and not on the disk yet. */
static void test_repeat_is_answered_after_a_write(void **state)
{
    (void)state;
    reset(5, 2);
    assert_int_equal(add(3, "k"), STOCK_ADMIN_OK);
    int64_t before = sql_server_log();
    assert_int_equal(add(3, "k"), STOCK_ADMIN_OK);
    assert_true(sql_server_log() > before);
}

/* The process that added them may have died before it told the others, which then go on calling
 * the sale sold out. */
static void test_repeat_tells_every_process_of_the_units(void **state)
{
    (void)state;
    char message[IDENTIFIER_SIZE];
    reset(5, 2);
    assert_int_equal(add(3, "k"), STOCK_ADMIN_OK);
    assert_int_equal(sell_out(), 8);
    struct redis *redis = redis_server_open(REDIS_SERVER_MS);
    assert_int_equal(redis_subscribe(redis, STOCK_CHANNEL), REDIS_ANSWERED);
    assert_true(sale_known_short(sale_cache_find(cache, "s"), 1, 0));
    assert_int_equal(add(3, "k"), STOCK_ADMIN_OK);
    assert_false(sale_known_short(sale_cache_find(cache, "s"), 1, 0));
    assert_int_equal(redis_server_message(redis, 1000, message, sizeof message), REDIS_ANSWERED);
    assert_string_equal(message, "s");
    redis_close(&redis);
}

static void test_total_is_bounded(void **state)
{
    (void)state;
    reset(STOCK_TOTAL_MAX - 5, 3);
    assert_int_equal(add(6, "k"), STOCK_ADMIN_TOO_MANY);
    assert_int_equal(total(), STOCK_TOTAL_MAX - 5);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM restock"), 0);
    assert_int_equal(add(5, "k"), STOCK_ADMIN_OK);
    assert_int_equal(add(1, ""), STOCK_ADMIN_TOO_MANY);
    assert_int_equal(total(), STOCK_TOTAL_MAX);
}

/* A repeat that looked for its key before the first was committed, and then waited for it. */
static void test_late_repeat_is_a_duplicate_and_not_too_many(void **state)
{
    (void)state;
    struct ledger_segment row;
    const uint64_t fence = 1;
    struct ledger_restock repeat = {.sku = "s",
                                    .key = "k",
                                    .units = 5,
                                    .total_max = STOCK_TOTAL_MAX,
                                    .fences = &fence,
                                    .fence_count = 1};
    reset(STOCK_TOTAL_MAX - 5, 1);
    assert_int_equal(add(5, "k"), STOCK_ADMIN_OK);
    assert_int_equal(ledger_restock(stock_ledger(stock), &repeat, &sale, &row), LEDGER_DUPLICATE);
    assert_false(repeat.too_many);
    repeat.key = "other";
    assert_int_equal(ledger_restock(stock_ledger(stock), &repeat, &sale, &row), LEDGER_NO);
    assert_true(repeat.too_many);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM restock"), 1);
    assert_int_equal(total(), STOCK_TOTAL_MAX);
}

static void test_no_sale_and_held_segments(void **state)
{
    (void)state;
    assert_int_equal(add(1, ""), STOCK_ADMIN_NO_SALE);
    reset(4, 2);
    redis_server_do("SET seckill:{s:1}:lock somebody");
    assert_int_equal(stock_restock(stock, "s", 1, "", 50, &sale), STOCK_ADMIN_BUSY);
    redis_server_do("DEL seckill:{s:1}:lock");
    assert_int_equal(total(), 4);
    assert_int_equal(sell_out(), 4);
}

static void *add_patiently(void *context)
{
    *(enum stock_admin_result *)context = stock_restock(stock, "s", 1, "", 60000, &sale);
    return NULL;
}

/* It is retired after the restock has seen it, while the restock waits for its segments. */
static void test_sale_retired_meanwhile_is_not_there(void **state)
{
    pthread_t thread;
    enum stock_admin_result result = STOCK_ADMIN_OK;
    (void)state;
    reset(4, 2);
    redis_server_do("SET seckill:{s:1}:lock somebody");
    assert_int_equal(pthread_create(&thread, NULL, add_patiently, &result), 0);
    while (redis_server_do("EXISTS seckill:{s:0}:lock") == 0)
        clock_sleep_ns(CLOCK_NS_PER_MS); /* the first segment is locked: the sale was seen */
    sql_server_do("DELETE FROM stock_segment;DELETE FROM sale");
    redis_server_do("DEL seckill:{s:1}:lock");
    pthread_join(thread, NULL);
    assert_int_equal(result, STOCK_ADMIN_NO_SALE);
}

static void test_without_redis_contents(void **state)
{
    (void)state;
    reset(4, 2);
    assert_true(buy(3) != 0);
    redis_server_do("FLUSHALL");
    sql_server_do("UPDATE stock_segment SET fence=fence+3600000000");
    assert_int_equal(add(9, ""), STOCK_ADMIN_OK);
    assert_int_equal(sell_out(), 10);
    audit(13);
}

static void add_over_wire(int fault, const char *key, enum stock_admin_result expected)
{
    struct sql_wire wire;
    reset(4, 2);
    struct stock *direct = stock;
    sql_wire_open(&wire);
    stock = open_stock(wire.url);
    assert_int_equal(ledger_ping(stock_ledger(stock)), LEDGER_OK);
    atomic_store(&wire.fault, fault);
    assert_int_equal(add(5, key), expected);
    stock_close(&stock);
    sql_wire_close(&wire);
    stock = direct;
    assert_int_equal(sell_out(), total());
}

static void test_key_settles_a_commit_that_was_not_answered(void **state)
{
    (void)state;
    add_over_wire(WIRE_LOSES_ANSWER, "k", STOCK_ADMIN_OK);
    assert_int_equal(sale.total, 9);
    audit(9);
    add_over_wire(WIRE_LOSES_COMMIT, "k2", STOCK_ADMIN_OK);
    assert_int_equal(sale.total, 9);
    audit(9);
}

static void test_without_a_key_it_is_called_unclear(void **state)
{
    (void)state;
    add_over_wire(WIRE_LOSES_ANSWER, "", STOCK_ADMIN_IN_DOUBT);
    audit(9);
    add_over_wire(WIRE_LOSES_COMMIT, "", STOCK_ADMIN_IN_DOUBT);
    audit(4);
}

/* As after a death between the commit and the load. */
static void test_restock_that_broke_off_leaves_its_segments_dirty(void **state)
{
    (void)state;
    struct sql_wire wire;
    reset(4, 2);
    struct stock *direct = stock;
    sql_wire_open(&wire);
    stock = open_stock(wire.url);
    assert_int_equal(ledger_ping(stock_ledger(stock)), LEDGER_OK);
    atomic_store(&wire.fault, WIRE_LOSES_ANSWER);
    wire.server_port = 0;
    assert_int_equal(add(5, ""), STOCK_ADMIN_IN_DOUBT);
    stock_close(&stock);
    sql_wire_close(&wire);
    stock = direct;
    assert_int_equal(count_open(2), 2);
    assert_int_equal(sell_out(), 9);
    audit(9);
}

static void test_refused_restock_leaves_its_segments_as_they_were(void **state)
{
    (void)state;
    reset(9, 3);
    assert_true(buy(1) != 0);
    redis_server_do("HSET seckill:{s:1}:segment open somebody");
    assert_int_equal(add(STOCK_TOTAL_MAX, ""), STOCK_ADMIN_TOO_MANY);
    assert_int_equal(count_open(3), 1);
    assert_int_equal(
        redis_server_do("EXISTS seckill:{s:0}:lock seckill:{s:1}:lock seckill:{s:2}:lock"), 0);
    assert_int_equal(count_differences(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_units_are_there_at_once_and_in_equal_parts),
        TEST(test_sold_out_sale_sells_on),
        TEST(test_other_process_hears_of_it_from_the_ledger),
        TEST(test_key_adds_once),
        TEST(test_repeat_is_answered_after_a_write),
        TEST(test_repeat_tells_every_process_of_the_units),
        TEST(test_total_is_bounded),
        TEST(test_late_repeat_is_a_duplicate_and_not_too_many),
        TEST(test_no_sale_and_held_segments),
        TEST(test_sale_retired_meanwhile_is_not_there),
        TEST(test_without_redis_contents),
        TEST(test_key_settles_a_commit_that_was_not_answered),
        TEST(test_without_a_key_it_is_called_unclear),
        TEST(test_restock_that_broke_off_leaves_its_segments_dirty),
        TEST(test_refused_restock_leaves_its_segments_as_they_were),
    };
    return cmocka_run_group_tests(tests, start_group, NULL);
}
