/* What the service manager hears, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/supervise.h"

enum { READY_S = 30 }; /* README.md: "The service manager" */

static int manager;
static struct supervise_view view;

/* A manager that listens, before a daemon that has just started. */
static int start(void **state)
{
    (void)state;
    char name[64];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(name, sizeof name, "@seckill-test-supervise-%d", (int)getpid());
    memcpy(address.sun_path + 1, name + 1, (size_t)length - 1);
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(manager, (const struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)length)),
                     0);
    setenv("NOTIFY_SOCKET", name, 1);
    unsetenv("WATCHDOG_USEC");
    assert_true(notify_setup());
    view = (struct supervise_view){
        .redis = HEALTH_UNKNOWN, .ledger = HEALTH_UNKNOWN, .now_ns = CLOCK_NS_PER_S};
    return 0;
}

static int finish(void **state)
{
    (void)state;
    close(manager);
    return 0;
}

/* Whether the manager is told, by the daemon as `view` shows it, that it has started. */
static bool tells_ready(void)
{
    char text[1024];
    bool ready = false;
    supervise_tell(&view);
    for (ssize_t length; (length = recv(manager, text, sizeof text - 1, 0)) > 0;) {
        text[length] = '\0';
        ready |= strcmp(text, "READY=1") == 0;
    }
    return ready;
}

static void serve(enum health_state redis, enum health_state ledger)
{
    view.prepared = view.lets_clients_in = true;
    view.redis = redis;
    view.ledger = ledger;
}

static void test_ready_comes_with_both_servers(void **state)
{
    (void)state;
    assert_false(tells_ready());
    serve(HEALTH_OK, HEALTH_DOWN);
    assert_false(tells_ready());
    serve(HEALTH_OK, HEALTH_OK);
    assert_true(tells_ready());
    assert_false(tells_ready()); /* only once */
}

/* A start that waits for Redis must not keep the manager's other services waiting. */
static void test_ready_comes_without_redis_after_a_while(void **state)
{
    (void)state;
    int64_t since_ns = view.now_ns;
    serve(HEALTH_DOWN, HEALTH_OK);
    for (int s = 0; s < READY_S; s++) {
        view.now_ns = since_ns + s * CLOCK_NS_PER_S;
        assert_false(tells_ready());
    }
    view.now_ns = since_ns + READY_S * CLOCK_NS_PER_S;
    assert_true(tells_ready());
}

static void test_that_while_begins_when_the_ledger_is_prepared(void **state)
{
    (void)state;
    view.now_ns += 10 * READY_S * CLOCK_NS_PER_S;
    assert_false(tells_ready());
    serve(HEALTH_DOWN, HEALTH_OK);
    assert_false(tells_ready());
    view.now_ns += READY_S * CLOCK_NS_PER_S;
    assert_true(tells_ready());
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_ready_comes_with_both_servers),
        TEST(test_ready_comes_without_redis_after_a_while),
        TEST(test_that_while_begins_when_the_ledger_is_prepared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
