/* Listing orders: page by page along the ids, and those of one user. */
#include "sql/orders/orders.h"
#include "sql/sales/sales.h"
#include "sql/server/server.h"
#include "sql/test_server.h"

enum { BATCH = 40, PAGE = 500, ID_MS = 1 << 22 };

static struct ledger *ledger;
static uint64_t fence, next_id;
static bool with_keys; /* of orders that are committed */
static struct ledger_record page[PAGE];

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

/* Each test begins with two sales, "s" and "t", and no orders. */
static int start(void **state)
{
    (void)state;
    sql_server_empty();
    fence = 1000;
    with_keys = false;
    next_id = UINT64_C(1000000) * ID_MS;
    for (int i = 0; i < 2; i++) {
        struct ledger_sale sale = {.total = 1000000, .segments = 1};
        struct ledger_segment row;
        struct ledger_reset reset = {.fences = &fence};
        strcpy(sale.sku, i == 0 ? "s" : "t");
        assert_int_equal(ledger_reset(ledger, &reset, &sale, &row), LEDGER_OK);
    }
    return 0;
}

/* Commits `count` orders of one sale, whose ids begin at `id`; order i is of user u(i % users). */
static void commit_at(uint64_t id, const char *sku, size_t count, unsigned users)
{
    struct ledger_order orders[BATCH];
    char names[BATCH][16], keys[BATCH][32];
    struct ledger_stock_update move = {
        .sku = sku, .round = 1, .units = (uint32_t)count, .settings_version = 1};
    assert_true(count <= BATCH);
    move.settled = (uint64_t)sql_server_do("SELECT fence FROM stock_segment WHERE sku='%s'", sku);
    move.fence = ++fence;
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "u%u", (unsigned)i % users);
        unsigned long long order_id = id + i;
        snprintf(keys[i], sizeof keys[i], "k%llu", order_id);
        orders[i] = (struct ledger_order){.order_id = order_id,
                                          .sku = sku,
                                          .user_id = names[i],
                                          .key = with_keys ? keys[i] : NULL,
                                          .round = 1,
                                          .qty = 1,
                                          .created_ms = 1790000000123};
    }
    assert_int_equal(ledger_commit(ledger, &move, 1, orders, count), LEDGER_OK);
}

/* The same with the next ids, some ms on. */
static void commit(const char *sku, size_t count, unsigned users)
{
    commit_at(next_id, sku, count, users);
    next_id += 7 * ID_MS;
}

static struct ledger_filter filter(const char *sku, const char *user_id, const char *status)
{
    struct ledger_filter filter;
    snprintf(filter.sku, sizeof filter.sku, "%s", sku);
    snprintf(filter.user_id, sizeof filter.user_id, "%s", user_id);
    snprintf(filter.status, sizeof filter.status, "%s", status);
    return filter;
}

/* Reads all pages of `max`; checks that ids grow and filters hold. Returns the number of orders. */
static size_t read_all(struct ledger_filter wanted, size_t max)
{
    size_t total = 0, count = 0;
    uint64_t after = 0, last = 0;
    do {
        assert_int_equal(ledger_orders_list(ledger, &wanted, after, max, page, &count, &after),
                         LEDGER_OK);
        assert_true(count <= max);
        for (size_t i = 0; i < count; i++) {
            assert_true(page[i].order_id > last);
            last = page[i].order_id;
            assert_true(wanted.sku[0] == '\0' || strcmp(wanted.sku, page[i].sku) == 0);
            assert_true(wanted.user_id[0] == '\0' || strcmp(wanted.user_id, page[i].user_id) == 0);
            assert_true(wanted.status[0] == '\0' || strcmp(wanted.status, page[i].status) == 0);
        }
        total += count;
        assert_true(after == 0 || after >= last);
    } while (after != 0);
    return total;
}

static void test_scan_gives_every_order_once_whatever_the_page(void **state)
{
    (void)state;
    assert_int_equal(read_all(filter("", "", ""), PAGE), 0);
    for (int i = 0; i < 4; i++)
        commit(i % 2 == 0 ? "s" : "t", 25, 5);
    for (size_t max = 1; max <= PAGE; max *= 7) {
        assert_int_equal(read_all(filter("", "", ""), max), 100);
        assert_int_equal(read_all(filter("s", "", ""), max), 50);
        assert_int_equal(read_all(filter("s", "u1", ""), max), 10);
        assert_int_equal(read_all(filter("", "", "reserved"), max), 100);
        assert_int_equal(read_all(filter("", "", "paid"), max), 0);
        assert_int_equal(read_all(filter("x", "", ""), max), 0);
    }
}

static void test_scan_looks_at_a_bounded_number_of_rows(void **state)
{
    (void)state;
    size_t count = 0;
    uint64_t next = 0;
    struct ledger_filter wanted = filter("t", "", "");
    sql_server_do("INSERT INTO orders(order_id,sku,round,user_id,qty,segment,created_at)"
                  "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<350)"
                  "SELECT a.i*1000+b.i,'s',1,'u',1,0,NOW(3) FROM n a,n b");
    commit("t", 3, 3);
    assert_int_equal(ledger_orders_list(ledger, &wanted, 0, PAGE, page, &count, &next), LEDGER_OK);
    assert_int_equal(count, 0);
    assert_int_equal(
        sql_server_do("SELECT COUNT(*) FROM orders WHERE order_id<=%llu", (unsigned long long)next),
        LEDGER_SCAN_MAX);
    assert_int_equal(read_all(wanted, PAGE), 3);
}

static void test_user_with_too_many_orders_is_refused(void **state)
{
    (void)state;
    size_t count = 0;
    uint64_t next = 0;
    struct ledger_filter wanted = filter("", "many", "");
    sql_server_do("INSERT INTO order_key(user_id,idempotency_key,order_id)"
                  "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<100)"
                  "SELECT 'many',a.i*100+b.i,a.i*100+b.i FROM n a,n b");
    assert_int_equal(ledger_orders_list(ledger, &wanted, 0, 1, page, &count, &next), LEDGER_OK);
    sql_server_do("INSERT INTO order_key(user_id,idempotency_key,order_id)VALUES('many','k',1)");
    assert_int_equal(ledger_orders_list(ledger, &wanted, 0, 1, page, &count, &next), LEDGER_LIMIT);
    assert_int_equal(count, 0);
}

static void test_listed_order_has_all_its_fields(void **state)
{
    (void)state;
    size_t count = 0;
    uint64_t next = 0;
    struct ledger_filter wanted = filter("", "u0", "");
    commit("s", 1, 1);
    sql_server_do("UPDATE orders SET status='paid',segment=4,qty=5,"
                  "expires_at='2026-12-24 18:00:00.5'");
    assert_int_equal(ledger_orders_list(ledger, &wanted, 0, 1, page, &count, &next), LEDGER_OK);
    assert_int_equal(count, 1);
    assert_string_equal(page[0].sku, "s");
    assert_string_equal(page[0].user_id, "u0");
    assert_string_equal(page[0].status, "paid");
    assert_string_equal(page[0].created_at, "2026-09-21T14:13:20.123Z");
    assert_string_equal(page[0].expires_at, "2026-12-24T18:00:00.500Z");
    assert_int_equal(page[0].qty, 5);
    assert_int_equal(page[0].segment, 4);
    assert_int_equal(next, page[0].order_id);
    assert_int_equal(ledger_orders_list(ledger, &wanted, next, 1, page, &count, &next), LEDGER_OK);
    assert_int_equal(count, 0);
    assert_int_equal(next, 0);
}

static int64_t rows(const char *table)
{
    return sql_server_do("SELECT COUNT(*) FROM %s", table);
}

/* More orders than one call reads: a filter that lets few through makes pages short. */
static void test_user_finds_every_order_whatever_the_page(void **state)
{
    (void)state;
    enum { COMMITS = 600 };
    for (int i = 0; i < COMMITS; i++)
        commit(i % 2 == 0 ? "s" : "t", 4, 2);
    commit("s", 1, 1);
    for (size_t max = 7; max <= PAGE; max *= 7) {
        assert_int_equal(read_all(filter("", "u1", ""), max), 2 * COMMITS);
        assert_int_equal(read_all(filter("", "u0", ""), max), 2 * COMMITS + 1);
        assert_int_equal(read_all(filter("t", "u0", ""), max), COMMITS);
        assert_int_equal(read_all(filter("s", "u0", "paid"), max), 0);
        assert_int_equal(read_all(filter("", "nobody", ""), max), 0);
    }
}

/* An order may be committed long after its id was made. */
static void test_late_commit_is_found_in_its_place(void **state)
{
    (void)state;
    commit("s", 1, 1);
    uint64_t late = next_id + ID_MS;
    for (int i = 0; i < 3; i++)
        commit("s", 1, 1);
    commit_at(late, "s", 2, 2);
    assert_int_equal(read_all(filter("", "u0", ""), 2), 5);
    assert_int_equal(read_all(filter("", "u1", ""), 2), 1);
}

static void test_orders_with_and_without_a_key_have_a_row_each(void **state)
{
    (void)state;
    commit("s", 3, 1);
    with_keys = true;
    commit("s", 2, 1);
    assert_int_equal(rows("order_key"), 5);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM order_key WHERE idempotency_key="
                                   "CONCAT('#',order_id)"),
                     3);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM orders WHERE idempotency_key IS NULL"), 3);
    assert_int_equal(read_all(filter("", "u0", ""), PAGE), 5);
}

/* As the version before has left them: orders without a key have no row, and those of rounds that
 * are over for long need none any more. The purge of the keys of r has come to the order 11. */
static void test_upgrade_gives_every_order_its_row(void **state)
{
    (void)state;
    commit("s", 4, 1);
    commit("t", 4, 1);
    with_keys = true;
    commit("s", 2, 1);
    sql_server_do("DELETE FROM order_key WHERE idempotency_key LIKE '#%%';"
                  "DELETE FROM sale_round;"
                  "INSERT INTO sale_round(sku,round,segments,retired,ended_at,last_id,step,"
                  "purged_to)VALUES('t',1,1,1,'2026-01-01',9,'users',0),"
                  "('r',1,1,0,'2026-01-01',13,'keys',11);"
                  "INSERT INTO orders(order_id,sku,round,user_id,qty,segment,created_at)"
                  "VALUES(11,'r',1,'u0',1,0,'2026-01-01'),(12,'r',1,'u0',1,0,'2026-01-01'),"
                  "(13,'r',1,'u0',1,0,'2026-01-01');"
                  "DELETE FROM schema_version WHERE name='0009_order_key'");
    assert_int_equal(read_all(filter("", "u0", ""), PAGE), 2);
    assert_int_equal(ledger_migrate(ledger, NULL, NULL), LEDGER_OK);
    assert_int_equal(read_all(filter("", "u0", ""), PAGE), 8);
    assert_int_equal(read_all(filter("r", "u0", ""), PAGE), 2);
    assert_int_equal(read_all(filter("t", "u0", ""), PAGE), 0);
}

#define TEST(name) cmocka_unit_test_setup(name, start)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_scan_gives_every_order_once_whatever_the_page),
        TEST(test_scan_looks_at_a_bounded_number_of_rows),
        TEST(test_user_with_too_many_orders_is_refused),
        TEST(test_listed_order_has_all_its_fields),
        TEST(test_user_finds_every_order_whatever_the_page),
        TEST(test_late_commit_is_found_in_its_place),
        TEST(test_orders_with_and_without_a_key_have_a_row_each),
        TEST(test_upgrade_gives_every_order_its_row),
    };
    return cmocka_run_group_tests(tests, start_group, stop_group);
}
