/* Unix sockets to listen on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "service/http/listen.h"

static char directory[32], path[64], error[256];
static struct listener made;

static int start(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/seckill-unix.XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/s", directory);
    return 0;
}

/* Fails when anything is left in the directory. */
static int end(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(directory);
}

static bool can_connect(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    bool connected = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return connected;
}

static void make(void)
{
    if (!listener_bind_unix(&made, path, error, sizeof error))
        fail_msg("%s", error);
}

static void test_socket_has_its_mode_and_listens(void **state)
{
    struct stat status;
    (void)state;
    mode_t before = umask(0);
    make();
    umask(before);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0660);
    assert_true(can_connect());
    listener_close(&made, 0);
}

static void test_dead_socket_is_replaced(void **state)
{
    (void)state;
    make();
    listener_close(&made, 0);
    assert_false(can_connect());
    make();
    assert_true(can_connect());
    listener_close(&made, 0);
}

static void test_served_socket_is_not_replaced(void **state)
{
    (void)state;
    struct listener other;
    make();
    assert_false(listener_bind_unix(&other, path, error, sizeof error));
    assert_int_equal(other.count, 0);
    assert_non_null(strstr(error, "another process"));
    assert_true(can_connect());
    listener_close(&made, 0);
}

static void test_other_file_is_not_replaced(void **state)
{
    (void)state;
    int file = open(path, O_CREAT | O_WRONLY, 0600);
    assert_false(listener_bind_unix(&made, path, error, sizeof error));
    assert_non_null(strstr(error, "no socket"));
    assert_int_equal(access(path, F_OK), 0);
    close(file);
}

static void test_missing_directory(void **state)
{
    (void)state;
    assert_false(listener_bind_unix(&made, "/no/such/place", error, sizeof error));
    assert_non_null(strstr(error, "No such file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_socket_has_its_mode_and_listens, start, end),
        cmocka_unit_test_setup_teardown(test_dead_socket_is_replaced, start, end),
        cmocka_unit_test_setup_teardown(test_served_socket_is_not_replaced, start, end),
        cmocka_unit_test_setup_teardown(test_other_file_is_not_replaced, start, end),
        cmocka_unit_test_setup_teardown(test_missing_directory, start, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
