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
#include "base/test_range.h"
#include "service/request/queue.h"
#include "service/request/request.h"

enum { MAX = 8, PRODUCERS = 3, CONSUMERS = 3, EACH = 5000, WAIT_MS = 30000 };

static struct queue *queue;
static struct request requests[MAX];

static int start(void **state)
{
    (void)state;
    queue = queue_open(MAX);
    return 0;
}

static int finish(void **state)
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
    return queue_take(queue, requests_out, max, 0, wait_ms);
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

/* ---- the rule of batches ---- */

enum { MANY = 400 };

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

static void leave_many(int count)
{
    for (int i = 0; i < count; i++)
        queue_leave(queue, 0);
}

/* Takes without waiting. With patience the requests wait for a whole batch. */
static size_t take_whole(size_t max)
{
    return queue_take(queue, taken_many, max, WAIT_MS * CLOCK_NS_PER_MS, 0);
}

/* Waits with a patience of `patience_ms`. */
static size_t take_patiently(int patience_ms)
{
    return queue_take(queue, taken_many, 512, patience_ms * CLOCK_NS_PER_MS, WAIT_MS);
}

static void test_batch_is_half_of_the_requests_in_flight(void **state)
{
    (void)state;
    send_many(200);
    assert_int_equal(take_whole(512), 100);
    assert_int_equal(take_whole(512), 100); /* by a second worker */
    assert_int_equal(take_whole(512), 0);
}

static void test_batch_is_at_most_what_the_worker_carries(void **state)
{
    (void)state;
    send_many(100);
    for (int i = 0; i < 5; i++) /* as many workers as there are batches */
        assert_int_equal(take_whole(20), 20);
    assert_int_equal(take_whole(20), 0);
}

static void test_few_requests_are_one_batch(void **state)
{
    (void)state;
    send_many(QUEUE_BATCH_MIN);
    assert_int_equal(take_whole(512), QUEUE_BATCH_MIN);
}

/* So a second worker does not halve the batches of the first one. */
static void test_whole_batch_of_few_is_three_quarters(void **state)
{
    (void)state;
    send_many(20);
    assert_int_equal(take_whole(512), 20);
    leave_many(20);
    send_many(13);
    assert_int_equal(take_whole(512), 0);
    send_many(2); /* of 20, or 19 after one batch */
    assert_int_equal(take_whole(512), 15);
}

static void test_lonely_request_does_not_wait(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        send_many(1);
        assert_int_equal(take_whole(512), 1);
        leave_many(1);
    }
}

static void test_second_worker_waits_for_a_whole_batch(void **state)
{
    (void)state;
    send_many(150);
    assert_int_equal(take_whole(512), 75);
    leave_many(60); /* answered */
    assert_int_equal(take_whole(70), 70);
    assert_int_equal(take_whole(512), 0); /* 5 wait of 150 */
    send_many(50);
    assert_int_equal(take_whole(40), 40);
}

static void test_batch_remembers_clients_that_were_just_answered(void **state)
{
    (void)state;
    send_many(100);
    assert_int_equal(take_whole(512), 64);
    assert_int_equal(take_whole(36), 36);
    leave_many(100);
    send_many(50);
    assert_int_equal(take_whole(512), 0);
    send_many(25);
    assert_int_equal(take_whole(512), 75 - 11);
}

static void test_requests_wait_for_the_patience_only(void **state)
{
    (void)state;
    enum { PATIENCE_MS = 20 };
    send_many(100);
    assert_int_equal(take_whole(512), 64);
    int64_t start_ns = clock_now_ns();
    assert_int_equal(take_patiently(PATIENCE_MS), 36); /* while the first worker hangs */
    assert_int_in_range(clock_now_ns() - start_ns, (PATIENCE_MS - 1) * CLOCK_NS_PER_MS,
                        WAIT_MS / 2 * CLOCK_NS_PER_MS);
}

static void test_patience_counts_from_the_arrival(void **state)
{
    (void)state;
    enum { PATIENCE_MS = 20 };
    send_many(20);
    assert_int_equal(take_whole(512), 20);
    leave_many(20);
    send_many(1);
    clock_sleep_ns(PATIENCE_MS * CLOCK_NS_PER_MS);
    assert_int_equal(queue_take(queue, taken_many, 512, PATIENCE_MS * CLOCK_NS_PER_MS, 0), 1);
}

static void *take_later(void *count_out)
{
    struct request *taken[MAX];
    *(size_t *)count_out = queue_take(queue, taken, MAX, CLOCK_NS_PER_MS, WAIT_MS);
    return NULL;
}

/* The second worker sleeps already when the first one takes and hangs. */
static void test_request_does_not_wait_for_a_worker_that_hangs(void **state)
{
    (void)state;
    size_t count = 0;
    pthread_t other;
    send_many(64);
    assert_int_equal(take_whole(512), 64);
    assert_int_equal(pthread_create(&other, NULL, take_later, &count), 0);
    clock_sleep_ns(20 * CLOCK_NS_PER_MS);
    int64_t start_ns = clock_now_ns();
    send_many(1);
    pthread_join(other, NULL);
    assert_int_equal(count, 1);
    assert_true(clock_now_ns() - start_ns < WAIT_MS / 2 * CLOCK_NS_PER_MS);
}

/* After a crowd has gone, each batch forgets a part of it. */
static void test_lonely_client_waits_for_nobody_in_the_end(void **state)
{
    (void)state;
    send_many(5);
    assert_int_equal(take_whole(512), 5);
    leave_many(5);
    for (int i = 0; i < 5; i++) {
        send_many(1);
        assert_int_equal(take_patiently(1), 1);
        leave_many(1);
    }
    send_many(1);
    assert_int_equal(take_whole(512), 1);
}

static void test_stopped_queue_waits_for_no_batch(void **state)
{
    (void)state;
    send_many(64);
    assert_int_equal(take_whole(512), 64);
    send_many(1);
    assert_int_equal(take_whole(512), 0);
    queue_stop(queue);
    assert_int_equal(take_whole(512), 1);
    assert_int_equal(take_patiently(WAIT_MS), 0);
}

/* ---- flows ---- */

/* Takes batches of `max` until nothing waits, and checks the flows of what came, in order. */
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
    assert_int_in_range(second, 1, PLACES - first - 1);
    assert_false(queue_reserve(large, 3));
    assert_true(queue_reserve(large, 5));
    for (int i = 0; i < PLACES / 2; i++)
        queue_leave(large, 3);
    while (queue_reserve(large, 4)) /* what the busy flow frees is for all */
        second++;
    assert_int_in_range(second, PLACES / 2, PLACES * 3 / 5);
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
    assert_int_in_range(clock_now_ms() - start_ms, 29, WAIT_MS / 2);
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

static int64_t consumers_patience_ns;

/* Takes until the queue is stopped; of each producer the requests must come in order. */
static void *consume(void *argument)
{
    bool *in_order = argument;
    uint64_t last[PRODUCERS] = {0};
    struct request *taken[4];
    *in_order = true;
    for (size_t count = 1; count > 0 || !queue_stopped(queue);) {
        count = queue_take(queue, taken, 4, consumers_patience_ns, WAIT_MS);
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

static void test_workers_take_each_request_in_one_batch(void **state)
{
    (void)state;
    memset(crowd, 0, sizeof crowd);
    atomic_store(&left, 0);
    consumers_patience_ns = CLOCK_NS_PER_MS;
    hand_over();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)
#define TEST_MANY(name) cmocka_unit_test_setup_teardown(name, start_many, finish)

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
        TEST(test_workers_take_each_request_in_one_batch),
        TEST_MANY(test_batch_is_half_of_the_requests_in_flight),
        TEST_MANY(test_batch_is_at_most_what_the_worker_carries),
        TEST_MANY(test_few_requests_are_one_batch),
        TEST_MANY(test_whole_batch_of_few_is_three_quarters),
        TEST_MANY(test_lonely_request_does_not_wait),
        TEST_MANY(test_second_worker_waits_for_a_whole_batch),
        TEST_MANY(test_batch_remembers_clients_that_were_just_answered),
        TEST_MANY(test_requests_wait_for_the_patience_only),
        TEST_MANY(test_patience_counts_from_the_arrival),
        TEST_MANY(test_request_does_not_wait_for_a_worker_that_hangs),
        TEST_MANY(test_lonely_client_waits_for_nobody_in_the_end),
        TEST_MANY(test_stopped_queue_waits_for_no_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
