/* A request's states. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "service/request/request.h"

enum { RACERS = 4, RACES = 500 };

static struct request request;

static int start(void **state)
{
    (void)state;
    memset(&request, 0, sizeof request);
    return 0;
}

static void test_request_goes_its_way(void **state)
{
    (void)state;
    assert_true(request_move(&request, REQUEST_RECEIVING, REQUEST_QUEUED));
    assert_true(request_move(&request, REQUEST_QUEUED, REQUEST_TAKEN));
    assert_true(request_move(&request, REQUEST_TAKEN, REQUEST_QUEUED));
    assert_true(request_move(&request, REQUEST_QUEUED, REQUEST_TAKEN));
    assert_true(request_move(&request, REQUEST_TAKEN, REQUEST_DONE));
    assert_int_equal(atomic_load(&request.state), REQUEST_DONE);
}

static void test_request_withdrawn_cannot_be_taken(void **state)
{
    (void)state;
    assert_true(request_move(&request, REQUEST_RECEIVING, REQUEST_QUEUED));
    assert_true(request_move(&request, REQUEST_QUEUED, REQUEST_WITHDRAWN));
    assert_false(request_move(&request, REQUEST_QUEUED, REQUEST_TAKEN));
    assert_int_equal(atomic_load(&request.state), REQUEST_WITHDRAWN);
}

static void test_request_taken_cannot_be_withdrawn(void **state)
{
    (void)state;
    atomic_store(&request.state, REQUEST_TAKEN);
    assert_false(request_move(&request, REQUEST_QUEUED, REQUEST_WITHDRAWN));
    assert_int_equal(atomic_load(&request.state), REQUEST_TAKEN);
}

static bool dies_of(enum request_state from, enum request_state to)
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGABRT, SIG_DFL); /* not cmocka's affair */
        if (!freopen("/dev/null", "w", stderr))
            _exit(2);
        atomic_store(&request.state, (int)from);
        request_move(&request, from, to);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void test_moves_that_the_table_does_not_have_are_fatal(void **state)
{
    (void)state;
    static const enum request_state moves[][2] = {
        {REQUEST_RECEIVING, REQUEST_TAKEN}, {REQUEST_RECEIVING, REQUEST_DONE},
        {REQUEST_QUEUED, REQUEST_DONE},     {REQUEST_TAKEN, REQUEST_WITHDRAWN},
        {REQUEST_DONE, REQUEST_TAKEN},      {REQUEST_WITHDRAWN, REQUEST_QUEUED}};
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        assert_true(dies_of(moves[i][0], moves[i][1]));
    assert_false(dies_of(REQUEST_QUEUED, REQUEST_TAKEN));
}

static void *race_for(void *argument)
{
    struct request *all = argument;
    size_t won = 0;
    for (int i = 0; i < RACES; i++)
        won += request_move(&all[i], REQUEST_QUEUED, REQUEST_TAKEN);
    return (void *)(uintptr_t)won;
}

static void test_one_thread_wins_each_move(void **state)
{
    (void)state;
    pthread_t threads[RACERS];
    size_t won = 0;
    struct request *all = calloc(RACES, sizeof *all);
    assert_non_null(all);
    for (int i = 0; i < RACES; i++)
        atomic_store(&all[i].state, REQUEST_QUEUED);
    for (int i = 0; i < RACERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, race_for, all), 0);
    for (int i = 0; i < RACERS; i++) {
        void *mine = NULL;
        pthread_join(threads[i], &mine);
        won += (size_t)(uintptr_t)mine;
    }
    assert_int_equal(won, RACES);
    free(all);
}

#define TEST(name) cmocka_unit_test_setup(name, start)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_request_goes_its_way),
        TEST(test_request_withdrawn_cannot_be_taken),
        TEST(test_request_taken_cannot_be_withdrawn),
        TEST(test_moves_that_the_table_does_not_have_are_fatal),
        TEST(test_one_thread_wins_each_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
