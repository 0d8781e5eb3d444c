/* Who is woken by a message, and what becomes of a message whose receiver does not want it. */
#include "lock/test_support.h"

#include <sys/eventfd.h>
#include <sys/syscall.h>

#include "lock/redis/waiter.h"
#include "lua/test_server.h"

static struct waiter_hub *hub;
static char channel[64];

static int begin(void **state)
{
    static int tests;
    (void)state;
    snprintf(channel, sizeof channel, "%schannel-%d", servers.prefix, ++tests);
    hub = waiter_hub_open(servers.redis, NULL, 2000, NULL);
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
    assert_int_equal(redis_number("SPUBLISH", channel, message, NULL), 1);
}

/* Two waiters, of which `first` came first, both subscribed and not woken. */
static void join_two(struct waiter **first, struct waiter **second)
{
    *first = waiter_join(NULL, hub, channel, NULL);
    *second = waiter_join(NULL, hub, channel, NULL);
    assert_true(waiter_sleep(*first, PATIENCE_MS, 0)); /* the subscription itself wakes both */
    assert_true(waiter_sleep(*second, PATIENCE_MS, 0));
    while (waiter_sleep(*first, 100, 0) || waiter_sleep(*second, 100, 0))
        ; /* more than once, if one joined after it */
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

/* The first has tried, and what the message told of was not enough. */
static void test_wake_up_is_passed_on_to_later_ones(void **state)
{
    (void)state;
    struct waiter *first, *second;
    join_two(&first, &second);
    publish("1");
    assert_true(waiter_sleep(first, 5000, 0));
    waiter_pass(first);
    assert_true(waiter_sleep(second, 0, 0));
    waiter_pass(second); /* nobody came later */
    assert_false(waiter_sleep(first, 100, 0));
    waiter_pass(first); /* nothing has woken it */
    assert_false(waiter_sleep(second, 100, 0));
    waiter_leave(&first, false);
    waiter_leave(&second, false);
}

/* ---- several threads ---- */

struct sleeper {
    struct waiter *waiter;
    int cancel_fd;
    pthread_t thread;
    _Atomic pid_t id;
    _Atomic bool subscribed; /* the subscription has woken it, and it sleeps again */
    bool woken;
};

static void *sleeper_thread(void *argument)
{
    struct sleeper *sleeper = argument;
    sleeper->id = (pid_t)syscall(SYS_gettid);
    sleeper->subscribed = waiter_sleep(sleeper->waiter, PATIENCE_MS, 0);
    sleeper->woken = waiter_sleep(sleeper->waiter, PATIENCE_MS / 3, sleeper->cancel_fd);
    return NULL;
}

static bool is_asleep(pid_t thread)
{
    char path[64], text[64] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    FILE *file = fopen(path, "r");
    const char *read = file ? fgets(text, sizeof text, file) : NULL;
    if (file)
        fclose(file);
    return read && strstr(text, ") S ");
}

static void sleeper_begin(struct sleeper *sleeper, const char *on)
{
    sleeper->waiter = waiter_join(NULL, hub, on, NULL);
    sleeper->cancel_fd = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(pthread_create(&sleeper->thread, NULL, sleeper_thread, sleeper), 0);
    wait_for(sleeper->subscribed && is_asleep(sleeper->id));
}

static void sleeper_end(struct sleeper *sleeper)
{
    pthread_join(sleeper->thread, NULL);
    waiter_leave(&sleeper->waiter, false);
    close(sleeper->cancel_fd);
}

/* The first reads for both, until it leaves. */
static void test_leader_hands_over_to_a_waiter_for_another_lock(void **state)
{
    (void)state;
    char another[sizeof channel + 8];
    struct sleeper first = {.waiter = NULL}, second = {.waiter = NULL};
    snprintf(another, sizeof another, "%s-another", channel);
    sleeper_begin(&first, another);
    sleeper_begin(&second, channel);
    assert_int_equal(eventfd_write(first.cancel_fd, 1), 0);
    sleeper_end(&first);
    publish("1");
    sleeper_end(&second);
    assert_false(first.woken);
    assert_true(second.woken);
}

static _Atomic bool noticed;

static void *sleep_thread(void *waiter)
{
    noticed = waiter_sleep(waiter, PATIENCE_MS, 0);
    return NULL;
}

/* The server takes subscriptions and says nothing, while others come: each asks it once more. */
static void test_silent_server_is_noticed_while_others_join(void **state)
{
    (void)state;
    enum { JOINS_MAX = 100 };
    static struct waiter *others[JOINS_MAX];
    struct fake_redis fake = {.welcome = "+OK\r\n-ERR unknown command 'HELLO'\r\n"};
    char url[64], names[32];
    int port = 0, joined = 0;
    pthread_t sleeper;
    fake.listener = listen_anywhere(&port);
    assert_int_equal(pthread_create(&fake.thread, NULL, fake_redis_serve, &fake), 0);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    struct waiter_hub *silent = waiter_hub_open(url, NULL, 300, NULL);
    struct waiter *leader = waiter_join(NULL, silent, "leader", NULL);
    assert_int_equal(pthread_create(&sleeper, NULL, sleep_thread, leader), 0);
    while (joined < JOINS_MAX && !noticed) {
        snprintf(names, sizeof names, "other-%d", joined);
        others[joined++] = waiter_join(NULL, silent, names, NULL);
        sleep_ms(50);
    }
    assert_true(noticed);
    pthread_join(sleeper, NULL);
    waiter_leave(&leader, false);
    for (int i = 0; i < joined; i++)
        waiter_leave(&others[i], false);
    waiter_hub_close(&silent);
    fake_redis_close(&fake, &(struct redis *){NULL});
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_message_wakes_the_first),
        CASE(test_message_for_who_is_cancelled_goes_on),
        CASE(test_wake_up_is_passed_on_to_later_ones),
        CASE(test_leader_hands_over_to_a_waiter_for_another_lock),
        CASE(test_silent_server_is_noticed_while_others_join),
    };
    if (!servers_open("waiter"))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    redis_close(&servers.commands);
    return failed;
}
