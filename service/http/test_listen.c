/* Sockets are shared with whom they should be, and close without losing who has connected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/http/listen.h"

enum { SOON_MS = 200 };

static char error[200];

static void bind_free(struct listener *listener, unsigned count, enum listener_share share)
{
    assert_true(listener_bind(listener, "127.0.0.1:0", count, share, error, sizeof error));
    assert_int_equal(listener->count, count);
    assert_true(listener_listen(listener));
}

/* Begins to connect and does not wait for it. */
static int connect_to(const struct listener *listener)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    getsockname(listener->fds[0], (struct sockaddr *)&address, &length);
    if (connect(fd, (struct sockaddr *)&address, length) != 0)
        assert_int_equal(errno, EINPROGRESS);
    return fd;
}

static bool is_connected(int fd)
{
    struct pollfd writable = {.fd = fd, .events = POLLOUT};
    int failed = 0;
    socklen_t length = sizeof failed;
    return poll(&writable, 1, SOON_MS) == 1 &&
           getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &length) == 0 && failed == 0;
}

static void test_sockets_of_a_listener_have_one_port(void **state)
{
    (void)state;
    struct listener listener;
    bind_free(&listener, 3, LISTENER_OWN);
    for (unsigned i = 0; i < 3; i++) {
        struct sockaddr_in address;
        socklen_t length = sizeof address;
        char text[64];
        getsockname(listener.fds[i], (struct sockaddr *)&address, &length);
        snprintf(text, sizeof text, "127.0.0.1:%u", ntohs(address.sin_port));
        assert_string_equal(text, listener.address);
    }
    listener_close(&listener, 0);
    assert_int_equal(listener.count, 0);
}

static void test_own_address_is_refused_to_a_second_listener(void **state)
{
    (void)state;
    for (unsigned count = 1; count <= 2; count++) {
        struct listener first, second;
        bind_free(&first, count, LISTENER_OWN);
        assert_false(
            listener_bind(&second, first.address, count, LISTENER_OWN, error, sizeof error));
        assert_string_equal(error, strerror(EADDRINUSE));
        assert_int_equal(second.count, 0);
        listener_close(&first, 0);
        assert_true(
            listener_bind(&second, first.address, count, LISTENER_OWN, error, sizeof error));
        listener_close(&second, 0);
    }
}

static void test_shared_address_is_for_those_that_say_so(void **state)
{
    (void)state;
    struct listener first, second, own;
    bind_free(&first, 2, LISTENER_SHARED);
    assert_true(listener_bind(&second, first.address, 1, LISTENER_SHARED, error, sizeof error));
    assert_true(listener_listen(&second));
    assert_false(listener_bind(&own, first.address, 2, LISTENER_OWN, error, sizeof error));
    listener_close(&first, 0);
    int client = connect_to(&second);
    assert_true(is_connected(client));
    close(client);
    listener_close(&second, 0);
}

static void test_nobody_connects_before_listener_listen(void **state)
{
    (void)state;
    struct listener listener;
    assert_true(listener_bind(&listener, "127.0.0.1:0", 1, LISTENER_OWN, error, sizeof error));
    int client = connect_to(&listener);
    assert_false(is_connected(client));
    close(client);
    listener_close(&listener, 0);
}

static void test_ignored_clients_wait_and_those_before_stay(void **state)
{
    (void)state;
    struct listener listener;
    bind_free(&listener, 1, LISTENER_OWN);
    assert_false(listener_has_waiting(listener.fds[0]));
    int before = connect_to(&listener);
    assert_true(is_connected(before));
    assert_true(listener_ignore_new(listener.fds[0]));
    int after = connect_to(&listener);
    assert_false(is_connected(after));
    assert_true(listener_has_waiting(listener.fds[0]));
    int accepted = accept(listener.fds[0], NULL, NULL);
    assert_true(accepted >= 0);
    assert_false(listener_has_waiting(listener.fds[0]));
    char word[3] = "";
    assert_int_equal(send(before, "hi", 2, 0), 2);
    assert_int_equal(recv(accepted, word, 2, 0), 2);
    assert_string_equal(word, "hi");
    close(before);
    close(after);
    close(accepted);
    listener_close(&listener, 0);
}

static void test_descriptors_of_systemd_for_another_process_are_left_alone(void **state)
{
    (void)state;
    struct listener listener;
    setenv("LISTEN_PID", "1", 1);
    setenv("LISTEN_FDS", "2", 1);
    assert_true(listener_inherit(&listener, NULL, 4, error, sizeof error));
    assert_int_equal(listener.count, 0);
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
}

static void test_more_descriptors_of_systemd_than_there_may_be_are_refused(void **state)
{
    (void)state;
    struct listener listener;
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", "66", 1);
    assert_false(listener_inherit(&listener, NULL, 4, error, sizeof error));
    assert_non_null(strstr(error, "66"));
    assert_int_equal(listener.count, 0);
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sockets_of_a_listener_have_one_port),
        cmocka_unit_test(test_own_address_is_refused_to_a_second_listener),
        cmocka_unit_test(test_shared_address_is_for_those_that_say_so),
        cmocka_unit_test(test_nobody_connects_before_listener_listen),
        cmocka_unit_test(test_ignored_clients_wait_and_those_before_stay),
        cmocka_unit_test(test_descriptors_of_systemd_for_another_process_are_left_alone),
        cmocka_unit_test(test_more_descriptors_of_systemd_than_there_may_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
