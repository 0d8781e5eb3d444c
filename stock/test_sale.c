/* What a process knows of its sales: the cache, hints, and the memory of shortages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql/sales/sales.h"
#include "stock/sale_cache.h"

#define MS INT64_C(1000000)

enum { THREADS = 4, SKUS = 500 };

static struct sale_cache *cache;

static int start(void **state)
{
    (void)state;
    cache = sale_cache_open();
    return 0;
}

static int finish(void **state)
{
    (void)state;
    sale_cache_close(&cache);
    assert_null(cache);
    return 0;
}

static struct sale *put(const char *sku, uint32_t round, uint32_t total, uint32_t segments)
{
    struct ledger_sale row = {.round = round, .total = total, .segments = segments};
    snprintf(row.sku, sizeof row.sku, "%s", sku);
    return sale_cache_put(cache, &row);
}

static void test_sale_is_found_by_its_sku_alone(void **state)
{
    (void)state;
    assert_null(sale_cache_find(cache, "s"));
    struct sale *sale = put("s", 1, 10, 3);
    assert_ptr_equal(sale_cache_find(cache, "s"), sale);
    assert_null(sale_cache_find(cache, "S"));
    assert_null(sale_cache_find(cache, "s1"));
    assert_null(sale_cache_find(cache, ""));
    assert_string_equal(sale_sku(sale), "s");
}

static void test_new_round_replaces_the_snapshot(void **state)
{
    (void)state;
    struct sale *sale = put("s", 1, 10, 3);
    struct sale_snapshot before = sale_snapshot(sale);
    assert_int_equal(before.round, 1);
    assert_int_equal(before.total, 10);
    assert_int_equal(before.segments, 3);
    assert_ptr_equal(put("s", 2, 20, 5), sale);
    struct sale_snapshot after = sale_snapshot(sale);
    assert_int_equal(after.round, 2);
    assert_int_equal(after.total, 20);
    assert_int_equal(after.segments, 5);
    assert_true(after.epoch > before.epoch);
}

static void test_old_round_is_ignored(void **state)
{
    (void)state;
    struct sale *sale = put("s", 2, 20, 5);
    uint32_t epoch = sale_snapshot(sale).epoch;
    put("s", 1, 10, 3);
    put("s", 2, 10, 3);
    assert_int_equal(sale_snapshot(sale).total, 20);
    assert_int_equal(sale_snapshot(sale).segments, 5);
    assert_int_equal(sale_snapshot(sale).epoch, epoch);
}

static void test_cache_is_bounded(void **state)
{
    (void)state;
    char sku[16];
    for (int i = 0; i < SALES_MAX; i++) {
        snprintf(sku, sizeof sku, "s%d", i);
        assert_non_null(put(sku, 1, 1, 1));
    }
    assert_null(put("more", 1, 1, 1));
    assert_null(sale_cache_find(cache, "more"));
    assert_non_null(put("s0", 2, 1, 1));
    for (int i = 0; i < SALES_MAX; i++) {
        snprintf(sku, sizeof sku, "s%d", i);
        assert_string_equal(sale_sku(sale_cache_find(cache, sku)), sku);
    }
}

static void sku_of(int i, char sku[16])
{
    snprintf(sku, 16, "s%d", i);
}

static void test_retired_sales_make_room(void **state)
{
    (void)state;
    char sku[16];
    for (int i = 0; i < SALES_ALL_MAX + 2000; i++) {
        sku_of(i, sku);
        assert_non_null(put(sku, 1, 1, 1));
        assert_non_null(sale_cache_find(cache, sku));
        sale_cache_retire(cache, sku, 1);
        assert_null(sale_cache_find(cache, sku));
    }
    assert_false(sale_cache_full(cache));
    sku_of(3, sku);
    assert_non_null(put(sku, 2, 10, 3)); /* forgotten, and new again */
}

static void test_sale_that_a_thread_looks_at_is_not_freed(void **state)
{
    (void)state;
    char sku[16];
    unsigned section = sale_cache_enter(cache);
    struct sale *seen = put("seen", 1, 10, 3);
    sale_cache_retire(cache, "seen", 1);
    for (int i = 0; i < SALES_ALL_MAX; i++) {
        sku_of(i, sku);
        put(sku, 1, 1, 1);
        sale_cache_retire(cache, sku, 1);
    }
    assert_null(sale_cache_find(cache, "seen"));
    assert_int_equal(sale_snapshot(seen).total, 10);
    assert_true(sale_cache_full(cache));
    assert_null(put("next", 1, 1, 1));
    sale_cache_leave(cache, section);
    assert_false(sale_cache_full(cache));
    assert_non_null(put("next", 1, 1, 1));
}

/* Sales further on in a chain are found when those before them are gone. */
static void test_all_others_are_found_while_sales_go(void **state)
{
    (void)state;
    char sku[16];
    enum { COUNT = 9000 };
    for (int i = 0; i < COUNT; i++) {
        sku_of(i, sku);
        put(sku, 1, 1, 1);
    }
    for (int i = 0; i < COUNT; i += 2) {
        sku_of(i, sku);
        sale_cache_retire(cache, sku, 1);
    }
    for (int i = 0; i < COUNT; i++) {
        sku_of(i, sku);
        struct sale *sale = sale_cache_find(cache, sku);
        assert_true(i % 2 == 0 ? !sale : sale && strcmp(sale_sku(sale), sku) == 0);
    }
}

static _Atomic bool over;

/* A sale that was found stays whole until the section ends. */
static void *look(void *argument)
{
    void *torn = NULL;
    (void)argument;
    for (unsigned n = 0; !atomic_load(&over) && !torn; n++) {
        char sku[16];
        sku_of((int)(n * 7919 % 5000), sku);
        unsigned section = sale_cache_enter(cache);
        struct sale *sale = sale_cache_find(cache, sku);
        for (int i = 0; sale && i < 20; i++)
            if (strcmp(sale_sku(sale), sku) != 0 || sale_snapshot(sale).total != 7)
                torn = sale;
        sale_cache_leave(cache, section);
    }
    return torn;
}

static void test_threads_look_while_sales_go(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    char sku[16];
    atomic_store(&over, false);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, look, NULL), 0);
    for (int i = 0; i < 30000; i++) {
        sku_of(i % 5000, sku);
        unsigned section = sale_cache_enter(cache);
        put(sku, (uint32_t)(i / 5000) + 1, 7, 1);
        sale_cache_leave(cache, section);
        sale_cache_retire(cache, sku, (uint32_t)(i / 5000) + 1);
    }
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++) {
        void *torn = NULL;
        pthread_join(threads[i], &torn);
        assert_null(torn);
    }
}

static void *put_all(void *argument)
{
    (void)argument;
    for (uint32_t round = 1; round <= 3; round++)
        for (int i = 0; i < SKUS; i++) {
            char sku[16];
            snprintf(sku, sizeof sku, "s%d", i);
            struct sale *other = sale_cache_find(cache, sku); /* another thread has just put it */
            if (other && sale_snapshot(other).segments == 0)
                return other;
            struct sale *sale = put(sku, round, 10 * round, round);
            if (!sale || sale_cache_find(cache, sku) != sale)
                return sale;
            struct sale_snapshot seen = sale_snapshot(sale); /* once: the next may be a round on */
            if (seen.total != 10 * seen.segments)
                return sale;
        }
    return NULL;
}

static void test_threads_see_one_sale_per_sku(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, put_all, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    for (int i = 0; i < SKUS; i++) {
        char sku[16];
        snprintf(sku, sizeof sku, "s%d", i);
        assert_int_equal(sale_snapshot(sale_cache_find(cache, sku)).round, 3);
    }
}

/* ---- hints and suspects ---- */

static void test_hints_begin_with_the_largest_share(void **state)
{
    (void)state;
    struct sale *sale = put("s", 1, 10, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(sale_hint(sale, i), 4);
    sale_hint_set(sale, 1, 0);
    assert_int_equal(sale_hint(sale, 1), 0);
    assert_int_equal(sale_hint(sale, 2), 4);
    put("s", 2, 7, 7);
    assert_int_equal(sale_hint(sale, 1), 1);
}

static void test_suspect_is_taken_once(void **state)
{
    (void)state;
    struct sale *sale = put("s", 1, 10, 3);
    uint32_t units = 0;
    assert_int_equal(sale_suspect_take(sale, 2, &units), 0);
    sale_suspect(sale, 2, 8, 1);
    sale_suspect(sale, 2, 9, 3);
    sale_suspect(sale, 2, 7, 2);
    assert_int_equal(sale_suspect_take(sale, 1, &units), 0);
    assert_int_equal(sale_suspect_take(sale, 2, &units), 9);
    assert_int_equal(units, 3);
    assert_int_equal(sale_suspect_take(sale, 2, &units), 0);
}

static void test_later_suspect_has_the_fence_that_was_seen(void **state)
{
    (void)state;
    struct sale *sale = put("s", 1, 10, 3);
    uint32_t units = 0;
    assert_int_equal(sale_suspect_least(sale, 0), 0);
    sale_suspect_later(sale, 0, 8);
    assert_int_equal(sale_suspect_take(sale, 0, &units), 0);
    assert_int_equal(sale_suspect_least(sale, 0), 8);
    sale_suspect(sale, 0, 5, 4); /* asked before */
    assert_int_equal(sale_suspect_take(sale, 0, &units), 0);
    sale_suspect(sale, 0, 8, 1);
    assert_int_equal(sale_suspect_least(sale, 0), 0);
    sale_suspect(sale, 0, 5, 4);
    assert_int_equal(sale_suspect_take(sale, 0, &units), 8);
    assert_int_equal(units, 1);
    sale_suspect_later(sale, 0, 8);
    sale_suspect(sale, 0, 9, 1);
    sale_suspect_later(sale, 0, 10); /* a mark stays */
    assert_int_equal(sale_suspect_take(sale, 0, &units), 9);
}

/* ---- the memory of shortages ---- */

/* Remembers that 3 units are left, until 100 ms. */
static struct sale *short_sale(void)
{
    struct sale *sale = put("s", 1, 10, 3);
    sale_remember_left(sale, sale_snapshot(sale).epoch, 3, 100 * MS);
    return sale;
}

static void test_nothing_is_known_short_at_first(void **state)
{
    (void)state;
    assert_false(sale_known_short(put("s", 1, 10, 3), 1000, 0));
}

static void test_more_than_is_left_is_known_short(void **state)
{
    (void)state;
    struct sale *sale = short_sale();
    assert_true(sale_known_short(sale, 4, 50 * MS));
    assert_false(sale_known_short(sale, 3, 50 * MS));
    assert_false(sale_known_short(sale, 1, 50 * MS));
}

static void test_one_caller_in_50_ms_finds_out_anew(void **state)
{
    (void)state;
    struct sale *sale = short_sale();
    assert_true(sale_known_short(sale, 4, 100 * MS - 1));
    assert_false(sale_known_short(sale, 3, 100 * MS)); /* wants less: no part in it */
    assert_false(sale_known_short(sale, 4, 100 * MS));
    assert_true(sale_known_short(sale, 4, 100 * MS));
    assert_true(sale_known_short(sale, 4, 150 * MS - 1));
    assert_false(sale_known_short(sale, 4, 150 * MS));
    assert_true(sale_known_short(sale, 4, 151 * MS));
}

static void test_memory_is_of_no_use_a_second_after_it_ran_out(void **state)
{
    (void)state;
    struct sale *sale = short_sale();
    assert_false(sale_known_short(sale, 4, 1050 * MS));
    assert_true(sale_known_short(sale, 4, 1099 * MS));
    assert_false(sale_known_short(sale, 4, 1100 * MS));
    assert_false(sale_known_short(sale, 4, 1100 * MS));
    assert_false(sale_known_short(sale, 4, 9999 * MS));
}

static void test_memory_is_renewed_by_the_next_finding(void **state)
{
    (void)state;
    struct sale *sale = short_sale();
    assert_false(sale_known_short(sale, 4, 120 * MS));
    sale_remember_left(sale, sale_snapshot(sale).epoch, 0, 300 * MS);
    assert_true(sale_known_short(sale, 1, 180 * MS));
    assert_true(sale_known_short(sale, 1, 299 * MS));
}

static void test_units_that_came_back_end_the_memory(void **state)
{
    (void)state;
    struct sale *sale = short_sale();
    uint32_t epoch = sale_snapshot(sale).epoch;
    sale_invalidate(sale);
    assert_false(sale_known_short(sale, 4, 50 * MS));
    assert_true(sale_snapshot(sale).epoch > epoch);
}

static void test_finding_older_than_returned_units_is_not_remembered(void **state)
{
    (void)state;
    struct sale *sale = put("s", 1, 10, 3);
    uint32_t epoch = sale_snapshot(sale).epoch; /* read, then the ledger is asked, and meanwhile: */
    sale_invalidate(sale);
    sale_remember_left(sale, epoch, 0, 100 * MS);
    assert_false(sale_known_short(sale, 1, 50 * MS));
}

static void test_new_round_ends_the_memory(void **state)
{
    (void)state;
    struct sale *sale = short_sale();
    uint32_t epoch = sale_snapshot(sale).epoch;
    put("s", 2, 10, 3);
    assert_false(sale_known_short(sale, 4, 50 * MS));
    sale_remember_left(sale, epoch, 0, 100 * MS);
    assert_false(sale_known_short(sale, 4, 50 * MS));
}

static void test_a_lost_subscription_ends_every_memory(void **state)
{
    (void)state;
    struct sale *sale = short_sale();
    struct sale *second = put("t", 1, 10, 3);
    sale_remember_left(second, sale_snapshot(second).epoch, 0, 100 * MS);
    sale_cache_invalidate(cache);
    assert_false(sale_known_short(sale, 4, 50 * MS));
    assert_false(sale_known_short(second, 4, 50 * MS));
}

static struct sale *gated_sale(uint32_t version, struct ledger_settings settings)
{
    struct ledger_sale row = {
        .sku = "s", .round = 1, .total = 10, .segments = 3, .settings = settings};
    row.settings.version = version;
    return sale_cache_put(cache, &row);
}

static void test_settings_refuse_only_for_as_long_as_they_are_confirmed(void **state)
{
    (void)state;
    struct ledger_settings settings;
    struct sale *sale = gated_sale(1, (struct ledger_settings){.starts_ms = 7});
    assert_false(sale_window_cached(sale, 0, &settings));
    assert_false(sale_confirmed(sale, 0));
    sale_confirm(sale, sale_snapshot(sale).epoch, 100 * MS, 1000);
    assert_true(sale_window_cached(sale, 100 * MS, &settings));
    assert_int_equal(settings.starts_ms, 7);
    assert_true(sale_confirmed(sale, 1049 * MS));
    assert_false(sale_confirmed(sale, 1050 * MS));
    assert_true(sale_window_cached(sale, 1049 * MS, &settings));
    assert_false(
        sale_window_cached(sale, 1050 * MS, &settings)); /* this caller is to find out anew */
    assert_true(sale_window_cached(sale, 1050 * MS, &settings));
    assert_true(sale_window_cached(sale, 1099 * MS, &settings));
    assert_false(sale_window_cached(sale, 1100 * MS, &settings));
    assert_false(sale_window_cached(sale, 1100 * MS, &settings));
}

static void test_invalidation_puts_settings_in_doubt(void **state)
{
    (void)state;
    struct ledger_settings settings;
    struct sale *sale = gated_sale(1, (struct ledger_settings){.paused = true});
    uint32_t epoch = sale_snapshot(sale).epoch;
    sale_confirm(sale, epoch, 0, 1000);
    assert_true(sale_window_cached(sale, 1, &settings));
    sale_invalidate(sale);
    assert_false(sale_window_cached(sale, 1, &settings));
    sale_confirm(sale, epoch, 0, 1000); /* asked before the news came */
    assert_false(sale_window_cached(sale, 1, &settings));
    assert_false(sale_confirmed(sale, 1));
    sale_confirm(sale, sale_snapshot(sale).epoch, 0, 1000);
    assert_true(sale_window_cached(sale, 1, &settings));
}

static void test_only_newer_settings_are_taken(void **state)
{
    (void)state;
    struct ledger_settings settings;
    struct sale *sale = gated_sale(2, (struct ledger_settings){.ends_ms = 9});
    sale_confirm(sale, sale_snapshot(sale).epoch, 0, 1000);
    gated_sale(1, (struct ledger_settings){.ends_ms = 8});
    assert_int_equal(sale_snapshot(sale).settings.ends_ms, 9);
    assert_true(sale_window_cached(sale, 1, &settings));
    gated_sale(3, (struct ledger_settings){.per_user_limit = 2});
    assert_int_equal(sale_snapshot(sale).settings.per_user_limit, 2);
    assert_false(sale_window_cached(sale, 1, &settings)); /* always open */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_sale_is_found_by_its_sku_alone),
        TEST(test_new_round_replaces_the_snapshot),
        TEST(test_old_round_is_ignored),
        TEST(test_cache_is_bounded),
        TEST(test_retired_sales_make_room),
        TEST(test_sale_that_a_thread_looks_at_is_not_freed),
        TEST(test_all_others_are_found_while_sales_go),
        TEST(test_threads_look_while_sales_go),
        TEST(test_threads_see_one_sale_per_sku),
        TEST(test_hints_begin_with_the_largest_share),
        TEST(test_suspect_is_taken_once),
        TEST(test_later_suspect_has_the_fence_that_was_seen),
        TEST(test_nothing_is_known_short_at_first),
        TEST(test_more_than_is_left_is_known_short),
        TEST(test_one_caller_in_50_ms_finds_out_anew),
        TEST(test_memory_is_of_no_use_a_second_after_it_ran_out),
        TEST(test_memory_is_renewed_by_the_next_finding),
        TEST(test_units_that_came_back_end_the_memory),
        TEST(test_finding_older_than_returned_units_is_not_remembered),
        TEST(test_new_round_ends_the_memory),
        TEST(test_a_lost_subscription_ends_every_memory),
        TEST(test_settings_refuse_only_for_as_long_as_they_are_confirmed),
        TEST(test_invalidation_puts_settings_in_doubt),
        TEST(test_only_newer_settings_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
