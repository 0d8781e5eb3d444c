/* Orders paid, cancelled and expired: no unit is lost or sold twice, wherever it breaks off. */
#include "base/clock.h"
#include "lock/redis/pipeline.h"
#include "sql/orders/orders.h"
#include "sql/sales/sales.h"
#include "stock/returns/returns.h"
#include "stock/sales/sales.h"
#include "stock/stock_core.h"
#include "stock/test_stage.h"

enum { RACERS = 4, YEARS_S = 1000000000 };

static struct ledger_record record;
static bool moved;

static enum stock_state_result one_of(struct stock_status_change *change)
{
    record = change->record;
    moved = change->moved;
    return change->result;
}

static enum stock_state_result cancel_within(uint64_t id, int wait_ms)
{
    struct stock_status_change change = {.record.order_id = id};
    stock_cancel(stock, &change, 1, wait_ms);
    return one_of(&change);
}

static enum stock_state_result cancel(uint64_t id)
{
    return cancel_within(id, WAIT_MS);
}

static enum stock_state_result pay(uint64_t id)
{
    struct stock_status_change change = {.record.order_id = id};
    stock_pay(stock, &change, 1, WAIT_MS);
    return one_of(&change);
}

/* Locks segment 0 as a holder that will never come back, with a take of one unit or without. */
static void lock_and_die(int lease_ms, bool take)
{
    struct script_call call;
    struct lock_hold hold;
    struct redis *redis = redis_server_open(REDIS_SERVER_MS);
    lock_redis_prepare(&hold, STOCK_PREFIX, "s:0", lease_ms);
    script_begin(&call, SCRIPT_stock_take);
    script_key(&call, "seckill:{s:0}:lock");
    script_key(&call, "seckill:{s:0}:segment");
    script_key(&call, "seckill:{s:0}:fence");
    script_text(&call, hold.token);
    script_int(&call, lease_ms);
    script_int(&call, 1);
    script_int(&call, take ? 1 : 0);
    script_run(redis, &call, 1);
    assert_int_equal(call.values[0], 1);
    redis_close(&redis);
}

/* ---- paying and cancelling ---- */

static void test_cancelled_units_are_sold_again_at_once(void **state)
{
    (void)state;
    reset(6, 3);
    uint64_t first = buy(2);
    sell_out();
    assert_true(sale_known_short(sale_cache_find(cache, "s"), 1, 0));
    assert_int_equal(cancel(first), STOCK_STATE_OK);
    assert_true(moved);
    assert_string_equal(record.status, "cancelled");
    assert_false(sale_known_short(sale_cache_find(cache, "s"), 1, 0));
    assert_int_equal(sell_out(), 2);
    audit(6);
}

static void test_repeats_are_harmless_and_others_refused(void **state)
{
    (void)state;
    reset(10, 2);
    uint64_t paid = buy(2), cancelled = buy(3);
    for (int times = 0; times < 2; times++) {
        assert_int_equal(pay(paid), STOCK_STATE_OK);
        assert_int_equal(moved, times == 0);
        assert_string_equal(record.status, "paid");
        assert_int_equal(cancel(cancelled), STOCK_STATE_OK);
        assert_int_equal(moved, times == 0);
    }
    assert_int_equal(cancel(paid), STOCK_STATE_REFUSED);
    assert_string_equal(record.status, "paid");
    assert_int_equal(pay(cancelled), STOCK_STATE_REFUSED);
    assert_string_equal(record.status, "cancelled");
    assert_int_equal(pay(99999999), STOCK_STATE_NO_ORDER);
    assert_int_equal(cancel(99999999), STOCK_STATE_NO_ORDER);
    audit(2);
}

/* What somebody else has decided may be visible and not on the disk yet. */
static void test_decision_of_others_is_on_the_disk_when_a_cancel_is_answered(void **state)
{
    (void)state;
    reset(10, 2);
    const uint64_t paid = buy(2), cancelled = buy(3);
    assert_int_equal(pay(paid), STOCK_STATE_OK);
    assert_int_equal(cancel(cancelled), STOCK_STATE_OK);
    int64_t before = sql_server_log();
    assert_int_equal(cancel(cancelled), STOCK_STATE_OK);
    assert_false(moved);
    int64_t between = sql_server_log();
    assert_true(between > before);
    assert_int_equal(cancel(paid), STOCK_STATE_REFUSED);
    assert_true(sql_server_log() > between);
}

static void test_order_of_several_segments_gives_all_of_it_back(void **state)
{
    (void)state;
    reset(12, 4);
    uint64_t several = buy(10);
    sell_out();
    assert_int_equal(cancel(several), STOCK_STATE_OK);
    audit(2);
    assert_int_equal(sell_out(), 10);
    audit(12);
}

/* A unit has no home. */
static void test_units_come_back_elsewhere_while_their_segment_is_held(void **state)
{
    (void)state;
    reset(8, 2);
    sell_out();
    uint64_t there = (uint64_t)sql_server_do("SELECT MIN(order_id) FROM orders WHERE segment=0");
    lock_and_die(60000, false);
    assert_int_equal(cancel_within(there, 0), STOCK_STATE_OK);
    assert_int_equal(sql_server_do("SELECT sold FROM stock_segment WHERE segment=0"), 4);
    assert_int_equal(sql_server_do("SELECT sold FROM stock_segment WHERE segment=1"), 3);
    assert_true(buy(1) != 0);
    assert_int_equal(sql_server_do("SELECT segment FROM orders ORDER BY order_id DESC LIMIT 1"), 1);
    redis_server_do("DEL seckill:{s:0}:lock");
    audit(8);
}

static void test_units_come_back_though_the_hints_are_wrong(void **state)
{
    (void)state;
    reset(16, 4);
    uint64_t four = buy(4);
    uint32_t segment = (uint32_t)sql_server_do("SELECT segment FROM stock_segment WHERE sold=4");
    for (uint32_t i = 0; i < 4; i++)
        sale_hint_set(sale_cache_find(cache, "s"), i, i == segment ? 4 : 0);
    assert_int_equal(cancel_within(four, 0), STOCK_STATE_OK);
    assert_int_equal(sell_out(), 16);
    audit(16);
}

/* The ledger right after a reset, before the reserved orders of the old round are expired. */
static void not_ended_yet(void)
{
    sql_server_do("UPDATE orders SET status='reserved'");
}

static void test_order_of_an_older_round_gives_nothing_back(void **state)
{
    (void)state;
    reset(10, 5);
    uint64_t whole = buy(2), several = buy(7);
    reset(4, 2);
    not_ended_yet();
    assert_int_equal(buy(3) != 0, true);
    assert_int_equal(cancel(whole), STOCK_STATE_OK);
    assert_int_equal(cancel(several), STOCK_STATE_OK);
    assert_int_equal(sell_out(), 1);
    audit(4);
}

static void test_reset_that_this_process_has_missed_is_noticed(void **state)
{
    (void)state;
    reset(10, 2);
    uint64_t old = buy(2);
    struct sale_cache *mine = cache;
    cache = sale_cache_open();
    struct stock *other = open_stock(sql_server_url());
    struct stock_reset asked = {.sku = "s", .total = 8, .segments = 1, .end_round = true};
    struct ledger_sale sale;
    struct ledger_round_use use;
    uint64_t ended = 0;
    assert_int_equal(stock_reset(other, &asked, WAIT_MS, &sale, &use, &ended), STOCK_ADMIN_OK);
    stock_close(&other);
    sale_cache_close(&cache);
    cache = mine;
    assert_int_equal(sale_snapshot(sale_cache_find(cache, "s")).round, 1);
    not_ended_yet();
    assert_int_equal(cancel(old), STOCK_STATE_OK);
    assert_int_equal(sale_snapshot(sale_cache_find(cache, "s")).round, 2);
    assert_int_equal(sell_out(), 8);
    audit(8);
}

/* The process that sold the order, and the reset before it, are not heard of here. */
static void test_cancel_of_a_later_round_makes_that_round_known(void **state)
{
    (void)state;
    reset(10, 2);
    struct sale_cache *mine = cache;
    struct stock *this = stock;
    cache = sale_cache_open();
    stock = open_stock(sql_server_url());
    reset(8, 1);
    uint64_t later = buy(3);
    stock_close(&stock);
    sale_cache_close(&cache);
    stock = this;
    cache = mine;
    assert_int_equal(sale_snapshot(sale_cache_find(cache, "s")).round, 1);
    assert_int_equal(cancel(later), STOCK_STATE_OK);
    assert_int_equal(sale_snapshot(sale_cache_find(cache, "s")).round, 2);
    assert_int_equal(sell_out(), 8);
    audit(8);
}

/* Else the other processes go on calling the sale sold out. */
static void test_return_is_published(void **state)
{
    (void)state;
    char message[IDENTIFIER_SIZE];
    reset(2, 1);
    uint64_t first = buy(1), second = buy(1);
    struct redis *redis = redis_server_open(REDIS_SERVER_MS);
    assert_int_equal(redis_subscribe(redis, STOCK_CHANNEL), REDIS_ANSWERED);
    assert_int_equal(cancel(first), STOCK_STATE_OK);
    assert_int_equal(redis_server_message(redis, 1000, message, sizeof message), REDIS_ANSWERED);
    assert_string_equal(message, "s");
    sql_server_do("UPDATE orders SET expires_at='2020-01-01' WHERE status='reserved';"
                  "INSERT INTO order_expiry VALUES('2020-01-01',%llu,%llu)",
                  (unsigned long long)second, (unsigned long long)second);
    struct ledger_due_cursor place = {.more = false};
    struct stock_expired expired;
    assert_int_equal(stock_expire(stock, &place, &expired), LEDGER_OK);
    assert_int_equal(expired.count, 1);
    assert_int_equal(redis_server_message(redis, 1000, message, sizeof message), REDIS_ANSWERED);
    redis_close(&redis);
}

/* Others have cancelled the order since it was read, and retired the sale. */
static void test_cancel_that_finds_its_sale_retired_looks_again(void **state)
{
    struct return_order order = {.sku = "s", .round = 1, .qty = 1};
    struct ledger_sale sale;
    struct ledger_held held;
    (void)state;
    reset(6, 2);
    order.order_id = buy(1);
    assert_int_equal(cancel(order.order_id), STOCK_STATE_OK);
    stock_flush(stock);
    assert_int_equal(stock_retire(stock, "s", false, WAIT_MS, &sale, &held), STOCK_ADMIN_OK);
    assert_false(returns_end(stock, &order, 1, LEDGER_CANCELLED).committed);
    assert_int_equal(order.result, STOCK_STATE_BUSY);
}

static void test_cancel_of_what_is_too_late_to_pay(void **state)
{
    (void)state;
    reset(4, 2);
    uint64_t late = buy(3);
    sql_server_do("UPDATE orders SET expires_at='2020-01-01'");
    assert_int_equal(pay(late), STOCK_STATE_REFUSED);
    assert_string_equal(record.status, "reserved");
    assert_int_equal(cancel(late), STOCK_STATE_OK);
    assert_int_equal(sell_out(), 4);
    audit(4);
}

/* ---- payments that end ---- */

static enum stock_state_result with_ref(void (*call)(struct stock *, struct stock_status_change *,
                                                     size_t, int),
                                        uint64_t id, const char *ref, uint32_t keep)
{
    struct stock_status_change change = {
        .record.order_id = id, .payment.ref = ref, .keep = keep, .restock = true};
    call(stock, &change, 1, WAIT_MS);
    return one_of(&change);
}

/* Somebody holds the row of a payment of an order whose sale was retired. */
static void test_held_row_of_a_retired_sale_is_told_with_its_sku(void **state)
{
    struct sql_rival rival = {.db = sql_server_open(sql_server_url())};
    struct return_order order = {.sku = "s", .round = 1, .qty = 1, .payment_ref = "p"};
    struct ledger_sale sale;
    struct ledger_held held;
    (void)state;
    reset(6, 2);
    order.order_id = buy(1);
    assert_int_equal(with_ref(stock_pay, order.order_id, "p", 0), STOCK_STATE_OK);
    stock_flush(stock);
    assert_int_equal(stock_retire(stock, "s", false, WAIT_MS, &sale, &held), STOCK_ADMIN_OK);
    assert_int_equal(sql_rival_query(&rival, "START TRANSACTION;SELECT 1 FROM payment FOR UPDATE"),
                     DB_OK);
    returns_end(stock, &order, 1, LEDGER_REFUNDED);
    assert_int_equal(order.result, STOCK_STATE_FAILED);
    assert_string_equal(stock_held(stock)->sku, "s");
    assert_int_equal(sql_rival_query(&rival, "ROLLBACK"), DB_OK);
    db_close(&rival.db);
    returns_end(stock, &order, 1, LEDGER_REFUNDED);
    assert_int_equal(order.result, STOCK_STATE_OK);
}

static void test_order_stays_paid_by_its_other_payment(void **state)
{
    (void)state;
    reset(6, 2);
    uint64_t id = buy(3);
    assert_int_equal(with_ref(stock_pay, id, "a", 0), STOCK_STATE_OK);
    assert_int_equal(with_ref(stock_pay, id, "b", 0), STOCK_STATE_REFUSED);
    assert_int_equal(with_ref(stock_refund, id, "a", 0), STOCK_STATE_OK);
    assert_string_equal(record.status, "paid");
    assert_false(moved);
    audit(3);
    assert_int_equal(with_ref(stock_pay, id, "c", 0), STOCK_STATE_REFUSED);
    /* In one call: what is due pays the order before its refund, which is to be tried again. */
    struct stock_status_change changes[] = {
        {.record.order_id = id, .payment.ref = "c", .restock = true},
        {.record.order_id = id, .payment.ref = "b", .restock = true}};
    stock_refund(stock, changes, 2, WAIT_MS);
    assert_int_equal(changes[0].result, STOCK_STATE_BUSY);
    assert_int_equal(changes[1].result, STOCK_STATE_OK);
    stock_refund(stock, changes, 1, WAIT_MS);
    assert_int_equal(changes[0].result, STOCK_STATE_OK);
    assert_int_equal(sql_server_do("SELECT COUNT(*)FROM payment WHERE state='refunded'"), 3);
    assert_int_equal(sql_server_do("SELECT COUNT(*)FROM orders WHERE status='refunded'"), 1);
    audit(0);
}

static void test_order_whose_payment_failed_keeps_its_units(void **state)
{
    (void)state;
    reset(6, 2);
    uint64_t id = buy(3);
    assert_int_equal(with_ref(stock_unpay, id, "a", 0), STOCK_STATE_NO_PAYMENT);
    assert_int_equal(with_ref(stock_pay, id, "a", 0), STOCK_STATE_OK);
    assert_int_equal(with_ref(stock_unpay, id, "a", 0), STOCK_STATE_OK);
    assert_true(moved);
    assert_string_equal(record.status, "reserved");
    assert_int_equal(with_ref(stock_unpay, id, "a", 0), STOCK_STATE_OK);
    assert_false(moved);
    assert_int_equal(with_ref(stock_pay, id, "a", 0), STOCK_STATE_REFUSED);
    assert_int_equal(with_ref(stock_refund, id, "a", 0), STOCK_STATE_REFUSED);
    audit(3);
    assert_int_equal(with_ref(stock_pay, id, "b", 0), STOCK_STATE_OK);
    reset(6, 2); /* in the next round it stays paid */
    assert_int_equal(with_ref(stock_unpay, id, "b", 0), STOCK_STATE_REFUSED);
    assert_string_equal(record.status, "paid");
}

static void test_order_keeps_no_more_than_it_had(void **state)
{
    (void)state;
    reset(6, 2);
    uint64_t id = buy(3);
    assert_int_equal(with_ref(stock_cancel, id, "", 4), STOCK_STATE_KEEP_LIMIT);
    assert_int_equal(with_ref(stock_cancel, id, "", 2), STOCK_STATE_OK);
    assert_int_equal(with_ref(stock_cancel, id, "", 3), STOCK_STATE_OK); /* a late repeat */
    assert_int_equal(record.qty, 2);
    assert_int_equal(with_ref(stock_cancel, id, "", 4), STOCK_STATE_KEEP_LIMIT);
    audit(2);
}

/* ---- expiring ---- */

static void set_settings(uint32_t pay_within_s)
{
    struct sale *sale = NULL;
    sql_server_do("UPDATE sale SET settings_version=settings_version+1,pay_within_s=%u;"
                  "UPDATE stock_segment SET settings_version=settings_version+1",
                  pay_within_s);
    assert_int_equal(stock_sale_reload(stock, "s", &sale), LEDGER_OK);
}

/* Expires until a pass finds nothing more behind it. */
static struct stock_expired expire_telling(void)
{
    struct ledger_due_cursor place = {.more = false};
    struct stock_expired all = {0}, some;
    do {
        assert_int_equal(stock_expire(stock, &place, &some), LEDGER_OK);
        all.count += some.count;
        all.awaited += some.awaited;
    } while (place.more);
    return all;
}

static size_t expire(void)
{
    return expire_telling().count;
}

static void age_all(void)
{
    sql_server_do("UPDATE order_expiry SET expires_at='2020-01-01';"
                  "UPDATE orders SET expires_at='2020-01-01' WHERE expires_at IS NOT NULL");
}

static void test_expired_order_is_cancelled_for_good(void **state)
{
    (void)state;
    reset(6, 2);
    set_settings(90);
    uint64_t id = buy(3);
    age_all();
    assert_int_equal(expire(), 1);
    assert_int_equal(cancel(id), STOCK_STATE_OK);
    assert_true(moved);
    assert_string_equal(record.status, "cancelled");
    assert_int_equal(with_ref(stock_pay, id, "late", 0), STOCK_STATE_REFUSED);
    assert_int_equal(sql_server_do("SELECT COUNT(*)FROM refund_due"), 1);
    assert_int_equal(sell_out(), 6);
    audit(6);
}

static void test_orders_get_their_time_from_the_settings(void **state)
{
    (void)state;
    reset(50, 2);
    uint64_t lasting = buy(1);
    set_settings(90);
    uint64_t expiring = buy(1);
    struct stock_order many[40], *orders[40];
    for (int i = 0; i < 40; i++) { /* enough for a prepared statement */
        many[i] = (struct stock_order){.sku = "s", .user_id = "u", .qty = 1};
        many[i].order_id = ++last_id;
        many[i].created_ms = 1790000000123 + i;
        orders[i] = &many[i];
    }
    do
        stock_sell(stock, orders, 40);
    while (many[0].outcome == STOCK_AGAIN);
    for (int i = 0; i < 40; i++)
        assert_int_equal(many[i].outcome, STOCK_ACCEPTED);
    assert_string_equal(many[39].created_at, "2026-09-21T14:13:20.162Z");
    assert_string_equal(many[39].expires_at, "2026-09-21T14:14:50.162Z");
    sql_order_find(stock_ledger(stock), many[39].order_id, &record);
    assert_string_equal(record.expires_at, many[39].expires_at);
    sql_order_find(stock_ledger(stock), expiring, &record);
    assert_string_equal(record.expires_at, "2026-09-21T14:14:50.123Z");
    sql_order_find(stock_ledger(stock), lasting, &record);
    assert_string_equal(record.expires_at, "");
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM order_expiry e JOIN orders o ON "
                                   "e.expires_at=o.expires_at AND order_id BETWEEN first_id AND "
                                   "last_id"),
                     41);
    audit(42);
}

static void test_unpaid_orders_expire_and_are_sold_again(void **state)
{
    (void)state;
    reset(20, 4);
    set_settings(YEARS_S);
    uint64_t paid = buy(1), cancelled = buy(2), several = buy(7);
    sell_out();
    assert_int_equal(pay(paid), STOCK_STATE_OK);
    assert_int_equal(cancel(cancelled), STOCK_STATE_OK);
    sql_server_do("UPDATE orders SET expires_at=NULL WHERE order_id=%llu",
                  (unsigned long long)last_id);
    age_all();
    size_t reserved = (size_t)sql_server_do("SELECT COUNT(*) FROM orders WHERE status='reserved'"
                                            " AND expires_at IS NOT NULL");
    size_t expired = 0;
    for (int i = 0; i < 10 && expired < reserved; i++)
        expired += expire();
    assert_int_equal(expired, reserved);
    assert_int_equal(expire(), 0);
    sql_order_find(stock_ledger(stock), several, &record);
    assert_string_equal(record.status, "expired");
    assert_int_equal(pay(several), STOCK_STATE_REFUSED);
    audit((uint32_t)sql_server_do("SELECT COUNT(*) FROM orders WHERE status"
                                  " IN('reserved','paid')"));
    sell_out();
    audit(20);
}

static void test_expired_units_are_awaited_where_there_are_none_left(void **state)
{
    (void)state;
    reset(20, 4);
    set_settings(YEARS_S);
    sell_out();
    age_all();
    struct stock_expired all = expire_telling();
    assert_int_equal(all.count, 20);
    assert_int_equal(all.awaited, 20);
    reset(8000, 4);
    set_settings(YEARS_S);
    for (int i = 0; i < 20; i++)
        buy(1);
    age_all();
    all = expire_telling();
    assert_int_equal(all.count, 20);
    assert_int_equal(all.awaited, 0);
}

static void test_orders_of_older_rounds_expire_as_well(void **state)
{
    (void)state;
    reset(20, 4);
    set_settings(YEARS_S);
    sell_out();
    reset(6, 2);
    not_ended_yet();
    set_settings(YEARS_S);
    sell_out();
    age_all();
    assert_int_equal(expire(), 26);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM orders WHERE status='expired'"), 26);
    assert_int_equal(sell_out(), 6);
    audit(6);
}

static void test_held_segment_keeps_no_more_orders_from_expiring_than_it_has_sold(void **state)
{
    (void)state;
    reset(8, 2);
    set_settings(YEARS_S);
    sell_out();
    age_all();
    lock_and_die(60000, false);
    expire();
    expire();
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM orders WHERE status='expired'"), 4);
    assert_int_equal(sql_server_do("SELECT sold FROM stock_segment WHERE segment=1"), 0);
    redis_server_do("DEL seckill:{s:0}:lock");
    expire();
    audit(0);
}

/* As it is when the sale's only segment is sold from: hardly ever free. */
static void test_segment_that_is_busy_is_tried_again(void **state)
{
    (void)state;
    static const uint32_t segments[] = {1, 2};
    for (size_t i = 0; i < 2; i++) {
        reset(3, segments[i]);
        set_settings(YEARS_S);
        assert_true(buy(3) != 0); /* of the one, or of both */
        age_all();
        lock_and_die(20, false);
        size_t expired = expire();
        for (int pass = 0; pass < 100 && expired == 0; pass++)
            expired = expire();
        assert_int_equal(expired, 1);
        audit(0);
    }
}

static void test_more_orders_than_one_pass_looks_at(void **state)
{
    (void)state;
    reset(8000, 8);
    sql_server_do("INSERT INTO orders(order_id,sku,round,user_id,qty,segment,created_at,"
                  "expires_at)SELECT 1000000+seq,'s',1,'u',1,seq%%8,'2020-01-01','2020-01-01' "
                  "FROM " SQL_NUMBERS ";INSERT INTO order_expiry VALUES('2020-01-01',1000001,"
                  "1008000);UPDATE stock_segment SET sold=1000",
                  8000);
    size_t expired = 0;
    for (int i = 0; i < 10 && expired < 8000; i++)
        expired += expire();
    assert_int_equal(expired, 8000);
    audit(0);
}

/* ---- segments that are held, dirty, missing or behind ---- */

static void test_cancel_waits_for_a_segment_that_is_held(void **state)
{
    (void)state;
    reset(5, 1);
    uint64_t first = buy(2);
    lock_and_die(LEASE_MS, true);
    assert_int_equal(cancel(first), STOCK_STATE_OK);
    assert_int_equal(sell_out(), 5);
    audit(5);
}

static void test_cancel_gives_up_on_a_segment_that_stays_held(void **state)
{
    (void)state;
    reset(6, 2);
    uint64_t several = buy(5);
    lock_and_die(60000, false);
    assert_int_equal(cancel_within(several, 50), STOCK_STATE_BUSY);
    assert_false(moved);
    assert_string_equal(record.status, "reserved");
    assert_int_equal(redis_server_do("EXISTS seckill:{s:1}:lock"), 0);
    redis_server_do("DEL seckill:{s:0}:lock");
    audit(5);
}

static void test_cancel_with_an_empty_redis(void **state)
{
    (void)state;
    reset(6, 2);
    uint64_t several = buy(5);
    redis_server_do("FLUSHALL");
    assert_int_equal(cancel(several), STOCK_STATE_OK);
    assert_int_equal(sell_out(), 6);
    audit(6);
}

static void test_cancel_when_redis_is_behind_in_fences(void **state)
{
    (void)state;
    reset(6, 2);
    uint64_t several = buy(5);
    sql_server_do("UPDATE stock_segment SET fence=fence+3600000000");
    assert_int_equal(cancel(several), STOCK_STATE_OK);
    assert_int_equal(sell_out(), 6);
    audit(6);
}

/* The first return of each segment is refused and begins anew. */
static void test_orders_are_counted_when_they_expire_and_not_before(void **state)
{
    (void)state;
    reset(8, 2);
    set_settings(YEARS_S);
    sell_out();
    age_all();
    sql_server_do("UPDATE stock_segment SET fence=fence+3600000000");
    size_t expired = 0;
    for (int i = 0; i < 10 && sql_server_do("SELECT SUM(sold) FROM stock_segment") > 0; i++)
        expired += expire();
    assert_int_equal(expired, 8);
    audit(0);
}

static void test_return_that_redis_never_heard_of_is_found(void **state)
{
    (void)state;
    reset(3, 1);
    uint64_t first = buy(2);
    assert_int_equal(buy(1) != 0, true);
    assert_int_equal(buy(1), 0);
    int64_t settled = redis_server_do("HGET seckill:{s:0}:segment settled");
    assert_int_equal(cancel(first), STOCK_STATE_OK);
    redis_server_do("HSET seckill:{s:0}:segment available 0 open '' settled %lld",
                    (long long)settled);
    assert_int_equal(sell_out(), 2);
    audit(3);
}

/* The same where Redis knows of some units, and not of enough. */
static void test_segment_that_knows_too_few_units_is_recovered(void **state)
{
    (void)state;
    for (uint32_t segments = 1; segments <= 2; segments++) {
        reset(5 * segments, segments);
        uint64_t first = buy(2);
        uint32_t of = (uint32_t)sql_server_do("SELECT segment FROM stock_segment WHERE sold=2");
        int64_t settled = redis_server_do("HGET seckill:{s:%u}:segment settled", of);
        assert_int_equal(cancel(first), STOCK_STATE_OK);
        redis_server_do("HSET seckill:{s:%u}:segment available 3 open '' settled %lld", of,
                        (long long)settled);
        sale_hint_set(sale_cache_find(cache, "s"), of, 3);
        assert_true(buy(5 * segments) != 0);
        audit(5 * segments);
    }
}

/* Units that went astray at the fence at which the segment is settled. */
static void test_segment_that_lost_some_units_is_recovered(void **state)
{
    (void)state;
    reset(10, 2);
    assert_true(buy(1) != 0);
    redis_server_do("HINCRBY seckill:{s:0}:segment available -2");
    redis_server_do("HINCRBY seckill:{s:1}:segment available -1");
    assert_true(buy(9) != 0);
    audit(10);
}

/* The ledger was put back to an earlier state, and Redis is settled after it. */
static void test_segment_ahead_of_the_ledger_is_recovered(void **state)
{
    (void)state;
    reset(5, 1);
    sell_out();
    sql_server_do("DELETE FROM orders;UPDATE stock_segment SET sold=0,fence=fence-10");
    assert_int_equal(sell_out(), 5);
    audit(5);
}

/* Nothing differs, and so nothing is to be recovered, when others have sold the units since the
 * ledger was asked. */
static void test_segment_that_was_sold_from_since_is_not_recovered(void **state)
{
    (void)state;
    reset(5, 1);
    struct sale *sale = sale_cache_find(cache, "s");
    uint64_t fence = (uint64_t)sql_server_do("SELECT fence FROM stock_segment");
    assert_true(buy(2) != 0);
    sale_hint_set(sale, 0, 5);
    sale_suspect(sale, 0, fence, 5);
    struct stock_stats before = stock_stats(stock);
    assert_int_equal(buy(5), 0);
    sale_suspect(sale, 0, fence, 5); /* another worker had asked at that time, too */
    assert_int_equal(sell_out(), 3);
    assert_int_equal(stock_stats(stock).recoveries, before.recoveries);
    audit(5);
}

static void *sell_once(void *order)
{
    struct stock_order *orders[] = {order};
    stock_sell(stock, orders, 1);
    return NULL;
}

static void test_fence_that_is_seen_while_the_ledger_is_asked(void **state)
{
    static const char lock[] = "LOCK TABLES stock_segment WRITE";
    (void)state;
    reset(5, 1);
    assert_true(buy(2) != 0);
    struct sale *sale = sale_cache_find(cache, "s");
    uint64_t fence = (uint64_t)sql_server_do("SELECT fence FROM stock_segment");
    sql_server_do("UPDATE stock_segment SET sold=0,fence=fence-10"); /* an old answer */
    struct stock_order one = {
        .sku = "s", .user_id = "u", .qty = 5, .order_id = ++last_id, .created_ms = 1790000000123};
    struct db *other = sql_server_open(sql_server_url());
    pthread_t thread;
    assert_int_equal(db_query(other, lock, strlen(lock)), DB_OK);
    assert_int_equal(pthread_create(&thread, NULL, sell_once, &one), 0);
    while (sql_server_do("SELECT COUNT(*) FROM information_schema.processlist WHERE db=DATABASE()"
                         " AND state LIKE 'Waiting for table%%lock'") == 0)
        clock_sleep_ns(CLOCK_NS_PER_MS);
    sale_suspect_later(sale, 0, fence);
    db_close(&other);
    pthread_join(thread, NULL);
    assert_int_equal(one.outcome, STOCK_AGAIN);
    assert_int_equal(sale_suspect_least(sale, 0), fence);
    stock_order_clear(&one);
    assert_int_equal(sell_out(), 5); /* the next answer counts */
    sql_server_do("DELETE FROM orders ORDER BY order_id LIMIT 1");
    audit(5);
}

/* One worker has planned with an old hint, another one has asked the ledger since. */
static void test_segment_with_fewer_units_than_wanted_is_not_recovered(void **state)
{
    (void)state;
    reset(5, 1);
    struct sale *sale = sale_cache_find(cache, "s");
    assert_true(buy(2) != 0);
    uint64_t fence = (uint64_t)sql_server_do("SELECT fence FROM stock_segment");
    sale_hint_set(sale, 0, 5);
    sale_suspect(sale, 0, fence, 3);
    struct stock_stats before = stock_stats(stock);
    assert_int_equal(buy(5), 0);
    assert_int_equal(stock_stats(stock).recoveries, before.recoveries);
    audit(2);
}

/* As after a death between the commit and the load. */
static void test_return_that_broke_off_leaves_its_segments_dirty(void **state)
{
    (void)state;
    struct sql_wire wire;
    reset(6, 2);
    uint64_t several = buy(5);
    sell_out();
    struct stock *direct = stock;
    sql_wire_open(&wire);
    stock = open_stock(wire.url);
    assert_int_equal(ledger_ping(stock_ledger(stock)), LEDGER_OK);
    atomic_store(&wire.fault, WIRE_LOSES_ANSWER);
    wire.server_port = 0;
    assert_int_equal(cancel_within(several, 0), STOCK_STATE_IN_DOUBT);
    stock_close(&stock);
    sql_wire_close(&wire);
    stock = direct;
    assert_int_equal(count_open(2), 2);
    assert_int_equal(sell_out(), 5);
    audit(6);
}

static void test_return_of_nothing_leaves_its_segments_as_they_were(void **state)
{
    (void)state;
    struct return_order order = {.sku = "s", .round = 1, .qty = 8}; /* so that all are locked */
    reset(8, 4);
    order.order_id = buy(1);
    redis_server_do("HSET seckill:{s:2}:segment open somebody");
    redis_server_do("DEL seckill:{s:3}:segment");
    struct returns returns = returns_end(stock, &order, 1, LEDGER_EXPIRED);
    assert_int_equal(returns.moved, 0);
    assert_int_equal(order.result, STOCK_STATE_BUSY);
    assert_int_equal(count_open(4), 1);
    assert_int_equal(redis_server_do("EXISTS seckill:{s:0}:lock seckill:{s:1}:lock"
                                     " seckill:{s:2}:lock seckill:{s:3}:lock"),
                     0);
    assert_int_equal(count_differences(), 2); /* the one that was dirty, and the missing one */
}

static void run_over_wire(int fault, uint32_t pays)
{
    struct sql_wire wire;
    reset(6, 2);
    uint64_t several = buy(5);
    sell_out();
    struct stock *direct = stock;
    sql_wire_open(&wire);
    stock = open_stock(wire.url);
    assert_int_equal(ledger_ping(stock_ledger(stock)), LEDGER_OK);
    atomic_store(&wire.fault, fault);
    assert_int_equal(pays > 0 ? pay(several) : cancel(several), STOCK_STATE_OK);
    assert_true(moved);
    assert_string_equal(record.status, pays > 0 ? "paid" : "cancelled");
    assert_int_equal(sale_known_short(sale_cache_find(cache, "s"), 1, 0), pays > 0);
    stock_close(&stock);
    sql_wire_close(&wire);
    stock = direct;
    assert_int_equal(sell_out(), pays > 0 ? 0 : 5);
    audit(6);
}

static void test_commit_of_a_cancel_is_lost(void **state)
{
    (void)state;
    run_over_wire(WIRE_LOSES_COMMIT, 0);
}

static void test_answer_to_the_commit_of_a_cancel_is_lost(void **state)
{
    (void)state;
    run_over_wire(WIRE_LOSES_ANSWER, 0);
}

static void test_commit_of_a_payment_is_lost(void **state)
{
    (void)state;
    run_over_wire(WIRE_LOSES_COMMIT, 5);
}

static void test_answer_to_the_commit_of_a_payment_is_lost(void **state)
{
    (void)state;
    run_over_wire(WIRE_LOSES_ANSWER, 5);
}

static void test_ledger_that_stays_away_leaves_it_in_doubt(void **state)
{
    (void)state;
    struct sql_wire wire;
    reset(6, 2);
    uint64_t several = buy(5);
    struct stock *direct = stock;
    sql_wire_open(&wire);
    stock = open_stock(wire.url);
    assert_int_equal(ledger_ping(stock_ledger(stock)), LEDGER_OK);
    atomic_store(&wire.fault, WIRE_LOSES_ANSWER);
    wire.server_port = 0;
    assert_int_equal(cancel_within(several, 300), STOCK_STATE_IN_DOUBT);
    assert_int_equal(cancel_within(several, 300), STOCK_STATE_FAILED);
    assert_int_equal(pay(several), STOCK_STATE_FAILED);
    stock_close(&stock);
    sql_wire_close(&wire);
    stock = direct;
    assert_int_equal(sell_out(), 6);
    audit(6);
}

/* ---- many orders at once ---- */

static struct stock_status_change changes[STOCK_CHANGES_MAX];

static size_t count_results(size_t count, enum stock_state_result result, bool moved_only)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += changes[i].result == result && (changes[i].moved || !moved_only);
    return found;
}

/* Cancels until no order waits for its turn; returns how many have moved. */
static size_t cancel_all(size_t count)
{
    size_t all_moved = 0;
    for (int turn = 0; turn < 50; turn++) {
        stock_cancel(stock, changes, count, WAIT_MS);
        all_moved += count_results(count, STOCK_STATE_OK, true);
        if (count_results(count, STOCK_STATE_BUSY, false) == 0)
            break;
    }
    return all_moved;
}

/* Orders of every kind: of many segments and of several at once, cancelled, paid and unknown ones,
 * and each of them twice. */
static void test_many_cancels_end_as_each_by_itself(void **state)
{
    (void)state;
    enum { SINGLE = 60, ALL = 2 * (SINGLE + 6) };
    uint64_t ids[ALL / 2];
    reset(10, 5);
    ids[0] = buy(2);
    ids[1] = buy(7); /* of an older round, from now on */
    reset(200, 8);
    not_ended_yet();
    for (size_t i = 2; i < SINGLE + 2; i++)
        ids[i] = buy(1 + (uint32_t)i % 3);
    ids[SINGLE + 2] = buy(60);
    ids[SINGLE + 3] = buy(3);
    ids[SINGLE + 4] = buy(1);
    ids[SINGLE + 5] = 99999999;
    assert_int_equal(cancel(ids[SINGLE + 3]), STOCK_STATE_OK);
    assert_int_equal(pay(ids[SINGLE + 4]), STOCK_STATE_OK);
    for (size_t i = 0; i < ALL; i++)
        changes[i].record.order_id = ids[i % (ALL / 2)];
    assert_int_equal(cancel_all(ALL), SINGLE + 3);
    assert_int_equal(count_results(ALL, STOCK_STATE_OK, false), 2 * (SINGLE + 4));
    assert_int_equal(count_results(ALL, STOCK_STATE_REFUSED, false), 2);
    assert_int_equal(count_results(ALL, STOCK_STATE_NO_ORDER, false), 2);
    assert_string_equal(changes[SINGLE + 2].record.status, "cancelled");
    audit(1);
    assert_int_equal(sell_out(), 199);
    audit(200);
}

static void test_held_segment_keeps_no_more_orders_waiting_than_it_has_sold(void **state)
{
    (void)state;
    reset(40, 4);
    for (size_t i = 0; i < 40; i++)
        changes[i].record.order_id = buy(1);
    lock_and_die(60000, false);
    stock_cancel(stock, changes, 40, 50);
    for (int turn = 0; turn < 100 && count_results(40, STOCK_STATE_OK, false) < 30; turn++)
        stock_cancel(stock, changes, 40, 50);
    assert_int_equal(count_results(40, STOCK_STATE_BUSY, false), 10);
    assert_int_equal(count_results(40, STOCK_STATE_OK, false), 30);
    redis_server_do("DEL seckill:{s:0}:lock");
    assert_int_equal(cancel_all(40), 10);
    audit(0);
}

/* The answer to one of several transactions is lost: its orders are looked up again. */
static void test_many_cancels_over_a_line_that_breaks(void **state)
{
    (void)state;
    struct sql_wire wire;
    reset(40, 4);
    for (size_t i = 0; i < 40; i++)
        changes[i].record.order_id = buy(1);
    struct stock *direct = stock;
    sql_wire_open(&wire);
    stock = open_stock(wire.url);
    assert_int_equal(ledger_ping(stock_ledger(stock)), LEDGER_OK);
    atomic_store(&wire.fault, WIRE_LOSES_ANSWER);
    assert_int_equal(cancel_all(40), 40);
    stock_close(&stock);
    sql_wire_close(&wire);
    stock = direct;
    audit(0);
}

/* ---- races ---- */

struct racer {
    pthread_t thread;
    struct stock *stock;
    bool pays;
    uint64_t from, to;
    int moved;
    int undecided;
};

static void *race(void *context)
{
    struct racer *racer = context;
    for (uint64_t id = racer->from; id <= racer->to; id++) {
        struct stock_status_change change = {.record.order_id = id};
        (racer->pays ? stock_pay : stock_cancel)(racer->stock, &change, 1, 30000);
        racer->moved += change.moved;
        racer->undecided += change.result != STOCK_STATE_REFUSED && change.result != STOCK_STATE_OK;
    }
    return NULL;
}

/* Each racer but the first cancels. */
static void race_for_orders(void *(*run)(void *context), uint32_t segments)
{
    struct racer racers[RACERS];
    enum { ORDERS = 60 };
    reset(200, segments);
    uint64_t from = last_id + 1;
    for (int i = 0; i < ORDERS; i++)
        buy(1 + (uint32_t)i % 3);
    for (int i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){.stock = open_stock(sql_server_url()),
                                   .pays = i == 0,
                                   .from = from,
                                   .to = from + ORDERS - 1};
        pthread_create(&racers[i].thread, NULL, run, &racers[i]);
    }
    int all = 0, paid = 0;
    for (int i = 0; i < RACERS; i++) {
        pthread_join(racers[i].thread, NULL);
        stock_close(&racers[i].stock);
        assert_int_equal(racers[i].undecided, 0);
        all += racers[i].moved;
        paid += racers[i].pays ? racers[i].moved : 0;
    }
    assert_int_equal(all, ORDERS);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM orders WHERE status='paid'"), paid);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM orders WHERE status='cancelled'"),
                     ORDERS - paid);
    audit((uint32_t)sql_server_do("SELECT COALESCE(SUM(qty),0) FROM orders WHERE status='paid'"));
}

static void test_each_order_moves_once_whoever_races(void **state)
{
    (void)state;
    race_for_orders(race, 3);
}

/* The same with all orders in each call, which the racers go through in different orders. */
static void *race_with_all(void *context)
{
    struct racer *racer = context;
    size_t count = racer->to - racer->from + 1;
    struct stock_status_change *mine = calloc(count, sizeof *mine);
    racer->undecided = 1;
    for (int turn = 0; turn < 2000 && racer->undecided > 0; turn++) {
        for (size_t i = 0; i < count; i++)
            mine[i].record.order_id = racer->from + (i * 7 + (size_t)turn) % count;
        (racer->pays ? stock_pay : stock_cancel)(racer->stock, mine, count, 50);
        racer->undecided = 0;
        for (size_t i = 0; i < count; i++) {
            racer->moved += mine[i].moved;
            racer->undecided += mine[i].result == STOCK_STATE_BUSY;
            assert_true(mine[i].result == STOCK_STATE_BUSY || mine[i].result == STOCK_STATE_OK ||
                        mine[i].result == STOCK_STATE_REFUSED);
        }
    }
    free(mine);
    return NULL;
}

static void test_each_of_many_orders_moves_once_whoever_races(void **state)
{
    (void)state;
    race_for_orders(race_with_all, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_cancelled_units_are_sold_again_at_once),
        TEST(test_repeats_are_harmless_and_others_refused),
        TEST(test_decision_of_others_is_on_the_disk_when_a_cancel_is_answered),
        TEST(test_order_of_several_segments_gives_all_of_it_back),
        TEST(test_units_come_back_elsewhere_while_their_segment_is_held),
        TEST(test_units_come_back_though_the_hints_are_wrong),
        TEST(test_order_of_an_older_round_gives_nothing_back),
        TEST(test_reset_that_this_process_has_missed_is_noticed),
        TEST(test_cancel_of_a_later_round_makes_that_round_known),
        TEST(test_return_is_published),
        TEST(test_cancel_that_finds_its_sale_retired_looks_again),
        TEST(test_cancel_of_what_is_too_late_to_pay),
        TEST(test_held_row_of_a_retired_sale_is_told_with_its_sku),
        TEST(test_order_stays_paid_by_its_other_payment),
        TEST(test_order_whose_payment_failed_keeps_its_units),
        TEST(test_order_keeps_no_more_than_it_had),
        TEST(test_expired_order_is_cancelled_for_good),
        TEST(test_orders_get_their_time_from_the_settings),
        TEST(test_unpaid_orders_expire_and_are_sold_again),
        TEST(test_expired_units_are_awaited_where_there_are_none_left),
        TEST(test_orders_of_older_rounds_expire_as_well),
        TEST(test_held_segment_keeps_no_more_orders_from_expiring_than_it_has_sold),
        TEST(test_segment_that_is_busy_is_tried_again),
        TEST(test_more_orders_than_one_pass_looks_at),
        TEST(test_cancel_waits_for_a_segment_that_is_held),
        TEST(test_cancel_gives_up_on_a_segment_that_stays_held),
        TEST(test_cancel_with_an_empty_redis),
        TEST(test_cancel_when_redis_is_behind_in_fences),
        TEST(test_orders_are_counted_when_they_expire_and_not_before),
        TEST(test_return_that_redis_never_heard_of_is_found),
        TEST(test_segment_that_knows_too_few_units_is_recovered),
        TEST(test_segment_that_lost_some_units_is_recovered),
        TEST(test_segment_ahead_of_the_ledger_is_recovered),
        TEST(test_segment_that_was_sold_from_since_is_not_recovered),
        TEST(test_fence_that_is_seen_while_the_ledger_is_asked),
        TEST(test_segment_with_fewer_units_than_wanted_is_not_recovered),
        TEST(test_return_that_broke_off_leaves_its_segments_dirty),
        TEST(test_return_of_nothing_leaves_its_segments_as_they_were),
        TEST(test_commit_of_a_cancel_is_lost),
        TEST(test_answer_to_the_commit_of_a_cancel_is_lost),
        TEST(test_commit_of_a_payment_is_lost),
        TEST(test_answer_to_the_commit_of_a_payment_is_lost),
        TEST(test_ledger_that_stays_away_leaves_it_in_doubt),
        TEST(test_many_cancels_end_as_each_by_itself),
        TEST(test_held_segment_keeps_no_more_orders_waiting_than_it_has_sold),
        TEST(test_many_cancels_over_a_line_that_breaks),
        TEST(test_each_order_moves_once_whoever_races),
        TEST(test_each_of_many_orders_moves_once_whoever_races),
    };
    return cmocka_run_group_tests(tests, start_group, NULL);
}
