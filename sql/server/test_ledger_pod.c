/* Each ledger knows which pod it is, whoever asks and however often. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "sql/server/server.h"
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
    assert_int_equal(ledger_migrate(ledger, NULL, NULL), LEDGER_OK);
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
    sql_server_do("DELETE FROM ledger_shard");
    return 0;
}

static void add_sale(const char *sku)
{
    sql_server_do("INSERT INTO sale(sku,round,total,segments)VALUES('%s',1,30,3)", sku);
}

enum { THREADS = 6 };

struct asker {
    pthread_t thread;
    unsigned number, found;
};

static void *ask(void *argument)
{
    struct asker *asker = argument;
    struct ledger *own = open_ledger();
    while (ledger_pod_claim(own, asker->number, &asker->found) == LEDGER_FAILED)
        ; /* met another in a deadlock */
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
        assert_int_equal(askers[i].found, askers[0].found);
}

static void test_ledger_keeps_its_number(void **state)
{
    (void)state;
    unsigned found = 99;
    assert_int_equal(ledger_pod_claim(ledger, 2, &found), LEDGER_OK);
    assert_int_equal(ledger_pod_claim(ledger, 2, &found), LEDGER_OK);
    assert_int_equal(ledger_pod_claim(ledger, 0, &found), LEDGER_NO);
    assert_int_equal(found, 2);
    add_sale("a");
    assert_int_equal(ledger_pod_claim(ledger, 2, &found), LEDGER_OK);
}

static void test_ledger_with_sales_and_no_number_is_pod_0(void **state)
{
    (void)state;
    unsigned found = 99;
    add_sale("a");
    assert_int_equal(ledger_pod_claim(ledger, 1, &found), LEDGER_NO);
    assert_int_equal(found, 0);
    assert_int_equal(ledger_pod_claim(ledger, 0, &found), LEDGER_OK);
}

static void test_nothing_is_known_without_the_server(void **state)
{
    (void)state;
    char error[128];
    unsigned number = 99;
    struct ledger *nowhere =
        ledger_open("mysql://nobody@127.0.0.1:1/seckill", 500, error, sizeof error);
    assert_non_null(nowhere);
    assert_int_equal(ledger_pod_claim(nowhere, 1, &number), LEDGER_FAILED);
    ledger_close(&nowhere);
}

#define TEST(name) cmocka_unit_test_setup(name, empty)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_askers_at_once_get_the_same_answer),
        TEST(test_ledger_keeps_its_number),
        TEST(test_ledger_with_sales_and_no_number_is_pod_0),
        TEST(test_nothing_is_known_without_the_server),
    };
    return cmocka_run_group_tests(tests, open_it, close_it);
}
