/* How long a snapshot is given, who reads it anew, and what the table has room for. */
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

#include "base/clock.h"
#include "base/test_range.h"
#include "base/text.h"
#include "base/identifier.h"
#include "service/request/prepared.h"
#include "service/request/stock_snapshot.h"

static const int64_t MS = CLOCK_NS_PER_MS;
static const int64_t NOW = 1000 * CLOCK_NS_PER_S;

static struct stock_snapshots *snapshots;

static int start(void **state)
{
    (void)state;
    snapshots = stock_snapshots_open();
    return 0;
}

static int finish(void **state)
{
    (void)state;
    stock_snapshots_close(&snapshots);
    return 0;
}

static struct prepared *answer_of(size_t length)
{
    char *text = calloc(1, length);
    assert_non_null(text);
    return prepared_new("text/plain", "no-store", text, length);
}

/* Keeps an answer of `length` bytes, read at `asked_ns`; of 0: that there is no such sale. */
static void keep(const char *sku, int64_t asked_ns, size_t length)
{
    struct prepared *answer = length > 0 ? answer_of(length) : NULL;
    uint64_t changes = stock_snapshot_changes(snapshots, sku);
    stock_snapshot_keep(snapshots, sku, changes, asked_ns, answer);
    prepared_release(&answer);
}

/* The length of the answer that a request gets; 0: no such sale; -1: the ledger must be asked. */
static long ask(bool worker, const char *sku, int64_t now_ns)
{
    struct prepared *held = NULL;
    bool found = stock_snapshot_find(snapshots, sku, now_ns, worker, &held);
    assert_true(found || !held);
    if (!held)
        return found ? 0 : -1;
    struct prepared *empty = answer_of(1);
    long length = (long)(prepared_size(held) - prepared_size(empty)) + 1;
    prepared_release(&empty);
    prepared_release(&held);
    return length;
}

static long find(const char *sku, int64_t now_ns)
{
    return ask(false, sku, now_ns);
}

static long recheck(const char *sku, int64_t now_ns)
{
    return ask(true, sku, now_ns);
}

/* ---- age ---- */

static void test_what_was_never_read_is_due(void **state)
{
    (void)state;
    assert_int_equal(find("a", NOW), -1);
    assert_int_equal(find("a", NOW), -1); /* whoever was told before has no advantage */
    assert_int_equal(recheck("a", NOW), -1);
}

static void test_a_fresh_snapshot_is_given_to_all(void **state)
{
    (void)state;
    keep("a", NOW, 7);
    for (int i = 0; i < 3; i++)
        assert_int_equal(find("a", NOW + STOCK_SNAPSHOT_FRESH_MS * MS - 1), 7);
    assert_int_equal(recheck("a", NOW + STOCK_SNAPSHOT_FRESH_MS * MS - 1), 7);
    assert_int_equal(find("b", NOW), -1);
}

static void test_one_request_reads_it_anew_while_others_are_answered(void **state)
{
    (void)state;
    int64_t later = NOW + STOCK_SNAPSHOT_FRESH_MS * MS;
    keep("a", NOW, 7);
    assert_int_equal(find("a", later), -1);
    assert_int_equal(recheck("a", later), -1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(find("a", NOW + STOCK_SNAPSHOT_AGE_MS_MAX * MS - 1), 7);
    keep("a", later, 8);
    assert_int_equal(find("a", later), 8);
    assert_int_equal(recheck("a", later), 8);
    assert_int_equal(find("a", later + STOCK_SNAPSHOT_FRESH_MS * MS), -1);
}

static void test_an_old_snapshot_is_given_to_nobody(void **state)
{
    (void)state;
    keep("a", NOW, 7);
    for (int i = 0; i < 3; i++)
        assert_int_equal(find("a", NOW + STOCK_SNAPSHOT_AGE_MS_MAX * MS), -1);
    assert_int_in_range(STOCK_SNAPSHOT_AGE_MS_MAX, STOCK_SNAPSHOT_FRESH_MS, 99);
}

static void test_an_unknown_sku_is_remembered_as_long(void **state)
{
    (void)state;
    keep("a", NOW, 0);
    assert_int_equal(find("a", NOW + STOCK_SNAPSHOT_FRESH_MS * MS - 1), 0);
    assert_int_equal(find("a", NOW + STOCK_SNAPSHOT_AGE_MS_MAX * MS), -1);
    keep("a", NOW + 1, 7);
    assert_int_equal(find("a", NOW + 1), 7);
}

static void test_an_earlier_reading_does_not_replace_a_later_one(void **state)
{
    (void)state;
    keep("a", NOW, 7);
    keep("a", NOW - 1, 8);
    assert_int_equal(find("a", NOW), 7);
}

/* ---- changes ---- */

static void test_after_a_change_the_ledger_is_asked(void **state)
{
    (void)state;
    keep("a", NOW, 7);
    keep("b", NOW, 8);
    stock_snapshot_changed(snapshots, "a");
    assert_int_equal(find("a", NOW), -1);
    assert_int_equal(find("b", NOW), 8);
    keep("a", NOW + 1, 9);
    assert_int_equal(find("a", NOW + 1), 9);
}

static void test_what_was_asked_before_a_change_is_not_kept(void **state)
{
    (void)state;
    struct prepared *answer = answer_of(7);
    uint64_t changes = stock_snapshot_changes(snapshots, "a");
    stock_snapshot_changed(snapshots, "a");
    stock_snapshot_keep(snapshots, "a", changes, NOW, answer);
    assert_int_equal(find("a", NOW), -1);
    prepared_release(&answer);
    assert_int_equal(stock_snapshots_bytes(snapshots), 0);
}

/* ---- room ---- */

/* The number-th sku that shares a set with the first one. */
static const char *rival(size_t number)
{
    static char sku[IDENTIFIER_SIZE];
    size_t set = hash_slot("0", STOCK_SNAPSHOT_SETS);
    for (unsigned i = 0;; i++) {
        snprintf(sku, sizeof sku, "%u", i);
        if (hash_slot(sku, STOCK_SNAPSHOT_SETS) == set && number-- == 0)
            return sku;
    }
}

static void test_the_one_read_longest_ago_makes_room(void **state)
{
    (void)state;
    for (size_t i = 0; i <= STOCK_SNAPSHOT_WAYS; i++)
        keep(rival(i), NOW + (i == 3 ? 0 : 1) + (int64_t)i * (i != 3), 7);
    for (size_t i = 0; i <= STOCK_SNAPSHOT_WAYS; i++)
        assert_int_equal(find(rival(i), NOW + 10), i == 3 ? -1 : 7);
}

static void test_unknown_skus_take_no_place_from_a_sale(void **state)
{
    (void)state;
    keep(rival(0), NOW, 7);
    for (size_t i = 1; i < 4 * (size_t)STOCK_SNAPSHOT_WAYS; i++)
        keep(rival(i), NOW + (int64_t)i, 0);
    assert_int_equal(find(rival(0), NOW), 7);
    assert_int_equal(find(rival(4 * STOCK_SNAPSHOT_WAYS - 1), NOW + 1), 0);
}

static void test_the_bytes_have_a_limit(void **state)
{
    (void)state;
    enum { LENGTH = 1 << 20 };
    char sku[IDENTIFIER_SIZE];
    for (int i = 0; i < 100; i++) {
        snprintf(sku, sizeof sku, "s%d", i);
        keep(sku, NOW, LENGTH);
        assert_int_in_range(stock_snapshots_bytes(snapshots), 1, STOCK_SNAPSHOT_BYTES_MAX);
    }
    assert_int_equal(find("s0", NOW), LENGTH);
    assert_int_equal(find("s99", NOW), -1);
    keep("s0", NOW + 1, 7);
    assert_int_equal(find("s0", NOW + 1), 7);
}

static void test_idle_snapshots_leave(void **state)
{
    (void)state;
    char sku[IDENTIFIER_SIZE];
    for (int i = 0; i < 100; i++) {
        snprintf(sku, sizeof sku, "s%d", i);
        keep(sku, NOW, 1000);
    }
    size_t before = stock_snapshots_bytes(snapshots);
    for (int i = 0; i < STOCK_SNAPSHOT_SETS; i++)
        keep("a", NOW + STOCK_SNAPSHOT_IDLE_MS * MS + i, 1000);
    assert_int_equal(stock_snapshots_bytes(snapshots), before / 100);
}

/* ---- threads ---- */

enum { ROUNDS = 20000 };
static _Atomic bool stopped;
static _Atomic int found;

/* Holds answers and looks into them while they are replaced. */
static void *reader(void *context)
{
    (void)context;
    while (!atomic_load(&stopped)) {
        struct prepared *held = NULL;
        if (!stock_snapshot_find(snapshots, "a", NOW, false, &held))
            continue;
        struct prepared *again = prepared_hold(held);
        prepared_release(&held);
        if (prepared_size(again) < 100)
            abort();
        atomic_fetch_add(&found, 1);
        prepared_release(&again);
    }
    return NULL;
}

static void *changer(void *context)
{
    (void)context;
    while (!atomic_load(&stopped))
        stock_snapshot_changed(snapshots, "a");
    return NULL;
}

static void test_answers_live_as_long_as_somebody_holds_them(void **state)
{
    (void)state;
    pthread_t threads[3];
    atomic_store(&stopped, false);
    atomic_store(&found, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i < 2 ? reader : changer, NULL), 0);
    for (int i = 0; i < ROUNDS || atomic_load(&found) < 100; i++)
        keep("a", NOW + i, 100);
    atomic_store(&stopped, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_was_never_read_is_due, start, finish),
        cmocka_unit_test_setup_teardown(test_a_fresh_snapshot_is_given_to_all, start, finish),
        cmocka_unit_test_setup_teardown(test_one_request_reads_it_anew_while_others_are_answered,
                                        start, finish),
        cmocka_unit_test_setup_teardown(test_an_old_snapshot_is_given_to_nobody, start, finish),
        cmocka_unit_test_setup_teardown(test_an_unknown_sku_is_remembered_as_long, start, finish),
        cmocka_unit_test_setup_teardown(test_an_earlier_reading_does_not_replace_a_later_one, start,
                                        finish),
        cmocka_unit_test_setup_teardown(test_after_a_change_the_ledger_is_asked, start, finish),
        cmocka_unit_test_setup_teardown(test_what_was_asked_before_a_change_is_not_kept, start,
                                        finish),
        cmocka_unit_test_setup_teardown(test_the_one_read_longest_ago_makes_room, start, finish),
        cmocka_unit_test_setup_teardown(test_unknown_skus_take_no_place_from_a_sale, start, finish),
        cmocka_unit_test_setup_teardown(test_the_bytes_have_a_limit, start, finish),
        cmocka_unit_test_setup_teardown(test_idle_snapshots_leave, start, finish),
        cmocka_unit_test_setup_teardown(test_answers_live_as_long_as_somebody_holds_them, start,
                                        finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
