/* Payments with names in the ledger: decided once, in the order's own transaction; refunded, listed
 * and counted; orders refunded or cut; reservations extended. */
#include "base/fault.h"
#include "sql/events/events.h"
#include "sql/ledger/ledger_query.h"
#include "sql/payments/payments.h"
#include "sql/sales/sales.h"
#include "sql/server/server.h"
#include "sql/test_server.h"

enum { FENCE = 1000, MANY = 8 };

static const char past[] = "2020-01-01", future[] = "2100-01-01";

static struct ledger *ledger;
static struct ledger_record records[MANY], *list[MANY];
static struct ledger_payment payments[MANY], *payment_list[MANY];

static int start_group(void **state)
{
    (void)state;
    ledger = sql_server_ledger();
    for (size_t i = 0; i < MANY; i++) {
        list[i] = &records[i];
        payment_list[i] = &payments[i];
    }
    return 0;
}

static int stop_group(void **state)
{
    (void)state;
    ledger_close(&ledger);
    return 0;
}

/* Each test begins with a sale "s" of 2 segments, 10 units each, 6 of them sold, at fence 1000. */
static int start(void **state)
{
    (void)state;
    sql_server_empty();
    sql_server_do("INSERT INTO sale(sku,round,total,segments,hold_max_s)VALUES('s',1,20,2,3600);"
                  "INSERT INTO stock_segment(sku,segment,round,capacity,sold,fence)VALUES"
                  "('s',0,1,10,6,1000),('s',1,1,10,6,1000)");
    return 0;
}

static void insert(uint64_t id, uint32_t qty, const char *status, const char *expires_at)
{
    sql_server_do("INSERT INTO orders(order_id,sku,round,user_id,qty,segment,status,created_at,"
                  "expires_at)VALUES(%llu,'s',1,'u',%u,0,'%s',UTC_TIMESTAMP(3),'%s');"
                  "INSERT INTO order_expiry VALUES('%s',%llu,%llu)",
                  (unsigned long long)id, qty, status, expires_at, expires_at,
                  (unsigned long long)id, (unsigned long long)id);
}

static void name(size_t place, uint64_t order_id, const char *ref)
{
    records[place].order_id = order_id;
    payments[place] = (struct ledger_payment){.ref = ref};
}

static void pay(size_t count)
{
    assert_int_equal(ledger_pay(ledger, list, payment_list, count), LEDGER_OK);
}

/* Pays one order by one name, and returns what became of it. */
static enum ledger_payment_outcome pay_one(uint64_t order_id, const char *ref)
{
    name(0, order_id, ref);
    pay(1);
    return payments[0].outcome;
}

static int64_t rows(const char *table, const char *condition)
{
    return sql_server_do("SELECT COUNT(*)FROM %s WHERE %s", table, condition);
}

/* ---- decisions ---- */

static void test_status_and_time_decide_a_payment(void **state)
{
    (void)state;
    static const struct {
        const char *status, *expires_at, *after;
        enum ledger_payment_outcome outcome;
    } cases[] = {
        {"reserved", future, "paid", LEDGER_IN_TIME},
        {"reserved", past, "paid", LEDGER_RETAKEN}, /* nobody has expired it yet */
        {"expired", past, "expired", LEDGER_OUTCOME_NONE},
        {"paid", future, "paid", LEDGER_ALREADY_PAID},
        {"cancelled", future, "cancelled", LEDGER_TOO_LATE},
        {"refunded", future, "refunded", LEDGER_TOO_LATE},
    };
    for (uint64_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool taken = cases[i].outcome == LEDGER_IN_TIME || cases[i].outcome == LEDGER_RETAKEN;
        bool decided = cases[i].outcome != LEDGER_OUTCOME_NONE;
        insert(i + 1, 1, cases[i].status, cases[i].expires_at);
        for (int times = 0; times < 2; times++) {
            assert_int_equal(pay_one(i + 1, "p"), cases[i].outcome);
            assert_string_equal(records[0].status, cases[i].after);
            assert_int_equal(payments[0].state, !decided ? LEDGER_PAYMENT_NONE
                                                : taken  ? LEDGER_PAYMENT_TAKEN
                                                         : LEDGER_PAYMENT_DUE);
            assert_int_equal(payments[0].moved, taken && times == 0);
            assert_int_equal(payments[0].told, decided && times == 0);
            assert_int_equal(payments[0].late == LEDGER_LATE_NEEDS_UNITS, !decided);
        }
    }
    assert_int_equal(rows("payment", "TRUE"), 5);
    assert_int_equal(rows("refund_due", "sku='s'"), 3);
    assert_int_equal(pay_one(99, "p"), LEDGER_OUTCOME_NONE);
    assert_string_equal(records[0].status, "");
    assert_int_equal(rows("payment", "order_id=99"), 0);
}

static void test_late_payment_is_due_where_its_order_cannot_have_units(void **state)
{
    (void)state;
    insert(1, 1, "expired", past);
    insert(2, 1, "reserved", past);
    insert(3, 1, "expired", past);
    insert(4, 1, "expired", past);
    insert(5, 1, "reserved", future);
    insert(6, 1, "reserved", past);
    for (uint64_t id = 1; id <= 6; id += 5) {
        name(0, id, "p");
        payments[0].late = LEDGER_LATE_NO_UNITS;
        pay(1);
        assert_int_equal(payments[0].outcome, id == 1 ? LEDGER_TOO_LATE : LEDGER_RETAKEN);
    }
    sql_server_do("UPDATE sale SET refund_late=1");
    assert_int_equal(pay_one(2, "p"), LEDGER_TOO_LATE);
    assert_int_equal(pay_one(3, "p"), LEDGER_TOO_LATE);
    assert_int_equal(pay_one(5, "p"), LEDGER_IN_TIME);
    sql_server_do("UPDATE sale SET refund_late=0,round=2");
    assert_int_equal(pay_one(4, "p"), LEDGER_TOO_LATE);
    assert_true(records[0].round_over);
    assert_int_equal(rows("refund_due", "TRUE"), 4);
}

static void test_late_payment_of_a_sale_that_is_gone_is_due_at_once(void **state)
{
    (void)state;
    insert(1, 1, "expired", past);
    sql_server_do("DELETE FROM sale");
    assert_int_equal(pay_one(1, "p"), LEDGER_TOO_LATE);
    assert_true(records[0].round_over && payments[0].told);
}

/* Nobody waits for the sale. What nothing leads back from needs no lock on it. */
static void test_payment_while_another_transaction_has_the_sale(void **state)
{
    (void)state;
    struct db *other = sql_server_open(sql_server_url());
    insert(1, 1, "reserved", future);
    insert(2, 1, "expired", past);
    insert(3, 1, "expired", past);
    sql_server_do("UPDATE orders SET round=2;UPDATE sale SET round=2;"
                  "UPDATE orders SET round=1 WHERE order_id=3");
    const char text[] = "START TRANSACTION;UPDATE sale SET round=3,refund_late=1";
    assert_int_equal(db_query(other, text, sizeof text - 1), DB_OK);
    assert_int_equal(pay_one(1, "p"), LEDGER_OUTCOME_NONE);
    assert_int_equal(payments[0].late, LEDGER_LATE_ASKED);
    assert_int_equal(pay_one(2, "p"), LEDGER_OUTCOME_NONE);
    assert_int_equal(payments[0].late, LEDGER_LATE_NEEDS_UNITS); /* its segments decide */
    assert_int_equal(pay_one(3, "p"), LEDGER_TOO_LATE);
    assert_int_equal(db_query(other, "ROLLBACK", 8), DB_OK);
    assert_int_equal(pay_one(1, "p"), LEDGER_IN_TIME);
    db_close(&other);
}

static void test_payments_of_one_order_are_decided_in_their_order(void **state)
{
    (void)state;
    insert(1, 1, "reserved", future);
    insert(2, 1, "expired", past);
    name(0, 1, "a");
    name(1, 2, "late");
    name(2, 1, "b");
    name(3, 1, "a");
    name(4, 1, "");
    name(5, 2, "late");
    pay(6);
    assert_int_equal(payments[0].outcome, LEDGER_IN_TIME);
    assert_int_equal(payments[2].outcome, LEDGER_ALREADY_PAID);
    assert_int_equal(payments[3].outcome, LEDGER_IN_TIME);
    assert_true(payments[0].told && !payments[3].told && !payments[4].moved);
    assert_false(payments[2].unnamed);
    assert_string_equal(records[4].status, "paid");
    assert_int_equal(payments[1].late, LEDGER_LATE_NEEDS_UNITS);
    assert_int_equal(payments[5].late, LEDGER_LATE_ASKED); /* one at a time */
    assert_int_equal(rows("payment", "TRUE"), 2);
}

static void test_name_told_after_a_payment_without_one(void **state)
{
    (void)state;
    insert(1, 1, "reserved", future);
    insert(2, 1, "reserved", future);
    pay_one(1, "");
    assert_true(payments[0].moved);
    for (int times = 0; times < 2; times++) {
        assert_int_equal(pay_one(1, "p"), LEDGER_ALREADY_PAID);
        assert_true(payments[0].unnamed);
    }
    name(0, 2, "");
    name(1, 2, "p");
    pay(2);
    assert_int_equal(payments[1].outcome, LEDGER_ALREADY_PAID);
    assert_true(payments[1].unnamed);
}

/* Somebody who holds an order's row may be about to pay it: nothing is known of its payments. */
static void test_locked_order_is_not_decided(void **state)
{
    (void)state;
    struct db *other = sql_server_open(sql_server_url());
    insert(1, 1, "paid", future);
    sql_server_do("INSERT INTO payment VALUES(1,'p','taken','in_time',UTC_TIMESTAMP(3),NULL)");
    const char text[] = "START TRANSACTION;UPDATE orders SET status='refunded';"
                        "UPDATE payment SET state='refunded'";
    assert_int_equal(db_query(other, text, sizeof text - 1), DB_OK);
    assert_int_equal(pay_one(1, "p"), LEDGER_OUTCOME_NONE);
    assert_int_equal(payments[0].state, LEDGER_PAYMENT_NONE);
    assert_int_equal(db_query(other, "COMMIT", 6), DB_OK);
    pay_one(1, "p");
    assert_int_equal(payments[0].state, LEDGER_PAYMENT_REFUNDED);
    assert_int_equal(payments[0].outcome, LEDGER_IN_TIME);
    db_close(&other);
}

/* The payment was told when the order was overdue, and the server's clock has stepped back. */
static void test_payment_that_should_not_be_there_is_found(void **state)
{
    (void)state;
    insert(1, 1, "reserved", future);
    insert(2, 1, "reserved", future);
    sql_server_do("INSERT INTO payment VALUES(1,'p','refund_due','too_late',UTC_TIMESTAMP(3),NULL);"
                  "INSERT INTO refund_due VALUES(1,'p','s',UTC_TIMESTAMP(3))");
    name(0, 1, "p");
    name(1, 2, "p");
    pay(2);
    assert_int_equal(payments[0].outcome, LEDGER_TOO_LATE);
    assert_true(!payments[0].moved && !payments[0].told);
    assert_string_equal(records[0].status, "reserved");
    assert_int_equal(payments[1].outcome, LEDGER_IN_TIME);
}

static void test_grace_is_the_orders_own(void **state)
{
    (void)state;
    uint32_t count = 0;
    struct ledger_due due[MANY];
    struct ledger_due_cursor cursor = {.more = false};
    size_t found = 0;
    insert(1, 1, "reserved", past);
    insert(2, 1, "reserved", past);
    sql_server_do("UPDATE orders SET expires_at=UTC_TIMESTAMP(3)-INTERVAL 5 SECOND;"
                  "UPDATE orders SET grace_s=60 WHERE order_id=1;"
                  "DELETE FROM order_expiry;INSERT INTO order_expiry SELECT "
                  "expires_at+INTERVAL COALESCE(grace_s,0)SECOND,order_id,order_id FROM orders");
    assert_int_equal(ledger_due_list(ledger, &cursor, MANY, due, &found), LEDGER_OK);
    for (size_t i = 0; i < found; i++)
        count += due[i].order_id == 2;
    assert_true(found == 1 && count == 1);
    assert_int_equal(pay_one(1, "p"), LEDGER_IN_TIME);
    assert_int_equal(pay_one(2, "p"), LEDGER_RETAKEN);
}

/* ---- orders that are paid again ---- */

static enum ledger_result retake(uint64_t order_id, uint64_t fence)
{
    struct ledger_stock_update update = {.sku = "s",
                                         .segment = 0,
                                         .round = 1,
                                         .units = 2,
                                         .fence = fence,
                                         .settled = FENCE,
                                         .guard = LEDGER_CHAIN};
    const struct ledger_order order = {.order_id = order_id,
                                       .sku = "s",
                                       .user_id = "u",
                                       .round = 1,
                                       .qty = 2,
                                       .limit = 5,
                                       .payment_ref = "late"};
    enum ledger_result result = ledger_commit(ledger, &update, 1, &order, 1);
    if (result == LEDGER_UNKNOWN)
        result = ledger_resolve(ledger, &update, &order);
    return result;
}

static void test_expired_order_is_paid_with_its_units(void **state)
{
    (void)state;
    insert(1, 2, "expired", past);
    assert_int_equal(retake(1, FENCE + 1), LEDGER_OK);
    assert_int_equal(rows("orders", "status='paid'"), 1);
    assert_int_equal(rows("payment", "state='taken'AND outcome='retaken'"), 1);
    assert_int_equal(rows("user_quota", "units=2"), 1);
    assert_int_equal(rows("stock_segment", "sold=8"), 1);
}

static void test_order_that_is_not_expired_is_not_paid_again(void **state)
{
    (void)state;
    static const char *const statuses[] = {"reserved", "paid", "cancelled", "refunded"};
    for (uint64_t id = 1; id <= 4; id++) {
        insert(id, 2, statuses[id - 1], past);
        assert_int_equal(retake(id, FENCE + 1), LEDGER_DUPLICATE);
    }
    assert_int_equal(rows("payment", "TRUE"), 0);
    assert_int_equal(rows("stock_segment", "sold=6 AND fence=1000"), 2);
}

/* Another process may have paid it: only the payment's row tells, for each order. */
static void test_unknown_commit_of_a_late_payment_is_only_ended(void **state)
{
    (void)state;
    struct ledger_stock_update update = {
        .sku = "s", .segment = 0, .round = 1, .fence = FENCE + 5, .guard = LEDGER_CHAIN};
    const struct ledger_order order = {
        .order_id = 1, .sku = "s", .user_id = "u", .round = 1, .payment_ref = "late"};
    insert(1, 2, "paid", past);
    assert_int_equal(ledger_resolve(ledger, &update, &order), LEDGER_NO);
    assert_int_equal(rows("stock_segment", "fence=1005"), 1);
}

/* ---- refunds and parts ---- */

static struct ledger_return_order returned_order;
static const char *paid_by; /* the payment that the caller has found to pay the order */

static enum ledger_result give_back(enum ledger_status to, uint32_t keep, bool unreturned)
{
    static uint64_t fence = FENCE;
    struct ledger_return_segment segments[2];
    struct ledger_return returned = {.to = to,
                                     .orders = &returned_order,
                                     .order_count = 1,
                                     .segments = segments,
                                     .segment_count = 2};
    fence++;
    returned_order = (struct ledger_return_order){
        .order_id = 1, .payment_ref = paid_by, .keep = keep, .unreturned = unreturned};
    for (uint32_t i = 0; i < 2; i++)
        segments[i] =
            (struct ledger_return_segment){.sku = "s", .segment = i, .segments = 2, .fence = fence};
    enum ledger_result result = ledger_return(ledger, &returned);
    return result == LEDGER_OK && !returned_order.moved ? LEDGER_NO : result;
}

static int64_t sold(void)
{
    return sql_server_do("SELECT SUM(sold)FROM stock_segment");
}

static void insert_paid(uint32_t qty)
{
    insert(1, qty, "paid", future);
    paid_by = "p";
    sql_server_do("INSERT INTO payment VALUES(1,'p','taken','in_time',UTC_TIMESTAMP(3),NULL);"
                  "INSERT INTO user_quota VALUES('s',1,'u',%u,9,'1')",
                  qty);
}

static void test_refund_with_restock_returns_units_once(void **state)
{
    (void)state;
    insert_paid(4);
    assert_int_equal(give_back(LEDGER_REFUNDED, 0, false), LEDGER_OK);
    for (int times = 0; times < 2; times++) {
        assert_int_equal(sold(), 8);
        assert_int_equal(rows("orders", "status='refunded'AND qty=4 AND unreturned IS NULL"), 1);
        assert_int_equal(rows("payment", "state='refunded'AND refunded_at IS NOT NULL"), 1);
        assert_int_equal(rows("user_quota", "units=0 AND order_ids=''"), 1);
        assert_int_equal(give_back(LEDGER_REFUNDED, 0, false), LEDGER_NO);
    }
}

static void test_refund_without_restock_leaves_units_sold(void **state)
{
    (void)state;
    struct ledger_round_use use = {.all_read = false};
    insert_paid(4);
    assert_int_equal(give_back(LEDGER_REFUNDED, 0, true), LEDGER_OK);
    assert_int_equal(sold(), 12);
    assert_int_equal(rows("orders", "status='refunded'AND unreturned=4"), 1);
    assert_int_equal(rows("user_quota", "units=4"), 1);
    assert_int_equal(ledger_round_count(ledger, "s", 1, 10, &use), LEDGER_OK);
    assert_true(use.units == 4 && use.paid == 0 && use.reserved == 0);
}

static void test_part_of_an_order_comes_back_once(void **state)
{
    (void)state;
    insert_paid(5);
    assert_int_equal(give_back(LEDGER_REFUNDED, 3, false), LEDGER_OK);
    assert_int_equal(give_back(LEDGER_REFUNDED, 3, false), LEDGER_NO);
    assert_int_equal(give_back(LEDGER_REFUNDED, 4, false), LEDGER_NO);
    assert_int_equal(rows("orders", "status='paid'AND qty=3 AND ordered=5"), 1);
    assert_int_equal(sold(), 10);
    assert_int_equal(rows("user_quota", "units=3 AND order_ids='1'"), 1);
    assert_int_equal(rows("payment", "state='taken'"), 1);
    assert_int_equal(give_back(LEDGER_REFUNDED, 1, true), LEDGER_OK);
    assert_int_equal(rows("orders", "qty=1 AND ordered=5 AND unreturned=2"), 1);
    assert_int_equal(give_back(LEDGER_REFUNDED, 0, true), LEDGER_OK);
    assert_int_equal(rows("orders", "status='refunded'AND unreturned=3"), 1);
    assert_int_equal(sold(), 10);
}

/* The buyer has paid twice: the order has the other payment's money. */
static void test_due_payment_takes_the_place_of_a_refunded_one(void **state)
{
    (void)state;
    insert_paid(4);
    sql_server_do("INSERT INTO payment VALUES(1,'b','refund_due','already_paid','2026-01-02',NULL),"
                  "(1,'c','refund_due','already_paid','2026-01-03',NULL);"
                  "INSERT INTO refund_due VALUES(1,'b','s',UTC_TIMESTAMP(3)),"
                  "(1,'c','s',UTC_TIMESTAMP(3))");
    assert_int_equal(give_back(LEDGER_REFUNDED, 0, false), LEDGER_OK);
    assert_string_equal(returned_order.next_ref, "b"); /* the first one by name */
    assert_int_equal(rows("orders", "status='paid'AND qty=4 AND version=2"), 1);
    assert_int_equal(rows("payment", "payment_ref='p'AND state='refunded'"
                                     "AND refunded_at IS NOT NULL"),
                     1);
    assert_int_equal(rows("payment", "payment_ref='b'AND state='taken'"), 1);
    assert_int_equal(rows("refund_due", "payment_ref='c'"), 1);
    assert_int_equal(rows("refund_due", "TRUE"), 1);
    assert_int_equal(sold(), 12);
    assert_int_equal(rows("user_quota", "units=4"), 1);
    /* A repeat that has read the payments before that. */
    assert_int_equal(give_back(LEDGER_REFUNDED, 0, false), LEDGER_NO);
    assert_int_equal(rows("payment", "payment_ref='b'AND state='taken'"), 1);
    paid_by = "b";
    assert_int_equal(give_back(LEDGER_REFUNDED, 3, false), LEDGER_OK);
    assert_string_equal(returned_order.next_ref, ""); /* it keeps a part, and the payment */
    assert_int_equal(give_back(LEDGER_REFUNDED, 0, true), LEDGER_OK);
    paid_by = "c";
    assert_int_equal(rows("payment", "payment_ref='c'AND state='taken'"), 1);
    assert_int_equal(give_back(LEDGER_REFUNDED, 0, false), LEDGER_OK);
    assert_int_equal(rows("orders", "status='refunded'AND qty=3 AND unreturned IS NULL"), 1);
    assert_int_equal(rows("payment", "state='refunded'"), 3);
    assert_int_equal(rows("refund_due", "TRUE"), 0);
    assert_int_equal(sold(), 8);
}

/* The shop has just paid it back: it cannot pay the order any more. */
static void test_payment_that_is_being_refunded_takes_no_place(void **state)
{
    (void)state;
    struct db *other = sql_server_open(sql_server_url());
    const char text[] = "START TRANSACTION;SELECT 1 FROM payment WHERE payment_ref='b' FOR UPDATE";
    insert_paid(4);
    sql_server_do("INSERT INTO payment VALUES(1,'b','refund_due','already_paid','2026-01-03',NULL);"
                  "INSERT INTO refund_due VALUES(1,'b','s',UTC_TIMESTAMP(3))");
    assert_int_equal(db_query(other, text, sizeof text - 1), DB_OK);
    assert_int_equal(give_back(LEDGER_REFUNDED, 0, false), LEDGER_OK);
    assert_int_equal(rows("orders", "status='refunded'"), 1);
    db_close(&other);
}

/* `expires_at`, in seconds since the ledger's present. */
static int64_t time_left_s(void)
{
    return sql_server_do("SELECT TIMESTAMPDIFF(SECOND,UTC_TIMESTAMP(3),expires_at)FROM orders");
}

static void test_order_whose_payment_has_failed_is_reserved_again(void **state)
{
    (void)state;
    insert_paid(4);
    sql_server_do("UPDATE sale SET pay_within_s=90000;"
                  "UPDATE orders SET grace_s=7,expires_at='2020-01-01'");
    assert_int_equal(give_back(LEDGER_RESERVED, 0, false), LEDGER_OK);
    assert_in_range(time_left_s(), 90000 - 3600, 90000);
    assert_int_equal(rows("orders", "status='reserved'AND qty=4 AND version=2"), 1);
    assert_int_equal(rows("order_expiry e,orders o", "e.expires_at=o.expires_at+INTERVAL 7 SECOND "
                                                     "AND first_id=1 AND last_id=1"),
                     1);
    assert_int_equal(rows("payment", "state='failed'AND refunded_at IS NULL"), 1);
    assert_int_equal(rows("unpaid_count", "sku='s'AND count=1"), 1);
    assert_int_equal(sold(), 12);
    assert_int_equal(rows("user_quota", "units=4"), 1);
    assert_int_equal(give_back(LEDGER_RESERVED, 0, false), LEDGER_NO);
    assert_int_equal(pay_one(1, "p"), LEDGER_IN_TIME); /* as it was, and pays nothing */
    assert_int_equal(payments[0].state, LEDGER_PAYMENT_FAILED);
    assert_true(!payments[0].moved && !payments[0].told);
    assert_int_equal(pay_one(1, "q"), LEDGER_IN_TIME);
    assert_true(payments[0].moved);
    paid_by = "q";
    sql_server_do("UPDATE sale SET pay_within_s=NULL");
    int64_t ranges = rows("order_expiry", "TRUE");
    assert_int_equal(give_back(LEDGER_RESERVED, 0, false), LEDGER_OK);
    assert_int_equal(rows("orders", "status='reserved'AND expires_at IS NULL"), 1);
    assert_int_equal(rows("order_expiry", "TRUE"), ranges);
}

static void test_due_payment_takes_the_place_of_a_failed_one(void **state)
{
    (void)state;
    insert_paid(4);
    assert_int_equal(pay_one(1, "b"), LEDGER_ALREADY_PAID);
    assert_int_equal(give_back(LEDGER_RESERVED, 0, false), LEDGER_OK);
    assert_string_equal(returned_order.next_ref, "b");
    assert_int_equal(rows("orders", "status='paid'AND version=2"), 1);
    assert_int_equal(rows("payment", "state='failed'AND payment_ref='p'"), 1);
    assert_int_equal(rows("payment", "state='taken'AND payment_ref='b'"), 1);
    assert_int_equal(rows("refund_due", "TRUE"), 0);
}

/* A reset or a retirement ends the reserved orders of a round once: none may come after it. */
static void test_order_is_reserved_again_only_in_its_round(void **state)
{
    (void)state;
    struct db *other = sql_server_open(sql_server_url());
    const char text[] = "START TRANSACTION;UPDATE sale SET round=2";
    insert_paid(4);
    assert_int_equal(db_query(other, text, sizeof text - 1), DB_OK);
    assert_int_equal(give_back(LEDGER_RESERVED, 0, false), LEDGER_NO);
    assert_int_equal(db_query(other, "COMMIT", 6), DB_OK);
    assert_int_equal(give_back(LEDGER_RESERVED, 0, false), LEDGER_NO);
    sql_server_do("DELETE FROM sale");
    assert_int_equal(give_back(LEDGER_RESERVED, 0, false), LEDGER_NO);
    assert_int_equal(rows("orders", "status='paid'AND version IS NULL"), 1);
    assert_int_equal(rows("payment", "state='taken'"), 1);
    db_close(&other);
}

static void test_expired_order_is_cancelled_without_its_units(void **state)
{
    (void)state;
    insert(1, 5, "expired", past);
    sql_server_do("INSERT INTO user_quota VALUES('s',1,'u',3,9,'2')");
    assert_int_equal(give_back(LEDGER_CANCELLED, 2, false), LEDGER_NO);
    assert_int_equal(give_back(LEDGER_CANCELLED, 0, false), LEDGER_OK);
    assert_int_equal(give_back(LEDGER_CANCELLED, 0, false), LEDGER_NO);
    assert_int_equal(rows("orders", "status='cancelled'AND qty=5 AND version=2"), 1);
    assert_int_equal(sold(), 12);
    assert_int_equal(rows("user_quota", "units=3"), 1);
    assert_int_equal(retake(1, FENCE + 1000), LEDGER_DUPLICATE);
    assert_int_equal(pay_one(1, "late"), LEDGER_TOO_LATE);
}

static void test_reserved_order_keeps_a_part(void **state)
{
    (void)state;
    insert(1, 5, "reserved", future);
    assert_int_equal(give_back(LEDGER_CANCELLED, 2, false), LEDGER_OK);
    assert_int_equal(rows("orders", "status='reserved'AND qty=2 AND ordered=5"), 1);
    assert_int_equal(sold(), 9);
    assert_int_equal(give_back(LEDGER_CANCELLED, 0, false), LEDGER_OK);
    assert_int_equal(sold(), 7);
    assert_int_equal(give_back(LEDGER_CANCELLED, 1, false), LEDGER_NO);
}

static void test_due_payments_are_listed_counted_and_refunded(void **state)
{
    (void)state;
    struct ledger_refunds_due due;
    insert(2, 1, "cancelled", future);
    insert(3, 1, "reserved", future);
    assert_int_equal(pay_one(2, "a"), LEDGER_TOO_LATE);
    assert_int_equal(pay_one(2, "b"), LEDGER_TOO_LATE);
    assert_int_equal(pay_one(3, "c"), LEDGER_IN_TIME);
    assert_int_equal(ledger_refunds_count(ledger, &due), LEDGER_OK);
    assert_int_equal(due.count, 2);
    name(0, 2, "a");
    name(1, 3, "c"); /* taken: no refund of what is due */
    assert_int_equal(ledger_refund(ledger, list, payment_list, 2), LEDGER_OK);
    name(0, 2, "a");
    name(1, 2, "x");
    name(2, 3, "c");
    assert_int_equal(ledger_payments_find(ledger, list, payment_list, 3), LEDGER_OK);
    assert_int_equal(payments[0].state, LEDGER_PAYMENT_REFUNDED);
    assert_int_equal(payments[0].outcome, LEDGER_TOO_LATE);
    assert_int_equal(payments[1].state, LEDGER_PAYMENT_NONE);
    assert_int_equal(payments[2].state, LEDGER_PAYMENT_TAKEN);
    assert_string_equal(records[2].status, "paid");
    assert_int_equal(rows("refund_due", "payment_ref='b'"), 1);
    assert_int_equal(rows("refund_due", "TRUE"), 1);
}

/* ---- lists ---- */

static size_t read_all(const struct ledger_payment_filter *filter, size_t max)
{
    struct ledger_payment_place place = {.order_id = 0};
    struct ledger_payment_row found[MANY];
    size_t count = 0, all = 0;
    uint64_t last = 0;
    do {
        assert_int_equal(ledger_payments_list(ledger, filter, &place, max, found, &count),
                         LEDGER_OK);
        for (size_t i = 0; i < count; i++) {
            assert_true(found[i].order_id >= last);
            assert_string_equal(found[i].sku, "s");
            last = found[i].order_id;
        }
        all += count;
    } while (place.order_id != 0);
    return all;
}

/* Of one pair alone MariaDB makes no look-up: each call would read all payments. */
static void test_call_reads_the_payments_it_names_alone(void **state)
{
    (void)state;
    enum { PAYMENTS = 4000, READS_MAX = 100 };
    sql_server_do("INSERT INTO orders(order_id,sku,round,user_id,qty,segment,status,created_at)"
                  "SELECT seq,'s',1,'u',1,0,'cancelled','2026-01-01' FROM " SQL_NUMBERS ";"
                  "INSERT INTO payment SELECT order_id,'p','refund_due','too_late','2026-01-01',"
                  "NULL FROM orders;"
                  "INSERT INTO refund_due SELECT order_id,'p','s','2026-01-01' FROM orders",
                  PAYMENTS);
    ledger_events_write(ledger, true);
    for (size_t count = 1; count <= MANY; count += MANY - 1)
        for (int kind = 0; kind < 3; kind++) {
            for (size_t i = 0; i < count; i++)
                name(i, 100 * count + i, kind == 0 ? "q" : "p");
            int64_t before = sql_server_reads(ledger->db);
            enum ledger_result result =
                (kind == 0   ? ledger_pay
                 : kind == 1 ? ledger_refund
                             : ledger_payments_find)(ledger, list, payment_list, count);
            int64_t reads = sql_server_reads_since(ledger->db, before);
            assert_int_equal(result, LEDGER_OK);
            if (reads > READS_MAX)
                fail_msg("call %d of %zu payments reads %lld rows", kind, count, (long long)reads);
        }
    ledger_events_write(ledger, false);
    assert_int_equal(rows("payment", "state='refunded'"), 1 + MANY);
    assert_int_equal(rows("refund_due", "payment_ref='p'"), PAYMENTS - 1 - MANY);
}

static void test_payments_are_listed_in_pages_of_any_size(void **state)
{
    (void)state;
    static const char *const refs[] = {"a", "b", "c"};
    for (uint64_t id = 1; id <= 4; id++) {
        insert(id, 1, "reserved", future);
        for (size_t i = 0; i < 3; i++)
            pay_one(id, refs[i]);
    }
    for (size_t max = 1; max <= MANY; max++) {
        assert_int_equal(read_all(&(struct ledger_payment_filter){.sku = ""}, max), 12);
        assert_int_equal(read_all(&(struct ledger_payment_filter){.sku = "s"}, max), 12);
        assert_int_equal(read_all(&(struct ledger_payment_filter){.sku = "t"}, max), 0);
        assert_int_equal(
            read_all(&(struct ledger_payment_filter){.state = LEDGER_PAYMENT_DUE, .sku = "s"}, max),
            8);
        assert_int_equal(
            read_all(&(struct ledger_payment_filter){.state = LEDGER_PAYMENT_TAKEN}, max), 4);
        assert_int_equal(read_all(&(struct ledger_payment_filter){.order_id = 2}, max), 3);
    }
}

static void test_damaged_payments_are_left_out(void **state)
{
    (void)state;
    insert(1, 1, "reserved", future);
    insert(2, 1, "reserved", future);
    pay_one(1, "a");
    pay_one(2, "b");
    sql_server_do("UPDATE payment SET payment_ref='a b' WHERE order_id=1");
    assert_int_equal(read_all(&(struct ledger_payment_filter){.order_id = 0}, 3), 1);
    assert_true(ledger_fault(ledger)->damaged);
    fault_clear(ledger_fault(ledger));
}

/* ---- extensions ---- */

static struct ledger_extension extend(uint64_t id, int64_t ms)
{
    struct ledger_extension extension = {.expires_ms = ms};
    records[0].order_id = id;
    assert_int_equal(ledger_extend(ledger, list, (struct ledger_extension *[]){&extension}, 1),
                     LEDGER_OK);
    return extension;
}

static void test_reservation_is_extended_within_its_bounds(void **state)
{
    (void)state;
    insert(1, 1, "reserved", "2099-01-01");
    sql_server_do("UPDATE orders SET expires_at=created_at+INTERVAL 600 SECOND,grace_s=7");
    int64_t created_ms = sql_server_do("SELECT TIMESTAMPDIFF(MICROSECOND,'1970-01-01',created_at)"
                                       "DIV 1000 FROM orders");
    struct ledger_extension extension = extend(1, created_ms + 3600000);
    assert_true(extension.moved && !extension.limited);
    assert_int_equal(rows("orders", "expires_at=created_at+INTERVAL 3600 SECOND"), 1);
    assert_int_equal(rows("order_expiry e,orders o", "e.expires_at=o.expires_at+INTERVAL 7 SECOND "
                                                     "AND first_id=1 AND last_id=1"),
                     1);
    extension = extend(1, created_ms + 3600001);
    assert_true(!extension.moved && extension.limited);
    assert_int_equal(extension.latest_ms, created_ms + 3600000);
    extension = extend(1, created_ms + 700000); /* earlier */
    assert_true(!extension.moved && !extension.limited && records[0].payable);
    sql_server_do("UPDATE sale SET hold_max_s=NULL");
    assert_true(extend(1, created_ms + 3600001).limited);
    sql_server_do("UPDATE orders SET expires_at=UTC_TIMESTAMP(3)-INTERVAL 8 SECOND");
    extension = extend(1, created_ms + 3000000);
    assert_true(!extension.moved && !extension.limited && !records[0].payable);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_status_and_time_decide_a_payment, start),
        cmocka_unit_test_setup(test_late_payment_is_due_where_its_order_cannot_have_units, start),
        cmocka_unit_test_setup(test_late_payment_of_a_sale_that_is_gone_is_due_at_once, start),
        cmocka_unit_test_setup(test_payment_while_another_transaction_has_the_sale, start),
        cmocka_unit_test_setup(test_payments_of_one_order_are_decided_in_their_order, start),
        cmocka_unit_test_setup(test_name_told_after_a_payment_without_one, start),
        cmocka_unit_test_setup(test_locked_order_is_not_decided, start),
        cmocka_unit_test_setup(test_payment_that_should_not_be_there_is_found, start),
        cmocka_unit_test_setup(test_grace_is_the_orders_own, start),
        cmocka_unit_test_setup(test_expired_order_is_paid_with_its_units, start),
        cmocka_unit_test_setup(test_order_that_is_not_expired_is_not_paid_again, start),
        cmocka_unit_test_setup(test_unknown_commit_of_a_late_payment_is_only_ended, start),
        cmocka_unit_test_setup(test_refund_with_restock_returns_units_once, start),
        cmocka_unit_test_setup(test_refund_without_restock_leaves_units_sold, start),
        cmocka_unit_test_setup(test_part_of_an_order_comes_back_once, start),
        cmocka_unit_test_setup(test_due_payment_takes_the_place_of_a_refunded_one, start),
        cmocka_unit_test_setup(test_payment_that_is_being_refunded_takes_no_place, start),
        cmocka_unit_test_setup(test_order_whose_payment_has_failed_is_reserved_again, start),
        cmocka_unit_test_setup(test_due_payment_takes_the_place_of_a_failed_one, start),
        cmocka_unit_test_setup(test_order_is_reserved_again_only_in_its_round, start),
        cmocka_unit_test_setup(test_expired_order_is_cancelled_without_its_units, start),
        cmocka_unit_test_setup(test_reserved_order_keeps_a_part, start),
        cmocka_unit_test_setup(test_due_payments_are_listed_counted_and_refunded, start),
        cmocka_unit_test_setup(test_call_reads_the_payments_it_names_alone, start),
        cmocka_unit_test_setup(test_payments_are_listed_in_pages_of_any_size, start),
        cmocka_unit_test_setup(test_damaged_payments_are_left_out, start),
        cmocka_unit_test_setup(test_reservation_is_extended_within_its_bounds, start),
    };
    return cmocka_run_group_tests(tests, start_group, stop_group);
}
