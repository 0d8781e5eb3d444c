/* Sales that are retired, and what is deleted of rounds that are over. */
#include "sql/orders/orders.h"
#include "sql/sales/sales.h"
#include "sql/server/server.h"
#include "sql/test_server.h"

enum { BATCH = 40 };

static struct ledger *ledger;
static uint64_t fence, next_id;

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

static struct ledger_sale reset_by(const char *sku, const char *key)
{
    struct ledger_sale sale = {.round = 0};
    struct ledger_segment row;
    struct ledger_reset beginning = {
        .key = key, .request = "as asked", .fences = &fence, .end_round = true};
    ledger_sale_find(ledger, sku, &sale);
    strcpy(sale.sku, sku);
    sale.total = 1000;
    sale.segments = 1;
    fence++;
    assert_int_equal(ledger_reset(ledger, &beginning, &sale, &row), LEDGER_OK);
    return sale;
}

static struct ledger_sale reset(const char *sku)
{
    return reset_by(sku, "");
}

static int start(void **state)
{
    (void)state;
    sql_server_empty();
    fence = 1000;
    next_id = UINT64_C(1000000) << 22;
    return 0;
}

/* Commits `count` orders of the sale, every other with a key, of users u0, u1 and u2 in turn. */
static void commit_under(const struct ledger_sale *sale, size_t count, enum ledger_guard guard)
{
    struct ledger_order orders[BATCH];
    char names[BATCH][16], keys[BATCH][32];
    struct ledger_stock_update move = {.sku = sale->sku,
                                       .round = sale->round,
                                       .units = (uint32_t)count,
                                       .settings_version = sale->settings.version,
                                       .guard = guard};
    assert_true(count <= BATCH);
    move.settled =
        (uint64_t)sql_server_do("SELECT fence FROM stock_segment WHERE sku='%s'", sale->sku);
    move.fence = ++fence;
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "u%zu", i % 3);
        snprintf(keys[i], sizeof keys[i], "k%llu", (unsigned long long)next_id);
        orders[i] = (struct ledger_order){.order_id = next_id++,
                                          .sku = sale->sku,
                                          .user_id = names[i],
                                          .key = i % 2 == 0 ? keys[i] : NULL,
                                          .round = sale->round,
                                          .qty = 1,
                                          .created_ms = 1790000000123};
    }
    assert_int_equal(ledger_commit(ledger, &move, 1, orders, count), LEDGER_OK);
}

static void commit(const struct ledger_sale *sale, size_t count)
{
    commit_under(sale, count, LEDGER_CHAIN);
}

static struct ledger_held count_held(const struct ledger_sale *sale)
{
    struct ledger_held held = {.reserved = 0};
    while (!held.done)
        assert_int_equal(ledger_held_count(ledger, sale, &held), LEDGER_OK);
    return held;
}

static int64_t rows(const char *table)
{
    return sql_server_do("SELECT COUNT(*) FROM %s", table);
}

static void end_rounds(const char *sku, uint32_t round)
{
    uint32_t ended = 0;
    while (ledger_round_end_step(ledger, sku, round, 1000, &ended) == LEDGER_OK)
        continue;
}

static void test_orders_that_hold_units_are_counted(void **state)
{
    (void)state;
    struct ledger_sale other = reset("t"), sale = reset("s");
    struct ledger_held held = {.reserved = 0};
    commit(&other, 7);
    commit(&sale, 5);
    sale = reset("s");
    commit(&sale, 9);
    sql_server_do("UPDATE orders SET status='paid' WHERE sku='s' AND order_id%%2=0");
    assert_int_equal(ledger_held_count(ledger, &sale, &held), LEDGER_NO); /* round 1 is reserved */
    end_rounds("s", 1);
    held = count_held(&sale);
    assert_int_equal(held.paid + held.reserved, 9);
    assert_int_equal(held.units, held.sold);
    assert_int_equal(held.paid, sql_server_do("SELECT COUNT(*) FROM orders WHERE status='paid' "
                                              "AND round=2"));
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM orders WHERE status='reserved' AND "
                                   "sku='s' AND round=1"),
                     0);
}

/* An order of another sale had an id far ahead when the round began, or the ledger's clock was
 * ahead: the guess where the round's orders begin is behind all of them. */
static void test_orders_before_the_guess_are_counted(void **state)
{
    (void)state;
    struct ledger_sale sale = reset("s");
    commit(&sale, 3);
    sql_server_do("UPDATE sale_round SET last_id=last_id+(7200000<<22),"
                  "ended_at=ended_at+INTERVAL 2 HOUR");
    next_id += UINT64_C(86400000 * 400) << 22; /* behind the guess */
    commit(&sale, 2);
    struct ledger_held held = count_held(&sale);
    assert_true(held.first_id > 0);
    assert_int_equal(held.reserved, 5);
    sql_server_do("UPDATE orders SET status='paid'");
    held = count_held(&sale);
    assert_int_equal(held.paid, 5);
    assert_int_equal(ledger_retire(ledger, &sale, &held, false), LEDGER_OK);
}

/* So the end of a sale looks at the orders of its time alone, however many there are beside. */
static void test_count_begins_with_the_round_and_ends_when_all_are_found(void **state)
{
    (void)state;
    sql_server_do("INSERT INTO orders(order_id,sku,round,user_id,qty,created_at)"
                  "SELECT seq,'t',1,'u',1,'2026-01-01' FROM " SQL_NUMBERS,
                  120000);
    next_id = (uint64_t)sql_server_do(
        "SELECT TIMESTAMPDIFF(SECOND,'2025-01-01',UTC_TIMESTAMP())*1000<<22");
    struct ledger_sale other = reset("t");
    commit(&other, 1);
    struct ledger_sale sale = reset("s");
    next_id += UINT64_C(1000) << 22;
    commit(&sale, 3);
    struct ledger_held held = {.reserved = 0};
    assert_int_equal(ledger_held_count(ledger, &sale, &held), LEDGER_OK);
    assert_true(held.done && !held.from_zero);
    assert_int_equal(held.reserved, 3);
}

static void test_order_behind_the_count_keeps_the_sale(void **state)
{
    (void)state;
    struct ledger_sale sale = reset("s");
    commit(&sale, 3);
    sql_server_do("UPDATE orders SET status='paid'");
    struct ledger_held held = count_held(&sale);
    commit(&sale, 1);
    assert_int_equal(ledger_retire(ledger, &sale, &held, false), LEDGER_NO);
    assert_int_equal(rows("sale"), 1);
    sql_server_do("UPDATE orders SET status='paid'");
    held = count_held(&sale);
    assert_int_equal(ledger_retire(ledger, &sale, &held, false), LEDGER_OK);
    assert_int_equal(rows("sale") + rows("stock_segment"), 0);
    assert_int_equal(ledger_retire(ledger, &sale, &held, false), LEDGER_NO);
    uint32_t segments = 0;
    assert_int_equal(ledger_retired_find(ledger, "s", &segments), LEDGER_OK);
    assert_int_equal(segments, 1);
    assert_int_equal(ledger_retired_find(ledger, "t", &segments), LEDGER_NO);
    assert_int_equal(reset("s").round, 2);
}

/* The count has found it paid. It has its units since, and moves no fence. */
static void test_order_that_is_unpaid_behind_the_count_keeps_the_sale(void **state)
{
    (void)state;
    struct ledger_sale sale = reset("s");
    commit(&sale, 3);
    sql_server_do("UPDATE orders SET status='paid';INSERT INTO payment SELECT order_id,'p','taken',"
                  "'in_time',UTC_TIMESTAMP(3),NULL FROM orders");
    struct ledger_held held = count_held(&sale);
    struct ledger_return_order order = {
        .order_id = (uint64_t)sql_server_do("SELECT MIN(order_id)FROM orders"), .payment_ref = "p"};
    struct ledger_return returned = {.to = LEDGER_RESERVED, .orders = &order, .order_count = 1};
    assert_int_equal(ledger_return(ledger, &returned), LEDGER_OK);
    assert_true(order.moved);
    assert_int_equal(ledger_retire(ledger, &sale, &held, false), LEDGER_NO);
    assert_int_equal(count_held(&sale).reserved, 1);
}

/* As many units are sold as before the count: a paid order is cancelled, and another has its unit.
 * Its id is of a daemon whose clock is behind. */
static void test_order_in_place_of_a_paid_one_keeps_the_sale(void **state)
{
    (void)state;
    struct ledger_sale sale = reset("s");
    commit(&sale, 3);
    sql_server_do("UPDATE orders SET status='paid'");
    struct ledger_held held = count_held(&sale);
    sql_server_do("UPDATE orders SET status='cancelled' LIMIT 1;"
                  "UPDATE stock_segment SET sold=sold-1,fence=%llu",
                  (unsigned long long)++fence);
    next_id -= 100;
    commit(&sale, 1);
    assert_int_equal(ledger_retire(ledger, &sale, &held, false), LEDGER_NO);
    held = count_held(&sale);
    assert_int_equal(held.reserved, 1);
}

/* Strategies that sell by the counters leave the fence where it is. */
static void test_order_by_whatever_guard_keeps_the_sale(void **state)
{
    (void)state;
    struct ledger_sale sale = reset("s");
    for (int guard = LEDGER_CHAIN; guard <= LEDGER_UNFENCED; guard++) {
        sql_server_do("UPDATE orders SET status='paid'");
        struct ledger_held held = count_held(&sale);
        commit_under(&sale, 1, (enum ledger_guard)guard);
        assert_int_equal(ledger_retire(ledger, &sale, &held, false), LEDGER_NO);
    }
}

static void test_round_that_was_reset_keeps_the_sale(void **state)
{
    (void)state;
    struct ledger_sale sale = reset("s");
    struct ledger_held held = count_held(&sale);
    reset("s");
    assert_int_equal(ledger_retire(ledger, &sale, &held, false), LEDGER_NO);
    assert_int_equal(rows("sale"), 1);
}

/* Whoever has the settings of the sale that is gone neither changes the next one's nor takes them
 * for its own. */
static void test_settings_of_a_retired_sale_are_no_later_ones(void **state)
{
    (void)state;
    struct ledger_sale sale = reset("s");
    for (int i = 0; i < 3; i++) {
        struct ledger_settings old = sale.settings;
        struct ledger_held held = count_held(&sale);
        assert_int_equal(ledger_retire(ledger, &sale, &held, false), LEDGER_OK);
        sale = reset("s");
        assert_true(sale.settings.version > old.version);
        assert_int_equal(sql_server_do("SELECT settings_version FROM stock_segment"),
                         sale.settings.version);
        old.paused = true;
        assert_int_equal(ledger_settings_change(ledger, "s", &old, false), LEDGER_NO);
        commit(&sale, 1);
        sql_server_do("UPDATE orders SET status='paid'");
    }
}

static bool is_key_over(const char *key)
{
    struct ledger_sale sale;
    char request[LEDGER_RESET_TEXT_MAX];
    bool retired = false;
    assert_int_equal(ledger_reset_find(ledger, "s", key, &sale, request, &retired), LEDGER_OK);
    return retired;
}

/* Also the key that made the sale, whose round a reset had ended before: nobody is to believe that
 * his sale is there. */
static void test_keys_of_all_its_resets_end_with_the_sale(void **state)
{
    (void)state;
    reset_by("s", "made");
    struct ledger_sale sale = reset_by("s", "reset");
    assert_false(is_key_over("made"));
    assert_false(is_key_over("reset"));
    struct ledger_held held = count_held(&sale);
    assert_int_equal(ledger_retire(ledger, &sale, &held, false), LEDGER_OK);
    assert_true(is_key_over("made"));
    assert_true(is_key_over("reset"));
    reset_by("s", "again");
    assert_true(is_key_over("made"));
    assert_false(is_key_over("again"));
}

/* Purges until nothing is due, in pieces of so many rows. Adds up what went. */
static struct ledger_purged purge(unsigned piece)
{
    struct ledger_purged all = {.round = 0}, one;
    enum ledger_result result = LEDGER_OK;
    for (int i = 0; i < 10000 && result == LEDGER_OK; i++) {
        result = ledger_purge(ledger, 10, piece, &one);
        all.keys += one.keys;
        all.users += one.users;
    }
    assert_int_equal(result, LEDGER_NO);
    return all;
}

static void test_what_a_round_has_left_is_deleted_piece_by_piece(void **state)
{
    (void)state;
    for (unsigned piece = 1; piece <= 100; piece *= 10) {
        sql_server_empty();
        struct ledger_sale first = reset("s"), other = reset("t");
        commit(&first, 11);
        commit(&other, 13);
        struct ledger_sale second = reset("s");
        commit(&second, 17);
        sql_server_do("INSERT INTO user_quota(sku,round,user_id,units,allowed,order_ids)"
                      "SELECT sku,round,user_id,COUNT(*),99,'' FROM orders GROUP BY 1,2,3");
        sql_server_do("INSERT INTO sale_reset(sku,idempotency_key,request,round,total,segments,"
                      "paused)SELECT sku,round,'',round,1,1,0 FROM orders GROUP BY sku,round");
        assert_int_equal(purge(piece).keys, 0); /* nothing is that old */
        sql_server_do("UPDATE sale_round SET ended_at=UTC_TIMESTAMP(3)-INTERVAL 11 DAY");
        struct ledger_purged gone = purge(piece);
        assert_int_equal(gone.keys, 11);
        assert_int_equal(gone.users, 3);
        assert_int_equal(rows("orders"), 41);
        assert_int_equal(rows("order_key"), 30);
        assert_int_equal(rows("user_quota"), 6);
        assert_int_equal(rows("sale_reset"), 2);
        assert_int_equal(sql_server_do("SELECT COUNT(*) FROM order_key k JOIN orders o USING"
                                       "(order_id)WHERE sku='s' AND round=1"),
                         0);
        assert_int_equal(purge(piece).keys, 0);
    }
}

/* Though its orders lie between those of a round that is due. */
static void test_round_that_ended_lately_keeps_its_keys(void **state)
{
    (void)state;
    struct ledger_sale due = reset("s"), fresh = reset("t");
    commit(&due, 3);
    commit(&fresh, 5);
    commit(&due, 2);
    reset("t");
    reset("s");
    sql_server_do("UPDATE sale_round SET ended_at=UTC_TIMESTAMP(3)-INTERVAL 11 DAY WHERE sku='s'");
    assert_int_equal(purge(100).keys, 5);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM order_key k JOIN orders o USING(order_id)"
                                   "WHERE sku='t'"),
                     5);
    sql_server_do("UPDATE sale_round SET ended_at=UTC_TIMESTAMP(3)-INTERVAL 11 DAY");
    assert_int_equal(purge(100).keys, 5);
    assert_int_equal(rows("order_key"), 0);
}

/* However many skus had sales at the same time, the orders of that time are read once. */
static void test_rounds_that_are_due_share_one_reading(void **state)
{
    (void)state;
    enum { SKUS = 10, OTHERS = 1000, PIECE = 50 };
    struct ledger_sale sales[SKUS];
    int calls = 0;
    for (int i = 0; i < SKUS; i++) {
        const char sku[] = {(char)('a' + i), '\0'};
        sales[i] = reset(sku);
    }
    sql_server_do("INSERT INTO orders(order_id,sku,round,user_id,qty,created_at)"
                  "SELECT %llu+seq,'t',1,'u',1,'2026-01-01' FROM " SQL_NUMBERS,
                  (unsigned long long)next_id, OTHERS);
    next_id += OTHERS / 2 * 3;
    for (int i = 0; i < SKUS; i++)
        commit(&sales[i], 1);
    for (int i = 0; i < SKUS; i++)
        reset(sales[i].sku);
    sql_server_do("UPDATE sale_round SET ended_at=UTC_TIMESTAMP(3)-INTERVAL 11 DAY");
    for (; sql_server_do("SELECT COUNT(*) FROM sale_round WHERE step='keys'") > 0; calls++) {
        struct ledger_purged purged;
        assert_int_equal(ledger_purge(ledger, 10, PIECE, &purged), LEDGER_OK);
        assert_true(calls <= OTHERS / PIECE + 2 * SKUS);
    }
    assert_int_equal(rows("order_key"), 0);
    for (calls = 0; sql_server_do("SELECT COUNT(*) FROM sale_round WHERE step<>'done'") > 0;
         calls++) {
        struct ledger_purged purged;
        assert_int_equal(ledger_purge(ledger, 10, PIECE, &purged), LEDGER_OK);
        assert_true(calls <= SKUS);
    }
}

#define TEST(name) cmocka_unit_test_setup(name, start)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_orders_that_hold_units_are_counted),
        TEST(test_orders_before_the_guess_are_counted),
        TEST(test_count_begins_with_the_round_and_ends_when_all_are_found),
        TEST(test_order_behind_the_count_keeps_the_sale),
        TEST(test_order_that_is_unpaid_behind_the_count_keeps_the_sale),
        TEST(test_order_in_place_of_a_paid_one_keeps_the_sale),
        TEST(test_order_by_whatever_guard_keeps_the_sale),
        TEST(test_round_that_was_reset_keeps_the_sale),
        TEST(test_settings_of_a_retired_sale_are_no_later_ones),
        TEST(test_keys_of_all_its_resets_end_with_the_sale),
        TEST(test_what_a_round_has_left_is_deleted_piece_by_piece),
        TEST(test_round_that_ended_lately_keeps_its_keys),
        TEST(test_rounds_that_are_due_share_one_reading),
    };
    return cmocka_run_group_tests(tests, start_group, stop_group);
}
