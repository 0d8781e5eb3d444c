/* The queue of the fair lock, as its script keeps it: who leaves it, and who comes when. */
#include "lock/test_support.h"

#include "lua/script.h"

#define LOCK "fair"

enum { LONG_MS = 3600000 };

/* Valid until the next call. */
static const char *key_of(const char *field)
{
    static char key[SECLOCK_PREFIX_MAX + 40];
    snprintf(key, sizeof key, "%s{n}:%s", servers.prefix, field);
    return key;
}

/* One try of a waiter that is its own owner; true when it has the lock. */
static bool try_once(const char *waiter, int alive_ms)
{
    struct script_call call;
    static const char *const fields[] = {LOCK, LOCK ":queue", LOCK ":alive", "fence", "released"};
    script_begin(&call, SCRIPT_lock_fair);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        script_key(&call, key_of(fields[i]));
    script_text(&call, waiter);
    script_text(&call, waiter);
    script_int(&call, LONG_MS);
    script_int(&call, alive_ms);
    script_text(&call, "1");
    script_run(servers.commands, &call, 1);
    assert_int_equal(call.result, REDIS_ANSWERED);
    return call.values[0] == 1;
}

static int64_t waiting(void)
{
    return redis_number("LLEN", key_of(LOCK ":queue"), NULL, NULL);
}

static void end_hold(void)
{
    assert_int_equal(redis_number("DEL", key_of(LOCK), NULL, NULL), 1);
}

static void test_waiter_that_was_stopped_queues_again_at_the_end(void **state)
{
    (void)state;
    assert_true(try_once("holder", LONG_MS));
    assert_false(try_once("stopped", 1));
    wait_for(!try_once("second", LONG_MS) && waiting() == 1); /* it has dropped the first */
    assert_false(try_once("stopped", LONG_MS));
    assert_false(try_once("third", LONG_MS));
    assert_int_equal(waiting(), 3);
    end_hold();
    assert_false(try_once("third", LONG_MS));
    assert_false(try_once("stopped", LONG_MS));
    assert_true(try_once("second", LONG_MS));
    end_hold();
    assert_false(try_once("third", LONG_MS));
    assert_true(try_once("stopped", LONG_MS));
    end_hold();
    assert_true(try_once("third", LONG_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waiter_that_was_stopped_queues_again_at_the_end),
    };
    if (!servers_open("fair"))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    redis_forget_all();
    redis_close(&servers.commands);
    return failed;
}
