/* Each ledger knows its number, and each sku has one shard, whoever asks and however often. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>

#include "sql/ledger_setup.h"
#include "sql/ledger_shard.h"
#include "sql/test_server.h"

static struct ledger *ledger;

static struct ledger *open_ledger(void)
{
    char error[128];
    struct ledger *opened = ledger_open(sql_server_url(), 5000, error, sizeof error);
    if (!opened)
        fail_msg("%s", error);
    return opened;
}

static int open_it(void **state)
{
    (void)state;
    ledger = open_ledger();
    assert_int_equal(ledger_migrate(ledger), LEDGER_OK);
    return 0;
}

static int close_it(void **state)
{
    (void)state;
    ledger_close(&ledger);
    return 0;
}

static int empty(void **state)
{
    (void)state;
    sql_server_empty();
    sql_server_do("DELETE FROM sale_shard;DELETE FROM ledger_shard");
    return 0;
}

static unsigned claim(const char *sku, unsigned wanted)
{
    unsigned shard = 99;
    assert_int_equal(ledger_sku_claim(ledger, sku, wanted, &shard), LEDGER_OK);
    return shard;
}

static void add_sale(const char *sku)
{
    sql_server_do("INSERT INTO sale(sku,round,total,segments)VALUES('%s',1,30,3)", sku);
}

static void test_new_sku_goes_where_it_is_wanted_and_stays(void **state)
{
    (void)state;
    assert_int_equal(claim("a", 3), 3);
    assert_int_equal(claim("b", 0), 0);
    for (unsigned wanted = 0; wanted < 16; wanted++) {
        assert_int_equal(claim("a", wanted), 3);
        assert_int_equal(claim("b", wanted), 0);
    }
    assert_int_equal(claim("A", 5), 5); /* another sku */
}

static void test_sku_that_was_there_before_the_shards_is_on_shard_0(void **state)
{
    (void)state;
    add_sale("a");
    sql_server_do("INSERT INTO sale_round(sku,round,segments,retired,last_id,ended_at,step)VALUES"
                  "('gone',4,1,1,1,NOW(),'done')");
    assert_int_equal(claim("a", 1), 0);
    assert_int_equal(claim("gone", 1), 0);
    assert_int_equal(claim("new", 1), 1);
}

/* A sale that was created, or retired, after the claim does not move. */
static void test_answer_does_not_change_with_the_sale(void **state)
{
    (void)state;
    assert_int_equal(claim("a", 2), 2);
    add_sale("a");
    assert_int_equal(claim("a", 1), 2);
    sql_server_do("DELETE FROM sale");
    assert_int_equal(claim("a", 1), 2);
}

/* What is found may be another's commit that is not on the disk: only a write makes sure. */
static void test_each_answer_is_a_commit(void **state)
{
    (void)state;
    claim("a", 2);
    int64_t before = sql_server_log();
    claim("a", 2);
    assert_true(sql_server_log() > before);
}

enum { THREADS = 6, SKUS = 40 };

struct asker {
    pthread_t thread;
    unsigned number;
    unsigned shards[SKUS];
};

static void *ask(void *argument)
{
    struct asker *asker = argument;
    char sku[16];
    struct ledger *own = open_ledger();
    for (unsigned i = 0; i < SKUS; i++) {
        snprintf(sku, sizeof sku, "sku-%u", i);
        while (ledger_sku_claim(own, sku, asker->number, &asker->shards[i]) != LEDGER_OK)
            ; /* met another in a deadlock */
    }
    ledger_close(&own);
    return NULL;
}

static void test_askers_at_once_get_the_same_answer(void **state)
{
    (void)state;
    static struct asker askers[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        askers[i].number = i;
        assert_int_equal(pthread_create(&askers[i].thread, NULL, ask, &askers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(askers[i].thread, NULL);
    for (unsigned i = 1; i < THREADS; i++)
        assert_memory_equal(askers[i].shards, askers[0].shards, sizeof askers[0].shards);
}

static void test_ledger_keeps_its_number(void **state)
{
    (void)state;
    unsigned found = 99;
    assert_int_equal(ledger_shard_claim(ledger, 2, &found), LEDGER_OK);
    assert_int_equal(ledger_shard_claim(ledger, 2, &found), LEDGER_OK);
    assert_int_equal(ledger_shard_claim(ledger, 0, &found), LEDGER_NO);
    assert_int_equal(found, 2);
    add_sale("a");
    assert_int_equal(ledger_shard_claim(ledger, 2, &found), LEDGER_OK);
}

static void test_ledger_with_sales_and_no_number_is_shard_0(void **state)
{
    (void)state;
    unsigned found = 99;
    add_sale("a");
    assert_int_equal(ledger_shard_claim(ledger, 1, &found), LEDGER_NO);
    assert_int_equal(found, 0);
    assert_int_equal(ledger_shard_claim(ledger, 0, &found), LEDGER_OK);
}

static int look_up(const char *sku)
{
    struct ledger_sku_place places[] = {{.sku = "other"}, {.sku = sku}, {.sku = sku}};
    assert_int_equal(ledger_skus_look_up(ledger, places, 3), LEDGER_OK);
    assert_int_equal(places[0].shard, -1);
    assert_int_equal(places[1].shard, places[2].shard);
    return places[1].shard;
}

/* A question for a sku that nobody has sold leaves no row behind. */
static void test_looking_up_claims_nothing(void **state)
{
    (void)state;
    claim("a", 3);
    claim("b", 0);
    assert_int_equal(look_up("a"), 3);
    assert_int_equal(look_up("b"), 0);
    assert_int_equal(look_up("A"), -1);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM sale_shard"), 2);
}

static void test_shard_beyond_a_short_list(void **state)
{
    (void)state;
    unsigned shard = 99;
    assert_int_equal(ledger_shard_beyond(ledger, 1, &shard), LEDGER_NO);
    claim("b", 0);
    claim("a", 2);
    assert_int_equal(ledger_shard_beyond(ledger, 3, &shard), LEDGER_NO);
    assert_int_equal(shard, 99);
    for (unsigned count = 1; count <= 2; count++) {
        assert_int_equal(ledger_shard_beyond(ledger, count, &shard), LEDGER_OK);
        assert_int_equal(shard, 2);
    }
}

static void test_nothing_is_known_without_the_server(void **state)
{
    (void)state;
    char error[128];
    unsigned number = 99;
    struct ledger *nowhere =
        ledger_open("mysql://nobody@127.0.0.1:1/seckill", 500, error, sizeof error);
    assert_non_null(nowhere);
    assert_int_equal(ledger_sku_claim(nowhere, "a", 1, &number), LEDGER_FAILED);
    assert_int_equal(ledger_shard_claim(nowhere, 1, &number), LEDGER_FAILED);
    assert_int_equal(ledger_shard_beyond(nowhere, 1, &number), LEDGER_FAILED);
    struct ledger_sku_place place = {.sku = "a"};
    assert_int_equal(ledger_skus_look_up(nowhere, &place, 1), LEDGER_FAILED);
    ledger_close(&nowhere);
}

static void test_skus_spread_over_the_shards(void **state)
{
    (void)state;
    enum { COUNT = 5, EACH = 200 };
    unsigned held[COUNT] = {0};
    char sku[32];
    for (unsigned i = 0; i < COUNT * EACH; i++) {
        snprintf(sku, sizeof sku, "flash-%u", i);
        unsigned shard = ledger_sku_default(sku, COUNT);
        assert_true(shard < COUNT);
        held[shard]++;
    }
    for (unsigned i = 0; i < COUNT; i++)
        assert_in_range(held[i], EACH / 2, EACH * 3 / 2);
    assert_int_equal(ledger_sku_default("any", 1), 0);
}

#define TEST(name) cmocka_unit_test_setup(name, empty)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_new_sku_goes_where_it_is_wanted_and_stays),
        TEST(test_sku_that_was_there_before_the_shards_is_on_shard_0),
        TEST(test_answer_does_not_change_with_the_sale),
        TEST(test_each_answer_is_a_commit),
        TEST(test_askers_at_once_get_the_same_answer),
        TEST(test_ledger_keeps_its_number),
        TEST(test_ledger_with_sales_and_no_number_is_shard_0),
        TEST(test_looking_up_claims_nothing),
        TEST(test_shard_beyond_a_short_list),
        TEST(test_nothing_is_known_without_the_server),
        TEST(test_skus_spread_over_the_shards),
    };
    return cmocka_run_group_tests(tests, open_it, close_it);
}
