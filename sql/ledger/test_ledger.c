/* What the ledger accepts and refuses: sales, the chain of fences, orders, recovery. */
#include "base/clock.h"
#include "base/fault.h"
#include "sql/orders/orders.h"
#include "sql/ledger/ledger_query.h"
#include "sql/sales/sales.h"
#include "sql/ledger/ledger.h"
#include "sql/server/server.h"
#include "sql/test_server.h"

#include <signal.h>
#include <time.h>

enum { SEGMENTS = 3, TOTAL = 10, FENCE = 1000, MIGRATORS = 4 };

static struct ledger *ledger;

static struct ledger *open_url(const char *url)
{
    char error[128];
    struct ledger *opened = ledger_open(url, 5000, error, sizeof error);
    if (!opened)
        fail_msg("%s: %s", url, error);
    return opened;
}

/* Begins a round of the sale "s" with the same fence on every segment. */
static struct ledger_sale reset(uint32_t total, uint32_t segments, uint64_t fence)
{
    struct ledger_sale sale = {.sku = "s"};
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    uint64_t fences[LEDGER_SEGMENTS_MAX];
    for (uint32_t i = 0; i < LEDGER_SEGMENTS_MAX; i++)
        fences[i] = fence;
    struct ledger_reset beginning = {.fences = fences, .end_round = true};
    ledger_sale_find(ledger, "s", &sale);
    sale.total = total;
    sale.segments = segments;
    assert_int_equal(ledger_reset(ledger, &beginning, &sale, rows), LEDGER_OK);
    for (uint32_t i = 0; i < segments; i++) {
        assert_int_equal(rows[i].segment, i);
        assert_int_equal(rows[i].round, sale.round);
        assert_int_equal(rows[i].sold, 0);
    }
    return sale;
}

static int start_group(void **state)
{
    (void)state;
    sql_server_clear();
    ledger = open_url(sql_server_url());
    enum ledger_result result = ledger_migrate(ledger, NULL, NULL);
    ledger_close(&ledger);
    return result == LEDGER_OK ? 0 : -1;
}

/* Begins each test with one sale "s" of 4 + 3 + 3 units. */
static int start(void **state)
{
    (void)state;
    sql_server_empty();
    ledger = open_url(sql_server_url());
    reset(TOTAL, SEGMENTS, FENCE);
    return 0;
}

/* The same over the statements that a server without bulk bindings gets. */
static int start_without_bulk(void **state)
{
    start(state);
    ledger->without_bulk = true;
    return 0;
}

static int finish(void **state)
{
    (void)state;
    ledger_close(&ledger);
    return 0;
}

static struct ledger_order order(uint64_t id, uint32_t qty, const char *key)
{
    return (struct ledger_order){.order_id = id,
                                 .sku = "s",
                                 .user_id = "u",
                                 .key = key,
                                 .round = 1,
                                 .qty = qty,
                                 .created_ms = 1790000000123};
}

static struct ledger_stock_update move(uint32_t segment, uint32_t units, uint64_t settled,
                                       uint64_t fence)
{
    return (struct ledger_stock_update){.sku = "s",
                                        .segment = segment,
                                        .round = 1,
                                        .units = units,
                                        .fence = fence,
                                        .settled = settled,
                                        .settings_version = 1};
}

static enum ledger_result commit_one(struct ledger_stock_update step, struct ledger_order row)
{
    return ledger_commit(ledger, &step, 1, &row, 1);
}

static int64_t sold(uint32_t segment)
{
    return sql_server_do("SELECT sold FROM stock_segment WHERE sku='s' AND segment=%u", segment);
}

static int64_t fence_of(uint32_t segment)
{
    return sql_server_do("SELECT fence FROM stock_segment WHERE sku='s' AND segment=%u", segment);
}

static int64_t count_orders(void)
{
    return sql_server_do("SELECT COUNT(*) FROM orders");
}

/* ---- migration ---- */

static void test_migrate_twice_is_harmless(void **state)
{
    (void)state;
    assert_int_equal(ledger_migrate(ledger, NULL, NULL), LEDGER_OK);
    assert_int_equal(ledger_migrate(ledger, NULL, NULL), LEDGER_OK);
    assert_int_equal(sold(0), 0);
}

static void test_migration_that_died_half_way_is_repeated(void **state)
{
    (void)state;
    int64_t migrations = sql_server_do("SELECT COUNT(*) FROM schema_version");
    sql_server_do("DELETE FROM schema_version;DROP TABLE order_expiry");
    assert_int_equal(ledger_migrate(ledger, NULL, NULL), LEDGER_OK);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM schema_version"), migrations);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM order_expiry"), 0);
    assert_int_equal(sold(0), 0);
}

/* Whether a file was applied must not be guessed: it would be run again over tables in use. */
static void test_migration_that_cannot_be_asked_about_is_not_run(void **state)
{
    (void)state;
    sql_server_do("ALTER TABLE schema_version CHANGE name hidden VARCHAR(64);DROP TABLE restock");
    assert_int_equal(ledger_migrate(ledger, NULL, NULL), LEDGER_FAILED);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM information_schema.tables WHERE "
                                   "table_schema=DATABASE() AND table_name='restock'"),
                     0);
    sql_server_do("DROP TABLE schema_version");
    assert_int_equal(ledger_migrate(ledger, NULL, NULL), LEDGER_OK);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM restock"), 0);
}

enum { SHORT_MS = 200, HELD_MS = 600 };

/* Keeps a table from being changed for three times the ledger's time-out. */
static void *hold_table(void *locked_out)
{
    struct db *db = sql_server_open(sql_server_url());
    assert_int_equal(db_query(db, "LOCK TABLES user_quota WRITE", 28), DB_OK);
    atomic_store((_Atomic bool *)locked_out, true);
    nanosleep(&(struct timespec){.tv_nsec = HELD_MS * 1000000}, NULL);
    db_close(&db);
    return NULL;
}

struct patience {
    int asked;
    bool stops;
    char name[64]; /* of the last file that was run */
};

static bool go_on(const struct ledger_migration *now, void *context)
{
    struct patience *patience = context;
    patience->asked++;
    snprintf(patience->name, sizeof patience->name, "%s", now->name);
    return !patience->stops;
}

static enum ledger_result migrate_held(struct patience *patience)
{
    char error[128];
    pthread_t thread;
    _Atomic bool locked = false;
    struct ledger *mine = ledger_open(sql_server_url(), SHORT_MS, error, sizeof error);
    sql_server_do("DELETE FROM schema_version WHERE name LIKE '0007%%'");
    assert_int_equal(pthread_create(&thread, NULL, hold_table, (void *)&locked), 0);
    while (!atomic_load(&locked))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    enum ledger_result result = ledger_migrate(mine, go_on, patience);
    pthread_join(thread, NULL);
    ledger_close(&mine);
    return result;
}

/* A large table is copied for longer than any question may take. */
static void test_migration_may_take_longer_than_the_time_out(void **state)
{
    (void)state;
    struct patience patience = {.stops = false};
    assert_int_equal(migrate_held(&patience), LEDGER_OK);
    assert_true(patience.asked >= (HELD_MS - SHORT_MS) / 100);
    assert_string_equal(patience.name, "0007_user_id");
}

static void test_migration_is_left_when_the_daemon_ends(void **state)
{
    (void)state;
    struct patience patience = {.stops = true};
    assert_int_equal(migrate_held(&patience), LEDGER_FAILED);
    assert_int_equal(patience.asked, 1);
    assert_int_equal(ledger_migrate(ledger, NULL, NULL), LEDGER_OK);
}

static void *migrate(void *result_out)
{
    struct ledger *mine = open_url(sql_server_url());
    *(enum ledger_result *)result_out = ledger_migrate(mine, NULL, NULL);
    ledger_close(&mine);
    return NULL;
}

static void test_many_may_migrate_at_once(void **state)
{
    (void)state;
    pthread_t threads[MIGRATORS];
    enum ledger_result results[MIGRATORS];
    sql_server_clear();
    for (int i = 0; i < MIGRATORS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, migrate, &results[i]), 0);
    for (int i = 0; i < MIGRATORS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < MIGRATORS; i++)
        assert_int_equal(results[i], LEDGER_OK);
    assert_int_equal(sql_server_do("SELECT COUNT(*)-COUNT(DISTINCT name) FROM schema_version"), 0);
}

/* ---- sales ---- */

static void test_reset_slices_the_total(void **state)
{
    (void)state;
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    struct ledger_sale sale;
    size_t count = 0;
    assert_int_equal(ledger_segments(ledger, "s", rows, &count), LEDGER_OK);
    assert_int_equal(count, SEGMENTS);
    for (uint32_t i = 0; i < SEGMENTS; i++) {
        assert_int_equal(rows[i].segment, i);
        assert_int_equal(rows[i].capacity, i == 0 ? 4 : 3);
        assert_int_equal(rows[i].fence, FENCE);
    }
    assert_int_equal(ledger_sale_find(ledger, "s", &sale), LEDGER_OK);
    assert_string_equal(sale.sku, "s");
    assert_int_equal(sale.round, 1);
    assert_int_equal(sale.total, TOTAL);
    assert_int_equal(sale.segments, SEGMENTS);
    assert_int_equal(sale.sold, 0);
}

static void test_reset_begins_the_next_round_with_nothing_sold(void **state)
{
    (void)state;
    struct ledger_sale sale;
    assert_int_equal(commit_one(move(0, 2, FENCE, FENCE + 1), order(1, 2, NULL)), LEDGER_OK);
    assert_int_equal(ledger_sale_find(ledger, "s", &sale), LEDGER_OK);
    assert_int_equal(sale.sold, 2);
    assert_int_equal(reset(TOTAL, SEGMENTS, FENCE + 2).round, 2);
    assert_int_equal(sold(0), 0);
    assert_int_equal(count_orders(), 1);
}

static void test_settings_are_kept_and_their_changes_counted(void **state)
{
    (void)state;
    struct ledger_sale sale;
    struct ledger_settings settings = {.version = 1,
                                       .starts_ms = 1790000000123,
                                       .ends_ms = 1790000060001,
                                       .per_user_limit = 2,
                                       .pay_within_s = 900,
                                       .paused = true};
    assert_int_equal(ledger_settings_change(ledger, "s", &settings, false), LEDGER_OK);
    assert_int_equal(settings.version, 2);
    assert_int_equal(ledger_sale_find(ledger, "s", &sale), LEDGER_OK);
    assert_int_equal(sale.settings.version, 2);
    assert_int_equal(sale.settings.starts_ms, settings.starts_ms);
    assert_int_equal(sale.settings.ends_ms, settings.ends_ms);
    assert_int_equal(sale.settings.per_user_limit, 2);
    assert_int_equal(sale.settings.pay_within_s, 900);
    assert_true(sale.settings.paused);
    settings = (struct ledger_settings){.version = 2};
    assert_int_equal(ledger_settings_change(ledger, "s", &settings, false), LEDGER_OK);
    assert_int_equal(ledger_sale_find(ledger, "s", &sale), LEDGER_OK);
    assert_int_equal(sale.settings.starts_ms + sale.settings.ends_ms, 0);
    assert_false(sale.settings.paused);
    assert_int_equal(reset(TOTAL, SEGMENTS, FENCE + 2).settings.version, 4);
}

static void test_settings_change_only_from_the_version_given(void **state)
{
    (void)state;
    struct ledger_settings settings = {.version = 2};
    assert_int_equal(ledger_settings_change(ledger, "s", &settings, false), LEDGER_NO);
    settings.version = 1;
    assert_int_equal(ledger_settings_change(ledger, "other", &settings, false), LEDGER_NO);
    assert_int_equal(sql_server_do("SELECT settings_version FROM sale"), 1);
    assert_int_equal(sql_server_do("SELECT SUM(settings_version) FROM stock_segment"), SEGMENTS);
}

static void test_reset_to_more_and_to_fewer_segments(void **state)
{
    (void)state;
    assert_int_equal(reset(100, 7, FENCE + 1).round, 2);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM stock_segment"), 7);
    assert_int_equal(sql_server_do("SELECT SUM(capacity) FROM stock_segment"), 100);
    assert_int_equal(reset(5, 2, FENCE + 2).round, 3);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM stock_segment"), 2);
    assert_int_equal(sql_server_do("SELECT SUM(capacity) FROM stock_segment"), 5);
    assert_int_equal(reset(LEDGER_SEGMENTS_MAX, LEDGER_SEGMENTS_MAX, FENCE + 3).round, 4);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM stock_segment"), LEDGER_SEGMENTS_MAX);
}

static void test_reset_never_sets_a_fence_back(void **state)
{
    (void)state;
    reset(TOTAL, SEGMENTS, FENCE - 10);
    assert_int_equal(fence_of(0), FENCE + 1);
    reset(TOTAL, SEGMENTS,
          FENCE + 1); /* nor may it be one that a late commit of an old round carries */
    assert_int_equal(fence_of(0), FENCE + 2);
    reset(TOTAL, SEGMENTS, FENCE + 50);
    assert_int_equal(fence_of(0), FENCE + 50);
}

/* Asks for another round of the sale as it was read. */
static enum ledger_result reset_from(struct ledger_sale sale, const char *key, bool end_round)
{
    struct ledger_segment rows[SEGMENTS];
    uint64_t fences[SEGMENTS];
    for (uint32_t i = 0; i < SEGMENTS; i++)
        fences[i] = FENCE + 2;
    struct ledger_reset beginning = {
        .fences = fences, .key = key, .request = "request", .end_round = end_round};
    enum ledger_result result = ledger_reset(ledger, &beginning, &sale, rows);
    assert_true(result != LEDGER_NO || end_round == (beginning.held == 0));
    return result;
}

/* The same of the sale "s" as it is now. */
static enum ledger_result reset_again(const char *key, bool end_round)
{
    struct ledger_sale sale;
    assert_int_equal(ledger_sale_find(ledger, "s", &sale), LEDGER_OK);
    return reset_from(sale, key, end_round);
}

static void test_round_in_use_is_not_ended_unless_that_is_asked_for(void **state)
{
    (void)state;
    assert_int_equal(commit_one(move(0, 2, FENCE, FENCE + 1), order(1, 2, NULL)), LEDGER_OK);
    assert_int_equal(reset_again(NULL, false), LEDGER_NO);
    assert_int_equal(sold(0), 2);
    assert_int_equal(reset_again(NULL, true), LEDGER_OK);
    assert_int_equal(sold(0), 0);
}

/* A reset takes the settings that it is not told from the sale, so it would undo the change. */
static void test_reset_begins_only_from_the_settings_that_were_read(void **state)
{
    (void)state;
    struct ledger_sale before;
    struct ledger_settings settings = {.version = 1, .paused = true};
    assert_int_equal(ledger_sale_find(ledger, "s", &before), LEDGER_OK);
    assert_int_equal(ledger_settings_change(ledger, "s", &settings, false), LEDGER_OK);
    assert_int_equal(reset_from(before, NULL, true), LEDGER_NO);
    assert_int_equal(sql_server_do("SELECT paused FROM sale WHERE round=1"), 1);
    assert_int_equal(reset_again(NULL, true), LEDGER_OK);
    assert_int_equal(sql_server_do("SELECT paused FROM sale WHERE round=2"), 1);
}

static void test_key_begins_one_round(void **state)
{
    (void)state;
    assert_int_equal(reset_again("k", false), LEDGER_OK);
    assert_int_equal(reset_again("k", false), LEDGER_DUPLICATE);
    assert_int_equal(reset_again("another", false), LEDGER_OK);
}

static void test_reset_forbids_commits_of_the_old_round(void **state)
{
    (void)state;
    reset(TOTAL, SEGMENTS, FENCE + 5);
    assert_int_equal(commit_one(move(0, 1, FENCE, FENCE + 1), order(1, 1, NULL)), LEDGER_NO);
    assert_int_equal(commit_one(move(0, 1, FENCE + 5, FENCE + 6), order(1, 1, NULL)), LEDGER_NO);
    assert_int_equal(count_orders(), 0);
}

static void test_sales_are_listed_in_pages(void **state)
{
    (void)state;
    struct ledger_sale sales[2];
    size_t count = 9;
    sql_server_do("INSERT INTO sale(sku,round,total,segments)VALUES('a',1,1,1),('t',2,5,1)");
    assert_int_equal(ledger_sale_list(ledger, "", 2, sales, &count), LEDGER_OK);
    assert_int_equal(count, 2);
    assert_string_equal(sales[0].sku, "a");
    assert_string_equal(sales[1].sku, "s");
    assert_int_equal(ledger_sale_list(ledger, "s", 2, sales, &count), LEDGER_OK);
    assert_int_equal(count, 1);
    assert_string_equal(sales[0].sku, "t");
    assert_int_equal(sales[0].round, 2);
    assert_int_equal(ledger_sale_list(ledger, "t", 2, sales, &count), LEDGER_OK);
    assert_int_equal(count, 0);
}

static void test_sale_that_is_not_there_is_no(void **state)
{
    (void)state;
    struct ledger_sale sale;
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    size_t count = 9;
    assert_int_equal(ledger_sale_find(ledger, "S", &sale), LEDGER_NO);
    assert_int_equal(ledger_segments(ledger, "S", rows, &count), LEDGER_NO);
    assert_int_equal(count, 0);
}

/* ---- commit ---- */

static void test_commit_writes_orders_and_moves_the_segment(void **state)
{
    (void)state;
    struct ledger_stock_update step = move(0, 3, FENCE, FENCE + 1);
    struct ledger_order orders[] = {order(1, 1, NULL), order(2, 2, "k")};
    step.refused = true;
    assert_int_equal(ledger_commit(ledger, &step, 1, orders, 2), LEDGER_OK);
    assert_false(step.refused);
    assert_int_equal(sold(0), 3);
    assert_int_equal(fence_of(0), FENCE + 1);
    assert_int_equal(count_orders(), 2);
    assert_int_equal(sql_server_do("SELECT order_id FROM order_key WHERE idempotency_key='k'"), 2);
    assert_int_equal(sql_server_do("SELECT order_id FROM order_key WHERE idempotency_key='#1'"), 1);
}

/* Ids need not be in the order of the batch; orders that never expire are in no range. */
static void test_commit_lists_what_expires_together_as_one_range(void **state)
{
    (void)state;
    static const int64_t expires_ms[] = {1790000001000, 1790000001000, 1790000001000, 0,
                                         1790000002000};
    static const uint64_t ids[] = {12, 11, 15, 16, 17};
    struct ledger_stock_update step = move(0, 3, FENCE, FENCE + 1);
    struct ledger_order rows[5];
    for (size_t i = 0; i < 5; i++) {
        rows[i] = order(ids[i], 1, "");
        rows[i].expires_ms = expires_ms[i];
    }
    assert_int_equal(ledger_commit(ledger, &step, 1, rows, 5), LEDGER_OK);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM order_expiry"), 2);
    assert_int_equal(sql_server_do("SELECT last_id FROM order_expiry WHERE first_id=11"), 15);
    assert_int_equal(sql_server_do("SELECT last_id FROM order_expiry WHERE first_id=17"), 17);
}

static void test_commit_follows_the_chain_of_fences(void **state)
{
    (void)state;
    assert_int_equal(commit_one(move(0, 1, FENCE, FENCE + 1), order(1, 1, NULL)), LEDGER_OK);
    assert_int_equal(commit_one(move(0, 1, FENCE, FENCE + 2), order(2, 1, NULL)), LEDGER_NO);
    assert_int_equal(commit_one(move(0, 1, FENCE + 1, FENCE + 2), order(3, 1, NULL)), LEDGER_OK);
    assert_int_equal(sold(0), 2);
}

static void refuse(struct ledger_stock_update step)
{
    assert_int_equal(commit_one(step, order(1, 1, "k")), LEDGER_NO);
    assert_int_equal(count_orders(), 0);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM order_key"), 0);
    assert_int_equal(sql_server_do("SELECT SUM(sold) FROM stock_segment"), 0);
}

static void test_move_under_older_settings_is_refused(void **state)
{
    (void)state;
    struct ledger_settings settings = {.version = 1};
    struct ledger_stock_update step = move(0, 1, FENCE, FENCE + 1);
    assert_int_equal(ledger_settings_change(ledger, "s", &settings, false), LEDGER_OK);
    refuse(step);
    step.settings_version = 2;
    assert_int_equal(commit_one(step, order(1, 1, NULL)), LEDGER_OK);
}

static void test_commit_is_refused_by_each_guard(void **state)
{
    (void)state;
    struct ledger_stock_update other = move(0, 1, FENCE, FENCE + 1);
    refuse(move(0, 1, FENCE - 1, FENCE + 1)); /* settled before the ledger's fence */
    refuse(move(0, 1, FENCE + 1, FENCE + 2)); /* settled after it */
    refuse(move(0, 1, FENCE, FENCE));         /* a fence that the ledger has seen */
    refuse(move(0, 1, FENCE, FENCE - 1));     /* an older one */
    refuse(move(0, 5, FENCE, FENCE + 1));     /* capacity is 4 */
    refuse(move(3, 1, FENCE, FENCE + 1));     /* no such segment */
    other.round = 2;
    refuse(other);
    other.round = 1;
    other.sku = "none";
    refuse(other);
}

static struct ledger_stock_update guarded(enum ledger_guard guard, uint64_t settled, uint64_t fence)
{
    struct ledger_stock_update step = move(0, 1, settled, fence);
    step.guard = guard;
    return step;
}

static void test_each_guard_moves_from_where_it_may_and_to_where_it_says(void **state)
{
    (void)state;
    uint64_t now = FENCE;
    assert_int_equal(commit_one(guarded(LEDGER_FENCED, 1, now), order(1, 1, NULL)), LEDGER_NO);
    assert_int_equal(commit_one(guarded(LEDGER_FENCED, 1, now + 5), order(1, 1, NULL)), LEDGER_OK);
    now += 5;
    assert_int_equal(fence_of(0), now);
    assert_int_equal(commit_one(guarded(LEDGER_EPOCH, 1, 0), order(2, 1, NULL)), LEDGER_NO);
    assert_int_equal(commit_one(guarded(LEDGER_EPOCH, now, 0), order(2, 1, NULL)), LEDGER_OK);
    assert_int_equal(fence_of(0), now);
    assert_int_equal(commit_one(guarded(LEDGER_UNFENCED, 1, 0), order(3, 1, NULL)), LEDGER_OK);
    assert_int_equal(fence_of(0), now + 1);
    assert_int_equal(sold(0), 3);
}

static void test_no_guard_oversells_or_moves_another_round(void **state)
{
    (void)state;
    for (int guard = LEDGER_CHAIN; guard <= LEDGER_UNFENCED; guard++) {
        struct ledger_stock_update step = guarded((enum ledger_guard)guard, FENCE, FENCE + 1);
        step.units = 5; /* of 4 */
        assert_int_equal(commit_one(step, order(1, 5, NULL)), LEDGER_NO);
        step.units = 1;
        step.round = 2;
        assert_int_equal(commit_one(step, order(1, 1, NULL)), LEDGER_NO);
    }
    assert_int_equal(count_orders(), 0);
    assert_int_equal(fence_of(0), FENCE);
}

static void test_commit_refused_in_one_segment_moves_none(void **state)
{
    (void)state;
    struct ledger_stock_update steps[] = {
        move(0, 1, FENCE, FENCE + 1), move(1, 4, FENCE, FENCE + 1), move(2, 1, FENCE, FENCE + 1)};
    struct ledger_order row = order(1, 6, NULL);
    assert_int_equal(ledger_commit(ledger, steps, 3, &row, 1), LEDGER_NO);
    assert_false(steps[0].refused);
    assert_true(steps[1].refused);
    assert_false(steps[2].refused);
    assert_int_equal(count_orders(), 0);
    assert_int_equal(sql_server_do("SELECT SUM(sold) FROM stock_segment"), 0);
    assert_int_equal(fence_of(0), FENCE);
}

enum { MANY = 10 };

/* Moves of all segments of a second round with many of them. */
static void many_moves(struct ledger_stock_update steps[MANY])
{
    struct ledger_sale sale = reset(5 * MANY, MANY, FENCE);
    for (uint32_t i = 0; i < MANY; i++) {
        uint64_t fence = (uint64_t)fence_of(i);
        steps[i] = move(i, 2, fence, fence + 1);
        steps[i].round = sale.round;
        steps[i].settings_version = sale.settings.version;
    }
}

static void test_many_moves_are_made_together(void **state)
{
    (void)state;
    struct ledger_stock_update steps[MANY];
    struct ledger_order row = order(1, 2 * MANY, NULL);
    many_moves(steps);
    assert_int_equal(ledger_commit(ledger, steps, MANY, &row, 1), LEDGER_OK);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_int_equal(sold(i), 2);
        assert_int_equal(fence_of(i), steps[i].fence);
        assert_false(steps[i].refused);
    }
}

static void refuse_among_many(struct ledger_stock_update odd)
{
    struct ledger_stock_update steps[MANY];
    struct ledger_order row = order(1, 2 * MANY, NULL);
    many_moves(steps);
    odd.settled += steps[4].settled - FENCE;
    odd.fence += steps[4].settled - FENCE;
    odd.round += steps[4].round - 1;
    odd.settings_version += steps[4].settings_version - 1;
    uint32_t place = strcmp(odd.sku, "s") < 0 ? 0 : odd.segment < MANY ? 4 : MANY - 1; /* sorted */
    steps[place] = odd;
    assert_int_equal(ledger_commit(ledger, steps, MANY, &row, 1), LEDGER_NO);
    /* One statement does not tell which update it was, so all segments are recovered. */
    bool joint = sql_server_is_mariadb() && !ledger->without_bulk;
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(steps[i].refused, joint || i == place);
    assert_int_equal(sql_server_do("SELECT SUM(sold) FROM stock_segment"), 0);
    assert_int_equal(count_orders(), 0);
}

static void test_each_guard_refuses_among_many_moves(void **state)
{
    (void)state;
    struct ledger_stock_update other = move(4, 1, FENCE, FENCE + 1);
    refuse_among_many(move(4, 1, FENCE - 1, FENCE + 1));
    refuse_among_many(move(4, 1, FENCE + 1, FENCE + 2));
    refuse_among_many(move(4, 1, FENCE, FENCE));
    refuse_among_many(move(4, 1, FENCE - 1, FENCE)); /* raised to its own fence meanwhile */
    refuse_among_many(move(4, 6, FENCE, FENCE + 1)); /* capacity is 5 */
    refuse_among_many(move(MANY, 1, FENCE, FENCE + 1));
    other.round = 2;
    refuse_among_many(other);
    other.round = 1;
    other.settings_version = 2;
    refuse_among_many(other);
    other.settings_version = 1;
    other.sku = "none";
    refuse_among_many(other);
}

static void test_commit_with_a_known_id_is_duplicate(void **state)
{
    (void)state;
    struct ledger_order orders[] = {order(2, 1, NULL), order(1, 1, NULL)};
    struct ledger_stock_update step = move(0, 2, FENCE + 1, FENCE + 2);
    assert_int_equal(commit_one(move(0, 1, FENCE, FENCE + 1), order(1, 1, NULL)), LEDGER_OK);
    assert_int_equal(ledger_commit(ledger, &step, 1, orders, 2), LEDGER_DUPLICATE);
    assert_int_equal(sold(0), 1);
    assert_int_equal(fence_of(0), FENCE + 1);
    assert_int_equal(count_orders(), 1);
}

static void test_commit_with_a_known_key_is_duplicate(void **state)
{
    (void)state;
    struct ledger_order stranger = order(3, 1, "k");
    assert_int_equal(commit_one(move(0, 1, FENCE, FENCE + 1), order(1, 1, "k")), LEDGER_OK);
    assert_int_equal(commit_one(move(0, 1, FENCE + 1, FENCE + 2), order(2, 1, "k")),
                     LEDGER_DUPLICATE);
    assert_int_equal(count_orders(), 1);
    assert_int_equal(sold(0), 1);
    stranger.user_id = "U"; /* keys belong to their users, and case counts */
    assert_int_equal(commit_one(move(0, 1, FENCE + 1, FENCE + 2), stranger), LEDGER_OK);
}

/* Has the server close the ledger's connection. */
static void break_connection(void)
{
    assert_int_equal(db_query(ledger->db, "SELECT CONNECTION_ID()", 22), DB_OK);
    sql_server_do("KILL %s", db_row(ledger->db)[0]);
}

/* The server may have died in between, and have forgotten what was read before. */
static void test_what_was_read_on_another_connection_is_not_confirmed(void **state)
{
    (void)state;
    assert_int_equal(ledger_ping(ledger), LEDGER_OK);
    uint64_t connection = ledger_connection(ledger);
    assert_int_equal(ledger_confirm(ledger, connection), LEDGER_OK);
    break_connection();
    assert_int_equal(ledger_confirm(ledger, connection), LEDGER_FAILED);
    assert_true(ledger_connection(ledger) > connection);
    assert_int_equal(ledger_confirm(ledger, ledger_connection(ledger)), LEDGER_OK);
}

/* Orders of every kind: with and without a key. */
static struct ledger_order nth_order(uint64_t id, const char *key)
{
    struct ledger_order row = order(id, 3, id % 3 == 0 ? key : NULL);
    row.user_id = id % 2 == 0 ? "a-longer-name" : "u";
    row.segment = (uint32_t)(id % 7);
    row.created_ms += (int64_t)(id / 5);
    return row;
}

static void find_order(const struct ledger_order *row)
{
    struct ledger_record record;
    char time[LEDGER_TIME_SIZE];
    ledger_time_format(row->created_ms, time);
    assert_int_equal(sql_order_find(ledger, row->order_id, &record), LEDGER_OK);
    assert_string_equal(record.sku, row->sku);
    assert_string_equal(record.user_id, row->user_id);
    assert_string_equal(record.key, row->key ? row->key : "");
    assert_string_equal(record.created_at, time);
    assert_int_equal(record.round, row->round);
    assert_int_equal(record.qty, row->qty);
    assert_int_equal(record.segment, row->segment);
}

static void test_batches_of_every_size_are_written_alike(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 15, 16, 17, 47, LEDGER_ORDERS_MAX, 32, 2};
    static struct ledger_order orders[LEDGER_ORDERS_MAX];
    static char keys[LEDGER_ORDERS_MAX][IDENTIFIER_SIZE];
    uint64_t fence = FENCE, id = 0;
    reset(100000, 1, FENCE);
    sql_server_do("UPDATE stock_segment SET round=1,settings_version=1,fence=%d", FENCE);
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++, fence++) {
        struct ledger_stock_update step = move(0, 1, fence, fence + 1);
        for (size_t i = 0; i < sizes[n]; i++) {
            id++;
            snprintf(keys[i], sizeof keys[i], "%.*s%llu", (int)(id % 13), "key-key-key-key",
                     (unsigned long long)id);
            orders[i] = nth_order(id, keys[i]);
        }
        assert_int_equal(ledger_commit(ledger, &step, 1, orders, sizes[n]), LEDGER_OK);
        for (size_t i = 0; i < sizes[n]; i++)
            find_order(&orders[i]);
        assert_int_equal(count_orders(), id);
        if (n % 2 == 1)
            break_connection();
    }
}

static void test_large_batch_stands_or_falls_together(void **state)
{
    (void)state;
    struct ledger_order orders[40];
    struct ledger_stock_update step = move(0, 1, FENCE, FENCE + 1),
                               late = move(0, 1, FENCE, FENCE + 2);
    for (uint64_t i = 0; i < 40; i++)
        orders[i] = order(i + 1, 1, NULL);
    orders[39].order_id = 30; /* twice, in either statement */
    assert_int_equal(ledger_commit(ledger, &step, 1, orders, 40), LEDGER_DUPLICATE);
    assert_int_equal(count_orders(), 0);
    assert_int_equal(fence_of(0), FENCE);
    orders[39].order_id = 40;
    assert_int_equal(ledger_commit(ledger, &step, 1, orders, 40), LEDGER_OK);
    for (uint64_t i = 0; i < 40; i++)
        orders[i].order_id = i + 41;
    assert_int_equal(ledger_commit(ledger, &late, 1, orders, 40), LEDGER_NO);
    assert_true(late.refused);
    assert_int_equal(count_orders(), 40);
}

static void test_connection_lost_while_idle_is_not_noticed(void **state)
{
    (void)state;
    struct ledger_sale sale;
    break_connection();
    assert_int_equal(ledger_sale_find(ledger, "s", &sale), LEDGER_OK);
    break_connection();
    assert_int_equal(commit_one(move(0, 1, FENCE, FENCE + 1), order(1, 1, NULL)), LEDGER_OK);
    assert_int_equal(sold(0), 1);
}

static void test_table_itself_refuses_to_oversell(void **state)
{
    (void)state;
    static const char text[] = "UPDATE stock_segment SET sold=capacity+1 WHERE segment=0";
    struct db *db = sql_server_open(sql_server_url());
    assert_int_equal(db_query(db, text, sizeof text - 1), DB_CHECK);
    assert_non_null(strstr(db_error(db), "never_oversold"));
    db_close(&db);
}

/* ---- recovery ---- */

static void test_recover_raises_the_fence_and_refuses_the_old_holder(void **state)
{
    (void)state;
    struct ledger_segment rows[] = {{.segment = 1, .fence = FENCE + 9}};
    assert_int_equal(ledger_recover(ledger, "s", rows, 1), LEDGER_OK);
    assert_int_equal(rows[0].round, 1);
    assert_int_equal(rows[0].capacity, 3);
    assert_int_equal(rows[0].sold, 0);
    assert_int_equal(rows[0].fence, FENCE + 9);
    assert_int_equal(commit_one(move(1, 1, FENCE, FENCE + 8), order(1, 1, NULL)), LEDGER_NO);
    assert_int_equal(commit_one(move(1, 1, FENCE, FENCE + 10), order(1, 1, NULL)), LEDGER_NO);
    assert_int_equal(commit_one(move(1, 1, FENCE + 9, FENCE + 10), order(1, 1, NULL)), LEDGER_OK);
    assert_int_equal(ledger_recover(ledger, "s", rows, 1), LEDGER_OK);
    assert_int_equal(rows[0].sold, 1);
    assert_int_equal(rows[0].fence, FENCE + 10);
}

static void test_recover_many_tells_each_as_it_is(void **state)
{
    (void)state;
    struct ledger_segment rows[] = {{.segment = 2, .fence = FENCE + 1},
                                    {.segment = 9, .fence = FENCE + 1, .round = 5},
                                    {.segment = 0, .fence = FENCE - 1}};
    assert_int_equal(ledger_recover(ledger, "s", rows, 3), LEDGER_OK);
    assert_int_equal(rows[0].fence, FENCE + 1);
    assert_int_equal(rows[0].capacity, 3);
    assert_int_equal(rows[1].round, 0);     /* there is no such row */
    assert_int_equal(rows[2].fence, FENCE); /* the ledger is ahead */
    assert_int_equal(rows[2].capacity, 4);
    assert_int_equal(fence_of(1), FENCE);
}

/* On a server that has let somebody sell more than there is. */
static void test_recover_takes_a_damaged_row_for_none(void **state)
{
    (void)state;
    struct ledger_segment rows[] = {{.segment = 1, .fence = FENCE + 1},
                                    {.segment = 2, .fence = FENCE + 1}};
    sql_server_do("ALTER TABLE stock_segment DROP CONSTRAINT never_oversold");
    sql_server_do("UPDATE stock_segment SET sold=capacity+1 WHERE segment=1");
    fault_clear(ledger_fault(ledger));
    assert_int_equal(ledger_recover(ledger, "s", rows, 2), LEDGER_OK);
    sql_server_do("UPDATE stock_segment SET sold=0");
    sql_server_do("ALTER TABLE stock_segment ADD CONSTRAINT never_oversold CHECK(sold<=capacity)");
    assert_int_equal(rows[0].round, 0);
    assert_int_equal(rows[1].round, 1);
    assert_true(ledger_fault(ledger)->damaged);
    assert_non_null(strstr(ledger_fault(ledger)->error, "sku 's', segment 1"));
}

static enum ledger_result resolve(struct ledger *by, const struct ledger_stock_update *update)
{
    struct ledger_order asked = order(7, 1, NULL);
    return ledger_resolve(by, update, &asked);
}

static void test_resolve_finds_what_was_committed(void **state)
{
    (void)state;
    struct ledger_stock_update step = move(0, 1, FENCE, FENCE + 1);
    assert_int_equal(commit_one(step, order(7, 1, NULL)), LEDGER_OK);
    assert_int_equal(resolve(ledger, &step), LEDGER_OK);
    assert_int_equal(fence_of(0), FENCE + 1);
}

/* Another process may have written the same id for another order. */
static void test_resolve_asks_for_the_order_and_not_the_id_alone(void **state)
{
    (void)state;
    struct ledger_stock_update step = move(0, 1, FENCE, FENCE + 1);
    struct ledger_order asked = order(7, 1, "k");
    assert_int_equal(commit_one(step, asked), LEDGER_OK);
    assert_int_equal(ledger_resolve(ledger, &step, &asked), LEDGER_OK);
    for (int i = 0; i < 5; i++) {
        struct ledger_order other = asked;
        other.user_id = i == 0 ? "v" : other.user_id;
        other.sku = i == 1 ? "t" : other.sku;
        other.key = i == 2 ? "" : i == 3 ? "other" : other.key;
        other.round += i == 4;
        assert_int_equal(ledger_resolve(ledger, &step, &other), LEDGER_NO);
    }
}

/* What it finds may be visible and not on the disk yet. */
static void test_resolve_says_yes_after_a_write(void **state)
{
    (void)state;
    struct ledger_stock_update step = move(0, 1, FENCE, FENCE + 1);
    assert_int_equal(commit_one(step, order(7, 1, NULL)), LEDGER_OK);
    int64_t before = sql_server_log();
    assert_int_equal(resolve(ledger, &step), LEDGER_OK);
    assert_true(sql_server_log() > before);
}

static void test_resolve_forbids_the_late_commit(void **state)
{
    (void)state;
    struct ledger_stock_update step = move(0, 1, FENCE, FENCE + 1);
    assert_int_equal(resolve(ledger, &step), LEDGER_NO);
    assert_int_equal(commit_one(step, order(7, 1, NULL)), LEDGER_NO);
    assert_int_equal(resolve(ledger, &step), LEDGER_NO);
    assert_int_equal(count_orders(), 0);
}

/* A transaction in progress, which ends after a while as the test says. */
struct late {
    struct db *db;
    const char *end;
};

static void late_query(struct late *late, const char *text)
{
    assert_int_equal(db_query(late->db, text, strlen(text)), DB_OK);
}

static void *end_late(void *argument)
{
    struct late *late = argument;
    nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
    late_query(late, late->end);
    return NULL;
}

static enum ledger_result resolve_while(const char *end, enum ledger_guard guard)
{
    pthread_t thread;
    struct late late = {sql_server_open(sql_server_url()), end};
    struct ledger_stock_update step = guarded(guard, FENCE, FENCE + 1);
    late_query(&late, "START TRANSACTION;"
                      "UPDATE stock_segment SET sold=sold+1,fence=1001 WHERE segment=0;"
                      "INSERT INTO orders(order_id,sku,round,user_id,qty,segment,created_at)"
                      "VALUES(7,'s',1,'u',1,0,NOW())");
    assert_int_equal(pthread_create(&thread, NULL, end_late, &late), 0);
    enum ledger_result result = resolve(ledger, &step);
    pthread_join(thread, NULL);
    db_close(&late.db);
    return result;
}

/* Whatever takes rows of several segments takes them in one order. */
static void test_recover_does_not_deadlock_with_a_change(void **state)
{
    (void)state;
    struct sql_rival rival;
    struct ledger_segment rows[] = {{.segment = 2, .fence = FENCE + 1},
                                    {.segment = 0, .fence = FENCE + 2},
                                    {.segment = 1, .fence = FENCE + 3}};
    uint64_t retries = ledger_stats(ledger).retries;
    sql_rival_start(&rival);
    assert_int_equal(ledger_recover(ledger, "s", rows, 3), LEDGER_OK);
    assert_int_equal(sql_rival_join(&rival), DB_OK);
    assert_int_equal(ledger_stats(ledger).retries, retries);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(rows[i].fence, FENCE + 1 + i);
}

static void test_resolve_waits_for_the_transaction_to_end(void **state)
{
    (void)state;
    assert_int_equal(resolve_while("ROLLBACK", LEDGER_CHAIN), LEDGER_NO);
    assert_int_equal(fence_of(0), FENCE + 1);
    reset(TOTAL, SEGMENTS, 1);
    sql_server_do("UPDATE stock_segment SET fence=1000");
    assert_int_equal(resolve_while("COMMIT", LEDGER_CHAIN), LEDGER_OK);
    assert_int_equal(sold(0), 1);
}

static void test_resolve_without_a_fence_waits_as_well(void **state)
{
    (void)state;
    assert_int_equal(resolve_while("ROLLBACK", LEDGER_EPOCH), LEDGER_NO);
    assert_int_equal(resolve_while("COMMIT", LEDGER_UNFENCED), LEDGER_OK);
    assert_int_equal(fence_of(0), FENCE + 2); /* by the transaction, and by the question */
}

/* Another transaction uses the same keys by key, for whatever skus: one waits for the other. */
static void test_commits_with_the_same_keys_do_not_deadlock(void **state)
{
    (void)state;
    struct sql_rival rival;
    struct ledger_stock_update step = move(0, 2, FENCE, FENCE + 1);
    struct ledger_order orders[] = {order(7, 1, "a"), order(8, 1, "b")};
    orders[0].sku = "t"; /* the order by sku is another */
    for (int turn = 0; turn < 2; turn++) {
        sql_rival_start_awaiting(&rival, "INSERT INTO order_key VALUES('u','a',1)",
                                 "INSERT INTO order_key VALUES('u','b',2);COMMIT");
        assert_int_equal(ledger_commit(ledger, &step, 1, orders, 2), LEDGER_DUPLICATE);
        assert_int_equal(sql_rival_join(&rival), DB_OK);
        assert_int_equal(ledger_stats(ledger).retries, 0);
        sql_server_do("DELETE FROM order_key");
        orders[0] = order(7, 1, "b"); /* the order of the batch is another */
        orders[1] = order(8, 1, "a");
    }
}

/* Its time ends while it waits for the segment's row. */
static void test_commit_is_refused_when_its_time_ends_amid_it(void **state)
{
    (void)state;
    pthread_t thread;
    struct late late = {sql_server_open(sql_server_url()), "COMMIT"};
    struct ledger_stock_update step = move(0, 2, FENCE, FENCE + 1);
    struct ledger_order orders[] = {order(7, 1, "a"), order(8, 1, NULL)};
    late_query(&late, "START TRANSACTION;UPDATE stock_segment SET sold=sold WHERE segment=0");
    orders[0].until_ns = clock_now_ns() + 30 * CLOCK_NS_PER_MS;
    assert_int_equal(pthread_create(&thread, NULL, end_late, &late), 0);
    assert_int_equal(ledger_commit(ledger, &step, 1, orders, 2), LEDGER_LATE);
    pthread_join(thread, NULL);
    db_close(&late.db);
    assert_int_equal(count_orders(), 0);
    assert_int_equal(sold(0), 0);
    orders[0].until_ns = clock_now_ns() + 60 * CLOCK_NS_PER_S;
    assert_int_equal(ledger_commit(ledger, &step, 1, orders, 2), LEDGER_OK);
}

/* And nothing waits: neither for that transaction, nor a transaction with another key for this. */
static void test_key_of_a_transaction_under_way_is_found(void **state)
{
    (void)state;
    struct late late = {sql_server_open(sql_server_url()), NULL};
    struct ledger_key keys[] = {
        {.user_id = "u", .key = "a"}, {.user_id = "u", .key = "b"}, {.user_id = "u", .key = "c"}};
    assert_int_equal(commit_one(move(0, 1, FENCE, FENCE + 1), order(3, 1, "c")), LEDGER_OK);
    late_query(&late, "START TRANSACTION;INSERT INTO order_key VALUES('u','a',1)");
    assert_int_equal(ledger_keys_find(ledger, keys, 3), LEDGER_OK);
    assert_int_equal(keys[0].order_id, 1);
    assert_int_equal(keys[1].order_id, 0);
    assert_int_equal(keys[2].order_id, 3);
    late_query(&late, "ROLLBACK");
    assert_int_equal(ledger_keys_find(ledger, keys, 3), LEDGER_OK);
    assert_int_equal(keys[0].order_id, 0);
    assert_int_equal(ledger_stats(ledger).retries, 0);
    db_close(&late.db);
}

/* One that is being inserted counts; one that is not there does not. */
static void test_rows_that_others_hold_are_told_without_a_wait(void **state)
{
    (void)state;
    struct late other = {sql_server_open(sql_server_url()), NULL};
    struct ledger_row segments[] = {{.sku = "s", .number = 2},
                                    {.sku = "s", .number = 0},
                                    {.sku = "s", .number = 99},
                                    {.sku = "s", .number = 0}};
    struct ledger_row users[] = {{.sku = "s", .user_id = "v", .number = 1},
                                 {.sku = "s", .user_id = "u", .number = 1},
                                 {.sku = "s", .user_id = "w", .number = 1}};
    struct ledger_row sale = {.sku = "s"};
    sql_server_do("INSERT INTO user_quota VALUES('s',1,'u',1,1,'')");
    late_query(&other, "START TRANSACTION;INSERT INTO user_quota VALUES('s',1,'v',1,1,'');"
                       "SELECT 1 FROM stock_segment WHERE segment=0 FOR UPDATE;"
                       "SELECT 1 FROM sale LOCK IN SHARE MODE");
    assert_int_equal(ledger_rows_look(ledger, LEDGER_ROW_SEGMENT, segments, 4), LEDGER_OK);
    assert_false(segments[0].held);
    assert_true(segments[1].held && segments[3].held);
    assert_false(segments[2].held);
    assert_int_equal(ledger_rows_look(ledger, LEDGER_ROW_QUOTA, users, 3), LEDGER_OK);
    assert_true(users[0].held);
    assert_false(users[1].held || users[2].held);
    assert_int_equal(ledger_rows_look(ledger, LEDGER_ROW_SALE, &sale, 1), LEDGER_OK);
    assert_true(sale.held);
    late_query(&other, "ROLLBACK");
    assert_int_equal(ledger_rows_look(ledger, LEDGER_ROW_SEGMENT, segments, 4), LEDGER_OK);
    assert_false(segments[1].held);
    db_close(&other.db);
}

static void test_held_row_is_waited_for_once(void **state)
{
    (void)state;
    struct late other = {sql_server_open(sql_server_url()), NULL};
    char holder[LEDGER_HOLDER_SIZE] = "";
    late_query(&other, "START TRANSACTION;UPDATE stock_segment SET sold=sold WHERE segment=0");
    int64_t start_ms = clock_now_ms();
    assert_int_equal(commit_one(move(0, 1, FENCE, FENCE + 1), order(1, 1, NULL)), LEDGER_FAILED);
    assert_true(ledger_met_held_row(ledger));
    assert_int_in_range(clock_now_ms() - start_ms, 900, 2900); /* two tries would take longer */
    ledger_row_holder(ledger, holder);
    assert_true(strncmp(holder, "connection ", 11) == 0 || strcmp(holder, "unknown") == 0);
    late_query(&other, "ROLLBACK");
    assert_int_equal(commit_one(move(0, 1, FENCE, FENCE + 1), order(1, 1, NULL)), LEDGER_OK);
    assert_false(ledger_met_held_row(ledger));
    db_close(&other.db);
}

static void commit_over_wire(enum sql_wire_fault fault, enum ledger_result truth,
                             enum ledger_guard guard)
{
    struct sql_wire wire;
    struct ledger_order row = order(7, 1, NULL);
    struct ledger_stock_update step = guarded(guard, FENCE, FENCE + 1);
    reset(TOTAL, SEGMENTS, 1);
    sql_server_do("UPDATE stock_segment SET round=1,settings_version=1,fence=%d;DELETE FROM orders;"
                  "DELETE FROM order_key",
                  FENCE);
    sql_wire_open(&wire);
    struct ledger *over = open_url(wire.url);
    assert_int_equal(ledger_ping(over), LEDGER_OK);
    atomic_store(&wire.fault, fault);
    assert_int_equal(ledger_commit(over, &step, 1, &row, 1), LEDGER_UNKNOWN);
    assert_int_equal(resolve(over, &step), truth);
    assert_int_equal(count_orders(), truth == LEDGER_OK);
    assert_int_equal(sold(0), truth == LEDGER_OK);
    ledger_close(&over);
    sql_wire_close(&wire);
}

static void test_commit_whose_answer_is_lost_resolves_to_yes(void **state)
{
    (void)state;
    for (int guard = LEDGER_CHAIN; guard <= LEDGER_UNFENCED; guard++)
        commit_over_wire(WIRE_LOSES_ANSWER, LEDGER_OK, (enum ledger_guard)guard);
}

static void test_commit_that_is_lost_resolves_to_no(void **state)
{
    (void)state;
    for (int guard = LEDGER_CHAIN; guard <= LEDGER_UNFENCED; guard++)
        commit_over_wire(WIRE_LOSES_COMMIT, LEDGER_NO, (enum ledger_guard)guard);
}

static void test_unreachable_ledger_is_failed(void **state)
{
    (void)state;
    struct ledger *nowhere = open_url("mysql://u:p@127.0.0.1:1/none");
    struct ledger_order row = order(7, 1, NULL);
    struct ledger_stock_update step = move(0, 1, FENCE, FENCE + 1);
    struct ledger_segment segment = {.segment = 0, .fence = FENCE + 1};
    assert_int_equal(ledger_migrate(nowhere, NULL, NULL), LEDGER_FAILED);
    assert_int_equal(ledger_commit(nowhere, &step, 1, &row, 1), LEDGER_FAILED);
    assert_int_equal(resolve(nowhere, &step), LEDGER_FAILED);
    assert_int_equal(ledger_recover(nowhere, "s", &segment, 1), LEDGER_FAILED);
    assert_string_not_equal(ledger_error(nowhere), "");
    ledger_close(&nowhere);
}

/* ---- look-ups ---- */

static void test_keys_are_found_many_at_once(void **state)
{
    (void)state;
    struct ledger_order orders[] = {order(1, 1, "a"), order(2, 2, "b"), order(3, 1, NULL)};
    struct ledger_stock_update step = move(0, 4, FENCE, FENCE + 1);
    struct ledger_key keys[] = {{.user_id = "u", .key = "b", .order_id = 9},
                                {.user_id = "u", .key = "c", .order_id = 9},
                                {.user_id = "v", .key = "a", .order_id = 9},
                                {.user_id = "u", .key = "a"},
                                {.user_id = "u", .key = "b"}};
    assert_int_equal(ledger_commit(ledger, &step, 1, orders, 3), LEDGER_OK);
    assert_int_equal(ledger_keys_find(ledger, keys, 5), LEDGER_OK);
    assert_int_equal(keys[0].order_id, 2);
    assert_int_equal(keys[1].order_id, 0);
    assert_int_equal(keys[2].order_id, 0);
    assert_int_equal(keys[3].order_id, 1);
    assert_int_equal(keys[4].order_id, 2);
}

static void test_order_is_found_as_it_was_written(void **state)
{
    (void)state;
    char time[LEDGER_TIME_SIZE];
    struct ledger_record record;
    struct ledger_order row = order(UINT64_MAX, 2, "k:1");
    ledger_time_format(row.created_ms, time);
    assert_int_equal(commit_one(move(0, 2, FENCE, FENCE + 1), row), LEDGER_OK);
    assert_int_equal(sql_order_find(ledger, UINT64_MAX, &record), LEDGER_OK);
    assert_true(record.order_id == UINT64_MAX);
    assert_string_equal(record.sku, "s");
    assert_string_equal(record.user_id, "u");
    assert_string_equal(record.key, "k:1");
    assert_string_equal(record.status, "reserved");
    assert_string_equal(record.created_at, time);
    assert_int_equal(record.round, 1);
    assert_int_equal(record.qty, 2);
    assert_int_equal(record.segment, 0);
    assert_int_equal(sql_order_find(ledger, 1, &record), LEDGER_NO);
}

static void test_order_without_a_key_has_an_empty_one(void **state)
{
    (void)state;
    struct ledger_record record;
    assert_int_equal(commit_one(move(0, 1, FENCE, FENCE + 1), order(1, 1, "")), LEDGER_OK);
    assert_int_equal(sql_order_find(ledger, 1, &record), LEDGER_OK);
    assert_string_equal(record.key, "");
    assert_int_equal(sql_server_do("SELECT idempotency_key IS NULL FROM orders"), 1);
}

static void test_times_are_written_in_utc_to_the_ms(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } times[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {1, "1970-01-01T00:00:00.001Z"},
        {951826271999, "2000-02-29T12:11:11.999Z"},
        {1795210200123, "2026-11-20T21:30:00.123Z"},
    };
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        char text[LEDGER_TIME_SIZE];
        ledger_time_format(times[i].ms, text);
        assert_string_equal(text, times[i].text);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)
#define TEST_WITHOUT_BULK(name)                                                                    \
    {                                                                                              \
#name " without bulk", name, start_without_bulk, finish, NULL                              \
    }

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        TEST(test_migrate_twice_is_harmless),
        TEST(test_migration_that_died_half_way_is_repeated),
        TEST(test_migration_that_cannot_be_asked_about_is_not_run),
        TEST(test_migration_may_take_longer_than_the_time_out),
        TEST(test_migration_is_left_when_the_daemon_ends),
        TEST(test_many_may_migrate_at_once),
        TEST(test_reset_slices_the_total),
        TEST(test_reset_begins_the_next_round_with_nothing_sold),
        TEST(test_reset_to_more_and_to_fewer_segments),
        TEST(test_settings_are_kept_and_their_changes_counted),
        TEST(test_settings_change_only_from_the_version_given),
        TEST(test_move_under_older_settings_is_refused),
        TEST(test_reset_never_sets_a_fence_back),
        TEST(test_round_in_use_is_not_ended_unless_that_is_asked_for),
        TEST(test_reset_begins_only_from_the_settings_that_were_read),
        TEST(test_key_begins_one_round),
        TEST(test_reset_forbids_commits_of_the_old_round),
        TEST(test_sales_are_listed_in_pages),
        TEST(test_sale_that_is_not_there_is_no),
        TEST(test_commit_writes_orders_and_moves_the_segment),
        TEST(test_commit_lists_what_expires_together_as_one_range),
        TEST(test_commit_follows_the_chain_of_fences),
        TEST(test_commit_is_refused_by_each_guard),
        TEST(test_each_guard_moves_from_where_it_may_and_to_where_it_says),
        TEST(test_no_guard_oversells_or_moves_another_round),
        TEST(test_commit_refused_in_one_segment_moves_none),
        TEST(test_many_moves_are_made_together),
        TEST(test_each_guard_refuses_among_many_moves),
        TEST(test_commit_with_a_known_id_is_duplicate),
        TEST(test_commit_with_a_known_key_is_duplicate),
        TEST(test_batches_of_every_size_are_written_alike),
        TEST(test_large_batch_stands_or_falls_together),
        TEST(test_connection_lost_while_idle_is_not_noticed),
        TEST(test_table_itself_refuses_to_oversell),
        TEST(test_recover_raises_the_fence_and_refuses_the_old_holder),
        TEST(test_recover_many_tells_each_as_it_is),
        TEST(test_recover_takes_a_damaged_row_for_none),
        TEST(test_recover_does_not_deadlock_with_a_change),
        TEST(test_resolve_finds_what_was_committed),
        TEST(test_resolve_asks_for_the_order_and_not_the_id_alone),
        TEST(test_resolve_says_yes_after_a_write),
        TEST(test_resolve_forbids_the_late_commit),
        TEST(test_resolve_waits_for_the_transaction_to_end),
        TEST(test_resolve_without_a_fence_waits_as_well),
        TEST(test_commits_with_the_same_keys_do_not_deadlock),
        TEST(test_commit_is_refused_when_its_time_ends_amid_it),
        TEST(test_key_of_a_transaction_under_way_is_found),
        TEST(test_rows_that_others_hold_are_told_without_a_wait),
        TEST(test_held_row_is_waited_for_once),
        TEST(test_commit_whose_answer_is_lost_resolves_to_yes),
        TEST(test_commit_that_is_lost_resolves_to_no),
        TEST(test_unreachable_ledger_is_failed),
        TEST(test_keys_are_found_many_at_once),
        TEST(test_order_is_found_as_it_was_written),
        TEST(test_order_without_a_key_has_an_empty_one),
        TEST(test_times_are_written_in_utc_to_the_ms),
        TEST_WITHOUT_BULK(test_commit_writes_orders_and_moves_the_segment),
        TEST_WITHOUT_BULK(test_many_moves_are_made_together),
        TEST_WITHOUT_BULK(test_each_guard_refuses_among_many_moves),
        TEST_WITHOUT_BULK(test_commit_with_a_known_id_is_duplicate),
        TEST_WITHOUT_BULK(test_commit_with_a_known_key_is_duplicate),
        TEST_WITHOUT_BULK(test_batches_of_every_size_are_written_alike),
        TEST_WITHOUT_BULK(test_large_batch_stands_or_falls_together),
        TEST_WITHOUT_BULK(test_commits_with_the_same_keys_do_not_deadlock),
        TEST(test_what_was_read_on_another_connection_is_not_confirmed),
    };
    return cmocka_run_group_tests(tests, start_group, NULL);
}
