/* The queue between threads: its bound, its order, batches, and its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "service/queue.h"
#include "service/request.h"

enum { MAX = 8, PRODUCERS = 3, CONSUMERS = 3, EACH = 5000, WAIT_MS = 5000 };

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
    queue_close(&queue);
    assert_null(queue);
    return 0;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
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
        assert_true(queue_reserve(queue));
    }
    assert_false(queue_reserve(queue));
    assert_false(queue_reserve(queue));
    assert_int_equal(queue_depth(queue), MAX);
    queue_leave(queue);
    assert_true(queue_reserve(queue));
    assert_false(queue_reserve(queue));
}

static void test_place_is_kept_until_the_request_has_left(void **state)
{
    (void)state;
    struct request *taken[MAX];
    assert_true(queue_reserve(queue));
    push(0, 1);
    assert_int_equal(take(taken, MAX, 0), 1);
    assert_int_equal(queue_depth(queue), 1);
    queue_leave(queue);
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

static void test_take_waits_as_long_as_told_for_the_first(void **state)
{
    (void)state;
    struct request *taken[MAX];
    int64_t start_ms = now_ms();
    assert_int_equal(take(taken, MAX, 30), 0);
    assert_in_range(now_ms() - start_ms, 29, 2000);
}

static void *push_later(void *argument)
{
    (void)argument;
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    push(0, 2);
    return NULL;
}

static void test_take_is_woken_by_what_arrives(void **state)
{
    (void)state;
    pthread_t thread;
    struct request *taken[MAX];
    int64_t start_ms = now_ms();
    assert_int_equal(pthread_create(&thread, NULL, push_later, NULL), 0);
    assert_int_equal(take(taken, MAX, WAIT_MS), 2);
    assert_true(now_ms() - start_ms < WAIT_MS);
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
    int64_t start_ms = now_ms();
    for (int i = 0; i < CONSUMERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_for_long, &counts[i]), 0);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    push(0, CONSUMERS); /* one signal: each that takes wakes the next */
    for (int i = 0; i < CONSUMERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(counts[i], 1);
    }
    assert_true(now_ms() - start_ms < WAIT_MS);
}

static void test_stop_wakes_all_and_ends_waiting(void **state)
{
    (void)state;
    pthread_t threads[CONSUMERS];
    size_t counts[CONSUMERS];
    struct request *taken[MAX];
    int64_t start_ms = now_ms();
    assert_false(queue_stopped(queue));
    for (int i = 0; i < CONSUMERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_for_long, &counts[i]), 0);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    queue_stop(queue);
    for (int i = 0; i < CONSUMERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(counts[i], 0);
    }
    assert_true(queue_stopped(queue));
    push(0, 1); /* what still comes is still handed out */
    assert_int_equal(take(taken, MAX, WAIT_MS), 1);
    assert_int_equal(take(taken, MAX, WAIT_MS), 0);
    assert_true(now_ms() - start_ms < WAIT_MS);
}

/* ---- many threads ---- */

static struct request crowd[PRODUCERS][EACH];
static _Atomic size_t refused, left;

static void *produce(void *argument)
{
    struct request *mine = argument;
    for (int i = 0; i < EACH; i++) {
        while (!queue_reserve(queue)) {
            atomic_fetch_add(&refused, 1);
            sched_yield();
        }
        mine[i].order_id = (uint64_t)i + 1;
        queue_push(queue, &mine[i], &mine[i]);
    }
    return NULL;
}

/* Takes until the queue is stopped; of each producer the requests must come in order. */
static void *consume(void *argument)
{
    bool *in_order = argument;
    uint64_t last[PRODUCERS] = {0};
    struct request *taken[4];
    *in_order = true;
    for (size_t count = 1; count > 0 || !queue_stopped(queue);) {
        count = take(taken, 4, WAIT_MS);
        for (size_t i = 0; i < count; i++) {
            int of = 0;
            while (taken[i] < crowd[of] || taken[i] >= crowd[of] + EACH)
                of++;
            *in_order &= taken[i]->order_id > last[of];
            last[of] = taken[i]->order_id;
            taken[i]->total++;
            atomic_fetch_add(&left, 1);
            queue_leave(queue);
        }
    }
    return NULL;
}

static void test_threads_hand_over_each_request_once(void **state)
{
    (void)state;
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
            assert_int_equal(crowd[of][i].total, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_no_more_places_than_there_are),
        TEST(test_place_is_kept_until_the_request_has_left),
        TEST(test_requests_come_out_in_order_and_in_batches),
        TEST(test_take_waits_as_long_as_told_for_the_first),
        TEST(test_take_is_woken_by_what_arrives),
        TEST(test_all_that_wait_are_woken_for_a_list),
        TEST(test_stop_wakes_all_and_ends_waiting),
        TEST(test_threads_hand_over_each_request_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
