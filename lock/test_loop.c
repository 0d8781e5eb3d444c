/* What only the form for event loops has: many operations on one descriptor, calls that never wait,
 * cancellation, losses as events, and closing with operations under way. The suites of locks run
 * over it as well: test_conformance_loop.c, test_kinds_loop.c. */
#include "lock/test_support.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* No wait ends by a poll, or because the lease of the hold that it waits for may end. */
enum { NEVER_MS = 3600 * 1000 };

static struct seclock_client *mine, *other;
static struct seclock_loop *loop;
static char name[SECLOCK_NAME_MAX];

static int begin(void **state)
{
    (void)state;
    static int tests;
    mine = client_open(SECLOCK_KIND_SIMPLE,
                       SECLOCK_OPTIONS(.now_ns = moved_now_ns, .poll_ms = NEVER_MS));
    other = client_open(SECLOCK_KIND_SIMPLE, SECLOCK_OPTIONS(.lease_ms = NEVER_MS));
    assert_result(seclock_loop_open(mine, &loop), SECLOCK_OK);
    snprintf(name, sizeof name, "loop-%d", ++tests);
    return 0;
}

static int end(void **state)
{
    (void)state;
    seclock_loop_close(&loop);
    seclock_close(&mine);
    seclock_close(&other);
    clock_ahead_ns = 0;
    return 0;
}

static struct seclock_handle *start(const char *lock, int wait_ms, void *context)
{
    struct seclock_handle *handle;
    struct seclock_request request =
        SECLOCK_REQUEST(.name = lock, .wait_ms = wait_ms, .context = context);
    assert_result(seclock_loop_acquire(loop, &request, &handle), SECLOCK_OK);
    return handle;
}

/* Waits for the loop's descriptor and takes one event. */
static struct seclock_event next(void)
{
    struct seclock_event event = SECLOCK_EVENT();
    struct pollfd readable = {.fd = seclock_loop_fd(loop), .events = POLLIN};
    while (!seclock_loop_next(loop, &event))
        assert_int_equal(poll(&readable, 1, PATIENCE_MS), 1);
    return event;
}

static struct seclock_event expect(enum seclock_event_kind kind, enum seclock_result result,
                                   const struct seclock_handle *handle)
{
    struct seclock_event event = next();
    assert_result(event.result, result);
    assert_int_equal(event.kind, kind);
    assert_ptr_equal(event.handle, handle);
    return event;
}

static bool nothing_comes(int ms)
{
    struct seclock_event event = SECLOCK_EVENT();
    int64_t until_ms = now_ms() + ms;
    while (!seclock_loop_next(loop, &event) && now_ms() < until_ms)
        sleep_ms(5);
    return !seclock_loop_next(loop, &event);
}

/* Begins what ends at once. That makes the descriptor readable as well, and not only some time-out
 * later: a program takes events only then. */
static void expect_at_once(enum seclock_result (*begun)(struct seclock_loop *,
                                                        struct seclock_handle *),
                           enum seclock_event_kind kind, enum seclock_result result,
                           struct seclock_handle *handle)
{
    struct pollfd readable = {.fd = seclock_loop_fd(loop), .events = POLLIN};
    assert_true(nothing_comes(0));
    assert_int_equal(poll(&readable, 1, 0), 0);
    assert_result(begun(loop, handle), SECLOCK_OK);
    assert_int_equal(poll(&readable, 1, 0), 1);
    expect(kind, result, handle);
}

static struct seclock_handle *hold_of_another(const char *lock)
{
    struct seclock_handle *hold;
    struct seclock_request request = SECLOCK_REQUEST(.name = lock);
    assert_result(seclock_acquire(other, &request, &hold), SECLOCK_OK);
    return hold;
}

static void give(struct seclock_handle **hold)
{
    assert_result(seclock_release(*hold), SECLOCK_OK);
    seclock_free(hold);
}

static void finish(struct seclock_handle *handle, enum seclock_result result)
{
    assert_result(seclock_loop_release(loop, handle), SECLOCK_OK);
    expect(SECLOCK_EVENT_RELEASED, result, handle);
    seclock_free(&handle);
}

/* ---- one hold ---- */

static void test_hold_comes_and_goes_by_events(void **state)
{
    (void)state;
    int context;
    struct seclock_handle *handle = start(name, 0, &context);
    struct seclock_event event = expect(SECLOCK_EVENT_ACQUIRED, SECLOCK_OK, handle);
    assert_ptr_equal(event.context, &context);
    assert_int_equal(seclock_state(handle), SECLOCK_STATE_HELD);
    assert_true(seclock_fence(handle) > 0);
    assert_result(seclock_loop_renew(loop, handle), SECLOCK_OK);
    expect(SECLOCK_EVENT_RENEWED, SECLOCK_OK, handle);
    assert_result(seclock_loop_release(loop, handle), SECLOCK_OK);
    expect(SECLOCK_EVENT_RELEASED, SECLOCK_OK, handle);
    expect_at_once(seclock_loop_release, SECLOCK_EVENT_RELEASED, SECLOCK_NOT_OWNER, handle);
    seclock_free(&handle);
    assert_true(nothing_comes(20));
}

static void test_renewal_counts_from_its_sending(void **state)
{
    (void)state;
    enum { LONG_MS = 20000, LATE_MS = 5000 };
    struct seclock_handle *handle;
    struct seclock_request request =
        SECLOCK_REQUEST(.name = name, .lease_ms = LONG_MS, .fixed_lease = true);
    assert_result(seclock_loop_acquire(loop, &request, &handle), SECLOCK_OK);
    clock_ahead_ns += LATE_MS * INT64_C(1000000);
    expect(SECLOCK_EVENT_ACQUIRED, SECLOCK_OK, handle);
    assert_int_in_range(seclock_remaining_ms(handle), 1, LONG_MS - LATE_MS);
    assert_result(seclock_loop_renew(loop, handle), SECLOCK_OK);
    clock_ahead_ns += LATE_MS * INT64_C(1000000);
    expect(SECLOCK_EVENT_RENEWED, SECLOCK_OK, handle);
    assert_int_in_range(seclock_remaining_ms(handle), 1, LONG_MS - LATE_MS);
    assert_result(seclock_loop_renew(loop, handle), SECLOCK_OK);
    clock_ahead_ns += LONG_MS * INT64_C(1000000);
    struct seclock_event event = next();
    if (event.kind == SECLOCK_EVENT_LOST) /* as the watchdog tells it */
        event = next();
    assert_int_equal(event.kind, SECLOCK_EVENT_RENEWED);
    assert_result(event.result, SECLOCK_LOST);
    seclock_free(&handle);
}

static void test_busy_lock_is_told_with_the_reason(void **state)
{
    (void)state;
    struct seclock_handle *hold = hold_of_another(name), *handle = start(name, 0, NULL);
    expect(SECLOCK_EVENT_ACQUIRED, SECLOCK_BUSY, handle);
    assert_non_null(strstr(seclock_error(), "another holder has it"));
    seclock_free(&handle);
    handle = start(name, 100, NULL);
    expect(SECLOCK_EVENT_ACQUIRED, SECLOCK_TIMEOUT, handle);
    seclock_free(&handle);
    give(&hold);
}

static void test_wait_is_cancelled(void **state)
{
    (void)state;
    struct seclock_handle *hold = hold_of_another(name),
                          *handle = start(name, SECLOCK_FOREVER, NULL);
    uint64_t before = stats_of(mine).waits;
    while (stats_of(mine).waits < before + 2) /* the second one once it has subscribed */
        assert_true(nothing_comes(5));
    seclock_loop_cancel(loop, handle);
    expect(SECLOCK_EVENT_ACQUIRED, SECLOCK_CANCELLED, handle);
    seclock_loop_cancel(loop, handle); /* does nothing */
    seclock_free(&handle);
    give(&hold);
    handle = start(name, SECLOCK_FOREVER, NULL);
    seclock_loop_cancel(loop, handle); /* before the answer to the first try */
    expect(SECLOCK_EVENT_ACQUIRED, SECLOCK_OK, handle);
    finish(handle, SECLOCK_OK);
}

static void test_loss_is_an_event(void **state)
{
    (void)state;
    struct seclock_handle *handle = start(name, 0, NULL);
    expect(SECLOCK_EVENT_ACQUIRED, SECLOCK_OK, handle);
    clock_ahead_ns = INT64_C(3600) * 1000000000;
    seclock_poke(mine);
    expect(SECLOCK_EVENT_LOST, SECLOCK_LOST, handle);
    assert_int_equal(seclock_state(handle), SECLOCK_STATE_LOST);
    expect_at_once(seclock_loop_renew, SECLOCK_EVENT_RENEWED, SECLOCK_LOST, handle);
    finish(handle, SECLOCK_LOST);
    assert_true(nothing_comes(20));
    handle = start(name, 0, NULL);
    expect(SECLOCK_EVENT_ACQUIRED, SECLOCK_OK, handle);
    clock_ahead_ns *= 2;
    seclock_poke(mine);
    wait_for(seclock_state(handle) == SECLOCK_STATE_LOST);
    seclock_free(&handle); /* and its event goes with it */
    assert_true(nothing_comes(20));
}

static void test_latch_opens_for_all(void **state)
{
    (void)state;
    enum { WAITERS = 100 };
    struct seclock_handle *handles[WAITERS];
    struct seclock_request request = SECLOCK_REQUEST(.name = name, .wait_ms = SECLOCK_FOREVER);
    assert_result(seclock_latch_set(other, name, 1, 0, NULL), SECLOCK_OK);
    for (int i = 0; i < WAITERS; i++)
        assert_result(seclock_loop_await(loop, &request, &handles[i]), SECLOCK_OK);
    while (stats_of(mine).waits < WAITERS)
        assert_true(nothing_comes(5));
    assert_result(seclock_loop_release(loop, handles[0]), SECLOCK_CONFIG);
    assert_result(seclock_latch_count_down(other, name, 0, NULL, NULL), SECLOCK_OK);
    for (int i = 0; i < WAITERS; i++) {
        struct seclock_event event = next();
        assert_result(event.result, SECLOCK_OK);
        seclock_free(&event.handle);
    }
    request.name = "never set";
    assert_result(seclock_loop_await(loop, &request, &handles[0]), SECLOCK_OK);
    expect(SECLOCK_EVENT_ACQUIRED, SECLOCK_CONFIG, handles[0]);
    seclock_free(&handles[0]);
}

/* ---- refused ---- */

static void test_misuse_is_refused(void **state)
{
    (void)state;
    struct seclock_handle *handle = NULL, *foreign = hold_of_another(name);
    struct seclock_request request = SECLOCK_REQUEST(.name = name, .cancel_fd = 1);
    assert_result(seclock_loop_acquire(loop, &request, &handle), SECLOCK_CONFIG);
    request = SECLOCK_REQUEST(.name = "");
    assert_result(seclock_loop_acquire(loop, &request, &handle), SECLOCK_CONFIG);
    request = SECLOCK_REQUEST(.name = name, .kind = SECLOCK_KIND_LATCH);
    assert_result(seclock_loop_acquire(loop, &request, &handle), SECLOCK_UNSUPPORTED);
    request.size = 0;
    assert_result(seclock_loop_acquire(loop, &request, &handle), SECLOCK_CONFIG);
    assert_null(handle);
    assert_result(seclock_loop_release(loop, foreign), SECLOCK_CONFIG);
    assert_result(seclock_loop_renew(loop, NULL), SECLOCK_CONFIG);
    give(&foreign);
    handle = start(name, 0, NULL);
    assert_result(seclock_loop_release(loop, handle), SECLOCK_CONFIG);
    expect(SECLOCK_EVENT_ACQUIRED, SECLOCK_OK, handle);
    finish(handle, SECLOCK_OK);
    struct seclock_event unsized = {.size = 0};
    assert_false(seclock_loop_next(loop, &unsized));
}

/* ---- many ---- */

enum { MANY = 2000 };

static int entries(const char *folder)
{
    int count = 0;
    DIR *listed = opendir(folder);
    assert_non_null(listed);
    while (readdir(listed))
        count++;
    closedir(listed);
    return count;
}

/* They wait for one lock, get it one after another, and each wakes the next. */
static void test_many_wait_on_one_descriptor(void **state)
{
    (void)state;
    struct seclock_handle *hold = hold_of_another(name);
    int fds = entries("/proc/self/fd"), threads = entries("/proc/self/task");
    for (int i = 0; i < MANY; i++)
        start(name, SECLOCK_FOREVER, NULL);
    while (stats_of(mine).waits < MANY)
        assert_true(nothing_comes(5));
    assert_int_in_range(entries("/proc/self/fd"), fds, fds + 3);           /* two connections */
    assert_int_in_range(entries("/proc/self/task"), threads, threads + 4); /* see seclock.h */
    give(&hold);
    for (int done = 0; done < MANY;) {
        struct seclock_event event = next();
        assert_result(event.result, SECLOCK_OK);
        if (event.kind == SECLOCK_EVENT_ACQUIRED) {
            assert_result(seclock_loop_release(loop, event.handle), SECLOCK_OK);
        } else {
            seclock_free(&event.handle);
            done++;
        }
    }
}

static void test_many_are_held_at_once(void **state)
{
    (void)state;
    static struct seclock_handle *handles[MANY];
    char each[SECLOCK_NAME_MAX];
    for (int i = 0; i < MANY; i++) {
        snprintf(each, sizeof each, "%.60s-%d", name, i);
        handles[i] = start(each, 0, NULL);
    }
    for (int i = 0; i < MANY; i++)
        assert_result(next().result, SECLOCK_OK);
    assert_int_equal(stats_of(mine).watched, MANY);
    for (int i = 0; i < MANY; i++)
        assert_result(seclock_loop_release(loop, handles[i]), SECLOCK_OK);
    for (int i = 0; i < MANY; i++) {
        struct seclock_event event = next();
        assert_result(event.result, SECLOCK_OK);
        seclock_free(&event.handle);
    }
    assert_int_equal(stats_of(mine).watched, 0);
}

/* ---- a server that answers nothing ---- */

/* A port that accepts connections and never answers. */
static int deaf_port(char url_out[64])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    snprintf(url_out, 64, "redis://127.0.0.1:%d", ntohs(address.sin_port));
    return fd;
}

/* A call that waited for the server would last for its whole time-out: see also
 * lua/test_script_pipe.c. */
static void test_no_call_waits_for_a_silent_server(void **state)
{
    (void)state;
    enum { TIMEOUT_MS = 3000, CALLS = 5000 };
    char url[64];
    int port = deaf_port(url);
    struct seclock_client *cut_off;
    struct seclock_loop *whole = loop;
    const char *const urls[] = {url, NULL};
    struct seclock_options options = SECLOCK_OPTIONS(.servers = urls, .timeout_ms = TIMEOUT_MS);
    assert_result(seclock_open(&options, &cut_off), SECLOCK_OK);
    assert_result(seclock_loop_open(cut_off, &loop), SECLOCK_OK);
    int64_t began_ms = now_ms();
    for (int i = 0; i < CALLS; i++)
        start(name, 0, NULL);
    struct seclock_event event = SECLOCK_EVENT();
    assert_false(seclock_loop_next(loop, &event));
    assert_true(now_ms() - began_ms < TIMEOUT_MS);
    for (int i = 0; i < CALLS; i++) {
        event = next();
        assert_result(event.result, SECLOCK_FAILED); /* nothing was sent */
        seclock_free(&event.handle);
    }
    seclock_loop_close(&loop);
    seclock_close(&cut_off);
    close(port);
    loop = whole;
}

/* ---- the end of a loop ---- */

static void test_loop_closes_with_operations_under_way(void **state)
{
    (void)state;
    struct seclock_handle *hold = hold_of_another(name), *handles[4], *free_one;
    for (int i = 0; i < 3; i++)
        handles[i] = start(name, SECLOCK_FOREVER, NULL);
    free_one = start("free", 0, NULL);
    expect(SECLOCK_EVENT_ACQUIRED, SECLOCK_OK, free_one);
    while (stats_of(mine).waits < 3)
        assert_true(nothing_comes(5));
    handles[3] = start(name, 0, NULL);
    assert_result(seclock_loop_renew(loop, free_one), SECLOCK_OK);
    seclock_loop_close(&loop);
    assert_null(loop);
    for (int i = 0; i < 4; i++)
        seclock_free(&handles[i]);
    assert_result(seclock_release(free_one), SECLOCK_OK); /* it is a hold as any other now */
    seclock_free(&free_one);
    give(&hold);
    assert_int_equal(stats_of(mine).watched, 0);
}

static void test_child_of_fork_can_only_close_it(void **state)
{
    (void)state;
    struct seclock_handle *handle = start(name, 0, NULL);
    expect(SECLOCK_EVENT_ACQUIRED, SECLOCK_OK, handle);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct seclock_event event = SECLOCK_EVENT();
        struct seclock_request request = SECLOCK_REQUEST(.name = name);
        struct seclock_handle *second;
        bool refused = !seclock_loop_next(loop, &event) &&
                       seclock_loop_acquire(loop, &request, &second) == SECLOCK_FAILED &&
                       seclock_loop_release(loop, handle) == SECLOCK_FAILED;
        seclock_free(&handle);
        seclock_loop_close(&loop);
        _exit(refused ? 0 : 1);
    }
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    finish(handle, SECLOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_hold_comes_and_goes_by_events, begin, end),
        cmocka_unit_test_setup_teardown(test_renewal_counts_from_its_sending, begin, end),
        cmocka_unit_test_setup_teardown(test_busy_lock_is_told_with_the_reason, begin, end),
        cmocka_unit_test_setup_teardown(test_wait_is_cancelled, begin, end),
        cmocka_unit_test_setup_teardown(test_loss_is_an_event, begin, end),
        cmocka_unit_test_setup_teardown(test_latch_opens_for_all, begin, end),
        cmocka_unit_test_setup_teardown(test_misuse_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(test_many_wait_on_one_descriptor, begin, end),
        cmocka_unit_test_setup_teardown(test_many_are_held_at_once, begin, end),
        cmocka_unit_test_setup_teardown(test_no_call_waits_for_a_silent_server, begin, end),
        cmocka_unit_test_setup_teardown(test_loop_closes_with_operations_under_way, begin, end),
        cmocka_unit_test_setup_teardown(test_child_of_fork_can_only_close_it, begin, end),
    };
    if (!servers_open("loop"))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    redis_forget_all();
    redis_close(&servers.commands);
    return failed;
}
