/* For unit tests of what happens to a sale after its orders were accepted: buying, and an audit. */
#ifndef STOCK_TEST_STAGE_H
#define STOCK_TEST_STAGE_H

#include "lua/test_server.h"
#include "sql/sales/sales.h"
#include "sql/server/server.h"
#include "sql/test_server.h"
#include "stock/sales/sales.h"
#include "stock/stock.h"

enum { LEASE_MS = 1000, WAIT_MS = 3000, TRIES_MAX = 5000 };

static struct sale_cache *cache;
static struct stock *stock;
static uint64_t last_id;

static inline struct stock *open_stock(const char *sql_url)
{
    char error[128] = "";
    struct stock_options options = {.strategy = "segment_lock",
                                    .redis_url = redis_server_url(),
                                    .mysql_url = sql_url,
                                    .lease_ms = LEASE_MS,
                                    .redis_timeout_ms = 10000,
                                    .mysql_timeout_ms = 20000,
                                    .resolve_ms = 1000,
                                    .remember_left_ms = 100};
    struct stock *opened = stock_open(&options, cache, error, sizeof error);
    if (!opened)
        fail_msg("%s", error);
    return opened;
}

static inline int start_group(void **state)
{
    (void)state;
    char error[128];
    sql_server_clear();
    struct ledger *ledger = ledger_open(sql_server_url(), 5000, error, sizeof error);
    enum ledger_result result = ledger_migrate(ledger, NULL, NULL);
    ledger_close(&ledger);
    return result == LEDGER_OK ? 0 : -1;
}

static inline int start(void **state)
{
    (void)state;
    redis_server_do("FLUSHALL");
    sql_server_empty();
    cache = sale_cache_open();
    stock = open_stock(sql_server_url());
    return 0;
}

static inline int finish(void **state)
{
    (void)state;
    stock_close(&stock);
    sale_cache_close(&cache);
    return 0;
}

static inline void reset(uint32_t total, uint32_t segments)
{
    struct stock_reset asked = {
        .sku = "s", .total = total, .segments = segments, .end_round = true};
    struct ledger_sale sale;
    struct ledger_round_use use;
    uint64_t ended = 0;
    assert_int_equal(stock_reset(stock, &asked, WAIT_MS, &sale, &use, &ended), STOCK_ADMIN_OK);
}

/* Buys until it is decided. 0: sold out. */
static inline uint64_t buy(uint32_t qty)
{
    struct stock_order one = {
        .sku = "s", .user_id = "u", .qty = qty, .order_id = ++last_id, .created_ms = 1790000000123};
    struct stock_order *orders[] = {&one};
    int tries = 0;
    do {
        stock_sell(stock, orders, 1);
        stock_flush(stock);
    } while (one.outcome == STOCK_AGAIN && ++tries < TRIES_MAX);
    stock_order_clear(&one);
    assert_true(one.outcome == STOCK_ACCEPTED || one.outcome == STOCK_SOLD_OUT);
    return one.outcome == STOCK_ACCEPTED ? one.order_id : 0;
}

static inline uint32_t sell_out(void)
{
    uint32_t sold = 0;
    while (buy(1) != 0)
        sold++;
    return sold;
}

/* How many of the first segments are marked open in Redis. */
static inline uint32_t count_open(uint32_t segments)
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < segments; i++)
        open += redis_server_do("HSTRLEN seckill:{s:%u}:segment open", i) > 0;
    return open;
}

/* How many segments Redis has wrong, before they are set right. */
static inline size_t count_differences(void)
{
    struct stock_report report;
    assert_int_equal(stock_reconcile(stock, "s", WAIT_MS, &report), STOCK_ADMIN_OK);
    return report.difference_count;
}

/* The ledger's segments hold just the units of reserved and paid orders, `units` in all, and Redis
 * has what is left, though nobody has reconciled it. */
static inline void audit(uint32_t units)
{
    struct stock_report report;
    assert_int_equal(sql_server_do("SELECT SUM(sold) FROM stock_segment"), units);
    assert_int_equal(sql_server_do("SELECT COALESCE(SUM(qty),0) FROM orders JOIN sale"
                                   " USING(sku,round) WHERE status IN('reserved','paid')"),
                     units);
    assert_int_equal(stock_reconcile(stock, "s", WAIT_MS, &report), STOCK_ADMIN_OK);
    assert_int_equal(report.difference_count, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)

#endif
