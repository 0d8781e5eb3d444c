/* Windows, pauses and limits per user, as two processes see them; and keys in both at once. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "lua/test_server.h"
#include "sql/sales/sales.h"
#include "sql/server/server.h"
#include "sql/test_server.h"
#include "stock/sales/sales.h"
#include "stock/stock.h"

enum { PROCESSES = 2, TRIES_MAX = 2000, REMEMBER_MS = 200, NOW_MS = 1000, RACERS = 60 };

/* Two processes on the same servers, as far as the stock can tell. */
static struct sale_cache *caches[PROCESSES];
static struct stock *stocks[PROCESSES];
static const char *strategy;
static _Atomic uint64_t last_id;

static void sleep_ms(int ms)
{
    struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&span, NULL);
}

static struct stock *open_stock(struct sale_cache *cache)
{
    char error[128] = "";
    struct stock_options options = {
        .strategy = strategy,
        .redis_url = redis_server_url(),
        .mysql_url = sql_server_url(),
        .lease_ms = 3000,
        .redis_timeout_ms = 10000,
        .mysql_timeout_ms = 20000,
        .resolve_ms = 200,
        .remember_left_ms = REMEMBER_MS,
    };
    struct stock *opened = stock_open(&options, cache, error, sizeof error);
    if (!opened)
        fail_msg("%s", error);
    return opened;
}

static int start_group(void **state)
{
    (void)state;
    char error[128];
    signal(SIGPIPE, SIG_IGN);
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
    sql_server_empty();
    for (int i = 0; i < PROCESSES; i++) {
        caches[i] = sale_cache_open();
        stocks[i] = open_stock(caches[i]);
    }
    return 0;
}

static int finish(void **state)
{
    (void)state;
    for (int i = 0; i < PROCESSES; i++) {
        stock_close(&stocks[i]);
        sale_cache_close(&caches[i]);
    }
    return 0;
}

/* As the news does in the other process. */
static void hear(void)
{
    struct sale *sale = sale_cache_find(caches[1], "s");
    if (sale)
        sale_invalidate(sale);
}

static void reset(uint32_t total, uint32_t segments, struct ledger_settings settings)
{
    struct stock_reset asked = {.sku = "s",
                                .total = total,
                                .segments = segments,
                                .change = {STOCK_CHANGE_ALL, settings},
                                .end_round = true};
    struct ledger_sale sale;
    struct ledger_round_use use;
    uint64_t ended = 0;
    assert_int_equal(stock_reset(stocks[0], &asked, 5000, &sale, &use, &ended), STOCK_ADMIN_OK);
    hear();
}

static void change_unheard(unsigned fields, struct ledger_settings settings)
{
    struct ledger_sale sale;
    struct stock_change to = {fields, settings};
    assert_int_equal(stock_change(stocks[0], "s", &to, &sale), STOCK_ADMIN_OK);
}

static void change(unsigned fields, struct ledger_settings settings)
{
    change_unheard(fields, settings);
    hear();
}

static struct stock_order order(const char *user_id, uint32_t qty, const char *key)
{
    struct stock_order made = {.qty = qty, .created_ms = NOW_MS};
    snprintf(made.sku, sizeof made.sku, "s");
    snprintf(made.user_id, sizeof made.user_id, "%s", user_id);
    snprintf(made.key, sizeof made.key, "%s", key);
    return made;
}

/* Sells as an order worker does: until each is decided. */
static void sell_all(int by, struct stock_order *orders, size_t count)
{
    struct stock_order *open[STOCK_BATCH_MAX];
    size_t left = count;
    for (size_t i = 0; i < count; i++)
        open[i] = &orders[i];
    for (int tries = 0; left > 0; tries++) {
        if (tries == TRIES_MAX)
            fail_msg("%zu orders are never decided", left);
        for (size_t i = 0; i < left; i++)
            open[i]->order_id = ++last_id;
        stock_sell(stocks[by], open, left);
        size_t kept = 0;
        for (size_t i = 0; i < left; i++)
            if (open[i]->outcome == STOCK_AGAIN) {
                stock_order_clear(open[i]);
                open[kept++] = open[i];
            }
        left = kept;
        stock_flush(stocks[by]);
        if (left > 0)
            sleep_ms(1);
    }
}

static struct stock_order sell_at(int by, int64_t now_ms, const char *user_id, uint32_t qty,
                                  const char *key)
{
    struct stock_order one = order(user_id, qty, key);
    one.created_ms = now_ms;
    sell_all(by, &one, 1);
    return one;
}

static enum stock_outcome buy_at(int by, int64_t now_ms)
{
    struct stock_order one = sell_at(by, now_ms, "u", 1, "");
    stock_order_clear(&one);
    return one.outcome;
}

static enum stock_outcome buy(int by, const char *user_id, uint32_t qty, const char *key)
{
    struct stock_order one = sell_at(by, NOW_MS, user_id, qty, key);
    stock_order_clear(&one);
    return one.outcome;
}

static void audit(uint32_t units)
{
    assert_int_equal(sql_server_do("SELECT COALESCE(SUM(qty),0) FROM orders"), units);
    assert_int_equal(sql_server_do("SELECT SUM(sold) FROM stock_segment"), units);
    bool in_redis = strcmp(strategy, "segment_lock") == 0 || strcmp(strategy, "atomic") == 0 ||
                    strcmp(strategy, "optimistic") == 0; /* the others leave its counters alone */
    struct stock_report *report = malloc(sizeof *report);
    assert_non_null(report);
    assert_int_equal(stock_reconcile(stocks[0], "s", 5000, report), STOCK_ADMIN_OK);
    for (size_t i = 0; i < report->difference_count && in_redis; i++)
        assert_string_not_equal(report->differences[i].reason, "mismatch");
    free(report);
}

/* ---- window and pause ---- */

static void test_window_is_held_against_the_order_s_moment(void **state)
{
    (void)state;
    reset(10, 2, (struct ledger_settings){.starts_ms = 500, .ends_ms = 900});
    for (int by = 0; by < PROCESSES; by++) {
        assert_int_equal(buy_at(by, 499), STOCK_NOT_STARTED);
        assert_int_equal(buy_at(by, 500), STOCK_ACCEPTED);
        assert_int_equal(buy_at(by, 899), STOCK_ACCEPTED);
        assert_int_equal(buy_at(by, 900), STOCK_ENDED);
    }
    audit(4);
}

static void test_window_that_opens_within_a_batch_lets_the_later_orders_in(void **state)
{
    (void)state;
    reset(10, 2, (struct ledger_settings){.starts_ms = 500, .ends_ms = 503});
    struct stock_order orders[6];
    static const enum stock_outcome expected[] = {STOCK_NOT_STARTED, STOCK_ACCEPTED, STOCK_ACCEPTED,
                                                  STOCK_ACCEPTED,    STOCK_ENDED,    STOCK_ENDED};
    for (int i = 0; i < 6; i++) {
        orders[i] = order("u", 1, "");
        orders[i].created_ms = 499 + i;
    }
    sell_all(0, orders, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(orders[i].outcome, expected[i]);
    assert_int_equal(orders[0].at_ms, 500);
    assert_int_equal(orders[5].at_ms, 503);
    audit(3);
}

static void test_after_a_change_nobody_is_let_in_by_the_old_terms(void **state)
{
    (void)state;
    reset(10, 2, (struct ledger_settings){.starts_ms = 0});
    for (int by = 0; by < PROCESSES; by++)
        assert_int_equal(buy(by, "u", 1, ""), STOCK_ACCEPTED);
    change(STOCK_CHANGE_PAUSED, (struct ledger_settings){.paused = true});
    for (int by = 0; by < PROCESSES; by++)
        assert_int_equal(buy(by, "u", 1, ""), STOCK_PAUSED);
    change(STOCK_CHANGE_PAUSED | STOCK_CHANGE_ENDS, (struct ledger_settings){.ends_ms = NOW_MS});
    for (int by = 0; by < PROCESSES; by++)
        assert_int_equal(buy_at(by, NOW_MS), STOCK_ENDED);
    change_unheard(STOCK_CHANGE_ENDS, (struct ledger_settings){.ends_ms = 0});
    for (int by = 0; by < PROCESSES; by++) {
        sleep_ms(by * REMEMBER_MS); /* then what was confirmed runs out */
        assert_int_equal(buy(by, "u", 1, ""), STOCK_ACCEPTED);
    }
    audit(4);
}

static void test_change_touches_only_its_fields_and_keeps_the_window_in_order(void **state)
{
    (void)state;
    struct ledger_sale sale;
    struct stock_change ends = {STOCK_CHANGE_ENDS, {.ends_ms = 500}};
    reset(10, 2, (struct ledger_settings){.starts_ms = 500, .per_user_limit = 3});
    assert_int_equal(stock_change(stocks[0], "s", &ends, &sale), STOCK_ADMIN_WINDOW);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM sale WHERE ends_at IS NULL"), 1);
    ends.settings.ends_ms = 501;
    assert_int_equal(stock_change(stocks[0], "s", &ends, &sale), STOCK_ADMIN_OK);
    assert_int_equal(sale.settings.starts_ms, 500);
    assert_int_equal(sale.settings.ends_ms, 501);
    assert_int_equal(sale.settings.per_user_limit, 3);
    assert_int_equal(stock_change(stocks[0], "none", &ends, &sale), STOCK_ADMIN_NO_SALE);
}

/* Another process has retired it, unheard. */
static void test_retired_sale_is_not_there_for_whom_its_settings_would_refuse(void **state)
{
    (void)state;
    struct ledger_sale sale;
    struct ledger_held held;
    reset(10, 2, (struct ledger_settings){.paused = true});
    assert_int_equal(buy(1, "u", 1, ""), STOCK_PAUSED);
    assert_int_equal(stock_retire(stocks[0], "s", false, 5000, &sale, &held), STOCK_ADMIN_OK);
    sleep_ms(REMEMBER_MS); /* then what was confirmed runs out */
    assert_int_equal(buy(1, "u", 1, ""), STOCK_UNKNOWN_SKU);
}

/* Another process began the sale, and clients think of skus that there are not. */
static void test_sales_not_known_yet_are_asked_for_all_at_once(void **state)
{
    (void)state;
    enum { COUNT = 100, NEW = 50 };
    struct stock_order orders[COUNT];
    reset(10, 2, (struct ledger_settings){.starts_ms = 0});
    for (int i = 0; i < COUNT; i++) {
        orders[i] = order("u", 1, "");
        if (i != NEW)
            snprintf(orders[i].sku, sizeof orders[i].sku, "none-%d", i);
    }
    int64_t before = sql_server_status("Com_select");
    sell_all(1, orders, COUNT);
    assert_int_in_range(sql_server_status("Com_select") - before, 1, COUNT / 2);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(orders[i].outcome, i == NEW ? STOCK_ACCEPTED : STOCK_UNKNOWN_SKU);
    audit(1);
}

static void test_fronts_refuse_only_what_the_ledger_confirmed(void **state)
{
    (void)state;
    int64_t at_ms = 0;
    reset(10, 2, (struct ledger_settings){.starts_ms = 5000});
    struct sale *sale = sale_cache_find(caches[0], "s");
    struct ledger_settings settings;
    assert_false(sale_window_cached(sale, clock_now_ns(), &settings));
    int64_t before_ns = clock_now_ns();
    assert_int_equal(buy(0, "u", 1, ""), STOCK_NOT_STARTED);
    int64_t asked_ns = clock_now_ns();
    assert_true(sale_window_cached(sale, before_ns + REMEMBER_MS * CLOCK_NS_PER_MS / 2, &settings));
    assert_int_equal(stock_window_check(&settings, NOW_MS, &at_ms), STOCK_NOT_STARTED);
    assert_int_equal(at_ms, 5000);
    assert_int_equal(stock_window_check(&settings, 5000, &at_ms), STOCK_OPEN);
    assert_false(sale_window_cached(sale, asked_ns + REMEMBER_MS * CLOCK_NS_PER_MS, &settings));
    sale_invalidate(sale);
    assert_false(sale_window_cached(sale, before_ns, &settings));
}

static void test_accepted_key_is_answered_whatever_the_terms_say(void **state)
{
    (void)state;
    reset(10, 2, (struct ledger_settings){.per_user_limit = 1});
    struct stock_order first = sell_at(0, NOW_MS, "u", 1, "k");
    assert_int_equal(first.outcome, STOCK_ACCEPTED);
    const struct ledger_settings closed[] = {
        {.starts_ms = NOW_MS + 1}, {.ends_ms = NOW_MS}, {.paused = true}, {.per_user_limit = 1}};
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++) {
        change(STOCK_CHANGE_STARTS | STOCK_CHANGE_ENDS | STOCK_CHANGE_PAUSED | STOCK_CHANGE_LIMIT,
               closed[i]);
        for (int by = 0; by < PROCESSES; by++) {
            struct stock_order repeat = sell_at(by, NOW_MS, "u", 1, "k");
            assert_int_equal(repeat.outcome, STOCK_REPLAYED);
            assert_int_equal(repeat.order_id, first.order_id);
            assert_int_equal(buy(by, "u", 2, "k"), STOCK_KEY_REUSED);
            assert_int_not_equal(buy(by, "u", 1, "new"), STOCK_ACCEPTED);
        }
    }
    audit(1);
}

/* ---- the limit per user ---- */

static void test_limit_counts_units_in_both_processes(void **state)
{
    (void)state;
    reset(100, 4, (struct ledger_settings){.per_user_limit = 3});
    struct stock_order first = sell_at(0, NOW_MS, "u", 2, "");
    assert_int_equal(first.outcome, STOCK_ACCEPTED);
    assert_int_equal(buy(1, "u", 2, ""), STOCK_LIMIT);
    struct stock_order second = sell_at(1, NOW_MS, "u", 1, "");
    assert_int_equal(second.outcome, STOCK_ACCEPTED);
    struct stock_order third = sell_at(0, NOW_MS, "u", 1, "");
    assert_int_equal(third.outcome, STOCK_LIMIT);
    assert_int_equal(third.history->limit, 3);
    assert_int_equal(third.history->order_count, 2);
    assert_int_equal(third.history->order_ids[0], second.order_id);
    assert_int_equal(third.history->order_ids[1], first.order_id);
    stock_order_clear(&third);
    assert_int_equal(buy(0, "v", 3, ""), STOCK_ACCEPTED);
    audit(6);
}

static void test_order_above_the_limit_alone_is_refused(void **state)
{
    (void)state;
    reset(100, 4, (struct ledger_settings){.per_user_limit = 3});
    struct stock_order one = sell_at(0, NOW_MS, "u", 4, "");
    assert_int_equal(one.outcome, STOCK_LIMIT);
    assert_int_equal(one.history->order_count, 0);
    stock_order_clear(&one);
    audit(0);
}

static void test_orders_of_one_user_in_one_batch_are_counted_together(void **state)
{
    (void)state;
    struct stock_order orders[60];
    char users[4][16];
    reset(100, 4, (struct ledger_settings){.per_user_limit = 5});
    for (int i = 0; i < 60; i++) {
        snprintf(users[i % 4], sizeof users[0], "u%d", i % 4);
        orders[i] = order(users[i % 4], i / 4 % 2 == 0 ? 1 : 2, "");
    }
    sell_all(0, orders, 60);
    for (int i = 0; i < 60; i++) {
        assert_true(orders[i].outcome == STOCK_ACCEPTED || orders[i].outcome == STOCK_LIMIT);
        stock_order_clear(&orders[i]);
    }
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM user_quota WHERE units=5"), 4);
    audit(20);
}

/* The other process knows nothing of these users, so the ledger refuses its batch. */
static void test_users_refused_late_leave_the_others_their_units(void **state)
{
    (void)state;
    struct stock_order orders[40];
    char user[16];
    reset(100, 4, (struct ledger_settings){.per_user_limit = 1});
    for (int i = 0; i < 40; i += 4) {
        snprintf(user, sizeof user, "u%d", i);
        assert_int_equal(buy(0, user, 1, ""), STOCK_ACCEPTED);
    }
    for (int i = 0; i < 40; i++) {
        snprintf(user, sizeof user, "u%d", i);
        orders[i] = order(user, 1, "");
    }
    sell_all(1, orders, 40);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(orders[i].outcome, i % 4 == 0 ? STOCK_LIMIT : STOCK_ACCEPTED);
        if (i % 4 == 0)
            assert_int_equal(orders[i].history->order_count, 1);
        stock_order_clear(&orders[i]);
    }
    audit(40);
}

static void test_limit_is_changed_while_the_sale_runs(void **state)
{
    (void)state;
    reset(100, 4, (struct ledger_settings){.per_user_limit = 0});
    for (int by = 0; by < PROCESSES; by++)
        assert_int_equal(buy(by, "u", 2, ""), STOCK_ACCEPTED);
    change(STOCK_CHANGE_LIMIT, (struct ledger_settings){.per_user_limit = 4});
    for (int by = 0; by < PROCESSES; by++)
        assert_int_equal(buy(by, "u", 1, ""), STOCK_LIMIT);
    change(STOCK_CHANGE_LIMIT, (struct ledger_settings){.per_user_limit = 5});
    assert_int_equal(buy(1, "u", 1, ""), STOCK_ACCEPTED);
    change(STOCK_CHANGE_LIMIT, (struct ledger_settings){.per_user_limit = 2});
    for (int by = 0; by < PROCESSES; by++)
        assert_int_equal(buy(by, "u", 1, ""), STOCK_LIMIT);
    assert_int_equal(buy(1, "v", 2, ""), STOCK_ACCEPTED);
    change(STOCK_CHANGE_LIMIT, (struct ledger_settings){.per_user_limit = 0});
    assert_int_equal(buy(1, "u", 9, ""), STOCK_ACCEPTED);
    audit(16);
}

/* Its first try was let in before the end and has not reached the ledger: it must not be accepted
 * after the repeat was told no. */
static void test_repeat_past_the_end_stops_its_first_try(void **state)
{
    (void)state;
    reset(10, 2, (struct ledger_settings){.ends_ms = 900});
    assert_int_equal(buy_at(0, 899), STOCK_ACCEPTED);
    struct stock_order first = order("v", 1, "k"), *batch = &first;
    first.created_ms = 899;
    first.order_id = ++last_id;
    for (int times = 0; times < 2; times++) { /* the second needs no write */
        struct stock_order again = sell_at(1, 900, "v", 1, "k");
        assert_int_equal(again.outcome, STOCK_ENDED);
    }
    assert_int_equal(sql_server_do("SELECT settings_version FROM sale"), 2);
    stock_sell(stocks[0], &batch, 1);
    assert_int_equal(first.outcome, STOCK_AGAIN);
    stock_flush(stocks[0]);
    assert_int_equal(buy_at(0, 899), STOCK_ACCEPTED); /* by the clock of its process */
    audit(2);
}

static void *sell_first(void *context)
{
    struct stock_order *first = context;
    stock_sell(stocks[0], &first, 1);
    return NULL;
}

/* The first try is being committed: the repeat waits for it and gets its order. */
static void test_repeat_past_the_end_waits_for_its_first_try(void **state)
{
    (void)state;
    pthread_t thread;
    struct sql_rival rival;
    reset(10, 1, (struct ledger_settings){.ends_ms = 900});
    assert_int_equal(buy_at(1, 899), STOCK_ACCEPTED);
    struct stock_order first = order("v", 1, "k");
    first.created_ms = 899;
    first.order_id = ++last_id;
    sql_rival_start(&rival);
    assert_int_equal(pthread_create(&thread, NULL, sell_first, &first), 0);
    sleep_ms(30); /* then it waits for the row that the rival has */
    struct stock_order again = sell_at(1, 900, "v", 1, "k");
    pthread_join(thread, NULL);
    assert_int_equal(sql_rival_join(&rival), DB_OK);
    stock_flush(stocks[0]);
    assert_int_equal(again.outcome, first.outcome == STOCK_ACCEPTED ? STOCK_REPLAYED : STOCK_ENDED);
    audit(first.outcome == STOCK_ACCEPTED ? 2 : 1);
}

/* As when there are so many orders that the change leaves them to be counted after it. */
static void test_sale_that_is_counted_accepts_nothing_and_remembers_keys(void **state)
{
    (void)state;
    reset(100, 4, (struct ledger_settings){.per_user_limit = 0});
    for (int by = 0; by < PROCESSES; by++)
        assert_int_equal(buy(by, "u", 1, by == 0 ? "first" : "second"), STOCK_ACCEPTED);
    struct ledger_sale sale;
    assert_int_equal(ledger_sale_find(stock_ledger(stocks[0]), "s", &sale), LEDGER_OK);
    sale.settings.per_user_limit = 3;
    assert_int_equal(ledger_settings_change(stock_ledger(stocks[0]), "s", &sale.settings, true),
                     LEDGER_OK);
    for (int by = 0; by < PROCESSES; by++) {
        assert_int_equal(buy(by, "v", 1, ""), STOCK_COUNTING);
        assert_int_equal(buy(by, "u", 1, "first"), STOCK_REPLAYED);
        assert_int_equal(buy(by, "u", 1, "third"), STOCK_COUNTING);
    }
    assert_int_equal(stock_count(stocks[1], clock_now_ns() + CLOCK_NS_PER_S), LEDGER_NO);
    sleep_ms(REMEMBER_MS); /* then a process that has not heard of it asks the ledger */
    for (int by = 0; by < PROCESSES; by++)
        assert_int_equal(buy(by, "u", 2, ""), STOCK_LIMIT);
    assert_int_equal(buy(0, "u", 1, "third"), STOCK_ACCEPTED);
    assert_int_equal(buy(1, "u", 1, ""), STOCK_LIMIT);
    assert_int_equal(buy(1, "v", 3, ""), STOCK_ACCEPTED);
    audit(6);
}

/* However short the time is that was left for the last piece. */
static void test_opening_of_a_counted_sale_is_published(void **state)
{
    (void)state;
    struct ledger_sale sale;
    reset(100, 4, (struct ledger_settings){.per_user_limit = 0});
    assert_int_equal(buy(0, "u", 1, ""), STOCK_ACCEPTED);
    assert_int_equal(ledger_sale_find(stock_ledger(stocks[0]), "s", &sale), LEDGER_OK);
    sale.settings.per_user_limit = 3;
    assert_int_equal(ledger_settings_change(stock_ledger(stocks[0]), "s", &sale.settings, true),
                     LEDGER_OK);
    assert_int_equal(buy(0, "v", 1, ""), STOCK_COUNTING);
    while (sql_server_do("SELECT COUNT(*) FROM quota_count") == 1) /* piece by piece */
        stock_count_sale(stocks[0], "s", clock_now_ns() + 100000);
    assert_int_equal(buy(0, "v", 1, ""), STOCK_ACCEPTED);
    audit(2);
}

/* How many steps of 1,000 orders the counting for a new limit takes. */
static int set_limit_and_count(uint32_t limit)
{
    struct ledger *ledger = stock_ledger(stocks[0]);
    struct ledger_sale sale;
    int steps = 0;
    assert_int_equal(ledger_sale_find(ledger, "s", &sale), LEDGER_OK);
    sale.settings.per_user_limit = limit;
    assert_int_equal(ledger_settings_change(ledger, "s", &sale.settings, true), LEDGER_OK);
    while (ledger_count_step(ledger, "s", 1000) == LEDGER_OK)
        steps++;
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM quota_count"), 0);
    for (int by = 0; by < PROCESSES; by++) {
        struct sale *known = sale_cache_find(caches[by], "s");
        if (known)
            sale_invalidate(known);
    }
    return steps;
}

/* The sale is closed meanwhile, so it must not take longer the more orders of others there are. */
static void test_counting_begins_with_the_round(void **state)
{
    (void)state;
    sql_server_do("INSERT INTO orders(order_id,sku,round,user_id,qty,created_at)"
                  "SELECT seq,'t',1,'u',1,'2026-01-01' FROM " SQL_NUMBERS,
                  50000);
    uint64_t now = (uint64_t)sql_server_do(
        "SELECT TIMESTAMPDIFF(SECOND,'2025-01-01',UTC_TIMESTAMP())*1000<<22");
    sql_server_do("INSERT INTO orders(order_id,sku,round,user_id,qty,created_at)"
                  "VALUES(%llu,'t',1,'u',1,'2026-01-01')",
                  (unsigned long long)now);
    reset(100, 4, (struct ledger_settings){.per_user_limit = 0});
    uint64_t before = last_id;
    last_id = now;
    assert_int_equal(buy(0, "u", 2, ""), STOCK_ACCEPTED);
    assert_int_in_range(set_limit_and_count(3), 1, 4);
    assert_int_equal(buy(0, "u", 2, ""), STOCK_LIMIT);
    assert_int_equal(buy(1, "u", 1, ""), STOCK_ACCEPTED);
    last_id = before;
    assert_int_equal(sql_server_do("SELECT SUM(units) FROM user_quota"), 3);
}

/* Its user has more units than a number of the table holds; the sale opens for the others. */
static void test_counting_gets_past_an_order_with_too_many_units(void **state)
{
    (void)state;
    reset(100, 4, (struct ledger_settings){.per_user_limit = 0});
    assert_int_equal(buy(0, "u", 2, ""), STOCK_ACCEPTED);
    sql_server_do("UPDATE orders SET qty=4294967295");
    assert_int_equal(buy(0, "u", 1, ""), STOCK_ACCEPTED);
    set_limit_and_count(3);
    assert_int_equal(buy(0, "u", 1, ""), STOCK_LIMIT);
    assert_int_equal(buy(1, "v", 1, ""), STOCK_ACCEPTED);
}

/* Orders were made while a clock was behind, or another one was ahead when the round began. */
static void test_counting_misses_no_order_for_a_clock(void **state)
{
    (void)state;
    reset(100, 4, (struct ledger_settings){.per_user_limit = 0});
    assert_int_equal(buy(0, "u", 2, ""), STOCK_ACCEPTED);
    sql_server_do("UPDATE sale_round SET last_id=last_id+(7200000<<22),"
                  "ended_at=ended_at+INTERVAL 2 HOUR");
    set_limit_and_count(3);
    assert_int_equal(buy(0, "u", 2, ""), STOCK_LIMIT);
    assert_int_equal(buy(1, "u", 1, ""), STOCK_ACCEPTED);
    audit(3);
}

static void test_each_round_counts_anew(void **state)
{
    (void)state;
    reset(100, 4, (struct ledger_settings){.per_user_limit = 1});
    assert_int_equal(buy(1, "u", 1, ""), STOCK_ACCEPTED);
    assert_int_equal(buy(1, "u", 1, ""), STOCK_LIMIT);
    reset(100, 4, (struct ledger_settings){.per_user_limit = 1});
    assert_int_equal(buy(1, "u", 1, ""), STOCK_ACCEPTED);
    assert_int_equal(buy(1, "u", 1, ""), STOCK_LIMIT);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM user_quota"), 2);
}

static void test_limit_survives_redis(void **state)
{
    (void)state;
    reset(100, 4, (struct ledger_settings){.per_user_limit = 1});
    assert_int_equal(buy(0, "u", 1, ""), STOCK_ACCEPTED);
    redis_server_do("FLUSHALL");
    for (int by = 0; by < PROCESSES; by++)
        assert_int_equal(buy(by, "u", 1, ""), STOCK_LIMIT);
    assert_int_equal(buy(1, "v", 1, ""), STOCK_ACCEPTED);
    audit(2);
}

/* ---- both processes at once ---- */

struct racer {
    pthread_t thread;
    int by;
    bool keyed;
    struct stock_order orders[RACERS];
};

/* Three orders of each of twenty users; those of one user share a key. */
static void *race(void *context)
{
    struct racer *racer = context;
    char user[16], key[16];
    for (int i = 0; i < RACERS; i++) {
        int place = racer->by == 0 ? i : RACERS - 1 - i;
        snprintf(user, sizeof user, "u%d", place % 20);
        snprintf(key, sizeof key, "k%d", place % 20);
        racer->orders[i] = order(user, 1, racer->keyed ? key : "");
    }
    sell_all(racer->by, racer->orders, RACERS);
    return NULL;
}

static void run_race(struct racer *racers, bool keyed)
{
    for (int by = 0; by < PROCESSES; by++) {
        racers[by].by = by;
        racers[by].keyed = keyed;
        assert_int_equal(pthread_create(&racers[by].thread, NULL, race, &racers[by]), 0);
    }
    for (int by = 0; by < PROCESSES; by++)
        pthread_join(racers[by].thread, NULL);
}

/* By a connection that is there: there are many to be asked after. */
static void assert_is_of(uint64_t order_id, const char *user_id)
{
    struct ledger_record record;
    assert_int_equal(sql_order_find(stock_ledger(stocks[0]), order_id, &record), LEDGER_OK);
    assert_string_equal(record.user_id, user_id);
}

static void test_race_through_two_processes_never_passes_the_limit(void **state)
{
    (void)state;
    static struct racer racers[PROCESSES];
    for (int round = 0; round < 5; round++) {
        reset(1000, 4, (struct ledger_settings){.per_user_limit = 1});
        sql_server_do("DELETE FROM orders");
        run_race(racers, false);
        for (int i = 0; i < PROCESSES * RACERS; i++) {
            struct stock_order *one = &racers[i / RACERS].orders[i % RACERS];
            if (one->outcome != STOCK_ACCEPTED) {
                assert_int_equal(one->outcome, STOCK_LIMIT);
                assert_int_equal(one->history->order_count, 1);
                assert_is_of(one->history->order_ids[0], one->user_id);
            }
            stock_order_clear(one);
        }
        audit(20);
    }
}

static void test_one_key_in_two_processes_at_once_is_one_order_for_all(void **state)
{
    (void)state;
    static struct racer racers[PROCESSES];
    for (int round = 0; round < 5; round++) {
        reset(1000, 4, (struct ledger_settings){.per_user_limit = 1});
        sql_server_do("DELETE FROM orders;DELETE FROM order_key");
        run_race(racers, true);
        for (int i = 0; i < PROCESSES * RACERS; i++) {
            struct stock_order *one = &racers[i / RACERS].orders[i % RACERS];
            assert_true(one->outcome == STOCK_ACCEPTED || one->outcome == STOCK_REPLAYED);
            assert_is_of(one->order_id, one->user_id);
            stock_order_clear(one);
        }
        audit(20);
    }
}

static void test_keys_that_race_for_the_last_unit_are_never_told_no(void **state)
{
    (void)state;
    static struct racer racers[PROCESSES];
    for (int round = 0; round < 5; round++) {
        reset(20, 2, (struct ledger_settings){.per_user_limit = 0});
        sql_server_do("DELETE FROM orders;DELETE FROM order_key");
        run_race(racers, true);
        for (int i = 0; i < PROCESSES * RACERS; i++) {
            struct stock_order *one = &racers[i / RACERS].orders[i % RACERS];
            assert_true(one->outcome == STOCK_ACCEPTED || one->outcome == STOCK_REPLAYED);
            stock_order_clear(one);
        }
        audit(20);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)

static int run(const char *name)
{
    strategy = name;
    const struct CMUnitTest tests[] = {
        TEST(test_window_is_held_against_the_order_s_moment),
        TEST(test_window_that_opens_within_a_batch_lets_the_later_orders_in),
        TEST(test_after_a_change_nobody_is_let_in_by_the_old_terms),
        TEST(test_change_touches_only_its_fields_and_keeps_the_window_in_order),
        TEST(test_retired_sale_is_not_there_for_whom_its_settings_would_refuse),
        TEST(test_sales_not_known_yet_are_asked_for_all_at_once),
        TEST(test_fronts_refuse_only_what_the_ledger_confirmed),
        TEST(test_accepted_key_is_answered_whatever_the_terms_say),
        TEST(test_repeat_past_the_end_stops_its_first_try),
        TEST(test_repeat_past_the_end_waits_for_its_first_try),
        TEST(test_limit_counts_units_in_both_processes),
        TEST(test_order_above_the_limit_alone_is_refused),
        TEST(test_orders_of_one_user_in_one_batch_are_counted_together),
        TEST(test_users_refused_late_leave_the_others_their_units),
        TEST(test_limit_is_changed_while_the_sale_runs),
        TEST(test_sale_that_is_counted_accepts_nothing_and_remembers_keys),
        TEST(test_opening_of_a_counted_sale_is_published),
        TEST(test_counting_begins_with_the_round),
        TEST(test_counting_gets_past_an_order_with_too_many_units),
        TEST(test_counting_misses_no_order_for_a_clock),
        TEST(test_each_round_counts_anew),
        TEST(test_limit_survives_redis),
        TEST(test_race_through_two_processes_never_passes_the_limit),
        TEST(test_one_key_in_two_processes_at_once_is_one_order_for_all),
        TEST(test_keys_that_race_for_the_last_unit_are_never_told_no),
    };
    return cmocka_run_group_tests_name(name, tests, start_group, NULL);
}

int main(void)
{
    static const char *const strategies[] = {"segment_lock", "single_lock", "atomic", "optimistic",
                                             "database"};
    int failed = 0;
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++)
        failed += run(strategies[i]);
    return failed;
}
