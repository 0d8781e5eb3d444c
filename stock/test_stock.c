/* N buyers, K units, never K + 1, never K - 1: whatever happens to Redis and the ledger. */
#include "base/clock.h"
#include "lock/redis/pipeline.h"
#include "lua/script.h"
#include "lua/test_server.h"
#include "sql/orders/orders.h"
#include "sql/sales/sales.h"
#include "sql/ledger/ledger.h"
#include "sql/server/server.h"
#include "sql/test_server.h"
#include "stock/sales/sales.h"
#include "stock/stock.h"
#include "stock/stock_core.h"

#include <signal.h>
#include <stdatomic.h>
#include <time.h>

enum {
    LEASE_MS = 300,
    LONG_LEASE_MS = 60000, /* outlasts any test */
    WAIT_MS = 2000,        /* for all locks of a reset or reconcile */
    TRIES_MAX = 1000,
    SELLERS = 4,
};

static const char *strategy = "segment_lock";
static int own_lease_ms = LEASE_MS;
static const struct stock_rates *own_rates; /* of stocks that are opened; NULL: no limits */
static struct sale_cache *cache;
static struct stock *stock;
static _Atomic uint64_t last_id;

static void sleep_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

/* ---- the stage ---- */

static struct stock *open_stock(struct sale_cache *of, const char *redis_url, const char *sql_url)
{
    char error[128] = "";
    struct stock_options options = {
        .strategy = strategy,
        .redis_url = redis_url,
        .mysql_url = sql_url,
        .lease_ms = own_lease_ms,
        .redis_timeout_ms = 10000,
        .mysql_timeout_ms = 20000,
        .resolve_ms = 200,
        .remember_left_ms = 100,
        .rates = own_rates,
    };
    struct stock *opened = stock_open(&options, of, error, sizeof error);
    if (!opened)
        fail_msg("%s", error);
    return opened;
}

static int start_group(void **state)
{
    (void)state;
    char error[128];
    sql_server_clear();
    struct ledger *ledger = ledger_open(sql_server_url(), 5000, error, sizeof error);
    enum ledger_result result = ledger_migrate(ledger, NULL, NULL);
    ledger_close(&ledger);
    return result == LEDGER_OK ? 0 : -1;
}

static int start(void **state)
{
    (void)state;
    redis_server_do("FLUSHALL");
    redis_server_do("SCRIPT FLUSH"); /* as after a restart */
    sql_server_empty();
    cache = sale_cache_open();
    stock = open_stock(cache, redis_server_url(), sql_server_url());
    return 0;
}

/* For tests that no hold may end in: on a slow machine a batch may outlast LEASE_MS. */
static int start_long_leases(void **state)
{
    own_lease_ms = LONG_LEASE_MS;
    int result = start(state);
    own_lease_ms = LEASE_MS;
    return result;
}

static int finish(void **state)
{
    (void)state;
    stock_close(&stock);
    sale_cache_close(&cache);
    return 0;
}

/* With a thousand segments a slow machine may lose the first lease before it has the last lock:
 * then nothing is done. */
static enum stock_admin_result try_reset(const struct stock_reset *asked,
                                         struct ledger_sale *sale_out)
{
    struct ledger_round_use use;
    uint64_t ended = 0;
    enum stock_admin_result result = STOCK_ADMIN_FAILED;
    for (int tries = 0; tries < 10 && result == STOCK_ADMIN_FAILED; tries++)
        result = stock_reset(stock, asked, WAIT_MS, sale_out, &use, &ended);
    return result;
}

static struct ledger_sale reset(const char *sku, uint32_t total, uint32_t segments)
{
    struct stock_reset asked = {
        .sku = sku, .total = total, .segments = segments, .end_round = true};
    struct ledger_sale sale;
    assert_int_equal(try_reset(&asked, &sale), STOCK_ADMIN_OK);
    return sale;
}

static struct stock_order order(const char *sku, uint32_t qty, const char *key)
{
    struct stock_order made = {.qty = qty, .user_id = "u", .created_ms = 1790000000123};
    snprintf(made.sku, sizeof made.sku, "%s", sku);
    snprintf(made.key, sizeof made.key, "%s", key);
    made.order_id = atomic_fetch_add(&last_id, 1) + 1;
    return made;
}

/* One call, without a second try. */
static enum stock_outcome sell_once(struct stock *by, struct stock_order *one)
{
    stock_sell(by, &one, 1);
    stock_flush(by);
    return one->outcome;
}

static size_t list_open(struct stock_order *orders, size_t count, struct stock_order **open_out)
{
    size_t open = 0;
    for (size_t i = 0; i < count; i++)
        if (orders[i].outcome == STOCK_OPEN || orders[i].outcome == STOCK_AGAIN)
            open_out[open++] = &orders[i];
    return open;
}

static void pause_randomly(void)
{
    static _Thread_local unsigned random;
    random += random == 0 ? (unsigned)(uintptr_t)&random : 0;
    nanosleep(&(struct timespec){.tv_nsec = 100000 + rand_r(&random) % 2000000}, NULL);
}

/* Sells as an order worker does: tries undecided orders again until all are decided. When none
 * could be decided, it releases the locks at once, and other workers get their turn. */
static void sell_all(struct stock *by, struct stock_order *orders, size_t count)
{
    struct stock_order *open[STOCK_BATCH_MAX];
    size_t left = list_open(orders, count, open);
    for (int tries = 0; tries < TRIES_MAX && left > 0; tries++) {
        size_t before = left;
        stock_sell(by, open, left);
        left = list_open(orders, count, open);
        if (left == before) {
            stock_flush(by);
            pause_randomly();
        }
    }
    stock_flush(by);
}

static struct stock_order sell(const char *sku, uint32_t qty)
{
    struct stock_order one = order(sku, qty, "");
    sell_all(stock, &one, 1);
    return one;
}

static enum stock_outcome buy(const char *sku, uint32_t qty)
{
    struct stock_order one = sell(sku, qty);
    stock_order_clear(&one);
    return one.outcome;
}

/* Buys units one by one, in batches; how many were sold before it said sold out. */
static uint32_t sell_out(const char *sku)
{
    uint32_t sold = 0;
    for (bool more = true; more;) {
        struct stock_order orders[16];
        for (int i = 0; i < 16; i++)
            orders[i] = order(sku, 1, "");
        sell_all(stock, orders, 16);
        for (int i = 0; i < 16; i++)
            if (orders[i].outcome == STOCK_ACCEPTED)
                sold++;
            else
                more = false;
        assert_true(more || orders[15].outcome == STOCK_SOLD_OUT);
    }
    return sold;
}

/* What the ledger says of the present round: so many units, each in an order, each of a segment. */
static void audit(const char *sku, uint32_t units)
{
    assert_int_equal(
        sql_server_do("SELECT COALESCE(SUM(sold),0) FROM stock_segment WHERE sku='%s'", sku),
        units);
    assert_int_equal(sql_server_do("SELECT COALESCE(SUM(qty),0) FROM orders JOIN sale"
                                   " USING(sku,round) WHERE sku='%s'",
                                   sku),
                     units);
}

static struct stock_report reconcile(const char *sku)
{
    struct stock_report report;
    assert_int_equal(stock_reconcile(stock, sku, WAIT_MS, &report), STOCK_ADMIN_OK);
    return report;
}

/* Whether the strategy sells by counters in Redis without locks. */
static bool counts(void)
{
    return strcmp(strategy, "atomic") == 0 || strcmp(strategy, "optimistic") == 0;
}

/* The strategies of the ledger alone leave the counters in Redis behind. */
static void reconcile_sold_out(const char *sku)
{
    if (!counts() && strcmp(strategy, "segment_lock") != 0)
        assert_int_not_equal(reconcile(sku).difference_count, 0);
    assert_int_equal(reconcile(sku).difference_count, 0);
    assert_int_equal(buy(sku, 1), STOCK_SOLD_OUT);
}

static int count_dirty(const char *sku, uint32_t segments)
{
    int dirty = 0;
    for (uint32_t i = 0; i < segments; i++) {
        int64_t length = redis_server_do("HSTRLEN seckill:{%s:%u}:segment open", sku, i);
        dirty += length > 0;
    }
    return dirty;
}

/* Locks segment `segment` of "s" as a holder that will never come back. */
static void lock_and_die(uint32_t segment, int lease_ms, uint32_t wanted)
{
    char name[SECLOCK_NAME_MAX], key[SCRIPT_KEY_MAX];
    static const char *const keys[] = {"lock", "segment", "fence"};
    struct script_call call;
    struct lock_hold hold;
    struct redis *redis = redis_server_open(REDIS_SERVER_MS);
    snprintf(name, sizeof name, "s:%u", segment);
    lock_redis_prepare(&hold, STOCK_PREFIX, name, lease_ms);
    script_begin(&call, SCRIPT_stock_take);
    for (size_t i = 0; i < 3; i++) {
        lock_redis_key(STOCK_PREFIX, name, keys[i], key);
        script_key(&call, key);
    }
    script_text(&call, hold.token);
    script_int(&call, lease_ms);
    script_int(&call, 1);
    script_int(&call, wanted);
    script_run(redis, &call, 1);
    assert_int_equal(call.values[0], 1);
    if (wanted > 0)
        assert_int_equal(call.values[2], wanted);
    redis_close(&redis);
}

/* ---- selling ---- */

static void test_unknown_strategy_is_refused(void **state)
{
    (void)state;
    char error[128] = "";
    struct stock_options options = {.strategy = "luck", .redis_url = "redis://h"};
    assert_null(stock_open(&options, cache, error, sizeof error));
    assert_non_null(strstr(error, "luck"));
}

static void test_sells_exactly_the_total_and_is_sold_out_after(void **state)
{
    (void)state;
    reset("s", 100, 7);
    assert_int_equal(sell_out("s"), 100);
    assert_int_equal(buy("s", 1), STOCK_SOLD_OUT);
    assert_int_equal(stock_stats(stock).recoveries, 0);
    audit("s", 100);
    reconcile_sold_out("s");
}

static void test_accepted_order_says_where_and_when(void **state)
{
    (void)state;
    struct ledger_record record;
    reset("s", 10, 5);
    struct stock_order one = sell("s", 2);
    assert_int_equal(one.outcome, STOCK_ACCEPTED);
    assert_int_equal(sql_order_find(stock_ledger(stock), one.order_id, &record), LEDGER_OK);
    assert_int_equal(record.segment, one.segment);
    assert_int_equal(record.qty, 2);
    assert_string_equal(record.created_at, one.created_at);
}

static void test_order_that_no_segment_can_fill_is_filled_from_several(void **state)
{
    (void)state;
    reset("s", 10, 5);
    struct stock_order one = sell("s", 5);
    assert_int_equal(one.outcome, STOCK_ACCEPTED);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM stock_segment WHERE sold>0"), 3);
    stock_order_clear(&one);
    assert_int_equal(buy("s", 6), STOCK_SOLD_OUT);
    one = sell("s", 5);
    assert_int_equal(one.outcome, STOCK_ACCEPTED);
    stock_order_clear(&one);
    audit("s", 10);
}

static void test_order_over_every_segment_there_can_be(void **state)
{
    (void)state;
    reset("s", 1000, 1000);
    struct stock_order one = sell("s", STOCK_QTY_MAX);
    assert_int_equal(one.outcome, STOCK_ACCEPTED);
    stock_order_clear(&one);
    audit("s", 1000);
}

static void test_order_finds_more_than_was_last_seen(void **state)
{
    (void)state;
    reset("s", 10, 2);
    for (uint32_t i = 0; i < 2; i++)
        sale_hint_set(sale_cache_find(cache, "s"), i, 1);
    struct stock_order one = sell("s", 9);
    assert_int_equal(one.outcome, STOCK_ACCEPTED);
    stock_order_clear(&one);
    audit("s", 9);
}

static void test_too_large_an_order_does_not_keep_smaller_ones_out(void **state)
{
    (void)state;
    reset("s", 5, 2);
    struct stock_order orders[] = {order("s", 6, ""), order("s", 3, ""), order("s", 2, "")};
    sell_all(stock, orders, 3);
    assert_int_equal(orders[0].outcome, STOCK_SOLD_OUT);
    assert_int_equal(orders[1].outcome, STOCK_ACCEPTED);
    assert_int_equal(orders[2].outcome, STOCK_ACCEPTED);
    stock_order_clear(&orders[1]);
    stock_order_clear(&orders[2]);
    audit("s", 5);
}

static void test_skus_of_one_batch_fare_each_for_itself(void **state)
{
    (void)state;
    reset("a", 3, 2);
    reset("b", 1, 1);
    struct stock_order orders[] = {order("a", 2, ""), order("none", 1, ""), order("b", 1, ""),
                                   order("a", 1, ""), order("b", 1, "")};
    sell_all(stock, orders, 5);
    assert_int_equal(orders[0].outcome, STOCK_ACCEPTED);
    assert_int_equal(orders[1].outcome, STOCK_UNKNOWN_SKU);
    assert_int_equal(orders[2].outcome, STOCK_ACCEPTED);
    assert_int_equal(orders[3].outcome, STOCK_ACCEPTED);
    assert_int_equal(orders[4].outcome, STOCK_SOLD_OUT);
    for (int i = 0; i < 5; i++)
        stock_order_clear(&orders[i]);
    audit("a", 3);
    audit("b", 1);
}

static void test_fullest_batch_is_sold(void **state)
{
    (void)state;
    static struct stock_order orders[STOCK_BATCH_MAX];
    reset("s", STOCK_BATCH_MAX - 1, 20);
    for (int i = 0; i < STOCK_BATCH_MAX; i++)
        orders[i] = order("s", 1, "");
    sell_all(stock, orders, STOCK_BATCH_MAX);
    uint32_t sold = 0;
    for (int i = 0; i < STOCK_BATCH_MAX; i++)
        sold += orders[i].outcome == STOCK_ACCEPTED;
    assert_int_equal(sold, STOCK_BATCH_MAX - 1);
    audit("s", STOCK_BATCH_MAX - 1);
}

static void test_taken_order_id_is_to_be_tried_again_with_another(void **state)
{
    (void)state;
    reset("s", 5, 2);
    struct stock_order first = sell("s", 1), second = order("s", 1, "");
    second.order_id = first.order_id;
    assert_int_equal(sell_once(stock, &second), STOCK_AGAIN);
    audit("s", 1);
    second.order_id = atomic_fetch_add(&last_id, 1) + 1;
    sell_all(stock, &second, 1);
    assert_int_equal(second.outcome, STOCK_ACCEPTED);
    audit("s", 2);
}

/* ---- keys ---- */

static void test_repeat_gets_the_first_order_even_after_the_end(void **state)
{
    (void)state;
    reset("s", 3, 1);
    struct stock_order first = order("s", 3, "k"), again = order("s", 3, "k");
    sell_all(stock, &first, 1);
    assert_int_equal(first.outcome, STOCK_ACCEPTED);
    sell_all(stock, &again, 1);
    assert_int_equal(again.outcome, STOCK_REPLAYED);
    assert_int_equal(again.order_id, first.order_id);
    assert_int_equal(again.segment, first.segment);
    assert_string_equal(again.created_at, first.created_at);
    audit("s", 3);
}

static void test_key_with_another_body_is_reused(void **state)
{
    (void)state;
    reset("s", 10, 2);
    reset("t", 10, 2);
    struct stock_order orders[] = {order("s", 1, "k"), order("s", 2, "k"), order("t", 1, "k"),
                                   order("s", 1, "k")};
    sell_all(stock, &orders[0], 1);
    sell_all(stock, &orders[1], 2);
    assert_int_equal(orders[0].outcome, STOCK_ACCEPTED);
    assert_int_equal(orders[1].outcome, STOCK_KEY_REUSED);
    assert_int_equal(orders[2].outcome, STOCK_KEY_REUSED);
    strcpy(orders[3].user_id, "another"); /* whose key is his own */
    sell_all(stock, &orders[3], 1);
    assert_int_equal(orders[3].outcome, STOCK_ACCEPTED);
    audit("s", 2);
    audit("t", 0);
}

static void test_duplicates_in_one_batch_are_one_order(void **state)
{
    (void)state;
    reset("s", 10, 3);
    struct stock_order orders[] = {order("s", 5, "k"), order("s", 5, "k"), order("s", 2, "k"),
                                   order("s", 5, "k"), order("s", 1, "")};
    sell_all(stock, orders, 5);
    assert_int_equal(orders[0].outcome, STOCK_ACCEPTED);
    assert_int_equal(orders[1].outcome, STOCK_REPLAYED);
    assert_int_equal(orders[2].outcome, STOCK_KEY_REUSED);
    assert_int_equal(orders[3].outcome, STOCK_REPLAYED);
    assert_int_equal(orders[4].outcome, STOCK_ACCEPTED);
    assert_int_equal(orders[3].order_id, orders[0].order_id);
    for (int i = 0; i < 5; i++)
        stock_order_clear(&orders[i]);
    audit("s", 6);
}

/* Sells `count` orders in one call; each was accepted before, or is new, by its number's parity. */
static void sell_repeats_and_new(struct stock_order *firsts, struct stock_order *orders,
                                 size_t count)
{
    for (size_t i = 0; i < count; i++) {
        orders[i] = i % 2 == 0 ? order("s", firsts[i].qty, firsts[i].key) : order("s", 1, "");
        if (i % 2 == 1)
            snprintf(orders[i].key, sizeof orders[i].key, "new-%llu",
                     (unsigned long long)orders[i].order_id);
    }
    sell_all(stock, orders, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(orders[i].outcome, i % 2 == 0 ? STOCK_REPLAYED : STOCK_ACCEPTED);
        if (i % 2 == 0)
            assert_int_equal(orders[i].order_id, firsts[i].order_id);
        stock_order_clear(&orders[i]);
    }
}

/* Repeats are refused with their whole batch only once: after that they are looked up before. */
static void test_new_orders_are_sold_beside_many_repeats(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    struct stock_order firsts[COUNT], orders[COUNT];
    reset("s", 100, 4);
    for (int i = 0; i < COUNT; i++) {
        firsts[i] = order("s", 1, "");
        snprintf(firsts[i].key, sizeof firsts[i].key, "first-%d", i);
    }
    sell_all(stock, firsts, COUNT);
    bool batches = stock_batch_max(stock) > 1;
    uint64_t commits = stock_stats(stock).ledger_calls;
    sell_repeats_and_new(firsts, orders, COUNT);
    if (batches) /* one that was refused, and one of the rest */
        assert_int_equal(stock_stats(stock).ledger_calls, commits + 2);
    commits = stock_stats(stock).ledger_calls;
    sell_repeats_and_new(firsts, orders, COUNT);
    if (batches)
        assert_int_equal(stock_stats(stock).ledger_calls, commits + 1);
    audit("s", COUNT + 2 * (COUNT / 2));
}

/* The first order may be visible and not on the disk yet, and this batch commits nothing. */
static void test_repeat_is_answered_after_a_write(void **state)
{
    (void)state;
    reset("s", 2, 1);
    for (int i = 0; i < 4; i++) { /* looked up after a refusal, before it, and as sold out */
        struct stock_order one = order("s", 1, "k");
        if (i == 3)
            assert_int_equal(sell_out("s"), 1);
        int64_t before = sql_server_log();
        sell_all(stock, &one, 1);
        assert_int_equal(one.outcome, i == 0 ? STOCK_ACCEPTED : STOCK_REPLAYED);
        assert_true(sql_server_log() > before);
    }
}

/* The unit that the repeat took is given back, and somebody else gets it. */
static void test_repeat_does_not_use_up_the_last_unit(void **state)
{
    (void)state;
    reset("s", 2, 1);
    struct stock_order first = order("s", 1, "k"), again = order("s", 1, "k");
    sell_all(stock, &first, 1);
    sell_all(stock, &again, 1);
    assert_int_equal(again.outcome, STOCK_REPLAYED);
    assert_int_equal(sell_out("s"), 1);
    again = order("s", 1, "k");
    sell_all(stock, &again, 1);
    assert_int_equal(again.outcome, STOCK_REPLAYED);
    audit("s", 2);
}

static void test_duplicate_of_a_sold_out_order_is_sold_out(void **state)
{
    (void)state;
    reset("s", 3, 1);
    struct stock_order orders[] = {order("s", 4, "k"), order("s", 4, "k"), order("s", 2, "k")};
    sell_all(stock, orders, 3);
    assert_int_equal(orders[0].outcome, STOCK_SOLD_OUT);
    assert_int_equal(orders[1].outcome, STOCK_SOLD_OUT);
    assert_int_equal(orders[2].outcome, STOCK_ACCEPTED); /* the key was not used up */
    audit("s", 2);
}

static void test_duplicates_of_a_refused_order_are_refused_with_it(void **state)
{
    (void)state;
    struct stock_order orders[] = {order("none", 1, "k"), order("none", 1, "k"),
                                   order("none", 2, "k")};
    struct stock_order *list[] = {&orders[0], &orders[1], &orders[2]};
    stock_sell(stock, list, 3); /* once: they do not wait for each other */
    for (int i = 0; i < 3; i++)
        assert_int_equal(orders[i].outcome, STOCK_UNKNOWN_SKU);
}

/* ---- what Redis may do ---- */

static void test_redis_that_forgot_everything_is_filled_again(void **state)
{
    (void)state;
    /* Five orders do not empty a segment: who knows one as sold out does not load it again. */
    reset("s", 80, 4);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(buy("s", 3), STOCK_ACCEPTED);
        redis_server_do("FLUSHALL");
        redis_server_do("SCRIPT FLUSH");
        redis_server_do("CLIENT KILL TYPE normal");
    }
    assert_int_equal(sell_out("s"), 65);
    audit("s", 80);
    reconcile_sold_out("s");
}

static void test_units_of_a_dead_holder_are_sold(void **state)
{
    (void)state;
    reset("s", 20, 2);
    lock_and_die(0, 30, 7);
    lock_and_die(1, 30, 10);
    sleep_ms(40);
    assert_int_equal(sell_out("s"), 20);
    assert_true(stock_stats(stock).recoveries >= 2);
    audit("s", 20);
}

static void test_segment_put_back_in_time_is_not_oversold(void **state)
{
    (void)state;
    reset("s", 20, 1);
    buy("s", 2);
    redis_server_do("COPY seckill:{s:0}:segment unit:old");
    for (int i = 0; i < 5; i++)
        assert_int_equal(buy("s", 2), STOCK_ACCEPTED);
    redis_server_do("COPY unit:old seckill:{s:0}:segment REPLACE");
    assert_int_equal(buy("s", 9), STOCK_SOLD_OUT);
    redis_server_do("COPY unit:old seckill:{s:0}:segment REPLACE");
    assert_int_equal(sell_out("s"), 8);
    assert_true(stock_stats(stock).refusals >= 1);
    audit("s", 20);
}

static void test_segment_put_back_to_empty_is_sold_to_the_last_unit(void **state)
{
    (void)state;
    reset("s", 20, 2);
    buy("s", 2);
    redis_server_do("HSET seckill:{s:0}:segment available 0");
    redis_server_do("HSET seckill:{s:1}:segment available 0");
    assert_int_equal(sell_out("s"), 18);
    audit("s", 20);
}

static void test_lost_fence_keys_do_no_harm(void **state)
{
    (void)state;
    reset("s", 20, 2);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(buy("s", 1), STOCK_ACCEPTED);
        redis_server_do("DEL seckill:{s:0}:fence seckill:{s:1}:fence");
    }
    assert_int_equal(sell_out("s"), 15);
    audit("s", 20);
}

static void test_ledger_ahead_of_redis_clock_is_caught_up_with(void **state)
{
    (void)state;
    reset("s", 20, 2);
    buy("s", 1);
    sql_server_do("UPDATE stock_segment SET fence=fence+1000000000000");
    assert_int_equal(sell_out("s"), 19);
    audit("s", 20);
    reconcile_sold_out("s");
}

static void test_reconcile_without_a_segment_in_the_ledger_fails(void **state)
{
    (void)state;
    struct stock_report report;
    reset("s", 10, 3);
    sql_server_do("DELETE FROM stock_segment WHERE sku='s' AND segment=1");
    assert_int_equal(stock_reconcile(stock, "s", WAIT_MS, &report), STOCK_ADMIN_FAILED);
    reset("s", 10, 3);
    assert_int_equal(buy("s", 10), STOCK_ACCEPTED);
}

static void test_stale_round_in_redis_is_recovered(void **state)
{
    (void)state;
    reset("s", 20, 2);
    reset("s", 30, 2);
    redis_server_do("HSET seckill:{s:0}:segment round 1");
    redis_server_do("HSET seckill:{s:1}:segment round 9");
    assert_int_equal(sell_out("s"), 30);
    audit("s", 30);
}

static void test_held_segment_is_sold_after_its_lease(void **state)
{
    (void)state;
    reset("s", 1, 1);
    lock_and_die(0, LONG_LEASE_MS, 0);
    struct stock_order one = order("s", 1, "");
    assert_int_equal(sell_once(stock, &one), STOCK_AGAIN);
    redis_server_do("PEXPIRE seckill:{s:0}:lock 100");
    sell_all(stock, &one, 1);
    assert_int_equal(one.outcome, STOCK_ACCEPTED);
    assert_int_equal(buy("s", 1), STOCK_SOLD_OUT);
    audit("s", 1);
}

static void test_held_segment_does_not_keep_the_others_waiting(void **state)
{
    (void)state;
    reset("s", 10, 2);
    lock_and_die(0, LONG_LEASE_MS, 0);
    for (int i = 0; i < 5; i++) {
        struct stock_order one = order("s", 1, "");
        assert_int_equal(sell_once(stock, &one), STOCK_ACCEPTED);
        assert_int_equal(one.segment, 1);
    }
}

static void test_nothing_stays_locked_after_a_batch(void **state)
{
    (void)state;
    reset("s", 10, 3);
    buy("s", 6);
    buy("s", 9);
    assert_int_equal(redis_server_do("EXISTS seckill:{s:0}:lock seckill:{s:1}:lock"
                                     " seckill:{s:2}:lock"),
                     0);
}

/* A settle travels with the next batch, and the next batch may need nothing of Redis. */
static void test_nothing_stays_locked_beside_orders_without_units(void **state)
{
    (void)state;
    reset("s", 10, 2);
    for (int i = 0; i < 2; i++) {
        struct stock_order one = order("s", 1, ""), other = order("none", 1, "k");
        struct stock_order *batch = &one, *next = &other;
        stock_sell(stock, &batch, 1);
        assert_int_equal(one.outcome, STOCK_ACCEPTED);
        stock_sell(stock, &next, 1);
        assert_int_equal(other.outcome, STOCK_UNKNOWN_SKU);
        assert_int_equal(redis_server_do("EXISTS seckill:{s:0}:lock seckill:{s:1}:lock"), 0);
    }
}

/* Else a process that sells all the time never lets another one in. */
static void test_no_batch_keeps_most_of_a_sale_locked(void **state)
{
    (void)state;
    reset("s", 10, 1);
    struct stock_order one = order("s", 1, ""), *batch = &one;
    stock_sell(stock, &batch, 1);
    assert_int_equal(one.outcome, STOCK_ACCEPTED);
    assert_int_equal(redis_server_do("EXISTS seckill:{s:0}:lock"), 0);
}

static void test_connection_lost_between_batches_costs_nothing(void **state)
{
    (void)state;
    reset("s", 20, 2);
    for (int i = 0; i < 4; i++) {
        struct stock_order one = order("s", 1, ""), *batch = &one;
        do
            stock_sell(stock, &batch, 1); /* its settle is still to be sent */
        while (one.outcome == STOCK_AGAIN);
        assert_int_equal(one.outcome, STOCK_ACCEPTED);
        redis_server_do("CLIENT KILL TYPE normal");
    }
    assert_int_equal(sell_out("s"), 16);
    audit("s", 20);
}

static void test_unreachable_redis_is_unavailable(void **state)
{
    (void)state;
    reset("s", 5, 1);
    struct stock *cut_off = open_stock(cache, "redis://127.0.0.1:1", sql_server_url());
    struct stock_order one = order("s", 1, "");
    sell_all(cut_off, &one, 1);
    assert_int_equal(one.outcome, STOCK_UNAVAILABLE);
    assert_int_not_equal(redis_ping(stock_redis(cut_off)), REDIS_ANSWERED);
    assert_int_equal(ledger_ping(stock_ledger(cut_off)), LEDGER_OK);
    stock_close(&cut_off);
    audit("s", 0);
}

/* A loopback port that leads to Redis, one connection at a time. */
struct line {
    char url[128];
    int listener;
    pthread_t thread;
    atomic_bool cut; /* before the next answer comes back; used up by it */
};

static bool line_pass(struct line *line, int from, int to, bool answer)
{
    char bytes[65536];
    ssize_t size = recv(from, bytes, sizeof bytes, 0);
    if (size <= 0 || (answer && atomic_exchange(&line->cut, false)))
        return false;
    return send(to, bytes, (size_t)size, MSG_NOSIGNAL) == size;
}

static void *line_serve(void *context)
{
    struct line *line = context;
    struct sockaddr_in address = {.sin_family = AF_INET};
    const char *port = strrchr(redis_server_url(), ':');
    address.sin_port = htons((uint16_t)strtoul(port + 1, NULL, 10));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int client; (client = accept(line->listener, NULL, NULL)) >= 0; close(client)) {
        int server = socket(AF_INET, SOCK_STREAM, 0);
        struct pollfd ends[] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
        bool whole = connect(server, (struct sockaddr *)&address, sizeof address) == 0;
        while (whole && poll(ends, 2, -1) > 0) {
            whole = !ends[0].revents || line_pass(line, client, server, false);
            whole = whole && (!ends[1].revents || line_pass(line, server, client, true));
        }
        close(server);
    }
    return NULL;
}

static void line_open(struct line *line)
{
    int port = 0;
    const char *url = redis_server_url(), *at = strrchr(url, '@');
    assert_non_null(at); /* the password */
    *line = (struct line){.listener = listen_anywhere(&port)};
    snprintf(line->url, sizeof line->url, "%.*s127.0.0.1:%d/0", (int)(at + 1 - url), url, port);
    assert_int_equal(pthread_create(&line->thread, NULL, line_serve, line), 0);
}

static void line_close(struct line *line)
{
    shutdown(line->listener, SHUT_RDWR);
    pthread_join(line->thread, NULL);
    close(line->listener);
}

/* What Redis has locked before its answer was lost is released, not left to its lease. */
static void test_nothing_stays_locked_after_a_lost_answer(void **state)
{
    (void)state;
    struct line line;
    line_open(&line);
    reset("s", 5, 1);
    own_lease_ms = LONG_LEASE_MS;
    struct stock *over = open_stock(cache, line.url, sql_server_url());
    own_lease_ms = LEASE_MS;
    struct stock_order one = order("s", 1, "");
    assert_int_equal(sell_once(over, &one), STOCK_ACCEPTED);
    one = order("s", 1, "");
    atomic_store(&line.cut, true);
    assert_int_equal(sell_once(over, &one), STOCK_AGAIN);
    assert_false(atomic_load(&line.cut));
    assert_int_equal(redis_server_do("EXISTS seckill:{s:0}:lock"), 0);
    assert_int_equal(sell_out("s"), 4);
    stock_close(&over);
    line_close(&line);
    audit("s", 5);
}

/* Each user may place one order a minute. */
static struct stock *open_limited(const char *redis_url)
{
    static const struct stock_rates one_a_minute = {.user_per_min = 1, .user_burst = 1};
    own_rates = &one_a_minute;
    struct stock *limited = open_stock(cache, redis_url, sql_server_url());
    own_rates = NULL;
    return limited;
}

/* Whoever could lose the answer would else order as often as he likes. */
static void test_order_whose_rate_was_not_told_is_asked_for_again(void **state)
{
    (void)state;
    struct line line;
    line_open(&line);
    reset("s", 5, 1);
    struct stock *over = open_limited(line.url);
    struct stock_order one = order("s", 1, "");
    assert_int_equal(sell_once(over, &one), STOCK_ACCEPTED);
    one = order("s", 1, "");
    atomic_store(&line.cut, true);
    assert_int_equal(sell_once(over, &one), STOCK_AGAIN);
    assert_false(atomic_load(&line.cut));
    assert_int_equal(sell_once(over, &one), STOCK_RATE_LIMITED);
    stock_close(&over);
    line_close(&line);
    audit("s", 1);
}

/* Somebody holds the segment, and each try finds it so: the user has ordered once. */
static void test_order_that_is_tried_again_is_rated_once(void **state)
{
    (void)state;
    reset("s", 5, 1);
    struct stock *limited = open_limited(redis_server_url());
    struct stock_order one = order("s", 1, ""), next = order("s", 1, "");
    lock_and_die(0, 60000, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(sell_once(limited, &one), STOCK_AGAIN);
    redis_server_do("DEL seckill:{s:0}:lock");
    sell_all(limited, &one, 1);
    assert_int_equal(one.outcome, STOCK_ACCEPTED);
    assert_int_equal(sell_once(limited, &next), STOCK_RATE_LIMITED);
    stock_close(&limited);
    audit("s", 1);
}

/* ---- what the ledger may do ---- */

/* Its first try may have been accepted, and nothing tells. */
static void test_keyed_order_is_not_refused_when_its_key_cannot_be_looked_up(void **state)
{
    (void)state;
    reset("s", 1, 1);
    assert_int_equal(sell_out("s"), 1);
    sql_server_do("RENAME TABLE order_key TO hidden_order_key");
    struct stock_order orders[] = {order("s", 1, "k"), order("none", 1, "k2"), order("s", 1, "")};
    for (int i = 0; i < 3; i++)
        sell_all(stock, &orders[i], 1);
    sql_server_do("RENAME TABLE hidden_order_key TO order_key");
    assert_int_equal(orders[0].outcome, STOCK_UNAVAILABLE);
    assert_int_equal(orders[1].outcome, STOCK_UNAVAILABLE);
    assert_int_equal(orders[2].outcome, STOCK_SOLD_OUT);
}

static void test_repeat_is_not_refused_while_its_first_try_is_under_way(void **state)
{
    (void)state;
    struct sql_rival first = {.db = sql_server_open(sql_server_url())};
    struct stock_order repeat = order("s", 1, "k");
    reset("s", 1, 1);
    sell_out("s");
    assert_int_equal(sql_rival_query(&first, "START TRANSACTION;"
                                             "INSERT INTO order_key VALUES('u','k',1)"),
                     DB_OK);
    assert_int_equal(sell_once(stock, &repeat), STOCK_AGAIN);
    assert_int_equal(sql_rival_query(&first, "ROLLBACK"), DB_OK);
    db_close(&first.db);
    sell_all(stock, &repeat, 1);
    assert_int_equal(repeat.outcome, STOCK_SOLD_OUT);
}

static void test_order_whose_time_is_over_is_not_accepted(void **state)
{
    (void)state;
    struct stock_order late = order("s", 1, "k");
    reset("s", 2, 1);
    late.until_ns = clock_now_ns();
    assert_int_equal(sell_once(stock, &late), STOCK_AGAIN);
    audit("s", 0);
    late.until_ns = clock_now_ns() + 60 * CLOCK_NS_PER_S;
    sell_all(stock, &late, 1);
    assert_int_equal(late.outcome, STOCK_ACCEPTED);
    assert_int_equal(buy("s", 1), STOCK_ACCEPTED);
}

/* It ends while its batch waits for the segment's row. */
static void test_order_whose_time_ends_amid_its_batch_leaves_the_others(void **state)
{
    (void)state;
    struct sql_rival rival;
    struct stock_order orders[] = {order("s", 1, "k"), order("s", 1, "l")};
    struct stock_order *batch[] = {&orders[0], &orders[1]};
    reset("s", 2, 1);
    assert_int_equal(buy("s", 1), STOCK_ACCEPTED);
    orders[0].until_ns = clock_now_ns() + 40 * CLOCK_NS_PER_MS;
    sql_rival_start(&rival);
    stock_sell(stock, batch, 2);
    assert_int_equal(sql_rival_join(&rival), DB_OK);
    assert_int_equal(orders[0].outcome, STOCK_AGAIN);
    sell_all(stock, &orders[1], 1);
    assert_int_equal(orders[1].outcome, STOCK_ACCEPTED);
    audit("s", 2);
}

/* A batch of two sales, of which somebody holds a row of one. */
static void test_held_row_costs_the_orders_of_its_sale_alone(void **state)
{
    (void)state;
    struct sql_rival rival = {.db = sql_server_open(sql_server_url())};
    reset("s", 4, 1);
    reset("t", 40, 2);
    assert_int_equal(buy("s", 1), STOCK_ACCEPTED);
    assert_int_equal(sql_rival_query(&rival, "START TRANSACTION;SELECT 1 FROM stock_segment "
                                             "WHERE sku='s' FOR UPDATE"),
                     DB_OK);
    int64_t start_ms = clock_now_ms();
    for (int batches = 0; batches < 10; batches++) {
        struct stock_order orders[] = {order("s", 1, ""), order("t", 1, "")};
        sell_all(stock, orders, 2);
        assert_int_equal(orders[0].outcome, STOCK_UNAVAILABLE);
        assert_int_equal(orders[1].outcome, STOCK_ACCEPTED);
    }
    assert_int_in_range(clock_now_ms() - start_ms, 900, 4000); /* the first batch waits, no other */
    assert_int_not_equal(stock_held(stock)->count, 0);
    assert_string_equal(stock_held(stock)->sku, "s");
    assert_int_equal(sql_rival_query(&rival, "ROLLBACK"), DB_OK);
    db_close(&rival.db);
    assert_int_equal(buy("s", 3), STOCK_ACCEPTED);
    assert_int_equal(buy("s", 1), STOCK_SOLD_OUT);
    audit("s", 4);
    audit("t", 10);
}

static void test_unreachable_ledger_is_unavailable_and_gives_back(void **state)
{
    (void)state;
    reset("s", 5, 1);
    struct stock *cut_off = open_stock(cache, redis_server_url(), "mysql://u:p@127.0.0.1:1/x");
    struct stock_order orders[] = {order("s", 1, ""), order("new", 1, ""), order("s", 1, "k")};
    for (int i = 0; i < 3; i++) {
        sell_all(cut_off, &orders[i], 1);
        assert_int_equal(orders[i].outcome, STOCK_UNAVAILABLE);
    }
    assert_int_equal(redis_ping(stock_redis(cut_off)), REDIS_ANSWERED);
    assert_int_not_equal(ledger_ping(stock_ledger(cut_off)), LEDGER_OK);
    stock_close(&cut_off);
    assert_int_equal(redis_server_do("HGET seckill:{s:0}:segment available"), 5);
    assert_int_equal(sell_out("s"), 5);
}

/* Sells one order over a wire that fails its commit; `cut` keeps it failed. */
static struct stock_order sell_over_wire(enum sql_wire_fault fault, bool cut, bool once)
{
    struct sql_wire wire;
    sql_wire_open(&wire);
    struct stock *over = open_stock(cache, redis_server_url(), wire.url);
    struct stock_order one = order("s", 3, "");
    assert_true(redis_ping(stock_redis(over)) == REDIS_ANSWERED &&
                ledger_ping(stock_ledger(over)) == LEDGER_OK);
    wire.fault = fault;
    if (cut)
        wire.server_port = 0;
    if (once)
        sell_once(over, &one);
    else
        sell_all(over, &one, 1);
    assert_int_equal(stock_stats(over).unknown_commits, 1);
    stock_close(&over);
    sql_wire_close(&wire);
    stock_order_clear(&one);
    return one;
}

static void test_commit_whose_answer_is_lost_is_asked_after_and_accepted(void **state)
{
    (void)state;
    reset("s", 10, 2);
    assert_int_equal(sell_over_wire(WIRE_LOSES_ANSWER, false, true).outcome, STOCK_ACCEPTED);
    audit("s", 3);
    assert_int_equal(sell_out("s"), 7);
    audit("s", 10);
}

static void test_commit_that_is_lost_is_tried_again(void **state)
{
    (void)state;
    reset("s", 10, 2);
    assert_int_equal(sell_over_wire(WIRE_LOSES_COMMIT, false, false).outcome, STOCK_ACCEPTED);
    audit("s", 3);
    assert_int_equal(sell_out("s"), 7);
    audit("s", 10);
}

/* Without a lock nothing marks what was under way: it is missing until somebody reconciles. */
static void test_commit_that_cannot_be_asked_after_is_in_doubt(void **state)
{
    (void)state;
    static const enum sql_wire_fault faults[] = {WIRE_LOSES_ANSWER, WIRE_LOSES_COMMIT};
    for (int i = 0; i < 2; i++) {
        uint32_t sold = faults[i] == WIRE_LOSES_ANSWER ? 3 : 0;
        uint32_t leaked = counts() ? 3 - sold : 0;
        reset("s", 10, 2);
        assert_int_equal(sell_over_wire(faults[i], true, true).outcome, STOCK_IN_DOUBT);
        assert_int_equal(sell_out("s"), 10 - sold - leaked);
        if (leaked > 0) {
            assert_int_not_equal(reconcile("s").difference_count, 0);
            assert_int_equal(sell_out("s"), leaked);
        }
        audit("s", 10);
    }
}

static void test_duplicate_of_an_order_in_doubt_finds_that_order(void **state)
{
    (void)state;
    struct sql_wire wire;
    reset("s", 10, 2);
    sql_wire_open(&wire);
    struct stock *over = open_stock(cache, redis_server_url(), wire.url);
    struct stock_order one = order("s", 3, "k"), duplicate = order("s", 3, "k");
    struct stock_order *both[] = {&one, &duplicate};
    assert_true(redis_ping(stock_redis(over)) == REDIS_ANSWERED &&
                ledger_ping(stock_ledger(over)) == LEDGER_OK);
    wire.fault = WIRE_LOSES_ANSWER;
    wire.server_port = 0;
    stock_sell(over, both, 2);
    assert_int_equal(one.outcome, STOCK_IN_DOUBT);
    assert_int_equal(duplicate.outcome, STOCK_AGAIN);
    stock_close(&over);
    sql_wire_close(&wire);
    sell_all(stock, &duplicate, 1);
    assert_int_equal(duplicate.outcome, STOCK_REPLAYED);
    assert_int_equal(duplicate.order_id, one.order_id);
    stock_order_clear(&duplicate);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM orders WHERE order_id=%llu",
                                   (unsigned long long)duplicate.order_id),
                     1);
}

static void test_repeat_that_cannot_be_confirmed_is_unavailable(void **state)
{
    (void)state;
    struct sql_wire wire;
    struct stock_order one = order("s", 1, "k"), again = order("s", 1, "k");
    struct stock_order other = order("s", 2, "k");
    reset("s", 1, 1);
    sell_all(stock, &one, 1);
    sql_wire_open(&wire);
    struct stock *over = open_stock(cache, redis_server_url(), wire.url);
    assert_true(redis_ping(stock_redis(over)) == REDIS_ANSWERED &&
                ledger_ping(stock_ledger(over)) == LEDGER_OK);
    wire.fault = WIRE_LOSES_COMMIT;
    assert_int_equal(sell_once(over, &other), STOCK_UNAVAILABLE);
    assert_int_equal(sell_once(over, &other), STOCK_KEY_REUSED);
    wire.fault = WIRE_LOSES_COMMIT;
    assert_int_equal(sell_once(over, &again), STOCK_UNAVAILABLE);
    assert_int_equal(sell_once(over, &again), STOCK_REPLAYED);
    assert_int_equal(again.order_id, one.order_id);
    stock_close(&over);
    sql_wire_close(&wire);
}

/* ---- reset ---- */

static void test_reset_to_more_and_to_fewer_segments(void **state)
{
    (void)state;
    assert_int_equal(reset("s", 9, 3).round, 1);
    assert_int_equal(buy("s", 5), STOCK_ACCEPTED);
    assert_int_equal(reset("s", 40, 8).round, 2);
    audit("s", 0);
    assert_int_equal(sell_out("s"), 40);
    assert_int_equal(reset("s", 7, 2).round, 3);
    assert_int_equal(redis_server_do("EXISTS seckill:{s:2}:segment seckill:{s:7}:segment"), 0);
    assert_int_equal(sell_out("s"), 7);
    audit("s", 7);
    reconcile_sold_out("s");
}

static void test_reset_waits_for_a_held_segment_or_does_nothing(void **state)
{
    (void)state;
    struct stock_reset asked = {.sku = "s", .total = 5, .segments = 1};
    struct ledger_sale sale;
    struct ledger_round_use use;
    uint64_t ended = 0;
    reset("s", 9, 3);
    lock_and_die(2, LONG_LEASE_MS, 0);
    assert_int_equal(stock_reset(stock, &asked, 60, &sale, &use, &ended), STOCK_ADMIN_BUSY);
    assert_int_equal(sql_server_do("SELECT round FROM sale"), 1);
    assert_int_equal(redis_server_do("EXISTS seckill:{s:0}:lock seckill:{s:1}:lock"), 0);
    redis_server_do("PEXPIRE seckill:{s:2}:lock 100");
    assert_int_equal(reset("s", 5, 1).round, 2);
}

/* Else the operator believes that the sale goes by the terms of his second call. */
static void test_key_of_a_reset_stands_for_all_its_terms(void **state)
{
    (void)state;
    struct stock_reset first = {
        .sku = "s",
        .total = 9,
        .segments = 3,
        .change = {STOCK_CHANGE_ALL,
                   {.starts_ms = 1000, .ends_ms = 9000, .per_user_limit = 2, .pay_within_s = 900}},
        .key = "k"};
    struct stock_reset others[] = {first, first, first, first, first,
                                   first, first, first, first, first};
    others[0].total = 8;
    others[1].segments = 2;
    others[2].change.fields = STOCK_CHANGE_ALL - STOCK_CHANGE_PAY;
    others[3].change.settings.starts_ms = 2000;
    others[4].change.settings.ends_ms = 8000;
    others[5].change.settings.per_user_limit = 3;
    others[6].change.settings.pay_within_s = 600;
    others[7].change.settings.paused = true;
    others[8].only_if = true;
    others[9].end_round = true;
    struct ledger_sale sale;
    assert_int_equal(try_reset(&first, &sale), STOCK_ADMIN_OK);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (try_reset(&others[i], &sale) != STOCK_ADMIN_KEY_REUSED)
            fail_msg("terms %zu are taken for those of the first reset", i);
    assert_int_equal(try_reset(&first, &sale), STOCK_ADMIN_OK);
    assert_int_equal(sale.round, 1);
    assert_int_equal(sale.settings.pay_within_s, 900);
}

/* As after a death between the commit and the load. */
static void test_reset_that_broke_off_leaves_its_segments_dirty(void **state)
{
    (void)state;
    struct stock_reset asked = {.sku = "s", .total = 12, .segments = 3, .end_round = true};
    struct ledger_sale sale;
    struct ledger_round_use use;
    uint64_t ended = 0;
    struct sql_wire wire;
    reset("s", 9, 3);
    assert_int_equal(sell_out("s"), 9);
    sql_wire_open(&wire);
    struct stock *over = open_stock(cache, redis_server_url(), wire.url);
    assert_true(redis_ping(stock_redis(over)) == REDIS_ANSWERED &&
                ledger_ping(stock_ledger(over)) == LEDGER_OK);
    wire.fault = WIRE_LOSES_ANSWER;
    wire.server_port = 0;
    assert_int_equal(stock_reset(over, &asked, WAIT_MS, &sale, &use, &ended), STOCK_ADMIN_IN_DOUBT);
    stock_close(&over);
    sql_wire_close(&wire);
    assert_int_equal(count_dirty("s", 3), 3);
    sleep_ms(LEASE_MS); /* the memory of the old round's end */
    assert_int_equal(sell_out("s"), 12);
    audit("s", 12);
}

static void test_reset_ends_the_memory_of_a_shortage(void **state)
{
    (void)state;
    reset("s", 2, 1);
    int64_t now_ns = clock_now_ns() + 50 * CLOCK_NS_PER_MS;
    assert_int_equal(buy("s", 3), STOCK_SOLD_OUT); /* which is remembered for 100 ms */
    struct sale *sale = sale_cache_find(cache, "s");
    assert_true(sale_known_short(sale, 3, now_ns));
    assert_false(sale_known_short(sale, 2, now_ns));
    reset("s", 2, 1);
    assert_false(sale_known_short(sale, 3, now_ns));
}

static void test_reset_is_published(void **state)
{
    (void)state;
    char message[IDENTIFIER_SIZE];
    struct redis *redis = redis_server_open(REDIS_SERVER_MS);
    assert_int_equal(redis_subscribe(redis, STOCK_CHANNEL), REDIS_ANSWERED);
    reset("s", 2, 1);
    assert_int_equal(redis_server_message(redis, 1000, message, sizeof message), REDIS_ANSWERED);
    assert_string_equal(message, "s");
    redis_close(&redis);
}

static void test_process_that_missed_a_reset_sells_the_new_round(void **state)
{
    (void)state;
    struct sale_cache *old = sale_cache_open();
    struct stock *slow = open_stock(old, redis_server_url(), sql_server_url());
    struct stock_order one, two;
    reset("s", 9, 3);
    one = order("s", 1, "");
    sell_all(slow, &one, 1);
    reset("s", 2, 1);
    one = order("s", 2, "");
    two = order("s", 1, "");
    sell_all(slow, &one, 1);
    assert_int_equal(one.outcome, STOCK_ACCEPTED);
    sell_all(slow, &two, 1);
    assert_int_equal(two.outcome, STOCK_SOLD_OUT);
    audit("s", 2);
    reset("s", 50, 5);
    for (uint32_t sold = 0; sold < 50; sold += 2) {
        one = order("s", 2, "");
        sell_all(slow, &one, 1);
        assert_int_equal(one.outcome, STOCK_ACCEPTED);
    }
    audit("s", 50);
    stock_close(&slow);
    sale_cache_close(&old);
}

static void test_reset_of_one_sale_too_many_is_refused(void **state)
{
    (void)state;
    struct ledger_sale row = {.round = 1, .total = 1, .segments = 1};
    for (int i = 0; i < SALES_MAX; i++) {
        snprintf(row.sku, sizeof row.sku, "s%d", i);
        sale_cache_put(cache, &row);
    }
    struct stock_reset more = {.sku = "more", .total = 1, .segments = 1};
    struct ledger_sale sale;
    struct ledger_round_use use;
    uint64_t ended = 0;
    assert_int_equal(stock_reset(stock, &more, WAIT_MS, &sale, &use, &ended), STOCK_ADMIN_FULL);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM sale"), 0);
    more.sku = "s0"; /* one of those that there are */
    assert_int_equal(stock_reset(stock, &more, WAIT_MS, &sale, &use, &ended), STOCK_ADMIN_OK);
}

static void test_settings_changed_elsewhere_are_noticed(void **state)
{
    (void)state;
    struct ledger_sale sale = reset("s", 9, 3);
    sql_server_do("UPDATE sale SET settings_version=settings_version+1, per_user_limit=4");
    sql_server_do("UPDATE stock_segment SET settings_version=settings_version+1");
    struct stock_order one = order("s", 1, "");
    assert_int_equal(sell_once(stock, &one), STOCK_AGAIN);
    struct sale_snapshot seen = sale_snapshot(sale_cache_find(cache, "s"));
    assert_int_equal(seen.settings.version, sale.settings.version + 1);
    assert_int_equal(seen.settings.per_user_limit, 4);
    sell_all(stock, &one, 1);
    assert_int_equal(one.outcome, STOCK_ACCEPTED);
}

/* The ledger refuses what was decided by older settings. Nobody may come after the batch, so the
 * batch itself recovers what it has taken: one segment, updated by itself, or many by one
 * statement. */
/* The change may be visible and not on the disk yet; if the server forgets it the next change gets
 * the same version, and a process that has learnt the lost one would keep it. */
static void test_settings_changed_elsewhere_are_learnt_after_a_write(void **state)
{
    (void)state;
    struct sale *sale = NULL;
    reset("s", 9, 3);
    for (int i = 0; i < 2; i++) { /* as settings of a sale that is known, and of one that is not */
        sql_server_do("UPDATE sale SET settings_version=settings_version+1");
        if (i == 1)
            sale_cache_retire(cache, "s", 1);
        int64_t before = sql_server_log();
        assert_int_equal(stock_sale_reload(stock, "s", &sale), LEDGER_OK);
        assert_true(sql_server_log() > before);
    }
}

static void test_settings_changed_in_between_leave_no_segment_dirty(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= 6; count += 5) {
        struct stock_order orders[12], *all[12];
        reset("s", 30, 6);
        reset("t", 30, 6);
        sql_server_do("UPDATE sale SET settings_version=settings_version+1");
        sql_server_do("UPDATE stock_segment SET settings_version=settings_version+1");
        for (uint32_t i = 0; i < 2 * count; i++) {
            orders[i] = order(i % 2 == 0 ? "s" : "t", 5, "");
            all[i] = &orders[i];
        }
        size_t max = stock_batch_max(stock) < 2 * count ? 1 : 2 * count;
        stock_sell(stock, all, max);
        stock_flush(stock);
        for (uint32_t i = 0; i < max; i++)
            assert_int_equal(orders[i].outcome, STOCK_AGAIN);
        assert_int_equal(count_dirty("s", 6), 0);
        assert_int_equal(count_dirty("t", 6), 0);
        assert_int_equal(reconcile("s").difference_count, 0);
        assert_int_equal(reconcile("t").difference_count, 0);
        assert_int_equal(sell_out("s"), 30);
        audit("s", 30);
    }
}

/* Six segments are updated by one statement, which does not tell which of them the ledger refused:
 * all are recovered, and none of their units is lost. */
static void test_segments_of_a_refused_joint_update_are_recovered(void **state)
{
    (void)state;
    struct stock_order orders[6];
    unsigned refused = sql_server_is_mariadb() ? 6 : 1; /* text tells which update it was */
    reset("s", 30, 6);
    sql_server_do("UPDATE stock_segment SET fence=fence+1 WHERE segment=4");
    for (int i = 0; i < 6; i++)
        orders[i] = order("s", 5, "");
    struct stock_order *all[] = {&orders[0], &orders[1], &orders[2],
                                 &orders[3], &orders[4], &orders[5]};
    stock_sell(stock, all, 6);
    stock_flush(stock);
    for (int i = 0; i < 6; i++)
        assert_int_equal(orders[i].outcome, STOCK_AGAIN);
    assert_int_equal(stock_stats(stock).refusals, 1);
    assert_int_equal(stock_stats(stock).recoveries, refused);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM orders"), 0);
    sell_all(stock, orders, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(orders[i].outcome, STOCK_ACCEPTED);
    assert_int_equal(stock_stats(stock).recoveries, refused);
    assert_int_equal(buy("s", 1), STOCK_SOLD_OUT);
    audit("s", 30);
    reconcile_sold_out("s");
}

/* A batch takes the rows of its segments in the order of all others, wherever its search began:
 * few by a statement each, many by one. Dirty segments are recovered before, likewise. */
static void test_batch_does_not_deadlock_with_a_change(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 24; i++) {
        struct sql_rival rival;
        uint32_t segments = i % 2 == 0 ? 3 : 6;
        reset("s", 2 * segments, segments);
        for (uint32_t j = 0; j < segments && i >= 16; j++)
            redis_server_do("HSET seckill:{s:%u}:segment open somebody", j);
        uint64_t retries = ledger_stats(stock_ledger(stock)).retries;
        sql_rival_start(&rival);
        assert_int_equal(buy("s", 2 * segments), STOCK_ACCEPTED);
        assert_int_equal(sql_rival_join(&rival), DB_OK);
        assert_int_equal(ledger_stats(stock_ledger(stock)).retries, retries);
        audit("s", 2 * segments);
    }
}

/* ---- reconcile ---- */

static void test_reconcile_finds_and_repairs_what_differs(void **state)
{
    (void)state;
    static const char *const reasons[] = {"missing", "dirty", "mismatch", "round"};
    reset("s", 50, 5);
    redis_server_do("DEL seckill:{s:0}:segment");
    redis_server_do("HSET seckill:{s:1}:segment open somebody available 4");
    redis_server_do("HSET seckill:{s:2}:segment available 12");
    redis_server_do("HSET seckill:{s:3}:segment round 7");
    struct stock_report report = reconcile("s");
    assert_int_equal(report.round, 1);
    assert_int_equal(report.segments, 5);
    assert_int_equal(report.difference_count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(report.differences[i].segment, i);
        assert_string_equal(report.differences[i].reason, reasons[i]);
        assert_int_equal(report.differences[i].ledger_available, 10);
    }
    assert_true(report.differences[0].redis_available == -1);
    assert_int_equal(report.differences[1].redis_available, 4);
    assert_int_equal(report.differences[2].redis_available, 12);
    assert_int_equal(reconcile("s").difference_count, 0);
    assert_int_equal(sell_out("s"), 50);
    audit("s", 50);
}

static void test_reconcile_wants_a_sale_and_its_locks(void **state)
{
    (void)state;
    struct stock_report report;
    assert_int_equal(stock_reconcile(stock, "s", WAIT_MS, &report), STOCK_ADMIN_NO_SALE);
    reset("s", 5, 2);
    lock_and_die(1, 5000, 0);
    assert_int_equal(stock_reconcile(stock, "s", 60, &report), STOCK_ADMIN_BUSY);
    assert_int_equal(redis_server_do("EXISTS seckill:{s:0}:lock"), 0);
}

struct reconciler {
    pthread_t thread;
    struct stock *stock;
    enum stock_admin_result result;
    struct stock_report report;
};

static void *run_reconcile(void *argument)
{
    struct reconciler *reconciler = argument;
    reconciler->result = stock_reconcile(reconciler->stock, "s", WAIT_MS, &reconciler->report);
    return NULL;
}

/* The sale shrinks from 3 to 1 segments while reconcile waits for the last lock. */
static void test_reconcile_overtaken_by_a_reset_tells_of_the_new_round(void **state)
{
    (void)state;
    struct reconciler reconciler = {.stock = stock};
    struct ledger_sale sale = {.sku = "s", .total = 5, .segments = 1};
    struct ledger_segment rows[3];
    static const uint64_t fences[3] = {1, 1, 1};
    char error[128];
    struct ledger *ledger = ledger_open(sql_server_url(), 5000, error, sizeof error);
    struct ledger_reset beginning = {.fences = fences};
    sale.round = reset("s", 9, 3).round;
    sale.settings.version = 1;
    lock_and_die(2, 10000, 0);
    assert_int_equal(pthread_create(&reconciler.thread, NULL, run_reconcile, &reconciler), 0);
    while (redis_server_do("EXISTS seckill:{s:1}:lock") == 0)
        sleep_ms(1);
    assert_int_equal(ledger_reset(ledger, &beginning, &sale, rows), LEDGER_OK);
    redis_server_do("DEL seckill:{s:2}:lock");
    pthread_join(reconciler.thread, NULL);
    ledger_close(&ledger);
    assert_int_equal(redis_server_do("HEXISTS seckill:{s:2}:segment round") == 1 &&
                         redis_server_do("HGET seckill:{s:2}:segment round") == 0,
                     0); /* no segment made of nothing */
    assert_int_equal(reconciler.result, STOCK_ADMIN_OK);
    assert_int_equal(reconciler.report.round, 2);
    assert_int_equal(reconciler.report.segments, 1);
}

/* ---- races ---- */

struct seller {
    pthread_t thread;
    struct stock *stock;
    unsigned random;
    uint32_t sold;
    uint32_t odd; /* outcomes other than accepted and sold out */
};

/* Buys random quantities in random batches until not even one unit is to be had. */
static void *run_seller(void *argument)
{
    struct seller *seller = argument;
    struct stock_order orders[8];
    for (bool more = true; more;) {
        size_t count = (size_t)rand_r(&seller->random) % 8 + 1;
        for (size_t i = 0; i < count; i++)
            orders[i] = order("s", i == 0 ? 1 : (uint32_t)rand_r(&seller->random) % 9 + 1, "");
        sell_all(seller->stock, orders, count);
        for (size_t i = 0; i < count; i++) {
            if (orders[i].outcome == STOCK_ACCEPTED)
                seller->sold += orders[i].qty;
            else if (orders[i].outcome != STOCK_SOLD_OUT)
                seller->odd++;
            stock_order_clear(&orders[i]);
        }
        more = orders[0].outcome != STOCK_SOLD_OUT;
    }
    return NULL;
}

static uint32_t race(void (*disturb)(int step), int steps, const char *const *strategies)
{
    struct seller sellers[SELLERS];
    uint32_t sold = 0, odd = 0;
    for (unsigned i = 0; i < SELLERS; i++) {
        if (strategies)
            strategy = strategies[i];
        struct stock *own = open_stock(cache, redis_server_url(), sql_server_url());
        sellers[i] = (struct seller){.stock = own, .random = i + 1};
        assert_int_equal(pthread_create(&sellers[i].thread, NULL, run_seller, &sellers[i]), 0);
    }
    for (int step = 0; step < steps; step++)
        disturb(step);
    for (int i = 0; i < SELLERS; i++) {
        pthread_join(sellers[i].thread, NULL);
        stock_close(&sellers[i].stock);
        sold += sellers[i].sold;
        odd += sellers[i].odd;
    }
    assert_int_equal(odd, 0);
    return sold;
}

static void test_racing_sellers_sell_exactly_the_total(void **state)
{
    (void)state;
    reset("s", 1000, 7);
    assert_int_equal(race(NULL, 0, NULL), 1000);
    audit("s", 1000);
    reconcile_sold_out("s");
}

static void forget_or_die(int step)
{
    if (step % 2 == 0)
        redis_server_do("FLUSHALL");
    else
        redis_server_do("HINCRBY seckill:{s:%d}:segment available 50", step % 7);
    sleep_ms(3);
}

static void test_racing_sellers_over_a_redis_that_lies(void **state)
{
    (void)state;
    reset("s", 1000, 7);
    assert_int_equal(race(forget_or_die, 20, NULL), 1000);
    audit("s", 1000);
}

/* ---- several strategies, one sale ---- */

static const char *const strategies[] = {"segment_lock", "atomic", "single_lock", "optimistic",
                                         "database"};
enum { STRATEGIES = sizeof strategies / sizeof strategies[0] };

/* As when daemons are started again with another strategy. */
static void test_sale_goes_on_under_any_other_strategy(void **state)
{
    (void)state;
    uint32_t sold = 0;
    reset("s", 2 * STRATEGIES * STRATEGIES * 7, 5);
    for (int i = 0; i < STRATEGIES * STRATEGIES; i++) { /* every one after every other one */
        for (int j = 0; j < 2; j++) {
            strategy = strategies[j == 0 ? i / STRATEGIES : i % STRATEGIES];
            struct stock *next = open_stock(cache, redis_server_url(), sql_server_url());
            struct stock_order orders[2] = {order("s", 3, ""), order("s", 4, "")};
            sell_all(next, orders, 2);
            for (int k = 0; k < 2; k++) {
                assert_int_equal(orders[k].outcome, STOCK_ACCEPTED);
                sold += orders[k].qty;
                stock_order_clear(&orders[k]);
            }
            stock_close(&next);
            audit("s", sold);
        }
    }
    strategy = "segment_lock";
    assert_int_equal(buy("s", 1), STOCK_SOLD_OUT);
}

static void test_strategies_at_once_never_oversell_and_segment_lock_sells_the_rest(void **state)
{
    (void)state;
    for (int i = 0; i <= STRATEGIES - SELLERS; i++) {
        reset("s", 500, 7);
        uint32_t sold = race(NULL, 0, strategies + i);
        strategy = "segment_lock";
        assert_int_equal(sold + sell_out("s"), 500);
        audit("s", 500);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)
#define TEST_WITH_LONG_LEASES(name) cmocka_unit_test_setup_teardown(name, start_long_leases, finish)

/* What every strategy can. */
static int run_common(const char *name)
{
    const struct CMUnitTest tests[] = {
        TEST_WITH_LONG_LEASES(test_sells_exactly_the_total_and_is_sold_out_after),
        TEST(test_accepted_order_says_where_and_when),
        TEST(test_order_that_no_segment_can_fill_is_filled_from_several),
        TEST(test_order_over_every_segment_there_can_be),
        TEST(test_order_finds_more_than_was_last_seen),
        TEST(test_too_large_an_order_does_not_keep_smaller_ones_out),
        TEST(test_skus_of_one_batch_fare_each_for_itself),
        TEST(test_fullest_batch_is_sold),
        TEST(test_taken_order_id_is_to_be_tried_again_with_another),
        TEST(test_repeat_gets_the_first_order_even_after_the_end),
        TEST(test_key_with_another_body_is_reused),
        TEST(test_duplicates_in_one_batch_are_one_order),
        TEST(test_new_orders_are_sold_beside_many_repeats),
        TEST(test_repeat_is_answered_after_a_write),
        TEST(test_repeat_does_not_use_up_the_last_unit),
        TEST(test_duplicate_of_a_sold_out_order_is_sold_out),
        TEST(test_duplicates_of_a_refused_order_are_refused_with_it),
        TEST(test_keyed_order_is_not_refused_when_its_key_cannot_be_looked_up),
        TEST(test_repeat_is_not_refused_while_its_first_try_is_under_way),
        TEST(test_order_whose_time_is_over_is_not_accepted),
        TEST(test_order_whose_time_ends_amid_its_batch_leaves_the_others),
        TEST_WITH_LONG_LEASES(test_held_row_costs_the_orders_of_its_sale_alone),
        TEST(test_redis_that_forgot_everything_is_filled_again),
        TEST(test_lost_fence_keys_do_no_harm),
        TEST(test_ledger_ahead_of_redis_clock_is_caught_up_with),
        TEST(test_stale_round_in_redis_is_recovered),
        TEST(test_reconcile_without_a_segment_in_the_ledger_fails),
        TEST(test_reset_to_more_and_to_fewer_segments),
        TEST(test_unreachable_ledger_is_unavailable_and_gives_back),
        TEST(test_commit_whose_answer_is_lost_is_asked_after_and_accepted),
        TEST(test_commit_that_is_lost_is_tried_again),
        TEST(test_commit_that_cannot_be_asked_after_is_in_doubt),
        TEST(test_duplicate_of_an_order_in_doubt_finds_that_order),
        TEST(test_repeat_that_cannot_be_confirmed_is_unavailable),
        TEST(test_process_that_missed_a_reset_sells_the_new_round),
        TEST(test_settings_changed_elsewhere_are_noticed),
        TEST_WITH_LONG_LEASES(test_settings_changed_in_between_leave_no_segment_dirty),
        TEST(test_batch_does_not_deadlock_with_a_change),
        TEST(test_racing_sellers_sell_exactly_the_total),
    };
    strategy = name;
    return cmocka_run_group_tests_name(name, tests, start_group, NULL);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        TEST(test_unknown_strategy_is_refused),
        TEST(test_units_of_a_dead_holder_are_sold),
        TEST(test_segment_put_back_in_time_is_not_oversold),
        TEST(test_segment_put_back_to_empty_is_sold_to_the_last_unit),
        TEST(test_held_segment_is_sold_after_its_lease),
        TEST_WITH_LONG_LEASES(test_held_segment_does_not_keep_the_others_waiting),
        TEST(test_nothing_stays_locked_after_a_batch),
        TEST_WITH_LONG_LEASES(test_nothing_stays_locked_beside_orders_without_units),
        TEST_WITH_LONG_LEASES(test_no_batch_keeps_most_of_a_sale_locked),
        TEST(test_nothing_stays_locked_after_a_lost_answer),
        TEST(test_order_whose_rate_was_not_told_is_asked_for_again),
        TEST(test_order_that_is_tried_again_is_rated_once),
        TEST(test_connection_lost_between_batches_costs_nothing),
        TEST(test_unreachable_redis_is_unavailable),
        TEST_WITH_LONG_LEASES(test_segments_of_a_refused_joint_update_are_recovered),
        TEST(test_reset_waits_for_a_held_segment_or_does_nothing),
        TEST(test_key_of_a_reset_stands_for_all_its_terms),
        TEST(test_reset_that_broke_off_leaves_its_segments_dirty),
        TEST(test_reset_ends_the_memory_of_a_shortage),
        TEST(test_reset_is_published),
        TEST(test_reset_of_one_sale_too_many_is_refused),
        TEST(test_settings_changed_elsewhere_are_learnt_after_a_write),
        TEST(test_reconcile_finds_and_repairs_what_differs),
        TEST(test_reconcile_wants_a_sale_and_its_locks),
        TEST(test_reconcile_overtaken_by_a_reset_tells_of_the_new_round),
        TEST(test_racing_sellers_over_a_redis_that_lies),
        TEST(test_sale_goes_on_under_any_other_strategy),
        TEST(test_strategies_at_once_never_oversell_and_segment_lock_sells_the_rest),
    };
    int failed = cmocka_run_group_tests(tests, start_group, NULL);
    for (size_t i = 0; i < STRATEGIES; i++)
        failed += run_common(strategies[i]);
    return failed;
}
