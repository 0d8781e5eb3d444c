/* The scripts of the segment lock, the stock and the rate limit on a real Redis, and the failures
 * of a pipeline on a fake one. */
#include "lua/script.h"
#include "lua/script_each.h"
#include "lua/test_server.h"

#include <signal.h>
#include <time.h>

#define LOCK "unit:{s:0}:lock"
#define FENCE "unit:{s:0}:fence"
#define RELEASED "unit:{s:0}:released"
#define SEGMENT "unit:{s:0}:segment"
#define FENCE_AHEAD INT64_C(8000000000000000) /* a server time some centuries away */

/* Asserts that Redis answered the call with exactly these numbers. */
#define EXPECT(call, ...)                                                                          \
    expect(&(struct script_call[]){call}[0], (int64_t[]){__VA_ARGS__},                             \
           (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

static struct redis *redis;

static void expect(const struct script_call *call, const int64_t *values, int count)
{
    assert_int_equal(call->result, REDIS_ANSWERED);
    assert_int_equal(call->value_count, count);
    for (int i = 0; i < count; i++)
        assert_int_equal(call->values[i], values[i]);
}

static struct script_call run(struct script_call call)
{
    script_run(redis, &call, 1);
    return call;
}

/* ---- the scripts as calls ---- */

static struct script_call begin(enum script_id id, const char *first, const char *second,
                                const char *token)
{
    struct script_call call;
    script_begin(&call, id);
    script_key(&call, first);
    if (second)
        script_key(&call, second);
    if (token)
        script_text(&call, token);
    return call;
}

static struct script_call acquire(const char *token, int lease_ms)
{
    struct script_call call = begin(SCRIPT_lock_acquire, LOCK, FENCE, token);
    script_int(&call, lease_ms);
    return call;
}

static struct script_call lock_release(const char *token)
{
    return begin(SCRIPT_lock_release, LOCK, NULL, token);
}

/* A release that keeps its token for a repeat; `in_time`: the repeat would come before the lease
 * ends. */
static struct script_call lock_release_kept(const char *token, bool in_time)
{
    struct script_call call = begin(SCRIPT_lock_release, LOCK, RELEASED, token);
    script_text(&call, "");
    script_text(&call, in_time ? "1" : "0");
    return call;
}

static struct script_call lock_renew(const char *token, int lease_ms)
{
    struct script_call call = begin(SCRIPT_lock_renew, LOCK, NULL, token);
    script_int(&call, lease_ms);
    return call;
}

static struct script_call fence_raise(int64_t fence)
{
    struct script_call call = begin(SCRIPT_fence_raise, FENCE, NULL, NULL);
    script_int(&call, fence);
    return call;
}

static struct script_call take(const char *token, int round, int wanted)
{
    struct script_call call = begin(SCRIPT_stock_take, LOCK, SEGMENT, NULL);
    script_key(&call, FENCE);
    script_text(&call, token);
    script_int(&call, 10000);
    script_int(&call, round);
    script_int(&call, wanted);
    return call;
}

static struct script_call settle(const char *token, int64_t fence, int back)
{
    struct script_call call = begin(SCRIPT_stock_settle, LOCK, SEGMENT, token);
    script_int(&call, fence);
    script_int(&call, back);
    return call;
}

/* To a counter of round 3. */
static struct script_call give_back(int64_t settled, int units, const char *mark)
{
    struct script_call call = begin(SCRIPT_stock_return, SEGMENT, NULL, "3");
    script_int(&call, settled);
    script_int(&call, units);
    script_text(&call, mark);
    return call;
}

static struct script_call load(const char *token, int available, int round, int64_t fence)
{
    struct script_call call = begin(SCRIPT_stock_load, LOCK, SEGMENT, token);
    script_int(&call, available);
    script_int(&call, round);
    script_int(&call, fence);
    return call;
}

static struct script_call segment_read(void)
{
    return begin(SCRIPT_stock_read, SEGMENT, NULL, NULL);
}

static struct script_call retire(const char *token)
{
    struct script_call call = begin(SCRIPT_stock_retire, LOCK, SEGMENT, NULL);
    script_key(&call, FENCE);
    script_text(&call, token);
    return call;
}

static int64_t lock_as(const char *token)
{
    struct script_call call = run(acquire(token, 10000));
    assert_int_equal(call.result, REDIS_ANSWERED);
    assert_int_equal(call.values[0], 1);
    return call.values[1];
}

/* Loads the segment with units of round 3, settled at 77. stock_load releases the lock, so "mine"
 * locks the segment again. */
static void load_and_lock(int available)
{
    lock_as("mine");
    EXPECT(run(load("mine", available, 3, 77)), 1);
    lock_as("mine");
}

static void lock_and_load(void)
{
    load_and_lock(10);
}

/* Asserts that the call locked the segment at the fence that is stored now, and took units. */
static void expect_took(struct script_call call, int taken, int64_t settled, int left)
{
    EXPECT(call, 1, redis_server_do("GET " FENCE), taken, settled, left);
}

/* Asserts that the call locked the segment and found it in need of a recovery. */
static void expect_dirty(struct script_call call)
{
    EXPECT(call, 1, redis_server_do("GET " FENCE));
}

static void sleep_ms(int ms)
{
    struct timespec span = {.tv_nsec = ms * 1000000L};
    nanosleep(&span, NULL);
}

static int start(void **state)
{
    (void)state;
    redis_server_do("CONFIG SET maxmemory 0");
    redis_server_do("FLUSHALL");
    redis_server_do("SCRIPT FLUSH");
    redis = redis_server_open(REDIS_SERVER_MS);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    redis_close(&redis);
    return 0;
}

/* ---- lock_acquire ---- */

static void test_acquire_takes_a_free_lock_for_its_lease(void **state)
{
    (void)state;
    struct script_call call = run(acquire("mine", 5000));
    assert_int_equal(call.value_count, 2);
    assert_int_equal(call.values[0], 1);
    assert_int_equal(redis_server_do("GET " FENCE), call.values[1]);
    assert_int_in_range(redis_server_do("PTTL " LOCK), 4000, 5000);
    assert_int_in_range(redis_server_do("TTL " FENCE), 600000, 604800);
}

static void test_acquire_is_busy_while_another_holds_it(void **state)
{
    (void)state;
    int64_t fence = lock_as("mine");
    struct script_call call = run(acquire("other", 5000));
    assert_int_equal(call.value_count, 2);
    assert_int_equal(call.values[0], 0);
    assert_int_in_range(call.values[1], 9000, 10000);
    assert_int_equal(redis_server_do("GET " FENCE), fence);
}

static void test_acquire_sent_again_gives_the_first_answer(void **state)
{
    (void)state;
    int64_t fence = lock_as("mine");
    EXPECT(run(acquire("mine", 5000)), 1, fence);
}

static void test_acquire_sent_again_without_its_fence_key_gives_a_greater_fence(void **state)
{
    (void)state;
    int64_t fence = lock_as("mine");
    redis_server_do("DEL " FENCE);
    assert_true(lock_as("mine") > fence);
}

static void test_acquire_succeeds_when_the_lease_ran_out(void **state)
{
    (void)state;
    struct script_call call = run(acquire("dead", 15));
    sleep_ms(25);
    assert_true(lock_as("mine") > call.values[1]);
}

static void test_fence_grows_with_every_acquisition(void **state)
{
    (void)state;
    int64_t last = 0;
    for (int i = 0; i < 20; i++) {
        int64_t fence = lock_as("mine");
        assert_true(fence > last);
        last = fence;
        EXPECT(run(lock_release("mine")), 1);
    }
}

static void test_fence_grows_though_its_key_is_ahead_of_the_clock(void **state)
{
    (void)state;
    redis_server_do("SET " FENCE " %lld", (long long)FENCE_AHEAD);
    assert_int_equal(lock_as("mine"), FENCE_AHEAD + 1);
    EXPECT(run(lock_release("mine")), 1);
    assert_int_equal(lock_as("mine"), FENCE_AHEAD + 2);
}

static void test_fence_grows_though_its_key_is_gone(void **state)
{
    (void)state;
    int64_t fence = lock_as("mine");
    redis_server_do("FLUSHALL");
    assert_true(lock_as("mine") > fence);
}

/* ---- lock_release, lock_renew, fence_raise ---- */

static void test_release_by_its_holder_frees_the_lock(void **state)
{
    (void)state;
    lock_as("mine");
    EXPECT(run(lock_release("mine")), 1);
    assert_int_equal(redis_server_do("EXISTS " LOCK), 0);
    assert_int_equal(redis_server_do("EXISTS " FENCE), 1);
    EXPECT(run(lock_release("mine")), 0);
}

static void test_release_by_another_leaves_the_lock(void **state)
{
    (void)state;
    lock_as("mine");
    EXPECT(run(lock_release("other")), 0);
    assert_int_equal(redis_server_do("EXISTS " LOCK), 1);
}

static void test_release_sent_again_gives_the_first_answer(void **state)
{
    (void)state;
    for (int in_time = 0; in_time <= 1; in_time++) {
        lock_as("mine");
        EXPECT(run(lock_release_kept("other", in_time)), 0);
        EXPECT(run(lock_release_kept("mine", in_time)), 1);
        assert_int_equal(redis_server_do("EXISTS " LOCK), 0);
        EXPECT(run(lock_release_kept("mine", in_time)), 1);
        assert_int_in_range(redis_server_do("PTTL " RELEASED), 9000, 60000);
        lock_as("next");
        EXPECT(run(lock_release_kept("mine", in_time)), 1);
        EXPECT(run(lock_release_kept("next", in_time)), 1);
        EXPECT(run(lock_release_kept("mine", in_time)), 0);
    }
}

static struct script_call acquire_unless_released(const char *token)
{
    struct script_call call;
    script_begin(&call, SCRIPT_lock_acquire);
    script_key(&call, LOCK);
    script_key(&call, FENCE);
    script_key(&call, RELEASED);
    script_text(&call, token);
    script_int(&call, 5000);
    return call;
}

/* Its command was under way for so long. */
static void test_token_that_was_released_acquires_nothing(void **state)
{
    (void)state;
    EXPECT(run(lock_release_kept("mine", false)), 0);
    EXPECT(run(acquire_unless_released("mine")), 4);
    assert_int_equal(redis_server_do("EXISTS " LOCK), 0);
    assert_int_equal(run(acquire_unless_released("next")).values[0], 1);
    EXPECT(run(lock_release_kept("next", false)), 1);
    EXPECT(run(acquire_unless_released("next")), 4);
    assert_int_in_range(redis_server_do("PTTL " RELEASED), 9000, 60000);
}

/* It refuses a script whose first write needs memory. */
static void test_full_redis_settles_and_releases(void **state)
{
    (void)state;
    struct script_call back = give_back(99, 2, "");
    lock_and_load();
    run(take("mine", 3, 4));
    redis_server_do("CONFIG SET maxmemory 1");
    EXPECT(run(settle("mine", 99, 1)), 1);
    EXPECT(run(back), 1);
    assert_int_equal(run(acquire("other", 5000)).result, REDIS_FAILED);
    assert_int_equal(run(take("other", 3, 1)).result, REDIS_FAILED);
    redis_server_do("CONFIG SET maxmemory 0");
    EXPECT(run(segment_read()), 1, 9, 3, 0, 99);
    lock_as("mine");
    redis_server_do("CONFIG SET maxmemory 1");
    EXPECT(run(load("mine", 5, 3, 111)), 1);
    EXPECT(run(lock_release_kept("mine", false)), 0);
    redis_server_do("CONFIG SET maxmemory 0");
    EXPECT(run(segment_read()), 1, 5, 3, 0, 111);
}

static void test_call_that_tells_is_answered_for_itself(void **state)
{
    (void)state;
    struct script_call call = acquire("mine", 5000);
    script_run_telling(redis, &call);
    assert_int_equal(call.result, REDIS_ANSWERED);
    assert_int_equal(call.values[1], redis_server_do("GET " FENCE));
    redis_server_do("SCRIPT FLUSH");
    call = lock_release("mine");
    script_run_telling(redis, &call);
    EXPECT(call, 1);
    EXPECT(run(lock_release("mine")), 0); /* the connection owes no other answer */
}

static void test_renew_by_its_holder_sets_the_whole_lease(void **state)
{
    (void)state;
    EXPECT(run(fence_raise(1)), 1);
    run(acquire("mine", 500));
    EXPECT(run(lock_renew("mine", 9000)), 1);
    assert_int_in_range(redis_server_do("PTTL " LOCK), 8000, 9000);
}

static void test_renew_by_another_or_too_late_does_nothing(void **state)
{
    (void)state;
    EXPECT(run(lock_renew("mine", 9000)), 0, 0);
    assert_int_equal(redis_server_do("EXISTS " LOCK), 0);
    run(acquire("mine", 5000));
    EXPECT(run(lock_renew("other", 9000)), 0, 1);
    assert_int_in_range(redis_server_do("PTTL " LOCK), 4000, 5000);
}

static void test_fence_raise_never_lowers(void **state)
{
    (void)state;
    EXPECT(run(fence_raise(1000)), 1000);
    EXPECT(run(fence_raise(999)), 1000);
    EXPECT(run(fence_raise(FENCE_AHEAD)), FENCE_AHEAD);
    assert_int_equal(redis_server_do("GET " FENCE), FENCE_AHEAD);
    assert_int_in_range(redis_server_do("TTL " FENCE), 600000, 604800);
}

/* ---- stock_take ---- */

static void test_take_decrements_and_marks_the_round_open(void **state)
{
    (void)state;
    lock_and_load();
    EXPECT(run(lock_release("mine")), 1);
    expect_took(run(take("next", 3, 4)), 4, 77, 6);
    EXPECT(run(segment_read()), 1, 6, 3, 1, 77);
    EXPECT(run(lock_release("next")), 1);
}

static void test_take_of_more_than_there_is_takes_all(void **state)
{
    (void)state;
    lock_and_load();
    expect_took(run(take("mine", 3, 11)), 10, 77, 0);
    EXPECT(run(segment_read()), 1, 0, 3, 1, 77);
}

static void test_take_from_an_empty_segment_leaves_it_settled(void **state)
{
    (void)state;
    load_and_lock(0);
    expect_took(run(take("mine", 3, 1)), 0, 77, 0);
    EXPECT(run(segment_read()), 1, 0, 3, 0, 77);
}

static void test_take_is_busy_while_another_holds_the_lock(void **state)
{
    (void)state;
    lock_and_load();
    int64_t fence = redis_server_do("GET " FENCE);
    struct script_call call = run(take("other", 3, 1));
    assert_int_equal(call.value_count, 2);
    assert_int_equal(call.values[0], 0);
    assert_int_in_range(call.values[1], 9000, 10000);
    assert_int_equal(redis_server_do("GET " FENCE), fence);
    EXPECT(run(segment_read()), 1, 10, 3, 0, 77);
}

static void test_take_locks_for_its_lease_at_a_greater_fence(void **state)
{
    (void)state;
    lock_and_load();
    int64_t fence = redis_server_do("GET " FENCE);
    EXPECT(run(lock_release("mine")), 1);
    assert_true(run(take("next", 3, 1)).values[1] > fence);
    assert_int_in_range(redis_server_do("PTTL " LOCK), 9000, 10000);
    assert_int_in_range(redis_server_do("TTL " FENCE), 600000, 604800);
    EXPECT(run(lock_release("next")), 1);
    redis_server_do("SET " FENCE " %lld", (long long)FENCE_AHEAD);
    EXPECT(run(take("last", 3, 1)), 1, FENCE_AHEAD + 1);
}

static void test_take_sent_again_keeps_its_fence_and_takes_nothing(void **state)
{
    (void)state;
    lock_and_load();
    EXPECT(run(lock_release("mine")), 1);
    int64_t fence = run(take("next", 3, 4)).values[1];
    redis_server_do("PEXPIRE " LOCK " 5000");
    EXPECT(run(take("next", 3, 4)), 1, fence);
    assert_int_in_range(redis_server_do("PTTL " LOCK), 9000, 10000);
    EXPECT(run(segment_read()), 1, 6, 3, 1, 77);
    redis_server_do("DEL " FENCE);
    assert_true(run(take("next", 3, 4)).values[1] > fence);
}

static void test_take_from_an_open_round_is_dirty(void **state)
{
    (void)state;
    lock_and_load();
    expect_took(run(take("mine", 3, 1)), 1, 77, 9);
    EXPECT(run(lock_release("mine")), 1);
    expect_dirty(run(take("next", 3, 1)));
    EXPECT(run(segment_read()), 1, 9, 3, 1, 77);
}

static void test_take_of_another_round_is_dirty(void **state)
{
    (void)state;
    lock_and_load();
    expect_dirty(run(take("mine", 2, 1)));
    expect_dirty(run(take("mine", 4, 1)));
    EXPECT(run(segment_read()), 1, 10, 3, 0, 77);
}

static void test_take_from_a_missing_or_torn_segment_is_dirty(void **state)
{
    (void)state;
    static const char *const fields[] = {"available", "round", "open", "settled"};
    expect_dirty(run(take("mine", 3, 1)));
    redis_server_do("SET " SEGMENT " text");
    expect_dirty(run(take("mine", 3, 1)));
    redis_server_do("DEL " SEGMENT);
    for (size_t i = 0; i < 4; i++) {
        lock_and_load();
        redis_server_do("HDEL " SEGMENT " %s", fields[i]);
        expect_dirty(run(take("mine", 3, 1)));
    }
    static const char *const nonsense[] = {"many", "-1"};
    for (size_t i = 0; i < 2; i++) {
        lock_and_load();
        redis_server_do("HSET " SEGMENT " available %s", nonsense[i]);
        expect_dirty(run(take("mine", 3, 1)));
    }
}

/* ---- stock_settle ---- */

static void test_settle_ends_the_round_at_its_fence(void **state)
{
    (void)state;
    lock_and_load();
    run(take("mine", 3, 4));
    EXPECT(run(settle("mine", 88, 0)), 1);
    EXPECT(run(segment_read()), 1, 6, 3, 0, 88);
    assert_int_equal(redis_server_do("EXISTS " LOCK), 0);
}

static void test_settle_gives_units_back(void **state)
{
    (void)state;
    lock_and_load();
    run(take("mine", 3, 4));
    EXPECT(run(settle("mine", 77, 3)), 1);
    EXPECT(run(segment_read()), 1, 9, 3, 0, 77);
}

static void test_settle_without_the_lock_is_lost(void **state)
{
    (void)state;
    lock_and_load();
    run(take("mine", 3, 4));
    EXPECT(run(lock_release("mine")), 1);
    EXPECT(run(settle("mine", 88, 4)), 0);
    lock_as("next");
    EXPECT(run(settle("mine", 88, 4)), 0);
    EXPECT(run(settle("next", 88, 4)), 0); /* its lock, but not its round */
    EXPECT(run(segment_read()), 1, 6, 3, 1, 77);
}

static void test_settle_of_a_round_that_is_not_open_is_lost(void **state)
{
    (void)state;
    lock_and_load();
    EXPECT(run(settle("mine", 88, 4)), 0);
    redis_server_do("DEL " SEGMENT);
    EXPECT(run(settle("mine", 88, 4)), 0);
    assert_int_equal(redis_server_do("EXISTS " SEGMENT), 0);
}

/* ---- stock_return ---- */

/* A holder that settles adds to the counter; it does not know what others took before it came. */
static void test_return_beside_a_holder_is_kept(void **state)
{
    (void)state;
    lock_and_load();
    expect_took(run(take("mine", 3, 4)), 4, 77, 6);
    EXPECT(run(give_back(77, 2, "")), 1);
    EXPECT(run(segment_read()), 1, 8, 3, 1, 77);
    EXPECT(run(settle("mine", 88, 1)), 1);
    EXPECT(run(segment_read()), 1, 9, 3, 0, 88);
}

/* The ledger refused the counter at this fence, so only a recovery knows what is left. */
static void test_refused_units_keep_a_holder_from_settling(void **state)
{
    (void)state;
    lock_and_load();
    expect_took(run(take("mine", 3, 4)), 4, 77, 6);
    EXPECT(run(give_back(77, 0, "refused")), 1);
    EXPECT(run(settle("mine", 88, 1)), 0);
    EXPECT(run(segment_read()), 1, 6, 3, 1, 77);
}

/* At any other fence a recovery may have counted them. */
static void test_return_is_to_the_fence_of_the_take(void **state)
{
    (void)state;
    lock_and_load();
    EXPECT(run(give_back(76, 2, "")), 0);
    EXPECT(run(give_back(78, 0, "refused")), 0);
    EXPECT(run(give_back(77, 2, "")), 1);
    EXPECT(run(segment_read()), 1, 12, 3, 0, 77);
    EXPECT(run(give_back(77, 0, "refused")), 1);
    EXPECT(run(segment_read()), 1, 12, 3, 1, 77);
}

/* ---- stock_load, stock_read, stock_retire ---- */

static void test_load_replaces_the_whole_segment(void **state)
{
    (void)state;
    lock_and_load();
    run(take("mine", 3, 4));
    EXPECT(run(load("mine", 50, 4, 99)), 1);
    EXPECT(run(segment_read()), 1, 50, 4, 0, 99);
    assert_int_equal(redis_server_do("EXISTS " LOCK), 0);
}

static void test_load_without_the_lock_is_lost(void **state)
{
    (void)state;
    EXPECT(run(load("mine", 50, 4, 99)), 0);
    lock_as("other");
    EXPECT(run(load("mine", 50, 4, 99)), 0);
    assert_int_equal(redis_server_do("EXISTS " SEGMENT), 0);
}

static void test_read_tells_a_missing_or_torn_segment(void **state)
{
    (void)state;
    static const char *const fields[] = {"available", "round", "open", "settled"};
    EXPECT(run(segment_read()), 0);
    for (size_t i = 0; i < 4; i++) {
        lock_and_load();
        redis_server_do("HDEL " SEGMENT " %s", fields[i]);
        EXPECT(run(segment_read()), 0);
    }
}

static void test_retire_removes_the_segment_for_its_holder_alone(void **state)
{
    (void)state;
    lock_and_load();
    EXPECT(run(retire("other")), 0);
    assert_int_equal(redis_server_do("EXISTS " SEGMENT), 1);
    EXPECT(run(retire("mine")), 1);
    assert_int_equal(redis_server_do("EXISTS " SEGMENT), 0);
    assert_int_equal(redis_server_do("EXISTS " LOCK), 0);
    assert_int_equal(redis_server_do("EXISTS " FENCE), 0);
    EXPECT(run(retire("mine")), 0);
}

/* ---- pipelines ---- */

static void test_pipeline_answers_each_call_in_order(void **state)
{
    (void)state;
    struct script_call calls[] = {
        acquire("mine", 5000), load("mine", 10, 3, 77), acquire("mine", 5000), take("mine", 3, 4),
        settle("mine", 78, 1), take("other", 3, 1),     acquire("mine", 5000), segment_read()};
    script_run(redis, calls, 8);
    assert_int_equal(calls[0].values[0], 1);
    EXPECT(calls[1], 1);
    assert_true(calls[2].values[1] > calls[0].values[1]);
    EXPECT(calls[3], 1, calls[2].values[1], 4, 77, 6);
    EXPECT(calls[4], 1);
    assert_true(calls[5].values[1] > calls[3].values[1]);
    assert_int_equal(calls[6].values[0], 0);
    EXPECT(calls[7], 1, 6, 3, 1, 78);
}

/* ---- calls that go as one ---- */

enum { MANY = 40 }; /* more than go as one */

/* Calls of segment `number`, whose token is its own. */
static struct script_call call_of(enum script_id id, int number)
{
    static const char *const fields[] = {"lock", "segment", "fence"};
    char key[64], token[16];
    struct script_call call;
    script_begin(&call, id);
    for (int i = 0; i < (id == SCRIPT_stock_take ? 3 : 2); i++) {
        snprintf(key, sizeof key, "unit:{s:%d}:%s", number, fields[i]);
        script_key(&call, key);
    }
    snprintf(token, sizeof token, "token%d", number);
    script_text(&call, token);
    return call;
}

static struct script_call take_of(int number, int wanted)
{
    struct script_call call = call_of(SCRIPT_stock_take, number);
    script_int(&call, 10000);
    script_int(&call, 3);
    script_int(&call, wanted);
    return call;
}

static struct script_call settle_of(int number, int64_t fence, int back)
{
    struct script_call call = call_of(SCRIPT_stock_settle, number);
    script_int(&call, fence);
    script_int(&call, back);
    return call;
}

/* Settled segments 0 to MANY-1 of round 3; segment i has 10 + i units, settled at 70 + i. */
static void make_segments(void)
{
    for (int i = 0; i < MANY; i++)
        redis_server_do("HSET unit:{s:%d}:segment available %d round 3 open '' settled %d", i,
                        10 + i, 70 + i);
}

static int64_t available(int number)
{
    return redis_server_do("HGET unit:{s:%d}:segment available", number);
}

static void test_joined_takes_and_settles_are_each_answered(void **state)
{
    (void)state;
    struct script_call calls[2 * MANY];
    make_segments();
    for (int i = 0; i < MANY; i++) {
        calls[i] = take_of(i, 1 + i % 3);
        calls[MANY + i] = settle_of(i, 100 + i, i % 2);
    }
    script_run(redis, calls, 2 * MANY);
    for (int i = 0; i < MANY; i++) {
        int64_t fence = redis_server_do("GET unit:{s:%d}:fence", i);
        EXPECT(calls[i], 1, fence, 1 + i % 3, 70 + i, 9 + i - i % 3);
        EXPECT(calls[MANY + i], 1);
        assert_int_equal(available(i), 9 + i - i % 3 + i % 2);
        assert_int_equal(redis_server_do("HGET unit:{s:%d}:segment settled", i), 100 + i);
        assert_int_equal(redis_server_do("EXISTS unit:{s:%d}:lock", i), 0);
    }
}

static void test_joined_call_that_fails_leaves_the_others_theirs(void **state)
{
    (void)state;
    struct script_call calls[5];
    make_segments();
    redis_server_do("SET unit:{s:0}:lock other PX 5000");
    redis_server_do("DEL unit:{s:1}:segment");
    redis_server_do("HSET unit:{s:2}:fence a b");
    for (int i = 0; i < 5; i++)
        calls[i] = take_of(i, 4);
    script_run(redis, calls, 5);
    assert_int_equal(calls[0].value_count, 2);
    assert_int_equal(calls[0].values[0], 0);
    assert_int_in_range(calls[0].values[1], 4000, 5000);
    EXPECT(calls[1], 1, redis_server_do("GET unit:{s:1}:fence"));
    assert_int_equal(calls[2].result, REDIS_FAILED);
    assert_int_equal(calls[2].value_count, 0);
    assert_non_null(strstr(redis_error(redis), "WRONGTYPE"));
    for (int i = 3; i < 5; i++)
        EXPECT(calls[i], 1, redis_server_do("GET unit:{s:%d}:fence", i), 4, 70 + i, 6 + i);
    for (int i = 0; i < 5; i++)
        calls[i] = settle_of(i, 200, 4);
    script_run(redis, calls, 5);
    for (int i = 0; i < 5; i++)
        EXPECT(calls[i], i >= 3);
}

static void test_full_redis_refuses_joined_takes_and_settles(void **state)
{
    (void)state;
    struct script_call takes[4], settles[4];
    make_segments();
    for (int i = 0; i < 4; i++)
        takes[i] = take_of(i, 2);
    script_run(redis, takes, 2);
    redis_server_do("CONFIG SET maxmemory 1");
    script_run(redis, takes + 2, 2);
    for (int i = 0; i < 4; i++)
        settles[i] = settle_of(3 - i, 100, 1);
    script_run(redis, settles, 4); /* the first ones do not hold their locks */
    redis_server_do("CONFIG SET maxmemory 0");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(takes[i].result, i < 2 ? REDIS_ANSWERED : REDIS_FAILED);
        EXPECT(settles[3 - i], i < 2);
        assert_int_equal(available(i), 10 + i - (i < 2));
        assert_int_equal(redis_server_do("EXISTS unit:{s:%d}:lock", i), 0);
    }
}

static void test_joined_calls_that_the_server_forgot_are_sent_again(void **state)
{
    (void)state;
    struct script_call calls[3];
    make_segments();
    for (int i = 0; i < 3; i++)
        calls[i] = take_of(i, 0);
    script_run(redis, calls, 3);
    redis_server_do("SCRIPT FLUSH");
    for (int i = 0; i < 3; i++)
        calls[i] = take_of(i, 5);
    script_run(redis, calls, 3);
    for (int i = 0; i < 3; i++)
        EXPECT(calls[i], 1, redis_server_do("GET unit:{s:%d}:fence", i), 5, 70 + i, 5 + i);
}

static void test_lost_or_odd_reply_is_all_joined_calls(void **state)
{
    (void)state;
    static const char *const answers[] = {"", "*1\r\n:1\r\n", ":1\r\n", "-OOM full\r\n"};
    for (size_t i = 0; i < 4; i++) {
        struct fake_redis fake;
        struct redis *dying = fake_redis_open(&fake, answers[i], 200);
        struct script_call calls[] = {take_of(0, 1), take_of(1, 1)};
        script_run(dying, calls, 2);
        for (size_t j = 0; j < 2; j++) {
            assert_int_equal(calls[j].result, i == 3 ? REDIS_FAILED : REDIS_UNKNOWN);
            assert_int_equal(calls[j].value_count, 0);
        }
        fake_redis_close(&fake, &dying);
    }
}

static void test_scripts_that_the_server_forgot_are_sent_again(void **state)
{
    (void)state;
    struct script_call calls[] = {take("mine", 3, 4), settle("mine", 78, 0), segment_read()};
    lock_and_load();
    script_run(redis, calls, 3);
    lock_and_load();
    redis_server_do("SCRIPT FLUSH");
    script_run(redis, calls, 3);
    expect_took(calls[0], 4, 77, 6);
    EXPECT(calls[1], 1);
    EXPECT(calls[2], 1, 6, 3, 0, 78);
    EXPECT(run(segment_read()), 1, 6, 3, 0, 78);
    assert_int_equal(redis_stats(redis).connects, 1);
}

/* After a restart another client came first, so the server knows the second of two scripts and not
 * the first. The settle must still run before the take. */
static void test_first_pipeline_of_a_connection_keeps_its_order(void **state)
{
    (void)state;
    lock_and_load();
    run(take("mine", 3, 1));
    redis_server_do("SCRIPT FLUSH");
    run(take("other", 3, 1));
    redis_close(&redis);
    redis = redis_server_open(REDIS_SERVER_MS);
    struct script_call calls[] = {settle("mine", 88, 0), take("next", 3, 4)};
    script_run(redis, calls, 2);
    EXPECT(calls[0], 1);
    expect_took(calls[1], 4, 88, 5);
}

static void test_script_error_is_failed_and_the_rest_goes_on(void **state)
{
    (void)state;
    lock_as("mine");
    redis_server_do("SET " SEGMENT " text");
    struct script_call calls[] = {load("mine", 10, 3, 77), lock_release("mine")};
    script_run(redis, calls, 2);
    assert_int_equal(calls[0].result, REDIS_FAILED);
    assert_int_equal(calls[0].value_count, 0);
    assert_non_null(strstr(redis_error(redis), "WRONGTYPE"));
    EXPECT(calls[1], 0); /* the load had begun with it */
}

static void test_calls_that_cannot_be_sent_are_failed(void **state)
{
    (void)state;
    char error[128], url[64];
    int port = 0;
    close(listen_anywhere(&port));
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    struct redis *nowhere = redis_open(url, 100, error, sizeof error);
    struct script_call calls[] = {take("mine", 3, 4), lock_release("mine")};
    script_run(nowhere, calls, 2);
    assert_int_equal(calls[0].result, REDIS_FAILED);
    assert_int_equal(calls[1].result, REDIS_FAILED);
    redis_close(&nowhere);
}

/* Runs three calls on a connection that sends this answer and closes. */
static void run_on_fake(const char *answer, struct script_call calls[3])
{
    struct fake_redis fake;
    struct redis *dying = fake_redis_open(&fake, answer, 200);
    calls[0] = acquire("mine", 5000);
    calls[1] = take("mine", 3, 4);
    calls[2] = lock_release("mine");
    script_run(dying, calls, 3);
    assert_false(redis_connected(dying));
    fake_redis_close(&fake, &dying);
}

/* ---- rate limits: a call with parameters of its own ---- */

enum { ORDERS_MAX = 16, REFUSED = 4 };

static int64_t refused[REFUSED * ORDERS_MAX];

/* Runs one call for orders that name user and address by number, 0 for none: "1213" are two orders
 * of user 1, from addresses 2 and 3. A user may order once a minute and 3 times at once, an address
 * 60 times a minute and 4 times at once. Returns the number of refused orders. */
static int rate(const char *const *subjects, int users, int addresses, const char *orders)
{
    char count[8], places[4 * ORDERS_MAX + 1] = "";
    snprintf(count, sizeof count, "%d", users);
    for (size_t i = 0; orders[i]; i++)
        snprintf(places + 2 * i, 3, "0%c", orders[i]);
    const char *more[16] = {"{r}:users",
                            "{r}:users:older",
                            "{r}:addresses",
                            "{r}:addresses:older",
                            count,
                            "60000000",
                            "3",
                            "1000000",
                            "4",
                            places};
    size_t used = 10;
    for (int i = 0; i < users + addresses; i++)
        more[used++] = subjects[i];
    struct script_call call;
    script_begin(&call, SCRIPT_rate_limit);
    call.keys = 4;
    call.more = more;
    call.more_count = used;
    call.more_values = refused;
    call.more_values_max = sizeof refused / sizeof refused[0];
    call = run(call);
    assert_int_equal(call.result, REDIS_ANSWERED);
    assert_int_equal(call.value_count % REFUSED, 0);
    return call.value_count / REFUSED;
}

static void rate_begin(void)
{
    redis_server_do("DEL {r}:users {r}:users:older {r}:addresses {r}:addresses:older");
}

static void test_orders_above_the_burst_are_refused_and_told_when(void **state)
{
    static const char *const subjects[] = {"u1", "u2", "a1"};
    (void)state;
    rate_begin();
    assert_int_equal(rate(subjects, 2, 1, "10101020"), 0);
    assert_int_equal(rate(subjects, 2, 1, "1020"), 1);
    assert_int_equal(refused[0], 1);
    assert_int_equal(refused[1], 1); /* the user */
    assert_int_in_range(refused[2], 30000, 60000);
    assert_int_in_range(refused[3], 150000, 180000);
    assert_int_equal(rate(subjects, 2, 1, "20"), 0);
    /* User 2 has used up its burst, the address has not. */
    assert_int_equal(rate(subjects, 2, 1, "2003030303"), 1);
    assert_int_equal(refused[0], 1);
    assert_int_equal(rate(subjects, 2, 1, "0313"), 2);
    assert_int_equal(refused[1], 2); /* the address */
    assert_int_in_range(refused[2], 1, 1000);
    assert_int_equal(refused[REFUSED], 2);
    assert_int_equal(refused[REFUSED + 1], 1);
}

static void test_value_is_cut_when_it_is_ahead_and_passed_over_when_it_is_none(void **state)
{
    static const char *const subjects[] = {"u1"};
    (void)state;
    rate_begin();
    assert_int_equal(rate(subjects, 1, 0, "10"), 0);
    redis_server_do("HSET {r}:users u1 9000000000000000");
    assert_int_equal(rate(subjects, 1, 0, "10"), 1);
    assert_int_in_range(refused[2], 1, 120000);
    redis_server_do("HSET {r}:users u1 nonsense");
    assert_int_equal(rate(subjects, 1, 0, "10"), 0);
    assert_int_in_range(redis_server_do("PTTL {r}:users"), 1, 360000);
}

/* Sets the start of the newer hash far back, as if the time of a whole burst had passed. */
static void rate_turn(void)
{
    redis_server_do("HSET {r}:users '' 1");
}

static void test_values_are_kept_for_the_time_of_a_burst_and_then_dropped(void **state)
{
    static const char *const subjects[] = {"u1", "u2"};
    (void)state;
    rate_begin();
    assert_int_equal(rate(subjects, 2, 0, "10101020"), 0);
    rate_turn();
    assert_int_equal(rate(subjects, 2, 0, "1020"), 1);
    assert_int_equal(redis_server_do("HEXISTS {r}:users:older u1"), 1);
    assert_int_equal(redis_server_do("HEXISTS {r}:users u1"), 0); /* it was refused */
    assert_int_equal(redis_server_do("HEXISTS {r}:users u2"), 1);
    assert_int_equal(rate(subjects, 2, 0, "2020"), 1); /* the newer value counts */
    rate_turn();
    assert_int_equal(rate(subjects, 2, 0, "10"), 0);
    assert_int_equal(redis_server_do("HEXISTS {r}:users:older u1"), 0);
    assert_int_in_range(redis_server_do("PTTL {r}:users:older"), 1, 360000);
}

static void test_hash_begun_by_a_clock_that_was_ahead_is_turned(void **state)
{
    static const char *const subjects[] = {"u1"};
    (void)state;
    rate_begin();
    redis_server_do("HSET {r}:users '' 9000000000000000");
    assert_int_equal(rate(subjects, 1, 0, "101010"), 0);
    assert_int_equal(redis_server_do("EXISTS {r}:users:older"), 1);
    assert_int_equal(rate(subjects, 1, 0, "10"), 1);
}

static void test_calls_not_answered_before_the_connection_dies_are_unknown(void **state)
{
    (void)state;
    struct script_call calls[3];
    /* The second reply breaks off: the script may have run, but its values are lost. */
    run_on_fake("*2\r\n:1\r\n:42\r\n*4\r\n:1\r\n", calls);
    EXPECT(calls[0], 1, 42);
    assert_int_equal(calls[1].result, REDIS_UNKNOWN);
    assert_int_equal(calls[1].value_count, 0);
    assert_int_equal(calls[1].values[0], 0);
    assert_int_equal(calls[2].result, REDIS_UNKNOWN);
}

static void test_calls_not_answered_in_time_are_unknown(void **state)
{
    (void)state;
    struct script_call calls[3];
    run_on_fake(NULL, calls);
    for (int i = 0; i < 3; i++)
        assert_int_equal(calls[i].result, REDIS_UNKNOWN);
}

static void test_refused_call_is_failed_though_the_connection_dies_later(void **state)
{
    (void)state;
    struct script_call calls[3];
    run_on_fake("-OOM command not allowed\r\n-ERR odd\r\n", calls);
    assert_int_equal(calls[0].result, REDIS_FAILED);
    assert_int_equal(calls[1].result, REDIS_FAILED);
    assert_int_equal(calls[2].result, REDIS_UNKNOWN);
}

/* The server may have run the call that such a reply seems to answer, so it is not failed. */
static void test_reply_that_no_script_gives_leaves_its_call_and_the_rest_unknown(void **state)
{
    (void)state;
    struct script_call calls[3];
    run_on_fake("-ERR x\r\n+QUEUED\r\n*1\r\n:1\r\n", calls);
    assert_int_equal(calls[0].result, REDIS_FAILED);
    assert_int_equal(calls[1].result, REDIS_UNKNOWN);
    assert_int_equal(calls[2].result, REDIS_UNKNOWN);
    run_on_fake("$-1\r\n*1\r\n:1\r\n", calls);
    for (int i = 0; i < 3; i++)
        assert_int_equal(calls[i].result, REDIS_UNKNOWN);
}

/* One number, or a text of them, where the caller keeps the room for the values. */
static void test_values_of_a_call_with_room_of_its_own_go_there(void **state)
{
    (void)state;
    static const char *const answers[] = {":7\r\n", "$5\r\n7 8 9\r\n", "*3\r\n:7\r\n:8\r\n:9\r\n"};
    static const char *const more[] = {"{s:0}"};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct fake_redis fake;
        struct redis *client = fake_redis_open(&fake, answers[i], 10000);
        int64_t values[3] = {-1, -1, -1};
        struct script_call call;
        script_begin(&call, SCRIPT_fence_raise);
        call.keys = 1;
        call.more = more;
        call.more_count = 1;
        call.more_values = values;
        call.more_values_max = 2;
        script_run(client, &call, 1);
        assert_int_equal(call.result, REDIS_ANSWERED);
        assert_int_equal(call.value_count, i == 0 ? 1 : 2);
        assert_int_equal(values[0], 7);
        assert_int_equal(values[1], i == 0 ? -1 : 8);
        assert_int_equal(values[2], -1);
        fake_redis_close(&fake, &client);
    }
}

static void test_forgotten_script_is_unknown_only_when_it_was_sent_again(void **state)
{
    (void)state;
    struct script_call calls[3];
    /* The client sees the end only after it has sent the first call again. */
    run_on_fake("-NOSCRIPT a\r\n-NOSCRIPT b\r\n-NOSCRIPT c\r\n", calls);
    assert_int_equal(calls[0].result, REDIS_UNKNOWN);
    assert_int_equal(calls[1].result, REDIS_FAILED);
    assert_int_equal(calls[2].result, REDIS_FAILED);
}

static void test_connection_is_made_again_for_the_next_pipeline(void **state)
{
    (void)state;
    lock_and_load();
    redis_server_do("CLIENT KILL TYPE normal");
    /* The server had closed before the call came: nothing was taken, but the client cannot know. */
    assert_int_equal(run(take("mine", 3, 4)).result, REDIS_UNKNOWN);
    EXPECT(run(segment_read()), 1, 10, 3, 0, 77);
    assert_int_equal(redis_stats(redis).connects, 2);
}

/* ---- one call on each of several servers ---- */

/* The reply that the line waits for was lost with it: the next one answers the next call. */
static void test_reply_owed_by_a_lost_connection_is_not_awaited(void **state)
{
    (void)state;
    struct script_line line = {.redis = redis};
    struct script_call call = fence_raise(7);
    run(fence_raise(7)); /* connects */
    redis_server_do("CLIENT PAUSE 100");
    script_run_each(&line, &call, 1, 0, 0);
    assert_int_equal(call.result, REDIS_UNKNOWN);
    redis_drop(redis);
    call = fence_raise(9);
    script_run_each(&line, &call, 1, 0, 10000);
    assert_int_equal(call.result, REDIS_ANSWERED);
    assert_int_equal(redis_server_do("GET " FENCE), 9);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        TEST(test_acquire_takes_a_free_lock_for_its_lease),
        TEST(test_acquire_is_busy_while_another_holds_it),
        TEST(test_acquire_sent_again_gives_the_first_answer),
        TEST(test_acquire_sent_again_without_its_fence_key_gives_a_greater_fence),
        TEST(test_acquire_succeeds_when_the_lease_ran_out),
        TEST(test_fence_grows_with_every_acquisition),
        TEST(test_fence_grows_though_its_key_is_ahead_of_the_clock),
        TEST(test_fence_grows_though_its_key_is_gone),
        TEST(test_release_by_its_holder_frees_the_lock),
        TEST(test_release_by_another_leaves_the_lock),
        TEST(test_release_sent_again_gives_the_first_answer),
        TEST(test_token_that_was_released_acquires_nothing),
        TEST(test_full_redis_settles_and_releases),
        TEST(test_call_that_tells_is_answered_for_itself),
        TEST(test_renew_by_its_holder_sets_the_whole_lease),
        TEST(test_renew_by_another_or_too_late_does_nothing),
        TEST(test_fence_raise_never_lowers),
        TEST(test_take_decrements_and_marks_the_round_open),
        TEST(test_take_of_more_than_there_is_takes_all),
        TEST(test_take_from_an_empty_segment_leaves_it_settled),
        TEST(test_take_is_busy_while_another_holds_the_lock),
        TEST(test_take_locks_for_its_lease_at_a_greater_fence),
        TEST(test_take_sent_again_keeps_its_fence_and_takes_nothing),
        TEST(test_take_from_an_open_round_is_dirty),
        TEST(test_take_of_another_round_is_dirty),
        TEST(test_take_from_a_missing_or_torn_segment_is_dirty),
        TEST(test_settle_ends_the_round_at_its_fence),
        TEST(test_settle_gives_units_back),
        TEST(test_settle_without_the_lock_is_lost),
        TEST(test_settle_of_a_round_that_is_not_open_is_lost),
        TEST(test_return_beside_a_holder_is_kept),
        TEST(test_refused_units_keep_a_holder_from_settling),
        TEST(test_return_is_to_the_fence_of_the_take),
        TEST(test_load_replaces_the_whole_segment),
        TEST(test_load_without_the_lock_is_lost),
        TEST(test_read_tells_a_missing_or_torn_segment),
        TEST(test_retire_removes_the_segment_for_its_holder_alone),
        TEST(test_pipeline_answers_each_call_in_order),
        TEST(test_joined_takes_and_settles_are_each_answered),
        TEST(test_joined_call_that_fails_leaves_the_others_theirs),
        TEST(test_full_redis_refuses_joined_takes_and_settles),
        TEST(test_joined_calls_that_the_server_forgot_are_sent_again),
        TEST(test_lost_or_odd_reply_is_all_joined_calls),
        TEST(test_scripts_that_the_server_forgot_are_sent_again),
        TEST(test_first_pipeline_of_a_connection_keeps_its_order),
        TEST(test_script_error_is_failed_and_the_rest_goes_on),
        TEST(test_calls_that_cannot_be_sent_are_failed),
        TEST(test_orders_above_the_burst_are_refused_and_told_when),
        TEST(test_value_is_cut_when_it_is_ahead_and_passed_over_when_it_is_none),
        TEST(test_values_are_kept_for_the_time_of_a_burst_and_then_dropped),
        TEST(test_hash_begun_by_a_clock_that_was_ahead_is_turned),
        TEST(test_calls_not_answered_before_the_connection_dies_are_unknown),
        TEST(test_calls_not_answered_in_time_are_unknown),
        TEST(test_refused_call_is_failed_though_the_connection_dies_later),
        TEST(test_reply_that_no_script_gives_leaves_its_call_and_the_rest_unknown),
        TEST(test_values_of_a_call_with_room_of_its_own_go_there),
        TEST(test_forgotten_script_is_unknown_only_when_it_was_sent_again),
        TEST(test_connection_is_made_again_for_the_next_pipeline),
        TEST(test_reply_owed_by_a_lost_connection_is_not_awaited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
