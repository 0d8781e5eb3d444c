/* Node numbers: leased, renewed, given back, and kept apart from those of the former version. */
#include "base/fault.h"
#include "sql/server/server.h"

#include "sql/test_server.h"

enum {
    LEASE_MS = 60000,
    STAYING = 10,
    STARTS = 1100,
    TAKERS = 8,
};

static const uint64_t now_ms = UINT64_C(1800000000000);
static struct ledger *ledger;

static struct ledger *connect_ledger(void)
{
    char error[128];
    struct ledger *opened = ledger_open(sql_server_url(), 5000, error, sizeof error);
    assert_non_null(opened);
    return opened;
}

static int open_all(void **state)
{
    (void)state;
    sql_server_clear();
    ledger = connect_ledger();
    assert_int_equal(ledger_migrate(ledger, NULL, NULL), LEDGER_OK);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    ledger_close(&ledger);
    return 0;
}

static int free_all(void **state)
{
    (void)state;
    sql_server_do("UPDATE node_lease SET holder=NULL,ids_before=0,leased_until='2025-01-01'");
    return 0;
}

#define LAST_MS UINT64_C(3934712855551) /* in 2094 */

static struct ledger_node of(const char *holder, int number)
{
    return (struct ledger_node){.number = number,
                                .holder = holder,
                                .lease_ms = LEASE_MS,
                                .next_ms = now_ms,
                                .last_ms = LAST_MS};
}

static enum ledger_result take(struct ledger_node *node)
{
    char other[IDENTIFIER_SIZE], until[LEDGER_TIME_SIZE];
    enum ledger_result result = ledger_node_take(ledger, node, other, until);
    assert_true(result == LEDGER_NO || (other[0] == '\0' && until[0] == '\0'));
    return result;
}

static void end_lease(int number)
{
    sql_server_do("UPDATE node_lease SET leased_until=UTC_TIMESTAMP(6)WHERE number=%d", number);
}

/* A counter would come around to the numbers of those that stay. */
static void test_1100_starts_leave_the_numbers_of_running_daemons_alone(void **state)
{
    (void)state;
    static const char *const names[STAYING] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    struct ledger_node staying[STAYING];
    bool taken[LEDGER_NODES] = {false};
    for (int i = 0; i < STAYING; i++) {
        staying[i] = of(names[i], -1);
        assert_int_equal(take(&staying[i]), LEDGER_OK);
        assert_false(taken[staying[i].number]);
        taken[staying[i].number] = true;
    }
    for (int i = 0; i < STARTS; i++) {
        char name[32];
        snprintf(name, sizeof name, "start:%d", i);
        struct ledger_node start = of(name, -1);
        assert_int_equal(take(&start), LEDGER_OK);
        assert_int_in_range(start.number, 0, LEDGER_NODES - 1);
        assert_false(taken[start.number]);
        if (i % 2 == 0)
            assert_int_equal(ledger_node_release(ledger, &start), LEDGER_OK);
        else
            end_lease(start.number); /* it died */
    }
    for (int i = 0; i < STAYING; i++)
        assert_int_equal(ledger_node_renew(ledger, &staying[i]), LEDGER_OK);
}

static void test_start_that_is_tried_again_uses_up_one_number(void **state)
{
    (void)state;
    struct ledger_node first = of("a", -1), again = of("a", -1);
    assert_int_equal(take(&first), LEDGER_OK);
    assert_int_equal(take(&again), LEDGER_OK);
    assert_int_equal(again.number, first.number);
    assert_true(again.ids_from_ms >= first.ids_to_ms); /* it may have made ids of the first try */
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM node_lease WHERE holder='a'"), 1);
}

static void test_without_a_free_number_nothing_is_taken(void **state)
{
    (void)state;
    sql_server_do("UPDATE node_lease SET holder=CONCAT('h',number),"
                  "leased_until=UTC_TIMESTAMP(6)+INTERVAL 60 SECOND");
    struct ledger_node node = of("a", -1);
    assert_int_equal(take(&node), LEDGER_NO);
    end_lease(700);
    assert_int_equal(take(&node), LEDGER_OK);
    assert_int_equal(node.number, 700);
}

/* The ids of two holders of a number are apart, whatever their clocks say. */
static void test_next_holder_begins_behind_all_ids_of_the_last_one(void **state)
{
    (void)state;
    struct ledger_node sleeper = of("sleeper", 7), next = of("next", 7), third = of("third", 7);
    assert_int_equal(take(&sleeper), LEDGER_OK);
    assert_int_equal(sleeper.ids_to_ms, now_ms + LEASE_MS);
    sleeper.next_ms += 1000;
    assert_int_equal(ledger_node_renew(ledger, &sleeper), LEDGER_OK);
    assert_int_equal(sleeper.ids_to_ms, now_ms + 1000 + LEASE_MS);
    end_lease(7);
    next.next_ms -= 3600000; /* its clock is an hour behind */
    assert_int_equal(take(&next), LEDGER_OK);
    assert_int_equal(next.ids_from_ms, sleeper.ids_to_ms);
    assert_int_equal(next.ids_to_ms, next.ids_from_ms + LEASE_MS);
    assert_int_equal(ledger_node_renew(ledger, &sleeper), LEDGER_NO);
    assert_int_equal(ledger_node_release(ledger, &sleeper), LEDGER_OK); /* that of somebody else */
    assert_int_equal(take(&third), LEDGER_NO);
}

static void test_released_number_is_free_at_once_and_reserves_no_ids(void **state)
{
    (void)state;
    struct ledger_node first = of("first", 7), next = of("next", 7);
    assert_int_equal(take(&first), LEDGER_OK);
    first.next_ms += 5;
    assert_int_equal(ledger_node_release(ledger, &first), LEDGER_OK);
    assert_int_equal(take(&next), LEDGER_OK);
    assert_int_equal(next.ids_from_ms, now_ms + 5);
}

static void test_lease_that_ended_is_renewed_unless_it_was_taken(void **state)
{
    (void)state;
    struct ledger_node node = of("a", -1);
    assert_int_equal(take(&node), LEDGER_OK);
    end_lease(node.number);
    assert_int_equal(ledger_node_renew(ledger, &node), LEDGER_OK);
    end_lease(node.number);
    struct ledger_node other = of("b", node.number);
    assert_int_equal(take(&other), LEDGER_OK);
    assert_int_equal(ledger_node_renew(ledger, &node), LEDGER_NO);
    assert_int_equal(ledger_node_renew(ledger, &other), LEDGER_OK);
}

/* A clock decades ahead has left it so. */
static void test_number_without_any_ids_left_is_passed_over(void **state)
{
    (void)state;
    struct ledger_node any = of("a", -1), wanted = of("b", 7);
    sql_server_do("UPDATE node_lease SET ids_before=%llu WHERE number<>900",
                  (unsigned long long)LAST_MS);
    assert_int_equal(take(&any), LEDGER_OK);
    assert_int_equal(any.number, 900);
    fault_clear(ledger_fault(ledger));
    char other[IDENTIFIER_SIZE], until[LEDGER_TIME_SIZE];
    assert_int_equal(ledger_node_take(ledger, &wanted, other, until), LEDGER_DAMAGED);
    assert_true(ledger_fault(ledger)->damaged);
    assert_non_null(strstr(ledger_fault(ledger)->error, "number 7"));
}

static void test_number_in_use_is_refused_with_its_holder(void **state)
{
    (void)state;
    char other[IDENTIFIER_SIZE], until[LEDGER_TIME_SIZE], later[LEDGER_TIME_SIZE];
    struct ledger_node first = of("host:1:2", 1023), second = of("host:3:4", 1023);
    assert_int_equal(take(&first), LEDGER_OK);
    assert_int_equal(ledger_node_take(ledger, &second, other, until), LEDGER_NO);
    assert_string_equal(other, "host:1:2");
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    assert_int_equal(ledger_node_renew(ledger, &first), LEDGER_OK);
    assert_int_equal(ledger_node_take(ledger, &second, other, later), LEDGER_NO);
    assert_true(strcmp(later, until) > 0); /* by which a live holder is told from a dead one */
}

static void *take_one(void *context)
{
    struct ledger_node *node = context;
    char other[IDENTIFIER_SIZE], until[LEDGER_TIME_SIZE];
    struct ledger *own = connect_ledger();
    assert_int_equal(ledger_node_take(own, node, other, until), LEDGER_OK);
    ledger_close(&own);
    return NULL;
}

static void test_many_that_start_at_once_differ(void **state)
{
    (void)state;
    static const char *const names[TAKERS] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    struct ledger_node nodes[TAKERS];
    pthread_t threads[TAKERS];
    for (int i = 0; i < TAKERS; i++) {
        nodes[i] = of(names[i], -1);
        assert_int_equal(pthread_create(&threads[i], NULL, take_one, &nodes[i]), 0);
    }
    for (int i = 0; i < TAKERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM node_lease WHERE holder IS NOT NULL"),
                     TAKERS);
}

/* Makes the tables anew as an upgrade finds them after so many starts of the former version. */
static void upgrade_after(unsigned starts)
{
    sql_server_do("DELETE FROM schema_version WHERE name='0006_node_lease';DROP TABLE node_lease;"
                  "DELETE FROM node;INSERT INTO node(number)VALUES(%u)",
                  starts);
    assert_int_equal(ledger_migrate(ledger, NULL, NULL), LEDGER_OK);
    sql_server_do("DELETE FROM node");
}

static void assert_kept(int64_t kept)
{
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM node_lease"), LEDGER_NODES);
    assert_int_equal(sql_server_do("SELECT COUNT(*) FROM node_lease "
                                   "WHERE leased_until>UTC_TIMESTAMP()+INTERVAL 23 HOUR"),
                     kept);
}

static bool is_kept(unsigned start)
{
    return sql_server_do("SELECT leased_until>UTC_TIMESTAMP() FROM node_lease WHERE number=%u",
                         start % LEDGER_NODES) == 1;
}

static void test_upgrade_keeps_the_numbers_of_the_former_version(void **state)
{
    (void)state;
    const unsigned starts[] = {5000, 1024 * 9, 512, 511, 3};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        unsigned newest = starts[i], oldest = newest > 512 ? newest - 511 : 1;
        upgrade_after(newest);
        assert_kept(newest + 256 - oldest + 1);
        assert_true(is_kept(oldest) && is_kept(newest) && is_kept(newest + 256));
        assert_false(is_kept(newest + 257) || is_kept(oldest + 1023));
        struct ledger_node node = of("a", -1), set = of("b", (int)(newest % LEDGER_NODES));
        assert_int_equal(take(&node), LEDGER_OK);
        assert_kept(newest + 256 - oldest + 1);  /* it was another one */
        assert_int_equal(take(&set), LEDGER_OK); /* the operator has set it */
    }
}

static void test_new_ledger_keeps_no_numbers(void **state)
{
    (void)state;
    sql_server_clear();
    assert_int_equal(ledger_migrate(ledger, NULL, NULL), LEDGER_OK);
    assert_kept(0);
}

#define TEST(name) cmocka_unit_test_setup(name, free_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_1100_starts_leave_the_numbers_of_running_daemons_alone),
        TEST(test_start_that_is_tried_again_uses_up_one_number),
        TEST(test_without_a_free_number_nothing_is_taken),
        TEST(test_next_holder_begins_behind_all_ids_of_the_last_one),
        TEST(test_released_number_is_free_at_once_and_reserves_no_ids),
        TEST(test_lease_that_ended_is_renewed_unless_it_was_taken),
        TEST(test_number_in_use_is_refused_with_its_holder),
        TEST(test_many_that_start_at_once_differ),
        TEST(test_number_without_any_ids_left_is_passed_over),
        TEST(test_upgrade_keeps_the_numbers_of_the_former_version),
        TEST(test_new_ledger_keeps_no_numbers),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
