/* Calls of scripts from an event loop: in order, over a lost connection, and without a wait. */
#include "lua/test_server.h"

#include "lua/script_pipe.h"

enum { PATIENCE_MS = 30000 };

static struct script_pipe *pipe_of_test;
static int answered, failed, unknown;
static int64_t sum;
static char last_error[128];

static int begin(void **state)
{
    (void)state;
    pipe_of_test = script_pipe_open(redis_server_url(), PATIENCE_MS);
    assert_non_null(pipe_of_test);
    answered = failed = unknown = 0;
    sum = 0;
    redis_server_do("DEL pipe");
    return 0;
}

static int end(void **state)
{
    (void)state;
    script_pipe_close(&pipe_of_test);
    redis_server_do("DEL pipe");
    return 0;
}

static void on_done(void *context, const struct script_call *call, const char *error)
{
    (void)context;
    answered += call->result == REDIS_ANSWERED;
    failed += call->result == REDIS_FAILED;
    unknown += call->result == REDIS_UNKNOWN;
    sum += call->values[0];
    snprintf(last_error, sizeof last_error, "%s", error);
}

/* A call whose answer is 1 when it has set the latch, which is not set yet. */
static void send_call(int number, int limit_ms)
{
    struct script_sending *sending = calloc(1, sizeof *sending);
    script_begin(&sending->call, SCRIPT_lock_latch_set);
    script_key(&sending->call, "pipe");
    script_key(&sending->call, "pipe:counted");
    script_key(&sending->call, "pipe:before");
    script_key(&sending->call, "pipe:generation");
    script_int(&sending->call, number);
    script_int(&sending->call, PATIENCE_MS);
    sending->limit_ms = limit_ms;
    sending->done = on_done;
    script_pipe_send(pipe_of_test, sending);
}

/* What a loop does. */
static void turn_until(int done)
{
    int64_t until_ms = clock_now_ms() + PATIENCE_MS;
    while (answered + failed + unknown < done && clock_now_ms() < until_ms) {
        if (script_pipe_turn(pipe_of_test)) {
            script_pipe_connect(pipe_of_test);
            script_pipe_connected(pipe_of_test);
            continue;
        }
        if (answered + failed + unknown >= done)
            break;
        const struct redis *redis = script_pipe_redis(pipe_of_test);
        int64_t due_ms = script_pipe_due_ms(pipe_of_test) - clock_now_ms();
        struct pollfd poller = {.fd = redis_fd(redis),
                                .events = POLLIN | (redis_unsent(redis) ? POLLOUT : 0)};
        poll(&poller, 1, due_ms < 0 ? 0 : due_ms < PATIENCE_MS ? (int)due_ms : PATIENCE_MS);
    }
    assert_int_equal(answered + failed + unknown, done);
}

/* The first sets the latch, the others find it set. */
static void test_calls_are_answered_in_order(void **state)
{
    (void)state;
    enum { CALLS = 3000 };
    for (int i = 0; i < CALLS; i++)
        send_call(7 + i, PATIENCE_MS);
    turn_until(CALLS);
    assert_int_equal(answered, CALLS);
    assert_int_equal(sum, 1);
    assert_int_equal(redis_server_do("GET pipe"), 7);
}

static void test_forgotten_script_is_sent_again(void **state)
{
    (void)state;
    send_call(1, PATIENCE_MS);
    turn_until(1);
    redis_server_do("SCRIPT FLUSH");
    redis_server_do("DEL pipe");
    send_call(2, PATIENCE_MS);
    send_call(3, PATIENCE_MS);
    turn_until(3);
    assert_int_equal(answered, 3);
    assert_int_equal(sum, 2);
    assert_int_equal(redis_server_do("GET pipe"), 2);
}

static void test_unanswered_call_is_sent_once_more(void **state)
{
    (void)state;
    send_call(1, PATIENCE_MS);
    turn_until(1);
    redis_server_do("CLIENT KILL TYPE normal");
    send_call(2, PATIENCE_MS); /* into a connection that has gone */
    turn_until(2);
    assert_int_equal(answered, 2);
}

static void test_call_that_was_never_sent_has_failed(void **state)
{
    (void)state;
    int port, listener = bind_anywhere(&port);
    char url[64];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    script_pipe_close(&pipe_of_test);
    pipe_of_test = script_pipe_open(url, PATIENCE_MS);
    send_call(1, PATIENCE_MS);
    turn_until(1);
    assert_int_equal(failed, 1);
    assert_string_equal(last_error, "Connection refused");
    close(listener);
}

/* Greets, and then reads nothing until the test ends. */
static void *greet_and_sleep(void *argument)
{
    struct fake_redis *fake = argument;
    char bytes[256];
    int client = accept(fake->listener, NULL, NULL);
    if (recv(client, bytes, sizeof bytes, 0) > 0)
        send(client, fake->welcome, strlen(fake->welcome), MSG_NOSIGNAL);
    int again = accept(fake->listener, NULL, NULL); /* until the listener is shut down */
    if (again >= 0)
        close(again);
    close(client);
    return NULL;
}

/* More than the kernel's buffers hold: a call that waited for room would last for its time-out. */
static void test_no_call_waits_for_a_server_that_reads_nothing(void **state)
{
    (void)state;
    enum { TIMEOUT_MS = 4000, MORE = 100 };
    char url[64];
    int port, calls = 1, little = 4096;
    struct fake_redis fake = {.listener = listen_anywhere(&port),
                              .welcome = "+OK\r\n-ERR unknown command 'HELLO'\r\n"};
    setsockopt(fake.listener, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    assert_int_equal(pthread_create(&fake.thread, NULL, greet_and_sleep, &fake), 0);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    script_pipe_close(&pipe_of_test);
    pipe_of_test = script_pipe_open(url, TIMEOUT_MS);
    send_call(0, TIMEOUT_MS);
    assert_true(script_pipe_turn(pipe_of_test));
    script_pipe_connect(pipe_of_test);
    script_pipe_connected(pipe_of_test);
    int64_t began_ms = clock_now_ms();
    while (!redis_unsent(script_pipe_redis(pipe_of_test)))
        send_call(calls++, TIMEOUT_MS);
    for (int i = 0; i < MORE; i++)
        send_call(calls++, TIMEOUT_MS);
    assert_true(clock_now_ms() - began_ms < TIMEOUT_MS);
    turn_until(calls);
    assert_int_equal(answered, 0);
    assert_true(unknown > 0);
    shutdown(fake.listener, SHUT_RDWR);
    pthread_join(fake.thread, NULL);
    close(fake.listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_calls_are_answered_in_order, begin, end),
        cmocka_unit_test_setup_teardown(test_forgotten_script_is_sent_again, begin, end),
        cmocka_unit_test_setup_teardown(test_unanswered_call_is_sent_once_more, begin, end),
        cmocka_unit_test_setup_teardown(test_call_that_was_never_sent_has_failed, begin, end),
        cmocka_unit_test_setup_teardown(test_no_call_waits_for_a_server_that_reads_nothing, begin,
                                        end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
