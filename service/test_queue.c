/* The queue between threads: its bound, its order, batches, fair turns, and its end. */
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
#include "service/queue.h"
#include "service/request.h"

enum { MAX = 8, PRODUCERS = 3, CONSUMERS = 3, EACH = 5000, WAIT_MS = 30000 };

static struct queue *queue;
static struct request requests[MAX];

static int start(void **state)
{
    (void)state;
    queue = queue_open(MAX);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    for (int i = 0; i < MAX; i++)
        requests[i].flow = 0;
    queue_close(&queue);
    assert_null(queue);
    return 0;
}

/* Gives request i the flow i of `flows`, a word like "aab" for two flows. */
static void set_flows(const char *flows)
{
    for (int i = 0; flows[i]; i++)
        requests[i].flow = (unsigned)(flows[i] - 'a');
}

static size_t take(struct request **requests_out, size_t max, int wait_ms)
{
    return queue_take(queue, requests_out, max, wait_ms);
}

/* Pushes requests [from, to) as one list. */
static void push(int from, int to)
{
    for (int i = from; i < to; i++)
        requests[i].queue_next = i + 1 < to ? &requests[i + 1] : (struct request *)(uintptr_t)1;
    queue_push(queue, &requests[from], &requests[to - 1]);
}

static void test_no_more_places_than_there_are(void **state)
{
    (void)state;
    for (size_t i = 0; i < MAX; i++) {
        assert_int_equal(queue_depth(queue), i);
        assert_true(queue_reserve(queue, 0));
    }
    assert_false(queue_reserve(queue, 0));
    assert_false(queue_reserve(queue, 1)); /* nor is there one for a flow that has none */
    assert_int_equal(queue_depth(queue), MAX);
    queue_leave(queue, 0);
    assert_true(queue_reserve(queue, 0));
    assert_false(queue_reserve(queue, 0));
}

static void test_place_is_kept_until_the_request_has_left(void **state)
{
    (void)state;
    struct request *taken[MAX];
    assert_true(queue_reserve(queue, 0));
    push(0, 1);
    assert_int_equal(take(taken, MAX, 0), 1);
    assert_int_equal(queue_depth(queue), 1);
    queue_leave(queue, 0);
    assert_int_equal(queue_depth(queue), 0);
}

static void test_requests_come_out_in_order_and_in_batches(void **state)
{
    (void)state;
    struct request *taken[MAX];
    push(0, 3);
    push(3, 4);
    push(4, 8);
    assert_true(queue_waiting(queue));
    assert_int_equal(take(taken, 5, 0), 5);
    for (int i = 0; i < 5; i++)
        assert_ptr_equal(taken[i], &requests[i]);
    assert_true(queue_waiting(queue));
    assert_int_equal(take(taken, 5, 0), 3);
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(taken[i], &requests[5 + i]);
    assert_false(queue_waiting(queue));
    assert_int_equal(take(taken, 5, 0), 0);
    push(2, 3); /* emptied, it begins anew */
    assert_int_equal(take(taken, 5, 0), 1);
    assert_ptr_equal(taken[0], &requests[2]);
}

/* ---- workers beside each other ---- */

enum { MANY = 200 };

static struct request many[MANY];
static struct request *taken_many[MANY];
static int sent;

static int start_many(void **state)
{
    (void)state;
    queue = queue_open(MANY);
    sent = 0;
    return 0;
}

/* Sends `count` further requests. */
static void send_many(int count)
{
    for (int i = sent; i < sent + count; i++) {
        assert_true(queue_reserve(queue, 0));
        many[i].queue_next = i + 1 < sent + count ? &many[i + 1] : NULL;
    }
    queue_push(queue, &many[sent], &many[sent + count - 1]);
    sent += count;
}

static size_t take_beside(size_t max, int wait_ms, bool *busy)
{
    return queue_take_beside(queue, taken_many, max, wait_ms, busy);
}

static void test_batch_is_half_of_what_is_in_flight(void **state)
{
    (void)state;
    bool busy = false;
    send_many(100);
    assert_int_equal(take_beside(512, 0, &busy), 50);
    assert_true(busy);
    assert_int_equal(take_beside(20, 0, &busy), 20);
    assert_int_equal(take_beside(512, 0, &busy), 30);
    assert_int_equal(take_beside(512, 0, &busy), 0);
    assert_true(busy); /* until queue_finish */
    queue_finish(queue, &busy);
    assert_false(busy);
}

/* Those that have been answered a moment ago count, as they come again. */
static void test_batch_follows_what_was_in_flight_of_late(void **state)
{
    (void)state;
    bool busy = false;
    send_many(100);
    assert_int_equal(take_beside(512, 0, &busy), 50);
    for (int i = 0; i < 50; i++)
        queue_leave(queue, 0);
    assert_true(take_beside(512, 0, &busy) > 40);
}

static void test_few_requests_are_one_batch(void **state)
{
    (void)state;
    bool busy = false;
    send_many(QUEUE_BATCH_MIN);
    assert_int_equal(take_beside(512, 0, &busy), QUEUE_BATCH_MIN);
}

static void test_small_batch_is_not_taken_beside_another(void **state)
{
    (void)state;
    bool one = false, other = false;
    send_many(100);
    assert_int_equal(take_beside(512, 0, &one), 50);
    assert_int_equal(take_beside(512, 0, &other), 50); /* it is large */
    queue_finish(queue, &other);
    send_many(10);
    assert_int_equal(take_beside(512, 0, &other), 0);
    assert_false(other);
    assert_int_equal(take_beside(512, 0, &one), 10); /* with which none is beside */
}

static void test_whole_batch_is_taken_beside_another(void **state)
{
    (void)state;
    bool one = false, other = false;
    send_many(100);
    assert_int_equal(take_beside(2, 0, &one), 2);
    assert_int_equal(take_beside(512, 0, &one), 50);
    assert_int_equal(take_beside(512, 0, &one), 48);
    send_many(2);
    assert_int_equal(take_beside(2, 0, &other), 2);
}

/* While the workers of a joined queue are busy, batches are larger, and a second worker waits for
 * twice as many. */
static void test_batches_are_larger_beside_a_busy_queue(void **state)
{
    (void)state;
    bool one = false, other = false;
    _Atomic unsigned busy = 0;
    queue_join(queue, &busy);
    send_many(100);
    assert_int_equal(take_beside(512, 0, &one), 50); /* nobody else is busy */
    assert_int_equal(busy, 1);
    busy++;
    assert_int_equal(take_beside(40, 0, &other), 0);
    assert_int_equal(take_beside(25, 0, &other), 25);
    queue_finish(queue, &other);
    assert_int_equal(busy, 2);
    assert_int_equal(take_beside(512, 0, &one), 25); /* all */
    queue_finish(queue, &one);
    assert_int_equal(busy, 1);
}

static void test_worker_gathers_only_beside_a_busy_queue(void **state)
{
    (void)state;
    bool one = false;
    _Atomic unsigned busy = 0;
    queue_join(queue, &busy);
    send_many(100);
    assert_int_equal(take_beside(90, 0, &one), 50);
    while (queue_waiting(queue))
        take_beside(512, 0, &one);
    queue_gather(queue); /* returns */
    busy++;
    int64_t start_ns = clock_now_ns();
    queue_gather(queue); /* none waits */
    assert_true(clock_now_ns() - start_ns >= QUEUE_GATHER_US * 1000LL);
    for (int i = 0; i < 100; i++)
        queue_leave(queue, 0);
    send_many(90);
    queue_gather(queue); /* most wait */
    assert_int_equal(take_beside(512, 0, &one), 90);
    queue_finish(queue, &one);
}

static void test_requests_wait_for_another_batch_for_a_while_only(void **state)
{
    (void)state;
    bool one = false, other = false;
    send_many(100);
    assert_int_equal(take_beside(512, 0, &one), 50);
    assert_int_equal(take_beside(40, 0, &one), 40);
    int64_t start_ns = clock_now_ns();
    assert_int_equal(take_beside(512, WAIT_MS, &other), 10);
    int64_t ms = (clock_now_ns() - start_ns) / CLOCK_NS_PER_MS;
    assert_in_range(ms, QUEUE_BESIDE_MS - 1, WAIT_MS / 2);
}

static void *take_later(void *count_out)
{
    struct request *taken[MAX];
    bool busy = false;
    *(size_t *)count_out = queue_take_beside(queue, taken, MAX, WAIT_MS, &busy);
    return NULL;
}

/* The second worker sleeps already when the first one takes and hangs. */
static void test_request_does_not_wait_for_a_worker_that_hangs(void **state)
{
    (void)state;
    bool one = false;
    size_t count = 0;
    pthread_t other;
    send_many(100);
    assert_int_equal(take_beside(512, 0, &one), 50);
    assert_int_equal(take_beside(512, 0, &one), 50);
    assert_int_equal(pthread_create(&other, NULL, take_later, &count), 0);
    clock_sleep_ns(3 * QUEUE_BESIDE_MS * CLOCK_NS_PER_MS);
    int64_t start_ns = clock_now_ns();
    send_many(1);
    pthread_join(other, NULL);
    assert_int_equal(count, 1);
    assert_true(clock_now_ns() - start_ns < WAIT_MS / 2 * CLOCK_NS_PER_MS);
}

static void test_half_of_few_requests_is_taken_beside_another(void **state)
{
    (void)state;
    bool one = false, other = false;
    send_many(4);
    assert_int_equal(take_beside(512, 0, &one), 4);
    send_many(2); /* of six */
    assert_int_equal(take_beside(512, 0, &other), 0);
    send_many(2); /* of eight */
    assert_int_equal(take_beside(512, 0, &other), 4);
}

static void test_workers_that_collided_carry_one_batch_at_a_time(void **state)
{
    (void)state;
    bool one = false, other = false;
    send_many(100);
    assert_int_equal(take_beside(512, 0, &one), 50);
    queue_collided(queue);
    assert_int_equal(take_beside(512, 0, &other), 0);
    queue_finish(queue, &one);
    assert_int_equal(take_beside(32, 0, &other), 32);
    for (int i = 1; i < QUEUE_ALONE_TAKES; i++) {
        send_many(1);
        assert_int_equal(take_beside(1, 0, &other), 1);
    }
    assert_int_equal(take_beside(1, 0, &one), 1); /* forgotten */
}

/* ---- flows ---- */

/* Takes batches of `max` until nothing waits, and checks the flows of what came, in order. */
/* ---- beside other daemons ---- */

static void leave_many(int count)
{
    for (int i = 0; i < count; i++)
        queue_leave(queue, 0);
}

static void test_with_a_batch_wait_all_that_wait_are_one_batch(void **state)
{
    (void)state;
    bool busy = false;
    queue_beside(queue, WAIT_MS);
    assert_int_equal(queue_batch_wait_ns(queue), WAIT_MS * CLOCK_NS_PER_MS);
    send_many(100);
    assert_int_equal(take_beside(512, 0, &busy), 100);
    leave_many(100);
    send_many(75); /* of 100 that were in flight of late */
    assert_int_equal(take_beside(512, 0, &busy), 75);
}

static void test_few_wait_for_a_batch_for_a_while_only(void **state)
{
    (void)state;
    enum { BATCH_WAIT_MS = 20 };
    bool busy = false;
    queue_beside(queue, BATCH_WAIT_MS);
    send_many(100);
    assert_int_equal(take_beside(512, 0, &busy), 100);
    leave_many(100);
    queue_finish(queue, &busy);
    int64_t start_ns = clock_now_ns();
    send_many(10);
    assert_int_equal(take_beside(512, 0, &busy), 0);
    assert_false(busy);
    assert_int_equal(take_beside(512, WAIT_MS, &busy), 10);
    assert_true(clock_now_ns() - start_ns >= BATCH_WAIT_MS * CLOCK_NS_PER_MS);
}

static void test_lonely_client_waits_for_nobody_in_the_end(void **state)
{
    (void)state;
    bool busy = false;
    queue_beside(queue, 1);
    send_many(5);
    assert_int_equal(take_beside(512, 0, &busy), 5);
    leave_many(5);
    queue_finish(queue, &busy);
    for (int i = 0; i < 5; i++) {
        send_many(1);
        assert_int_equal(take_beside(512, WAIT_MS, &busy), 1);
        leave_many(1);
        queue_finish(queue, &busy);
    }
    queue_beside(queue, 10 * WAIT_MS);
    send_many(1);
    assert_int_equal(take_beside(512, 0, &busy), 1);
}

static void test_with_a_batch_wait_only_full_batches_go_beside(void **state)
{
    (void)state;
    bool one = false, other = false;
    queue_beside(queue, WAIT_MS);
    send_many(50);
    assert_int_equal(take_beside(50, 0, &one), 50);
    send_many(49);
    assert_int_equal(take_beside(50, 0, &other), 0);
    send_many(1);
    assert_int_equal(take_beside(50, 0, &other), 50);
}

static void test_stopped_queue_waits_for_no_batch(void **state)
{
    (void)state;
    bool busy = false;
    queue_beside(queue, WAIT_MS);
    send_many(100);
    assert_int_equal(take_beside(10, 0, &busy), 10);
    assert_int_equal(take_beside(90, 0, &busy), 90);
    send_many(1);
    assert_int_equal(take_beside(512, 0, &busy), 0);
    queue_stop(queue);
    assert_int_equal(take_beside(512, 0, &busy), 1);
}

static void expect_flows(size_t max, const char *flows)
{
    struct request *taken[MAX];
    char found[MAX + 1] = "";
    size_t length = 0;
    for (size_t count = 1; count > 0; length += count) {
        count = take(taken, max, 0);
        for (size_t i = 0; i < count; i++)
            found[length + i] = (char)('a' + taken[i]->flow);
    }
    found[length] = '\0';
    assert_string_equal(found, flows);
}

static void test_flows_take_turns_whatever_waits_before_them(void **state)
{
    (void)state;
    set_flows("aaaaabbc");
    push(0, MAX);
    expect_flows(1, "abcabaaa"); /* the turns go on from batch to batch */
    push(0, MAX);
    expect_flows(MAX, "abcabaaa");
}

static void test_order_within_a_flow_is_that_of_arrival(void **state)
{
    (void)state;
    struct request *taken[MAX];
    set_flows("abababab");
    push(0, 3);
    push(3, MAX);
    assert_int_equal(take(taken, 3, 0), 3);
    assert_int_equal(take(taken + 3, MAX, 0), MAX - 3);
    for (int i = 2; i < MAX; i++)
        assert_ptr_equal(taken[i], taken[i - 2] + 2);
}

/* One that comes back after it was taken waits behind those of its flow, not behind all. */
static void test_request_put_back_waits_in_its_flow_only(void **state)
{
    (void)state;
    struct request *taken[MAX];
    set_flows("aaaaab");
    push(0, 6);
    assert_int_equal(take(taken, 2, 0), 2);
    assert_ptr_equal(taken[1], &requests[5]);
    push(5, 6);
    expect_flows(2, "abaaa");
}

static void test_share_of_a_flow_in_one_turn_is_bounded(void **state)
{
    (void)state;
    enum { HOT = 60, BATCH = 2 * QUEUE_SHARE };
    static struct request hot[HOT], cold;
    struct request *taken[BATCH];
    cold.flow = 1;
    for (int i = 0; i < HOT; i++)
        queue_push(queue, &hot[i], &hot[i]);
    queue_push(queue, &cold, &cold);
    assert_int_equal(take(taken, BATCH, 0), BATCH);
    for (int i = 0; i < BATCH; i++)
        assert_ptr_equal(taken[i], i < 2 ? &hot[i] : i == 2 ? &cold : &hot[i - 1]);
}

static void test_busy_flow_leaves_places_to_others(void **state)
{
    (void)state;
    enum { PLACES = 1700 };
    struct queue *large = queue_open(PLACES);
    size_t first = 0, second = 0;
    while (queue_reserve(large, 3))
        first++;
    assert_int_equal(first, QUEUE_ALPHA * PLACES / (QUEUE_ALPHA + 1) + 1);
    while (queue_reserve(large, 4))
        second++;
    assert_in_range(second, 1, PLACES - first - 1);
    assert_false(queue_reserve(large, 3));
    assert_true(queue_reserve(large, 5));
    for (int i = 0; i < PLACES / 2; i++)
        queue_leave(large, 3);
    while (queue_reserve(large, 4)) /* what the busy flow frees is for all */
        second++;
    assert_in_range(second, PLACES / 2, PLACES * 3 / 5);
    assert_true(queue_reserve(large, 5));
    queue_close(&large);
}

static void test_words_are_spread_over_the_flows(void **state)
{
    (void)state;
    enum { WORDS = 200 };
    bool used[QUEUE_FLOWS] = {false};
    size_t shared = 0;
    for (int i = 0; i < WORDS; i++) {
        char word[16];
        snprintf(word, sizeof word, "sku-%d", i);
        unsigned flow = queue_flow(word);
        assert_true(flow < QUEUE_FLOWS);
        assert_int_equal(flow, queue_flow(word));
        shared += used[flow];
        used[flow] = true;
    }
    assert_true(shared < WORDS / 5); /* about WORDS * WORDS / 2 / QUEUE_FLOWS */
}

static void test_take_waits_as_long_as_told_for_the_first(void **state)
{
    (void)state;
    struct request *taken[MAX];
    int64_t start_ms = clock_now_ms();
    assert_int_equal(take(taken, MAX, 30), 0);
    assert_in_range(clock_now_ms() - start_ms, 29, WAIT_MS / 2);
}

static void *push_later(void *argument)
{
    (void)argument;
    clock_sleep_ns(20 * CLOCK_NS_PER_MS);
    push(0, 2);
    return NULL;
}

static void test_take_is_woken_by_what_arrives(void **state)
{
    (void)state;
    pthread_t thread;
    struct request *taken[MAX];
    int64_t start_ms = clock_now_ms();
    assert_int_equal(pthread_create(&thread, NULL, push_later, NULL), 0);
    assert_int_equal(take(taken, MAX, WAIT_MS), 2);
    assert_true(clock_now_ms() - start_ms < WAIT_MS);
    pthread_join(thread, NULL);
}

static void *take_for_long(void *count_out)
{
    struct request *taken[MAX];
    *(size_t *)count_out = take(taken, 1, WAIT_MS);
    return NULL;
}

static void test_all_that_wait_are_woken_for_a_list(void **state)
{
    (void)state;
    pthread_t threads[CONSUMERS];
    size_t counts[CONSUMERS] = {0};
    int64_t start_ms = clock_now_ms();
    for (int i = 0; i < CONSUMERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_for_long, &counts[i]), 0);
    clock_sleep_ns(20 * CLOCK_NS_PER_MS);
    push(0, CONSUMERS); /* one signal: each that takes wakes the next */
    for (int i = 0; i < CONSUMERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(counts[i], 1);
    }
    assert_true(clock_now_ms() - start_ms < WAIT_MS);
}

static void test_stop_wakes_all_and_ends_waiting(void **state)
{
    (void)state;
    pthread_t threads[CONSUMERS];
    size_t counts[CONSUMERS];
    struct request *taken[MAX];
    int64_t start_ms = clock_now_ms();
    assert_false(queue_stopped(queue));
    for (int i = 0; i < CONSUMERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_for_long, &counts[i]), 0);
    clock_sleep_ns(20 * CLOCK_NS_PER_MS);
    queue_stop(queue);
    for (int i = 0; i < CONSUMERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(counts[i], 0);
    }
    assert_true(queue_stopped(queue));
    push(0, 1); /* what still comes is still handed out */
    assert_int_equal(take(taken, MAX, WAIT_MS), 1);
    assert_int_equal(take(taken, MAX, WAIT_MS), 0);
    assert_true(clock_now_ms() - start_ms < WAIT_MS);
}

/* ---- many threads ---- */

static struct request crowd[PRODUCERS][EACH];
static _Atomic size_t refused, left;

static void *produce(void *argument)
{
    struct request *mine = argument;
    for (int i = 0; i < EACH; i++) {
        while (!queue_reserve(queue, 0)) {
            atomic_fetch_add(&refused, 1);
            sched_yield();
        }
        mine[i].call.order_id = (uint64_t)i + 1;
        queue_push(queue, &mine[i], &mine[i]);
    }
    return NULL;
}

static bool beside; /* whether the consumers are workers beside each other */

/* Takes until the queue is stopped; of each producer the requests must come in order. */
static void *consume(void *argument)
{
    bool *in_order = argument, busy = false;
    uint64_t last[PRODUCERS] = {0};
    struct request *taken[4];
    *in_order = true;
    for (size_t count = 1; count > 0 || !queue_stopped(queue);) {
        queue_finish(queue, &busy);
        count =
            beside ? queue_take_beside(queue, taken, 4, WAIT_MS, &busy) : take(taken, 4, WAIT_MS);
        for (size_t i = 0; i < count; i++) {
            int of = 0;
            while (taken[i] < crowd[of] || taken[i] >= crowd[of] + EACH)
                of++;
            *in_order &= taken[i]->call.order_id > last[of];
            last[of] = taken[i]->call.order_id;
            taken[i]->call.total++;
            atomic_fetch_add(&left, 1);
            queue_leave(queue, 0);
        }
    }
    return NULL;
}

static void hand_over(void)
{
    pthread_t producers[PRODUCERS], consumers[CONSUMERS];
    bool in_order[CONSUMERS];
    for (int i = 0; i < CONSUMERS; i++)
        assert_int_equal(pthread_create(&consumers[i], NULL, consume, &in_order[i]), 0);
    for (int i = 0; i < PRODUCERS; i++)
        assert_int_equal(pthread_create(&producers[i], NULL, produce, crowd[i]), 0);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(producers[i], NULL);
    queue_stop(queue);
    for (int i = 0; i < CONSUMERS; i++) {
        pthread_join(consumers[i], NULL);
        assert_true(in_order[i]);
    }
    assert_int_equal(atomic_load(&left), PRODUCERS * EACH);
    assert_int_equal(queue_depth(queue), 0);
    assert_false(queue_waiting(queue));
    for (int of = 0; of < PRODUCERS; of++)
        for (int i = 0; i < EACH; i++)
            assert_int_equal(crowd[of][i].call.total, 1);
}

static void test_threads_hand_over_each_request_once(void **state)
{
    (void)state;
    hand_over();
}

static void test_workers_beside_each_other_take_each_request_once(void **state)
{
    (void)state;
    memset(crowd, 0, sizeof crowd);
    atomic_store(&left, 0);
    beside = true;
    hand_over();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
#define TEST_MANY(name) cmocka_unit_test_setup_teardown(name, start_many, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_no_more_places_than_there_are),
        TEST(test_place_is_kept_until_the_request_has_left),
        TEST(test_requests_come_out_in_order_and_in_batches),
        TEST(test_flows_take_turns_whatever_waits_before_them),
        TEST(test_order_within_a_flow_is_that_of_arrival),
        TEST(test_request_put_back_waits_in_its_flow_only),
        TEST(test_share_of_a_flow_in_one_turn_is_bounded),
        TEST(test_busy_flow_leaves_places_to_others),
        TEST(test_words_are_spread_over_the_flows),
        TEST(test_take_waits_as_long_as_told_for_the_first),
        TEST(test_take_is_woken_by_what_arrives),
        TEST(test_all_that_wait_are_woken_for_a_list),
        TEST(test_stop_wakes_all_and_ends_waiting),
        TEST(test_threads_hand_over_each_request_once),
        TEST(test_workers_beside_each_other_take_each_request_once),
        TEST_MANY(test_batch_is_half_of_what_is_in_flight),
        TEST_MANY(test_batch_follows_what_was_in_flight_of_late),
        TEST_MANY(test_few_requests_are_one_batch),
        TEST_MANY(test_small_batch_is_not_taken_beside_another),
        TEST_MANY(test_whole_batch_is_taken_beside_another),
        TEST_MANY(test_batches_are_larger_beside_a_busy_queue),
        TEST_MANY(test_worker_gathers_only_beside_a_busy_queue),
        TEST_MANY(test_requests_wait_for_another_batch_for_a_while_only),
        TEST_MANY(test_request_does_not_wait_for_a_worker_that_hangs),
        TEST_MANY(test_half_of_few_requests_is_taken_beside_another),
        TEST_MANY(test_workers_that_collided_carry_one_batch_at_a_time),
        TEST_MANY(test_with_a_batch_wait_all_that_wait_are_one_batch),
        TEST_MANY(test_few_wait_for_a_batch_for_a_while_only),
        TEST_MANY(test_lonely_client_waits_for_nobody_in_the_end),
        TEST_MANY(test_with_a_batch_wait_only_full_batches_go_beside),
        TEST_MANY(test_stopped_queue_waits_for_no_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
