/* Accepted orders: every transition of a status, and the units that come back. */
#include "base/fault.h"
#include "sql/ledger/ledger_query.h"
#include "sql/payments/payments.h"
#include "sql/sales/sales.h"
#include "sql/server/server.h"
#include "sql/test_server.h"

enum { FENCE = 1000 };

static const char *const words[] = {"reserved", "paid", "cancelled", "expired"};
static const char past[] = "2020-01-01 00:00:00.000", future[] = "2100-01-01 00:00:00.000";

static struct ledger *ledger;
static struct ledger_record record;

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

/* Each test begins with a sale "s" of 3 segments, 10 units each, 5 of them sold, at fence 1000. */
static int start(void **state)
{
    (void)state;
    sql_server_empty();
    sql_server_do("INSERT INTO sale(sku,round,total,segments)VALUES('s',1,30,3);"
                  "INSERT INTO stock_segment(sku,segment,round,capacity,sold,fence)VALUES"
                  "('s',0,1,10,5,1000),('s',1,1,10,5,1000),('s',2,1,10,5,1000)");
    return 0;
}

/* `expires`: NULL for never. */
static void insert(uint64_t id, uint32_t qty, int segment, const char *status, const char *expires)
{
    char quoted[64] = "NULL";
    if (expires)
        snprintf(quoted, sizeof quoted, "'%s'", expires);
    sql_server_do("INSERT INTO orders(order_id,sku,round,user_id,qty,segment,status,created_at,"
                  "expires_at)VALUES(%llu,'s',1,'u',%u,%d,'%s','2020-01-01',%s)",
                  (unsigned long long)id, qty, segment, status, quoted);
    if (expires)
        sql_server_do("INSERT INTO order_expiry VALUES(%s,%llu,%llu)", quoted,
                      (unsigned long long)id, (unsigned long long)id);
}

/* Counts the due orders, all of which must fit; ranges with none left are deleted. */
static size_t look_for_due(void)
{
    static struct ledger_due due[LEDGER_RETURNS_MAX];
    struct ledger_due_cursor place = {.more = false};
    size_t count = 0;
    assert_int_equal(ledger_due_list(ledger, &place, LEDGER_RETURNS_MAX, due, &count), LEDGER_OK);
    assert_false(place.more);
    return count;
}

static bool has_status(uint64_t id, const char *status)
{
    return sql_server_do("SELECT COUNT(*) FROM orders WHERE order_id=%llu AND status='%s'",
                         (unsigned long long)id, status) == 1;
}

static int64_t sold(uint32_t segment)
{
    return sql_server_do("SELECT sold FROM stock_segment WHERE segment=%u", segment);
}

static int64_t fence_of(uint32_t segment)
{
    return sql_server_do("SELECT fence FROM stock_segment WHERE segment=%u", segment);
}

static struct ledger_return_segment segments[3];
static struct ledger_return_order orders[LEDGER_RETURNS_MAX];

/* Returns orders under locks of the first `held` segments with `fence`. */
static enum ledger_result give_back_to(enum ledger_status to, const uint64_t *ids, size_t count,
                                       uint64_t fence, size_t held)
{
    struct ledger_return returned = {.to = to,
                                     .orders = orders,
                                     .order_count = count,
                                     .segments = segments,
                                     .segment_count = held};
    for (uint32_t i = 0; i < held; i++)
        segments[i] =
            (struct ledger_return_segment){.sku = "s", .segment = i, .segments = 3, .fence = fence};
    for (size_t i = 0; i < count; i++)
        orders[i] = (struct ledger_return_order){.order_id = ids[i]};
    qsort(orders, count, sizeof *orders, ledger_return_order_compare);
    return ledger_return(ledger, &returned);
}

static enum ledger_result give_back(enum ledger_status to, const uint64_t *ids, size_t count,
                                    uint64_t fence)
{
    return give_back_to(to, ids, count, fence, 3);
}

static size_t moved_count(size_t count)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += orders[i].moved;
    return found;
}

static enum ledger_result give_back_one(enum ledger_status to, uint64_t id)
{
    enum ledger_result result = give_back(to, &id, 1, FENCE + 1);
    return result == LEDGER_OK && !orders[0].moved ? LEDGER_NO : result;
}

/* Pays one order; `record` is as it is then. */
static enum ledger_result pay_one(uint64_t id)
{
    struct ledger_payment payment = {.ref = NULL};
    record.order_id = id;
    enum ledger_result result = ledger_pay(ledger, (struct ledger_record *[]){&record},
                                           (struct ledger_payment *[]){&payment}, 1);
    return result == LEDGER_OK && !payment.moved ? LEDGER_NO : result;
}

/* Pays an order that a lost connection holds until the server has noticed the loss. */
static enum ledger_result pay_when_free(uint64_t id)
{
    enum ledger_result result = pay_one(id);
    for (int tries = 0; result == LEDGER_NO && tries < 1000; tries++) {
        usleep(10000);
        result = pay_one(id);
    }
    return result;
}

static void test_only_open_orders_move(void **state)
{
    (void)state;
    for (uint64_t from = 0; from < 4; from++)
        for (uint64_t to = 1; to < 4; to++) {
            uint64_t id = 10 * from + to;
            enum ledger_status status = (enum ledger_status)to;
            insert(id, 1, 0, words[from], to == LEDGER_EXPIRED ? past : future);
            enum ledger_result result = to == LEDGER_PAID ? pay_one(id) : give_back_one(status, id);
            bool may = /* for good, and without its units */
                from == LEDGER_RESERVED || (from == LEDGER_EXPIRED && to == LEDGER_CANCELLED);
            assert_int_equal(result, may ? LEDGER_OK : LEDGER_NO);
            assert_true(has_status(id, words[may ? to : from]));
            assert_int_equal(ledger_status_may(words[from], status), may);
            assert_int_equal(ledger_status_changed(words[from]), from != LEDGER_RESERVED);
            sql_server_do("UPDATE stock_segment SET fence=1000");
        }
    assert_false(ledger_status_may("unheard-of", LEDGER_PAID));
    assert_int_equal(sold(0), 3);
}

static void test_time_to_pay_is_over_at_its_moment(void **state)
{
    (void)state;
    insert(1, 1, 0, "reserved", past);
    insert(2, 1, 0, "reserved", future);
    insert(3, 1, 0, "reserved", NULL);
    assert_int_equal(pay_one(1), LEDGER_NO);
    assert_int_equal(pay_one(2), LEDGER_OK);
    assert_int_equal(pay_one(3), LEDGER_OK);
    assert_int_equal(pay_one(4), LEDGER_NO);
    look_for_due();
    assert_int_equal(sql_server_do("SELECT MIN(first_id) FROM order_expiry"), 1);
    insert(5, 1, 0, "reserved", future);
    insert(6, 1, 0, "reserved", NULL);
    assert_int_equal(give_back_one(LEDGER_EXPIRED, 5), LEDGER_NO);
    assert_int_equal(give_back_one(LEDGER_EXPIRED, 6), LEDGER_NO);
    assert_int_equal(give_back_one(LEDGER_CANCELLED, 1), LEDGER_OK);
}

static void test_units_come_back_to_any_segments(void **state)
{
    (void)state;
    const uint64_t ids[] = {4, 2, 1, 3, 77};
    insert(1, 2, 2, "reserved", future);
    insert(2, 1, 0, "reserved", NULL);
    insert(3, 3, 2, "reserved", NULL);
    insert(4, 2, 1, "paid", NULL);
    assert_int_equal(give_back(LEDGER_CANCELLED, ids, 5, FENCE + 5), LEDGER_OK);
    assert_int_equal(moved_count(5), 3);
    assert_int_equal(sold(0), 0);
    assert_int_equal(sold(1), 4);
    assert_int_equal(sold(2), 5);
    assert_int_equal(segments[0].returned, 5);
    assert_int_equal(segments[1].returned, 1);
    assert_true(has_status(3, "cancelled") && has_status(4, "paid"));
}

/* The order that does not fit waits for others of its sale's segments. */
static void test_no_segment_returns_more_than_it_has_sold(void **state)
{
    (void)state;
    const uint64_t ids[] = {1, 2, 3};
    insert(1, 4, 1, "reserved", future);
    insert(2, 2, 1, "reserved", future);
    insert(3, 1, 1, "reserved", future);
    assert_int_equal(give_back_to(LEDGER_CANCELLED, ids, 3, FENCE + 5, 1), LEDGER_OK);
    assert_int_equal(sold(0), 0);
    assert_true(has_status(1, "cancelled") && has_status(3, "cancelled"));
    assert_true(has_status(2, "reserved") && !orders[1].moved && !orders[1].damaged);
    assert_int_equal(give_back(LEDGER_CANCELLED, ids, 3, FENCE + 6), LEDGER_OK);
    assert_int_equal(moved_count(3), 1);
    assert_int_equal(sold(1), 3);
}

static void test_segments_without_units_keep_their_fence(void **state)
{
    (void)state;
    const uint64_t ids[] = {1, 2};
    insert(1, 2, 0, "reserved", future);
    insert(2, 3, 0, "paid", NULL);
    assert_int_equal(give_back(LEDGER_CANCELLED, ids, 2, FENCE + 5), LEDGER_OK);
    assert_int_equal(moved_count(2), 1);
    assert_int_equal(segments[0].row.fence, FENCE + 5);
    assert_int_equal(segments[0].row.sold, 3);
    assert_int_equal(segments[0].row.capacity, 10);
    assert_int_equal(segments[1].row.fence, FENCE);
    assert_int_equal(sold(0), 3);
    assert_int_equal(sold(1), 5);
    assert_int_equal(fence_of(0), FENCE + 5);
    assert_int_equal(fence_of(2), FENCE);
}

static void test_nothing_is_returned_twice(void **state)
{
    (void)state;
    insert(1, 2, 0, "reserved", past);
    assert_int_equal(give_back_one(LEDGER_CANCELLED, 1), LEDGER_OK);
    sql_server_do("UPDATE stock_segment SET fence=1000"); /* which refuses no return */
    assert_int_equal(give_back_one(LEDGER_CANCELLED, 1), LEDGER_NO);
    assert_int_equal(give_back_one(LEDGER_EXPIRED, 1), LEDGER_NO);
    assert_int_equal(sold(0), 3);
}

static void test_segment_that_cannot_take_them_gets_none(void **state)
{
    (void)state;
    const uint64_t ids[] = {1, 2};
    const char *const spoilers[] = {"UPDATE stock_segment SET fence=2000 WHERE segment=0",
                                    "UPDATE stock_segment SET fence=3000 WHERE segment=0",
                                    "UPDATE stock_segment SET round=2 WHERE segment=0",
                                    "UPDATE stock_segment SET sold=0 WHERE segment=0",
                                    "UPDATE stock_segment SET round=0 WHERE segment=0",
                                    "DELETE FROM stock_segment WHERE segment=0"};
    for (size_t i = 0; i < sizeof spoilers / sizeof spoilers[0]; i++) {
        sql_server_do("DELETE FROM orders;DELETE FROM order_expiry;DELETE FROM stock_segment;"
                      "INSERT INTO stock_segment(sku,segment,round,capacity,sold,fence)VALUES"
                      "('s',0,1,10,5,1000),('s',1,1,10,3,1000),('s',2,1,10,0,1000)");
        insert(1, 2, 0, "reserved", past);
        insert(2, 2, 0, "reserved", past);
        sql_server_do("%s", spoilers[i]);
        assert_int_equal(give_back(LEDGER_EXPIRED, ids, 2, 2000), LEDGER_OK);
        assert_true(has_status(1, "expired") && has_status(2, "reserved"));
        assert_int_equal(segments[0].returned, 0);
        assert_int_equal(sold(1), 1);
        assert_int_equal(look_for_due(), 1);
    }
}

/* The others are returned without it, and it stays as it is. */
static void test_order_with_more_units_than_were_sold_is_left_out(void **state)
{
    (void)state;
    const uint64_t ids[] = {1, 2, 3};
    insert(1, 2, 0, "reserved", past);
    insert(2, 16, 1, "reserved", past);
    insert(3, 1, 1, "reserved", past);
    assert_int_equal(give_back(LEDGER_EXPIRED, ids, 3, 2000), LEDGER_OK);
    assert_int_equal(moved_count(3), 2);
    assert_true(has_status(1, "expired") && has_status(2, "reserved") && has_status(3, "expired"));
    assert_true(orders[1].damaged);
    assert_non_null(strstr(ledger_fault(ledger)->error, "order_id 2"));
    assert_int_equal(sold(0) + sold(1) + sold(2), 12);
    /* Nobody knows whether it is damaged who does not see all of the segments. */
    assert_int_equal(give_back_to(LEDGER_EXPIRED, ids, 3, 3000, 2), LEDGER_OK);
    assert_false(orders[1].moved || orders[1].damaged);
}

static void test_return_waits_for_no_segment_and_no_order(void **state)
{
    (void)state;
    const uint64_t ids[] = {1, 2};
    insert(1, 2, 0, "reserved", NULL);
    insert(2, 2, 0, "reserved", NULL);
    const char text[] = "START TRANSACTION;SELECT * FROM orders WHERE order_id=2 FOR UPDATE;"
                        "SELECT * FROM stock_segment WHERE segment=0 FOR UPDATE";
    struct db *holder = sql_server_open(sql_server_url());
    assert_int_equal(db_query(holder, text, sizeof text - 1), DB_OK);
    assert_int_equal(give_back(LEDGER_CANCELLED, ids, 2, FENCE + 1), LEDGER_OK);
    db_close(&holder);
    assert_true(orders[0].moved && !orders[1].moved);
    assert_int_equal(segments[0].row.round, 0);
    assert_int_equal(sold(0), 5);
    assert_int_equal(sold(1), 3);
}

static void test_return_does_not_deadlock_with_a_change(void **state)
{
    (void)state;
    struct sql_rival rival;
    const uint64_t ids[] = {1, 2};
    insert(1, 2, 0, "reserved", NULL);
    insert(2, 4, 1, "reserved", NULL);
    uint64_t retries = ledger_stats(ledger).retries;
    sql_rival_start(&rival);
    assert_int_equal(give_back(LEDGER_CANCELLED, ids, 2, FENCE + 1), LEDGER_OK);
    assert_int_equal(sql_rival_join(&rival), DB_OK);
    assert_int_equal(ledger_stats(ledger).retries, retries);
    assert_int_equal(moved_count(2), 2);
    assert_int_equal(fence_of(1), FENCE + 1);
    assert_int_equal(fence_of(2), FENCE + 1);
}

static void test_older_rounds_move_their_status_only(void **state)
{
    (void)state;
    struct ledger_return returned = {.to = LEDGER_EXPIRED, .orders = orders, .order_count = 2};
    insert(1, 2, 0, "reserved", past);
    insert(2, 3, 1, "reserved", past);
    sql_server_do("UPDATE sale SET round=2; UPDATE stock_segment SET round=2");
    orders[0] = (struct ledger_return_order){.order_id = 1, .round_over = true};
    orders[1] = (struct ledger_return_order){.order_id = 2, .round_over = true};
    assert_int_equal(ledger_return(ledger, &returned), LEDGER_OK);
    assert_int_equal(moved_count(2), 2);
    assert_true(has_status(1, "expired") && has_status(2, "expired"));
    assert_int_equal(sold(0), 5);
    assert_int_equal(fence_of(0), FENCE);
    look_for_due();
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM order_expiry"), 0);
}

static void test_orders_of_many_sales_end_in_one_transaction(void **state)
{
    (void)state;
    sql_server_do("INSERT INTO sale(sku,round,total,segments)VALUES('t',3,10,1);"
                  "INSERT INTO stock_segment(sku,segment,round,capacity,sold,fence)VALUES"
                  "('t',0,3,10,5,2000);"
                  "INSERT INTO user_quota VALUES('s',1,'u',3,5,'1'),('t',3,'u',2,5,'2'),"
                  "('t',1,'u',2,5,'')");
    insert(1, 3, 0, "reserved", NULL);
    insert(2, 2, 0, "reserved", NULL);
    sql_server_do("UPDATE orders SET sku='t',round=3 WHERE order_id=2");
    struct ledger_return_segment both[] = {
        {.sku = "s", .segment = 2, .segments = 3, .fence = 3000},
        {.sku = "t", .segment = 0, .segments = 1, .fence = 3001}};
    struct ledger_return returned = {.to = LEDGER_CANCELLED,
                                     .orders = orders,
                                     .order_count = 2,
                                     .segments = both,
                                     .segment_count = 2};
    orders[0] = (struct ledger_return_order){.order_id = 1};
    orders[1] = (struct ledger_return_order){.order_id = 2};
    assert_int_equal(ledger_return(ledger, &returned), LEDGER_OK);
    assert_int_equal(moved_count(2), 2);
    assert_int_equal(sql_server_do("SELECT sold FROM stock_segment WHERE sku='s' AND segment=2 "
                                   "AND fence=3000"),
                     2);
    assert_int_equal(sql_server_do("SELECT sold FROM stock_segment WHERE sku='t' AND fence=3001"),
                     3);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM user_quota WHERE units=0"), 2);
}

static void test_users_may_buy_again_what_they_gave_back(void **state)
{
    (void)state;
    const uint64_t ids[] = {1, 2, 3, 4};
    insert(1, 2, 0, "reserved", NULL);
    insert(2, 1, 1, "reserved", NULL);
    insert(3, 1, 1, "paid", NULL);
    insert(4, 1, 1, "reserved", NULL);
    sql_server_do("INSERT INTO user_quota VALUES('s',1,'u',4,5,'12,4,2,1'),('s',2,'u',4,5,''),"
                  "('t',1,'u',4,5,''),('s',1,'v',4,5,'1')");
    assert_int_equal(give_back(LEDGER_CANCELLED, ids, 3, FENCE + 1), LEDGER_OK);
    assert_int_equal(sql_server_do("SELECT units FROM user_quota WHERE sku='s' AND round=1 AND"
                                   " user_id='u' AND order_ids='12,4' AND allowed=5"),
                     1);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM user_quota WHERE units=4"), 3);
    sql_server_do("DELETE FROM user_quota WHERE user_id='u'");
    assert_int_equal(give_back(LEDGER_CANCELLED, &ids[3], 1, FENCE + 2), LEDGER_OK);
    assert_int_equal(sql_server_do("SELECT SUM(units) FROM user_quota"), 4);
}

static void test_what_is_due_comes_in_order_and_in_pages(void **state)
{
    (void)state;
    struct ledger_due due[2];
    struct ledger_due_cursor place = {.more = false};
    size_t count = 0;
    insert(9, 1, 0, "reserved", "2020-01-01 00:00:00.000");
    insert(3, 6, 1, "reserved", "2020-01-01 00:00:00.007");
    insert(5, 1, 2, "reserved", "2020-01-01 00:00:00.007");
    insert(7, 1, 0, "reserved", future);
    insert(1, 1, 0, "reserved", "2020-01-02 00:00:00.000");
    assert_int_equal(ledger_due_list(ledger, &place, 2, due, &count), LEDGER_OK);
    assert_int_equal(count, 2);
    assert_int_equal(due[0].order_id, 3);
    assert_int_equal(due[0].qty, 6);
    assert_int_equal(due[1].order_id, 9);
    assert_true(place.more);
    assert_int_equal(ledger_due_list(ledger, &place, 2, due, &count), LEDGER_OK);
    assert_int_equal(count, 2);
    assert_int_equal(due[0].order_id, 1);
    assert_int_equal(due[1].order_id, 5);
    assert_int_equal(due[1].round, 1);
    assert_string_equal(due[1].sku, "s");
    assert_false(place.more);
}

/* As of daemons beside each other, whose commits have ids of several ms. The first two rows are for
 * more orders than one commit has, so that no order of the third is read. */
static void test_rows_that_overlap_lose_no_due_order(void **state)
{
    (void)state;
    enum { ORDERS = 1800, MAX = 3 * LEDGER_ORDERS_MAX };
    static struct ledger_due due[MAX];
    struct ledger_due_cursor place = {.more = false};
    size_t count = 0;
    sql_server_do("INSERT INTO orders(order_id,sku,round,user_id,qty,segment,status,created_at,"
                  "expires_at)WITH RECURSIVE n AS(SELECT 1 AS id UNION ALL SELECT id+1 FROM n "
                  "WHERE id<%d-1)SELECT id,'s',1,'u',1,0,'cancelled','2020-01-01','%s' FROM n",
                  ORDERS / 2, past);
    sql_server_do("INSERT INTO orders(order_id,sku,round,user_id,qty,segment,status,created_at,"
                  "expires_at)SELECT order_id+%d,sku,round,user_id,qty,segment,status,created_at,"
                  "expires_at FROM orders",
                  ORDERS / 2);
    sql_server_do("UPDATE orders SET status='reserved';"
                  "INSERT INTO order_expiry VALUES('%s',1,800),('%s',801,1600),('%s',1601,1799)",
                  past, past, past);
    assert_int_equal(ledger_due_list(ledger, &place, MAX, due, &count), LEDGER_OK);
    assert_int_equal(count, MAX);
    sql_server_do("UPDATE orders SET status='expired' WHERE order_id<=%llu",
                  (unsigned long long)due[MAX - 1].order_id);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM order_expiry"), 3);
    place = (struct ledger_due_cursor){.more = false};
    assert_int_equal(ledger_due_list(ledger, &place, MAX, due, &count), LEDGER_OK);
    assert_int_equal(count, 1798 - MAX);
}

/* Of one pair alone MariaDB makes no look-up: the DELETE would read all ranges. */
static void test_ranges_without_due_orders_are_found_by_their_key(void **state)
{
    (void)state;
    enum { RANGES = 3000, READS_MAX = 100 };
    for (int gone = 1; gone <= 8; gone += 7) {
        sql_server_do("DELETE FROM order_expiry;INSERT INTO order_expiry SELECT "
                      "IF(seq<=%d,'%s'+INTERVAL seq SECOND,'2100-01-01'),seq,seq FROM " SQL_NUMBERS,
                      gone, past, RANGES);
        int64_t before = sql_server_reads(ledger->db);
        assert_int_equal(look_for_due(), 0);
        int64_t reads = sql_server_reads_since(ledger->db, before);
        assert_int_equal(sql_server_do("SELECT COUNT(*) FROM order_expiry"), RANGES - gone);
        if (reads > READS_MAX)
            fail_msg("%d ranges without a due order cost %lld rows", gone, (long long)reads);
    }
}

static void test_due_orders_taken_together_are_found_by_one_row(void **state)
{
    (void)state;
    struct ledger_due due[3];
    struct ledger_due_cursor place = {.more = false};
    size_t count = 0;
    for (uint64_t id = 11; id <= 15; id++)
        insert(id, 1, 0, id == 13 ? "paid" : "reserved", past);
    insert(16, 1, 0, "reserved", future);
    sql_server_do("DELETE FROM order_expiry;INSERT INTO order_expiry VALUES('%s',11,16)", past);
    assert_int_equal(ledger_due_list(ledger, &place, 3, due, &count), LEDGER_OK);
    assert_int_equal(count, 3);
    assert_int_equal(due[2].order_id, 14);
    assert_false(place.more);
    sql_server_do("UPDATE orders SET status='expired' WHERE order_id<15");
    assert_int_equal(look_for_due(), 1);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM order_expiry"), 1);
    sql_server_do("UPDATE orders SET status='cancelled' WHERE order_id=15");
    assert_int_equal(look_for_due(), 0);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM order_expiry"), 0);
}

static void test_fullest_return_is_one_transaction(void **state)
{
    (void)state;
    static uint64_t ids[LEDGER_RETURNS_MAX];
    sql_server_do("UPDATE stock_segment SET capacity=2000, sold=2000");
    sql_server_do("INSERT INTO orders(order_id,sku,round,user_id,qty,segment,created_at,"
                  "expires_at) SELECT seq,'s',1,CONCAT('u',seq%%7),2,seq%%3,'2020-01-01',"
                  "'2020-01-01 00:00:01.5' FROM " SQL_NUMBERS ";"
                  "INSERT INTO order_expiry SELECT MIN(expires_at),1,1000 FROM orders",
                  1000);
    for (uint64_t i = 0; i < LEDGER_RETURNS_MAX; i++)
        ids[i] = i + 1;
    assert_int_equal(give_back(LEDGER_EXPIRED, ids, LEDGER_RETURNS_MAX, 2000), LEDGER_OK);
    assert_int_equal(moved_count(LEDGER_RETURNS_MAX), LEDGER_RETURNS_MAX);
    assert_int_equal(look_for_due(), 1000 - LEDGER_RETURNS_MAX);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM order_expiry"), 1);
    assert_int_equal(sold(0), 200);
    assert_int_equal(sold(1), 2000);
}

static void test_commit_that_was_not_answered_is_repeated(void **state)
{
    (void)state;
    struct sql_wire wire;
    char error[128];
    insert(1, 2, 0, "reserved", past);
    insert(2, 2, 0, "reserved", future);
    sql_wire_open(&wire);
    struct ledger *direct = ledger;
    ledger = ledger_open(wire.url, 5000, error, sizeof error);
    assert_int_equal(ledger_ping(ledger), LEDGER_OK);
    atomic_store(&wire.fault, WIRE_LOSES_ANSWER);
    assert_int_equal(give_back_one(LEDGER_EXPIRED, 1), LEDGER_UNKNOWN);
    assert_int_equal(give_back_one(LEDGER_EXPIRED, 1), LEDGER_NO);
    assert_true(has_status(1, "expired"));
    atomic_store(&wire.fault, WIRE_LOSES_COMMIT);
    assert_int_equal(pay_one(2), LEDGER_UNKNOWN);
    assert_int_equal(pay_when_free(2), LEDGER_OK);
    ledger_close(&ledger);
    ledger = direct;
    sql_wire_close(&wire);
    assert_int_equal(sold(0), 3);
}

/* ---- many orders at once ---- */

enum { MANY = 8 };

static struct ledger_record many[MANY], *list[MANY];
static bool moved[MANY];

static void name_orders(const uint64_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        list[i] = &many[i];
        many[i].order_id = ids[i];
    }
}

static void test_many_orders_are_looked_up_in_any_order(void **state)
{
    (void)state;
    const uint64_t ids[] = {4, 99, 1, 3, 4, 2, 1, 0};
    insert(1, 2, 0, "reserved", future);
    insert(2, 3, 2, "paid", NULL);
    insert(3, 1, 1, "expired", past);
    insert(4, 3, 2, "reserved", past);
    name_orders(ids, MANY);
    assert_int_equal(ledger_orders_find(ledger, list, MANY), LEDGER_OK);
    for (size_t i = 0; i < MANY; i++) {
        bool there = ids[i] >= 1 && ids[i] <= 4, last = ids[i] == 2 || ids[i] == 4;
        assert_int_equal(many[i].order_id, ids[i]);
        assert_int_equal(many[i].status[0] != '\0', there);
        assert_false(many[i].payable);
        assert_int_equal(many[i].segment == 2, last);
    }
    assert_string_equal(many[1].status, "");
    assert_string_equal(many[3].status, "expired");
    assert_string_equal(many[2].expires_at, "2100-01-01T00:00:00.000Z");
}

/* Pays the first orders of the list, without names. */
static enum ledger_result pay_list(size_t count)
{
    struct ledger_payment payments[MANY] = {{.ref = NULL}}, *all[MANY] = {NULL};
    for (size_t i = 0; i < count; i++)
        all[i] = &payments[i];
    enum ledger_result result = ledger_pay(ledger, list, all, count);
    for (size_t i = 0; i < count; i++)
        moved[i] = payments[i].moved;
    return result;
}

static void test_each_of_many_payments_has_its_own_outcome(void **state)
{
    (void)state;
    const uint64_t ids[] = {5, 1, 2, 1, 3, 77, 4};
    const char *const after[] = {"paid", "paid", "cancelled", "paid", "reserved", "", "paid"};
    insert(1, 2, 0, "reserved", future);
    insert(2, 1, 0, "cancelled", future);
    insert(3, 1, 0, "reserved", past);
    insert(4, 1, 0, "paid", NULL);
    insert(5, 3, 0, "reserved", NULL);
    for (int times = 0; times < 2; times++) {
        name_orders(ids, 7);
        assert_int_equal(pay_list(7), LEDGER_OK);
        for (size_t i = 0; i < 7; i++) {
            assert_string_equal(many[i].status, after[i]);
            assert_false(many[i].payable);
            assert_int_equal(moved[i], times == 0 && i < 2);
        }
    }
    assert_true(has_status(1, "paid") && has_status(5, "paid") && has_status(3, "reserved"));
}

static void test_only_orders_of_the_present_round_can_be_paid(void **state)
{
    (void)state;
    const uint64_t ids[] = {1, 2};
    insert(1, 1, 0, "reserved", future);
    insert(2, 1, 0, "paid", NULL);
    sql_server_do("UPDATE sale SET round=2");
    name_orders(ids, 2);
    assert_int_equal(pay_list(2), LEDGER_OK);
    assert_true(!moved[0] && !many[0].payable && many[0].round_over);
    assert_string_equal(many[0].status, "reserved");
    assert_string_equal(many[1].status, "paid");
    sql_server_do("UPDATE sale SET round=1");
    assert_int_equal(pay_list(2), LEDGER_OK);
    assert_true(moved[0] && !many[0].round_over);
}

/* A payment that looked at the round before the reset must be on the disk before the new round is
 * open, or not at all. */
static void test_payment_and_reset_wait_for_each_other(void **state)
{
    (void)state;
    const uint64_t ids[] = {1};
    struct db *other = sql_server_open(sql_server_url());
    insert(1, 1, 0, "reserved", NULL);
    const char text[] = "START TRANSACTION;UPDATE sale SET round=2 WHERE sku='s'";
    assert_int_equal(db_query(other, text, sizeof text - 1), DB_OK);
    name_orders(ids, 1);
    assert_int_equal(pay_list(1), LEDGER_OK);
    assert_true(!moved[0] && many[0].payable); /* nobody knows yet: to be tried again */
    assert_int_equal(db_query(other, "COMMIT", 6), DB_OK);
    assert_int_equal(pay_list(1), LEDGER_OK);
    assert_true(!moved[0] && !many[0].payable && many[0].round_over);
    db_close(&other);
}

/* ---- the end of a round ---- */

static void end_round(uint32_t units)
{
    sql_server_do("UPDATE sale SET round=2;INSERT INTO round_end(sku,round,units)VALUES('s',1,%u)",
                  units);
}

static void test_end_of_a_round_expires_its_reserved_orders_in_pieces(void **state)
{
    (void)state;
    uint32_t ended = 0, all = 0, pieces = 1, round = 0;
    char sku[IDENTIFIER_SIZE];
    for (uint64_t id = 1; id <= 100; id++)
        insert(id, 1, 0, words[id % 4], NULL);
    sql_server_do("UPDATE orders SET sku='t' WHERE order_id=41;"
                  "UPDATE orders SET round=2 WHERE order_id>80");
    end_round(1000); /* more than there are: read to the end */
    assert_int_equal(ledger_round_end_find(ledger, sku, &round), LEDGER_OK);
    assert_string_equal(sku, "s");
    assert_int_equal(round, 1);
    while (ledger_round_end_step(ledger, "s", 1, 30, &ended) == LEDGER_OK) {
        pieces++;
        all += ended;
    }
    all += ended;
    assert_int_equal(pieces, 4);
    assert_int_equal(all, 20);
    assert_int_equal(sql_server_do("SELECT COUNT(*)FROM orders WHERE status='reserved'AND "
                                   "round=1 AND sku='s'"),
                     0);
    assert_int_equal(sql_server_do("SELECT COUNT(*)FROM orders WHERE status='reserved'"), 5);
    assert_int_equal(sql_server_do("SELECT COUNT(*)FROM orders WHERE status='paid'"), 25);
    assert_int_equal(ledger_round_end_find(ledger, sku, &round), LEDGER_NO);
    assert_int_equal(ledger_round_end_step(ledger, "s", 1, 30, &ended), LEDGER_NO);
    assert_int_equal(ended, 0);
}

static void test_end_of_a_round_reads_no_further_than_its_units(void **state)
{
    (void)state;
    uint32_t ended = 0;
    for (uint64_t id = 1; id <= 10; id++)
        insert(id, 2, 0, id > 6 ? "reserved" : "cancelled", NULL);
    end_round(8);
    assert_int_equal(ledger_round_end_step(ledger, "s", 1, 3, &ended), LEDGER_OK);
    assert_int_equal(ended, 3);
    assert_int_equal(ledger_round_end_step(ledger, "s", 1, 3, &ended), LEDGER_NO);
    assert_int_equal(ended, 1);
}

static void test_orders_that_hold_units_are_counted_in_pieces(void **state)
{
    (void)state;
    struct ledger_round_use use = {.all_read = false};
    for (uint64_t id = 1; id <= 40; id++)
        insert(id, 3, 0, words[id % 4], NULL);
    for (int pieces = 0; pieces < 4; pieces++)
        assert_int_equal(ledger_round_count(ledger, "s", 1, 10, &use), LEDGER_OK);
    assert_false(use.all_read); /* there may be more */
    assert_int_equal(ledger_round_count(ledger, "s", 1, 10, &use), LEDGER_OK);
    assert_true(use.all_read);
    assert_int_equal(use.reserved, 10);
    assert_int_equal(use.paid, 10);
    assert_int_equal(use.units, 60);
}

/* A cancel that hangs between its statements must not stop the shop's other payments. */
static void test_payment_of_a_locked_order_keeps_no_other_waiting(void **state)
{
    (void)state;
    const uint64_t ids[] = {1, 2};
    struct db *other = sql_server_open(sql_server_url());
    insert(1, 1, 0, "reserved", NULL);
    insert(2, 1, 0, "reserved", NULL);
    const char text[] = "START TRANSACTION;SELECT * FROM orders WHERE order_id=1 FOR UPDATE";
    assert_int_equal(db_query(other, text, sizeof text - 1), DB_OK);
    name_orders(ids, 2);
    assert_int_equal(pay_list(2), LEDGER_OK);
    assert_true(many[0].payable && !moved[0]);
    assert_true(!many[1].payable && moved[1]);
    db_close(&other);
    while (pay_one(1) == LEDGER_NO)
        assert_true(record.payable);
    assert_true(has_status(1, "paid"));
}

static void test_fullest_payment_is_one_transaction(void **state)
{
    (void)state;
    static struct ledger_record records[LEDGER_ORDERS_MAX];
    static struct ledger_record *all[LEDGER_ORDERS_MAX];
    static struct ledger_payment paid[LEDGER_ORDERS_MAX], *payments[LEDGER_ORDERS_MAX];
    sql_server_do("INSERT INTO orders(order_id,sku,round,user_id,qty,segment,created_at)SELECT seq,"
                  "'s',1,'u',1,0,'2020-01-01' FROM " SQL_NUMBERS,
                  LEDGER_ORDERS_MAX);
    for (size_t i = 0; i < LEDGER_ORDERS_MAX; i++) {
        all[i] = &records[i];
        payments[i] = &paid[i];
        records[i].order_id = LEDGER_ORDERS_MAX - i;
    }
    assert_int_equal(ledger_pay(ledger, all, payments, LEDGER_ORDERS_MAX), LEDGER_OK);
    for (size_t i = 0; i < LEDGER_ORDERS_MAX; i++)
        assert_true(paid[i].moved && records[i].order_id == LEDGER_ORDERS_MAX - i);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM orders WHERE status='paid'"),
                     LEDGER_ORDERS_MAX);
}

/* ---- on the disk ---- */

/* That payment may be visible and not on the disk yet; a commit without a write flushes nothing. */
static void test_payment_that_somebody_else_made_is_confirmed_by_a_write(void **state)
{
    (void)state;
    insert(1, 1, 0, "reserved", future);
    insert(2, 1, 0, "reserved", past);
    assert_int_equal(pay_one(1), LEDGER_OK);
    int64_t before = 0, after = 1;
    for (int tries = 0; tries < 20 && after != before; tries++) { /* the server writes, too */
        before = sql_server_log();
        assert_int_equal(pay_one(2), LEDGER_NO); /* nothing that could be lost */
        after = sql_server_log();
    }
    assert_int_equal(after, before);
    assert_int_equal(pay_one(1), LEDGER_NO);
    assert_string_equal(record.status, "paid");
    after = sql_server_log();
    assert_true(after > before);
    assert_int_equal(ledger_confirm(ledger, ledger_connection(ledger)), LEDGER_OK);
    assert_true(sql_server_log() > after);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM order_key"), 0);
}

#define TEST(name) cmocka_unit_test_setup(name, start)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_only_open_orders_move),
        TEST(test_time_to_pay_is_over_at_its_moment),
        TEST(test_units_come_back_to_any_segments),
        TEST(test_no_segment_returns_more_than_it_has_sold),
        TEST(test_segments_without_units_keep_their_fence),
        TEST(test_nothing_is_returned_twice),
        TEST(test_segment_that_cannot_take_them_gets_none),
        TEST(test_order_with_more_units_than_were_sold_is_left_out),
        TEST(test_return_waits_for_no_segment_and_no_order),
        TEST(test_return_does_not_deadlock_with_a_change),
        TEST(test_older_rounds_move_their_status_only),
        TEST(test_orders_of_many_sales_end_in_one_transaction),
        TEST(test_users_may_buy_again_what_they_gave_back),
        TEST(test_what_is_due_comes_in_order_and_in_pages),
        TEST(test_rows_that_overlap_lose_no_due_order),
        TEST(test_ranges_without_due_orders_are_found_by_their_key),
        TEST(test_due_orders_taken_together_are_found_by_one_row),
        TEST(test_fullest_return_is_one_transaction),
        TEST(test_commit_that_was_not_answered_is_repeated),
        TEST(test_many_orders_are_looked_up_in_any_order),
        TEST(test_each_of_many_payments_has_its_own_outcome),
        TEST(test_only_orders_of_the_present_round_can_be_paid),
        TEST(test_payment_and_reset_wait_for_each_other),
        TEST(test_end_of_a_round_expires_its_reserved_orders_in_pieces),
        TEST(test_end_of_a_round_reads_no_further_than_its_units),
        TEST(test_orders_that_hold_units_are_counted_in_pieces),
        TEST(test_payment_of_a_locked_order_keeps_no_other_waiting),
        TEST(test_fullest_payment_is_one_transaction),
        TEST(test_payment_that_somebody_else_made_is_confirmed_by_a_write),
    };
    return cmocka_run_group_tests(tests, start_group, stop_group);
}
