/* Order ids are unique, grow, survive a clock that steps back, and have one spelling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "service/request/order_id.h"

#define LONG_NS (3600 * CLOCK_NS_PER_S)
#define START_MS (ORDER_ID_EPOCH_MS + UINT64_C(1000000))

static uint64_t read_clock(void *context)
{
    return *(const uint64_t *)context;
}

static uint64_t read_system_clock(void *context)
{
    (void)context;
    return (uint64_t)clock_wall_ms();
}

static int64_t slept_s;

/* In place of the C library's. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_BOOTTIME)
        now->tv_sec += slept_s;
    return result;
}

static uint64_t time_of(uint64_t id)
{
    return (id >> (ORDER_ID_NODE_BITS + ORDER_ID_POD_BITS + ORDER_ID_SEQUENCE_BITS)) +
           ORDER_ID_EPOCH_MS;
}

static uint64_t sequence_of(uint64_t id)
{
    return id & (ORDER_ID_RESERVE_MAX - 1);
}

static unsigned node_of(uint64_t id)
{
    return (unsigned)(id >> (ORDER_ID_POD_BITS + ORDER_ID_SEQUENCE_BITS)) & ORDER_ID_NODE_MAX;
}

static void lease(struct order_ids *ids, unsigned node, uint64_t from_ms, uint64_t to_ms)
{
    order_ids_lease(ids, &(struct order_id_lease){node, from_ms, to_ms, clock_boot_ns() + LONG_NS});
}

/* With a lease that no test comes to the end of. NULL: the system's clock. */
static void init(struct order_ids *ids, unsigned node, uint64_t *now)
{
    order_ids_init(ids, now ? read_clock : read_system_clock, now, 0);
    lease(ids, node, 0, ORDER_ID_LAST_MS);
}

static uint64_t reserve(struct order_ids *ids, unsigned n)
{
    uint64_t now_ms;
    return order_ids_reserve(ids, n, &now_ms);
}

static uint64_t next_id(struct order_ids *ids)
{
    return reserve(ids, 1);
}

static void test_id_holds_time_node_and_sequence(void **state)
{
    (void)state;
    uint64_t now = START_MS;
    struct order_ids ids;
    init(&ids, 1023, &now);
    uint64_t id = next_id(&ids);
    assert_int_equal(id, (UINT64_C(1000000) << 22) | (UINT64_C(1023) << 12));
    assert_int_equal(time_of(id), START_MS);
    assert_int_equal(node_of(id), 1023);
    assert_int_equal(next_id(&ids), id + 1);
    now++;
    uint64_t later = next_id(&ids);
    assert_int_equal(time_of(later), START_MS + 1);
    assert_int_equal(sequence_of(later), 0);
}

static void test_id_holds_its_pod(void **state)
{
    (void)state;
    uint64_t now = START_MS, now_ms;
    struct order_ids ids;
    for (unsigned pod = 0; pod <= ORDER_ID_POD_MAX; pod++) {
        order_ids_init(&ids, read_clock, &now, pod);
        lease(&ids, 1023, 0, ORDER_ID_LAST_MS);
        uint64_t id = order_ids_reserve(&ids, ORDER_ID_RESERVE_MAX, &now_ms);
        for (unsigned i = 0; i < ORDER_ID_RESERVE_MAX; i++) {
            assert_int_equal(order_id_pod(id + i), pod);
            assert_int_equal(node_of(id + i), 1023);
            assert_int_equal(time_of(id + i), START_MS);
        }
    }
}

/* Whoever upgrades has both. */
static void test_ids_are_greater_than_those_of_versions_before(void **state)
{
    (void)state;
    uint64_t now = START_MS;
    struct order_ids ids;
    uint64_t last = (UINT64_C(1000000) << 22) | (UINT64_C(7) << 12) | 4095;
    assert_int_equal(time_of(last), START_MS);
    order_ids_init(&ids, read_clock, &now, 0);
    lease(&ids, 7, START_MS + 1, ORDER_ID_LAST_MS); /* as the ledger grants it */
    assert_true(next_id(&ids) > last);
}

static void test_used_up_sequence_borrows_from_next_ms(void **state)
{
    (void)state;
    uint64_t now = START_MS;
    struct order_ids ids;
    init(&ids, 5, &now);
    uint64_t last = 0;
    for (unsigned i = 0; i < 3 * ORDER_ID_RESERVE_MAX; i++) {
        uint64_t id = next_id(&ids);
        assert_true(id > last);
        assert_int_equal(node_of(id), 5);
        assert_int_equal(time_of(id), START_MS + i / ORDER_ID_RESERVE_MAX);
        last = id;
    }
    now += 1; /* the clock is still behind what was borrowed */
    assert_true(next_id(&ids) > last);
}

static void test_reserve_stays_in_one_ms(void **state)
{
    (void)state;
    uint64_t now = START_MS;
    struct order_ids ids;
    init(&ids, 1, &now);
    uint64_t first = reserve(&ids, 200);
    assert_int_equal(sequence_of(first), 0);
    uint64_t fits = reserve(&ids, 56);
    assert_int_equal(fits, first + 200);
    uint64_t whole = reserve(&ids, ORDER_ID_RESERVE_MAX);
    assert_int_equal(time_of(whole), START_MS + 1);
    assert_int_equal(sequence_of(whole), 0);
    next_id(&ids);
    uint64_t moved = reserve(&ids, ORDER_ID_RESERVE_MAX);
    assert_int_equal(time_of(moved), START_MS + 3);
    assert_int_equal(sequence_of(moved), 0);
}

static void test_clock_stepping_back_never_repeats(void **state)
{
    (void)state;
    uint64_t now = START_MS;
    struct order_ids ids;
    init(&ids, 1, &now);
    uint64_t last = reserve(&ids, 10) + 9;
    const uint64_t clocks[] = {START_MS - 1, START_MS - 3600000, 0, ORDER_ID_EPOCH_MS - 1,
                               START_MS};
    for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        now = clocks[i];
        uint64_t id = next_id(&ids);
        assert_int_equal(id, last + 1);
        last = id;
    }
}

/* A clock set an hour ahead for a moment must not date orders an hour ahead for an hour. */
static void test_time_follows_the_clock_back_while_ids_do_not(void **state)
{
    (void)state;
    uint64_t now = START_MS + 3600000, now_ms = 0;
    struct order_ids ids;
    init(&ids, 1, &now);
    uint64_t ahead = order_ids_reserve(&ids, 1, &now_ms);
    assert_int_equal(now_ms, START_MS + 3600000);
    now = START_MS;
    assert_true(order_ids_reserve(&ids, 1, &now_ms) > ahead);
    assert_int_equal(now_ms, START_MS);
}

static void test_system_clock_is_the_default(void **state)
{
    (void)state;
    struct order_ids ids;
    init(&ids, 0, NULL);
    uint64_t before = (uint64_t)clock_wall_ms(); /* time() lags behind by a tick */
    uint64_t made = time_of(next_id(&ids));
    uint64_t after = (uint64_t)clock_wall_ms();
    assert_true(made >= before && made <= after);
}

static void test_without_a_lease_there_are_no_ids(void **state)
{
    (void)state;
    uint64_t now = START_MS, now_ms = 0;
    struct order_ids ids;
    order_ids_init(&ids, read_clock, &now, 0);
    assert_int_equal(order_ids_reserve(&ids, 1, &now_ms), 0);
    assert_int_equal(now_ms, START_MS);
}

static void test_lease_that_has_ended_makes_no_ids_until_it_is_renewed(void **state)
{
    (void)state;
    uint64_t now = START_MS;
    struct order_ids ids;
    init(&ids, 1, &now);
    uint64_t last = next_id(&ids);
    slept_s = 3600; /* of the host: the monotonic clock stood still */
    assert_int_equal(next_id(&ids), 0);
    lease(&ids, 1, 0, START_MS + 1000);
    assert_int_equal(next_id(&ids), last + 1);
    slept_s = 0;
}

static void test_ids_stay_before_the_bound_of_the_lease(void **state)
{
    (void)state;
    uint64_t now = START_MS;
    struct order_ids ids;
    order_ids_init(&ids, read_clock, &now, 0);
    lease(&ids, 1, START_MS, START_MS + 2);
    assert_int_equal(time_of(next_id(&ids)), START_MS);
    now = START_MS + 3600000; /* a clock that ran away is not followed, nor does it stop sales */
    assert_int_equal(time_of(next_id(&ids)), START_MS);
    assert_int_equal(time_of(reserve(&ids, ORDER_ID_RESERVE_MAX)), START_MS + 1);
    assert_int_equal(next_id(&ids), 0);
    lease(&ids, 1, START_MS, now + 1000);
    assert_int_equal(time_of(next_id(&ids)), now);
}

static void test_lease_begins_behind_the_ids_of_the_last_holder(void **state)
{
    (void)state;
    uint64_t now = START_MS;
    struct order_ids ids;
    order_ids_init(&ids, read_clock, &now, 0);
    lease(&ids, 1, START_MS + 5000, START_MS + 9000);
    assert_int_equal(time_of(next_id(&ids)), START_MS + 5000);
    order_ids_init(&ids, read_clock, &now, 0);
    lease(&ids, 0, START_MS, START_MS + 9000);
    now += 3600000; /* before the first id */
    assert_int_equal(time_of(next_id(&ids)), START_MS);
}

static void test_another_node_goes_on_with_greater_ids(void **state)
{
    (void)state;
    uint64_t now = START_MS;
    struct order_ids ids;
    init(&ids, 9, &now);
    uint64_t last = reserve(&ids, 3) + 2;
    lease(&ids, 2, 0, START_MS + 1000);
    uint64_t id = next_id(&ids);
    assert_int_equal(node_of(id), 2);
    assert_true(id > last);
}

static void test_next_time_is_not_before_any_id(void **state)
{
    (void)state;
    uint64_t now = START_MS;
    struct order_ids ids;
    init(&ids, 1, &now);
    assert_int_equal(order_ids_next_ms(&ids), START_MS);
    uint64_t last = reserve(&ids, ORDER_ID_RESERVE_MAX) + ORDER_ID_RESERVE_MAX - 1;
    now -= 1000;
    assert_true(order_ids_next_ms(&ids) > time_of(last));
}

/* A holder gives its number back in mid-ms, and the clock stands still or steps back. */
static void test_next_holder_makes_greater_ids(void **state)
{
    (void)state;
    for (unsigned used = 1; used <= ORDER_ID_RESERVE_MAX; used++) {
        uint64_t now = START_MS;
        struct order_ids former, next;
        init(&former, 1, &now);
        uint64_t last = reserve(&former, used) + used - 1;
        now -= used % 2;
        order_ids_init(&next, read_clock, &now, 0);
        lease(&next, 1, order_ids_next_ms(&former), ORDER_ID_LAST_MS);
        assert_true(next_id(&next) > last);
    }
}

enum { THREADS = 4, RESERVES = 2000 };

struct worker {
    pthread_t thread;
    struct order_ids *ids;
    uint64_t first[RESERVES];
};

static unsigned reserve_size(size_t i)
{
    return (unsigned)(i % 97) + 1;
}

static void *reserve_many(void *argument)
{
    struct worker *worker = argument;
    for (size_t i = 0; i < RESERVES; i++)
        worker->first[i] = reserve(worker->ids, reserve_size(i));
    return NULL;
}

static int compare_ranges(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return (a[0] > b[0]) - (a[0] < b[0]);
}

static void test_clock_beyond_the_last_time_makes_no_ids(void **state)
{
    (void)state;
    uint64_t now = START_MS;
    struct order_ids ids;
    init(&ids, 5, &now);
    uint64_t before = next_id(&ids);
    assert_true(before > 0);
    now = ORDER_ID_LAST_MS + 1;
    assert_true(next_id(&ids) == 0);
    now = START_MS;
    assert_true(next_id(&ids) > before);
    lease(&ids, 5, ORDER_ID_LAST_MS - 1, ORDER_ID_LAST_MS);
    uint64_t last = reserve(&ids, ORDER_ID_RESERVE_MAX);
    assert_true(last > before && last <= INT64_MAX);
    assert_true(next_id(&ids) == 0); /* used up */
}

static void test_threads_never_share_an_id(void **state)
{
    (void)state;
    uint64_t now = START_MS;
    static struct worker workers[THREADS];
    static uint64_t ranges[THREADS * RESERVES][2];
    struct order_ids ids;
    init(&ids, 1, &now);
    for (size_t t = 0; t < THREADS; t++) {
        workers[t].ids = &ids;
        assert_int_equal(pthread_create(&workers[t].thread, NULL, reserve_many, &workers[t]), 0);
    }
    for (size_t t = 0; t < THREADS; t++) {
        pthread_join(workers[t].thread, NULL);
        for (size_t i = 0; i < RESERVES; i++) {
            ranges[t * RESERVES + i][0] = workers[t].first[i];
            ranges[t * RESERVES + i][1] = workers[t].first[i] + reserve_size(i) - 1;
        }
    }
    qsort(ranges, THREADS * RESERVES, sizeof ranges[0], compare_ranges);
    for (size_t i = 0; i < THREADS * RESERVES; i++) {
        assert_int_equal(time_of(ranges[i][0]), time_of(ranges[i][1]));
        if (i > 0)
            assert_true(ranges[i][0] > ranges[i - 1][1]);
    }
}

static void write_id(uint64_t id, char text_out[ORDER_ID_TEXT_SIZE])
{
    *decimal_put(text_out, id) = '\0';
}

static void test_text_round_trip(void **state)
{
    (void)state;
    const struct {
        uint64_t id;
        const char *text;
    } cases[] = {
        {0, "0"},
        {7, "7"},
        {10, "10"},
        {UINT64_C(7263000000000000123), "7263000000000000123"},
        {INT64_MAX, "9223372036854775807"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[ORDER_ID_TEXT_SIZE];
        write_id(cases[i].id, text);
        assert_string_equal(text, cases[i].text);
        uint64_t id = 1;
        assert_true(order_id_parse(text, &id));
        assert_int_equal(id, cases[i].id);
    }
    char text[ORDER_ID_TEXT_SIZE];
    write_id(UINT64_MAX, text);
    assert_string_equal(text, "18446744073709551615");
}

static void test_parse_refuses_other_spellings(void **state)
{
    (void)state;
    const char *const bad[] = {
        "",
        "00",
        "01",
        "+1",
        "-1",
        " 1",
        "1 ",
        "1\n",
        "0x1",
        "1e3",
        "1.0",
        "abc",
        "12a4",
        "١",
        "-0",
        "--1",
        "1\t2",
        "9223372036854775808",
        "9999999999999999999",
        "18446744073709551615",
        "18446744073709551617",
        "100000000000000000000000000000000000001",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t id = 99;
        if (order_id_parse(bad[i], &id))
            fail_msg("accepted '%s'", bad[i]);
        assert_int_equal(id, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_id_holds_time_node_and_sequence),
        cmocka_unit_test(test_id_holds_its_pod),
        cmocka_unit_test(test_ids_are_greater_than_those_of_versions_before),
        cmocka_unit_test(test_used_up_sequence_borrows_from_next_ms),
        cmocka_unit_test(test_reserve_stays_in_one_ms),
        cmocka_unit_test(test_clock_stepping_back_never_repeats),
        cmocka_unit_test(test_time_follows_the_clock_back_while_ids_do_not),
        cmocka_unit_test(test_system_clock_is_the_default),
        cmocka_unit_test(test_without_a_lease_there_are_no_ids),
        cmocka_unit_test(test_lease_that_has_ended_makes_no_ids_until_it_is_renewed),
        cmocka_unit_test(test_ids_stay_before_the_bound_of_the_lease),
        cmocka_unit_test(test_lease_begins_behind_the_ids_of_the_last_holder),
        cmocka_unit_test(test_another_node_goes_on_with_greater_ids),
        cmocka_unit_test(test_next_time_is_not_before_any_id),
        cmocka_unit_test(test_next_holder_makes_greater_ids),
        cmocka_unit_test(test_clock_beyond_the_last_time_makes_no_ids),
        cmocka_unit_test(test_threads_never_share_an_id),
        cmocka_unit_test(test_text_round_trip),
        cmocka_unit_test(test_parse_refuses_other_spellings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
