/* A worker's sleeps and waits end at once when it is told to stop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/worker.h"

enum { AT_ONCE_MS = 20000 }; /* far less than any sleep here, more than any machine needs */

struct subject {
    struct worker worker;
    int pipe[2];
    _Atomic int begun, done;
    bool answer;
};

static void sleep_long(void *context)
{
    struct subject *subject = context;
    atomic_store(&subject->begun, 1);
    subject->answer = worker_sleep_ns(&subject->worker, 3600 * CLOCK_NS_PER_S);
    atomic_store(&subject->done, 1);
}

static void sleep_often(void *context)
{
    struct subject *subject = context;
    while (worker_sleep_ns(&subject->worker, CLOCK_NS_PER_MS))
        atomic_fetch_add(&subject->begun, 1);
    /* told once, every later wait ends as well */
    subject->answer = worker_sleep_ns(&subject->worker, 3600 * CLOCK_NS_PER_S) ||
                      worker_await_fd(&subject->worker, subject->pipe[0]) ||
                      !worker_stopping(&subject->worker);
}

static void await_pipe(void *context)
{
    struct subject *subject = context;
    char byte;
    while (worker_await_fd(&subject->worker, subject->pipe[0]))
        if (read(subject->pipe[0], &byte, 1) == 1)
            atomic_fetch_add(&subject->done, 1);
}

static void await_count(_Atomic int *count, int least)
{
    int64_t until_ns = clock_now_ns() + 10 * CLOCK_NS_PER_S;
    while (atomic_load(count) < least && clock_now_ns() < until_ns)
        clock_sleep_ns(CLOCK_NS_PER_MS);
    assert_true(atomic_load(count) >= least);
}

static void test_stop_ends_a_sleep(void **state)
{
    (void)state;
    struct subject subjects[4];
    memset(subjects, 0, sizeof subjects);
    for (int i = 0; i < 4; i++)
        assert_true(worker_start(&subjects[i].worker, sleep_long, &subjects[i]));
    for (int i = 0; i < 4; i++)
        await_count(&subjects[i].begun, 1);
    int64_t from_ms = clock_now_ms();
    for (int i = 0; i < 4; i++) {
        worker_stop(&subjects[i].worker);
        worker_stop(&subjects[i].worker);
    }
    for (int i = 0; i < 4; i++) {
        worker_join(&subjects[i].worker);
        assert_int_equal(subjects[i].done, 1);
        assert_false(subjects[i].answer);
    }
    assert_true(clock_now_ms() - from_ms < AT_ONCE_MS);
}

static void test_sleeps_are_long_enough_and_all_end(void **state)
{
    (void)state;
    struct subject subject = {.pipe = {-1, -1}};
    assert_int_equal(pipe(subject.pipe), 0);
    int64_t from_ms = clock_now_ms();
    assert_true(worker_start(&subject.worker, sleep_often, &subject));
    await_count(&subject.begun, 20);
    assert_true(clock_now_ms() - from_ms >= 19);
    worker_join(&subject.worker); /* which tells it to stop, too */
    assert_false(subject.answer);
    close(subject.pipe[0]);
    close(subject.pipe[1]);
}

static void test_stop_ends_a_wait_for_a_descriptor(void **state)
{
    (void)state;
    struct subject subject = {.answer = false};
    assert_int_equal(pipe(subject.pipe), 0);
    assert_true(worker_start(&subject.worker, await_pipe, &subject));
    assert_int_equal(write(subject.pipe[1], "12", 2), 2);
    await_count(&subject.done, 2);
    int64_t from_ms = clock_now_ms();
    worker_join(&subject.worker);
    assert_true(clock_now_ms() - from_ms < AT_ONCE_MS);
    close(subject.pipe[0]);
    close(subject.pipe[1]);
}

static void test_never_started_and_started_again(void **state)
{
    (void)state;
    struct subject subject = {.answer = true};
    worker_stop(&subject.worker);
    worker_join(&subject.worker);
    for (int i = 0; i < 3; i++) {
        assert_true(worker_start(&subject.worker, sleep_long, &subject));
        worker_stop(&subject.worker); /* maybe before it has come to its sleep */
        worker_join(&subject.worker);
        worker_join(&subject.worker);
        assert_false(subject.answer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop_ends_a_sleep),
        cmocka_unit_test(test_sleeps_are_long_enough_and_all_end),
        cmocka_unit_test(test_stop_ends_a_wait_for_a_descriptor),
        cmocka_unit_test(test_never_started_and_started_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
