/* Who is woken by a message, and what becomes of a message whose receiver does not want it. */
#include "lock/test_support.h"

#include <sys/eventfd.h>

#include "lock/waiter.h"

static struct waiter_hub *hub;
static char channel[64];

static int begin(void **state)
{
    static int tests;
    (void)state;
    snprintf(channel, sizeof channel, "%schannel-%d", servers.prefix, ++tests);
    hub = waiter_hub_open(servers.redis, 2000);
    return hub ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    waiter_hub_close(&hub);
    return 0;
}

static void publish(const char *message)
{
    assert_int_equal(redis_number("PUBLISH", channel, message, NULL), 1);
}

/* Two waiters, of which `first` came first, both subscribed and not woken. */
static void join_two(struct waiter **first, struct waiter **second)
{
    *first = waiter_join(hub, channel);
    *second = waiter_join(hub, channel);
    while (waiter_sleep(*first, 100, 0) || waiter_sleep(*second, 100, 0))
        ; /* the subscription itself wakes both */
}

static void test_message_wakes_the_first(void **state)
{
    (void)state;
    struct waiter *first, *second;
    join_two(&first, &second);
    publish("1");
    assert_true(waiter_sleep(first, 5000, 0));
    assert_false(waiter_sleep(second, 100, 0));
    assert_false(waiter_sleep(first, 100, 0));
    waiter_leave(&first, false);
    assert_false(waiter_sleep(second, 100, 0)); /* it has tried since it was woken */
    waiter_leave(&second, false);
}

/* The message comes with the end of its wait: it will not try, so the next one has to. */
static void test_message_for_who_is_cancelled_goes_on(void **state)
{
    (void)state;
    struct waiter *first, *second;
    int cancel_fd = eventfd(1, EFD_CLOEXEC);
    join_two(&first, &second);
    publish("1");
    bool woken = false; /* both are there: the message, the end */
    for (int64_t until_ms = now_ms() + PATIENCE_MS; !woken && now_ms() < until_ms;)
        woken = waiter_sleep(first, 100, cancel_fd);
    assert_true(woken);
    waiter_leave(&first, false);
    assert_true(waiter_sleep(second, 100, 0));
    waiter_leave(&second, false);
    close(cancel_fd);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_message_wakes_the_first),
        CASE(test_message_for_who_is_cancelled_goes_on),
    };
    if (!servers_open("waiter"))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    redis_close(&servers.commands);
    return failed;
}
