/* One suite for every kind of lock that one owner holds at a time: what lock.h promises of all. */
#include "lock/test_support.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

enum {
    REENTRANT = 1,
    FENCED = 2,
    LEASED = 4,      /* a lease is kept by the server to the millisecond */
    ON_REDIS = 8,    /* one Redis server, scripts or not */
    SCRIPTED = 16,   /* by scripts on Redis */
    TOLD = 32,       /* waits by publish and subscribe */
    FENCE_AGES = 64, /* its fence bears a server that went back in time */
};

struct subject {
    enum lock_kind kind;
    unsigned is;
    int limit; /* of semaphores */
};

static const struct subject subjects[] = {
    {LOCK_KIND_SIMPLE, FENCED | LEASED | ON_REDIS | SCRIPTED | TOLD | FENCE_AGES, 0},
    {LOCK_KIND_REENTRANT, REENTRANT | FENCED | LEASED | ON_REDIS | SCRIPTED | TOLD | FENCE_AGES, 0},
    {LOCK_KIND_TIMESTAMP, FENCED | LEASED | ON_REDIS | TOLD | FENCE_AGES, 0},
    {LOCK_KIND_SPIN, FENCED | LEASED | ON_REDIS | SCRIPTED | FENCE_AGES, 0},
    {LOCK_KIND_FAIR, REENTRANT | FENCED | LEASED | ON_REDIS | SCRIPTED | TOLD | FENCE_AGES, 0},
    {LOCK_KIND_READ_WRITE, REENTRANT | FENCED | LEASED | ON_REDIS | SCRIPTED | TOLD | FENCE_AGES,
     0},
    {LOCK_KIND_SEMAPHORE, FENCED | LEASED | ON_REDIS | SCRIPTED | TOLD | FENCE_AGES, 1},
    {LOCK_KIND_PERMIT, FENCED | LEASED | ON_REDIS | SCRIPTED | TOLD | FENCE_AGES, 1},
    {LOCK_KIND_RED, LEASED | SCRIPTED, 0},
    {LOCK_KIND_TABLE, REENTRANT | FENCED | LEASED, 0},
    {LOCK_KIND_GET_LOCK, REENTRANT, 0},
    {LOCK_KIND_QUEUE, REENTRANT | FENCED, 0},
};

/* Two processes' worth: `mine` and `other` know nothing of each other. */
static const struct subject *subject;
static struct lock_client *mine, *other;
static char name[LOCK_NAME_MAX];
static atomic_int losses;

static int begin(void **state)
{
    static int tests;
    subject = *state;
    mine = client_open(subject->kind, (struct lock_options){.now_ns = moved_now_ns});
    other = client_open(subject->kind, (struct lock_options){.now_ns = NULL});
    snprintf(name, sizeof name, "lock-%d", ++tests);
    losses = 0;
    return 0;
}

/* A test that failed half-way has left holds behind, which must not be closed away under. */
static void close_unless_in_use(struct lock_client **client)
{
    if (lock_client_stats(*client).watched == 0)
        lock_close(client);
}

static int end(void **state)
{
    (void)state;
    close_unless_in_use(&mine);
    close_unless_in_use(&other);
    clock_ahead_ns = 0;
    return 0;
}

static void count_loss(struct lock_handle *handle, void *context)
{
    assert_int_equal(lock_state(handle), LOCK_STATE_LOST);
    atomic_fetch_add((atomic_int *)context, 1);
}

static struct lock_request request(int wait_ms)
{
    return (struct lock_request){.name = name,
                                 .kind = subject->kind,
                                 .limit = subject->limit,
                                 .wait_ms = wait_ms,
                                 .on_lost = count_loss,
                                 .context = &losses};
}

static enum lock_result take(struct lock_client *client, int wait_ms, struct lock_handle **out)
{
    struct lock_request wanted = request(wait_ms);
    return lock_acquire(client, &wanted, out);
}

static void give(struct lock_handle **handle)
{
    assert_result(lock_release(*handle), LOCK_OK);
    lock_free(handle);
    assert_null(*handle);
}

static struct lock_status status(void)
{
    struct lock_status seen;
    assert_result(lock_status(other, subject->kind, name, &seen), LOCK_OK);
    return seen;
}

/* ---- acquire and release ---- */

static void test_excludes(void **state)
{
    (void)state;
    struct lock_handle *hold, *second = NULL;
    assert_result(take(mine, 0, &hold), LOCK_OK);
    assert_int_equal(lock_state(hold), LOCK_STATE_HELD);
    assert_string_equal(lock_name(hold), name);
    assert_int_equal(lock_hold_count(hold), 1);
    assert_in_range(lock_remaining_ms(hold), 1, LEASE_MS);
    assert_result(take(other, 0, &second), LOCK_BUSY);
    assert_null(second);
    give(&hold);
    assert_result(take(other, 0, &second), LOCK_OK);
    assert_result(take(mine, 0, &hold), LOCK_BUSY);
    give(&second);
    assert_int_equal(losses, 0);
}

static void test_waits_as_long_as_told(void **state)
{
    (void)state;
    struct lock_handle *hold, *second;
    assert_result(take(mine, 0, &hold), LOCK_OK);
    int64_t began_ms = now_ms();
    assert_result(take(other, 200, &second), LOCK_TIMEOUT);
    assert_in_range(now_ms() - began_ms, 199, 1200);
    give(&hold);
}

static void test_releases_once(void **state)
{
    (void)state;
    struct lock_handle *hold, *second;
    assert_result(take(mine, 0, &hold), LOCK_OK);
    assert_result(lock_release(hold), LOCK_OK);
    assert_int_equal(lock_state(hold), LOCK_STATE_RELEASED);
    assert_int_equal(lock_remaining_ms(hold), 0);
    assert_result(take(other, 0, &second), LOCK_OK);
    assert_result(lock_release(hold), LOCK_NOT_OWNER);
    assert_result(lock_renew(hold), LOCK_NOT_OWNER);
    lock_free(&hold);
    assert_result(lock_renew(second), LOCK_OK);
    give(&second);
}

/* The hold of who has lost it must not touch the one who has it now. */
static void test_former_holder_changes_nothing(void **state)
{
    (void)state;
    struct lock_handle *hold, *second;
    assert_result(take(mine, 0, &hold), LOCK_OK);
    assert_result(lock_break(other, subject->kind, name), LOCK_OK);
    assert_result(take(other, PATIENCE_MS, &second), LOCK_OK);
    assert_result(lock_renew(hold), LOCK_LOST);
    assert_int_equal(lock_state(hold), LOCK_STATE_LOST);
    assert_result(lock_release(hold), LOCK_LOST);
    assert_result(lock_release(hold), LOCK_NOT_OWNER);
    lock_free(&hold);
    assert_result(take(mine, 0, &hold), LOCK_BUSY);
    assert_int_equal(lock_state(second), LOCK_STATE_HELD);
    assert_result(lock_renew(second), LOCK_OK);
    give(&second);
}

/* A handle freed without release is one whose holder died: the lease ends it. */
static void test_abandoned_hold_ends(void **state)
{
    (void)state;
    struct lock_handle *hold, *second;
    struct lock_request wanted = request(0);
    wanted.lease_ms = 300;
    assert_result(lock_acquire(mine, &wanted, &hold), LOCK_OK);
    lock_free(&hold);
    int64_t began_ms = now_ms();
    assert_result(take(other, PATIENCE_MS, &second), LOCK_OK);
    if (subject->is & LEASED)
        assert_in_range(now_ms() - began_ms, 0, 300 + POLL_MS + 200);
    give(&second);
}

struct waiting {
    struct lock_client *client;
    pthread_t thread;
    int wait_ms, cancel_fd;
    enum lock_result result;
    struct lock_handle *handle;
    int64_t ended_ms;
};

static void *wait_thread(void *argument)
{
    struct waiting *waiting = argument;
    struct lock_request wanted = request(waiting->wait_ms);
    wanted.cancel_fd = waiting->cancel_fd;
    waiting->result = lock_acquire(waiting->client, &wanted, &waiting->handle);
    waiting->ended_ms = now_ms();
    return NULL;
}

static void wait_begin(struct waiting *waiting, struct lock_client *client, int wait_ms)
{
    uint64_t before = lock_client_stats(client).waits;
    waiting->client = client;
    waiting->wait_ms = wait_ms;
    assert_int_equal(pthread_create(&waiting->thread, NULL, wait_thread, waiting), 0);
    wait_for(lock_client_stats(client).waits > before);
    sleep_ms(20);
}

static void wait_end(struct waiting *waiting, enum lock_result wanted)
{
    pthread_join(waiting->thread, NULL);
    assert_int_equal(waiting->result, wanted);
    if (wanted == LOCK_OK) {
        assert_int_equal(lock_state(waiting->handle), LOCK_STATE_HELD);
        assert_result(lock_release(waiting->handle), LOCK_OK);
    }
    lock_free(&waiting->handle);
}

static void test_release_wakes_who_waits(void **state)
{
    (void)state;
    struct lock_handle *hold;
    struct waiting waiting = {.client = NULL};
    assert_result(take(mine, 0, &hold), LOCK_OK);
    wait_begin(&waiting, other, LOCK_FOREVER);
    int64_t released_ms = now_ms();
    give(&hold);
    wait_end(&waiting, LOCK_OK);
    assert_true(waiting.ended_ms - released_ms < 1000);
}

static void test_waiting_is_cancelled(void **state)
{
    (void)state;
    struct lock_handle *hold;
    struct waiting waiting = {.cancel_fd = eventfd(0, EFD_CLOEXEC)};
    uint64_t one = 1;
    assert_result(take(mine, 0, &hold), LOCK_OK);
    wait_begin(&waiting, other, LOCK_FOREVER);
    int64_t cancelled_ms = now_ms();
    assert_int_equal(write(waiting.cancel_fd, &one, sizeof one), sizeof one);
    wait_end(&waiting, LOCK_CANCELLED);
    assert_true(waiting.ended_ms - cancelled_ms < 1000);
    close(waiting.cancel_fd);
    give(&hold);
    assert_result(take(mine, 0, &hold), LOCK_OK); /* who gave up holds nobody up */
    give(&hold);
}

enum { THREADS = 4, TURNS = 10 };

struct crowd {
    struct lock_client *client;
    atomic_int *inside, *overlaps;
    int acquired;
};

static void *crowd_thread(void *argument)
{
    struct crowd *crowd = argument;
    for (int i = 0; i < TURNS; i++) {
        struct lock_handle *hold;
        if (take(crowd->client, PATIENCE_MS, &hold) != LOCK_OK)
            return NULL;
        if (atomic_fetch_add(crowd->inside, 1) != 0)
            atomic_fetch_add(crowd->overlaps, 1);
        sleep_ms(1);
        atomic_fetch_sub(crowd->inside, 1);
        if (lock_release(hold) == LOCK_OK)
            crowd->acquired++;
        lock_free(&hold);
    }
    return NULL;
}

static void test_crowd_goes_one_by_one(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    struct crowd crowds[THREADS];
    atomic_int inside = 0, overlaps = 0;
    for (int i = 0; i < THREADS; i++) {
        crowds[i] = (struct crowd){i % 2 ? mine : other, &inside, &overlaps, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_thread, &crowds[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(overlaps, 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(crowds[i].acquired, TURNS);
}

/* ---- owners ---- */

static void test_owner_enters_again(void **state)
{
    (void)state;
    struct lock_handle *first, *second, *third;
    struct lock_request wanted = request(0);
    wanted.lease_ms = 20000;
    assert_result(lock_acquire(mine, &wanted, &first), LOCK_OK);
    wanted.lease_ms = 500;
    if (!(subject->is & REENTRANT)) {
        assert_result(lock_acquire(mine, &wanted, &second), LOCK_BUSY);
        give(&first);
        return;
    }
    assert_result(lock_acquire(mine, &wanted, &second), LOCK_OK);
    assert_int_equal(lock_hold_count(second), 2);
    assert_int_equal(lock_fence(second), lock_fence(first));
    if (subject->is & LEASED) {
        assert_int_equal(status().count, 2);
        assert_in_range(status().remaining_ms, 15000, 20000);
        assert_result(lock_renew(second), LOCK_OK);
        assert_in_range(status().remaining_ms, 15000, 20000);
    }
    give(&first); /* in any order */
    assert_result(take(other, 0, &third), LOCK_BUSY);
    give(&second);
    assert_result(take(other, 0, &third), LOCK_OK);
    give(&third);
}

static void test_owners_are_apart_from_threads(void **state)
{
    (void)state;
    struct lock_handle *hold, *second = NULL;
    struct lock_owner *owner = lock_owner_new(mine);
    struct lock_request wanted = request(0);
    wanted.owner = owner;
    assert_result(lock_acquire(mine, &wanted, &hold), LOCK_OK);
    assert_result(take(mine, 0, &second), LOCK_BUSY); /* this thread is another owner */
    assert_result(lock_acquire(mine, &wanted, &second),
                  subject->is & REENTRANT ? LOCK_OK : LOCK_BUSY);
    if (second)
        give(&second);
    give(&hold);
    lock_owner_free(&owner);
}

/* ---- leases ---- */

static void test_watchdog_renews(void **state)
{
    (void)state;
    struct lock_handle *hold, *second;
    struct lock_request wanted = request(0);
    if (subject->kind == LOCK_KIND_PERMIT)
        return; /* of fixed lease */
    wanted.lease_ms = 400;
    assert_result(lock_acquire(mine, &wanted, &hold), LOCK_OK);
    for (int i = 0; i < 12; i++) {
        sleep_ms(100);
        assert_int_equal(lock_state(hold), LOCK_STATE_HELD);
        assert_result(take(other, 0, &second), LOCK_BUSY);
    }
    if (subject->is & LEASED)
        assert_in_range(lock_client_stats(mine).renewals, 6, 18);
    assert_int_equal(lock_client_stats(mine).watched, 1);
    assert_int_equal(losses, 0);
    give(&hold);
    assert_int_equal(lock_client_stats(mine).watched, 0);
}

static void test_fixed_lease_ends(void **state)
{
    (void)state;
    struct lock_handle *hold, *second;
    struct lock_request wanted = request(0);
    if (!(subject->is & LEASED))
        return; /* as long as its connection */
    wanted.lease_ms = 300;
    wanted.fixed_lease = true;
    assert_result(lock_acquire(mine, &wanted, &hold), LOCK_OK);
    assert_in_range(lock_remaining_ms(hold), 200, 300);
    int64_t began_ms = now_ms();
    assert_result(take(other, PATIENCE_MS, &second), LOCK_OK);
    assert_in_range(now_ms() - began_ms, 250, 300 + POLL_MS + 200);
    assert_int_equal(lock_state(hold), LOCK_STATE_LOST); /* before the other could have it */
    wait_for(losses == 1);
    assert_result(lock_release(hold), LOCK_LOST);
    lock_free(&hold);
    give(&second);
    assert_int_equal(losses, 1);
}

static void test_hold_is_renewed_up_to_a_time(void **state)
{
    (void)state;
    struct lock_handle *hold, *second;
    struct lock_request wanted = request(0);
    if (!(subject->is & LEASED) || subject->kind == LOCK_KIND_PERMIT)
        return;
    wanted.lease_ms = 300;
    wanted.hold_ms_max = 600;
    int64_t began_ms = now_ms();
    assert_result(lock_acquire(mine, &wanted, &hold), LOCK_OK);
    assert_result(take(other, PATIENCE_MS, &second), LOCK_OK);
    assert_in_range(now_ms() - began_ms, 600, 900 + POLL_MS + 200);
    wait_for(losses == 1);
    assert_int_equal(lock_state(hold), LOCK_STATE_LOST);
    lock_free(&hold);
    give(&second);
}

/* The process sleeps past its lease: what SIGSTOP, or a machine that is put aside, looks like. */
static void test_loss_by_time_is_told_once(void **state)
{
    (void)state;
    struct lock_handle *hold;
    assert_result(take(mine, 0, &hold), LOCK_OK);
    clock_ahead_ns = INT64_C(3600) * 1000000000;
    assert_int_equal(lock_state(hold), LOCK_STATE_LOST); /* at once, whoever asks */
    assert_int_equal(lock_remaining_ms(hold), 0);
    lock_poke(mine);
    wait_for(losses == 1);
    lock_poke(mine);
    sleep_ms(50);
    assert_result(lock_renew(hold), LOCK_LOST);
    assert_result(lock_release(hold), LOCK_LOST);
    assert_int_equal(losses, 1);
    assert_int_equal(lock_client_stats(mine).lost, 1);
    lock_free(&hold);
}

static void test_break_is_told_once(void **state)
{
    (void)state;
    struct lock_handle *hold;
    struct lock_request wanted = request(0);
    wanted.lease_ms = 300;
    assert_result(lock_break(other, subject->kind, name), LOCK_NOT_OWNER);
    assert_result(lock_acquire(mine, &wanted, &hold), LOCK_OK);
    assert_result(lock_break(other, subject->kind, name), LOCK_OK);
    wait_for(losses == 1);
    assert_int_equal(lock_state(hold), LOCK_STATE_LOST);
    assert_result(lock_break(other, subject->kind, name), LOCK_NOT_OWNER);
    sleep_ms(300);
    assert_int_equal(losses, 1);
    assert_result(lock_release(hold), LOCK_LOST);
    lock_free(&hold);
    assert_int_equal(losses, 1);
}

static void release_on_loss(struct lock_handle *handle, void *context)
{
    assert_result(lock_release(handle), LOCK_LOST);
    atomic_fetch_add((atomic_int *)context, 1);
}

static void test_loss_may_be_answered_by_a_release(void **state)
{
    (void)state;
    struct lock_handle *hold, *second;
    struct lock_request wanted = request(0);
    wanted.lease_ms = 300;
    wanted.on_lost = release_on_loss;
    assert_result(lock_acquire(mine, &wanted, &hold), LOCK_OK);
    assert_result(lock_break(other, subject->kind, name), LOCK_OK);
    assert_result(take(other, PATIENCE_MS, &second), LOCK_OK);
    wait_for(losses == 1);
    wait_for(lock_state(hold) == LOCK_STATE_RELEASED);
    assert_result(lock_release(hold), LOCK_NOT_OWNER);
    lock_free(&hold);
    give(&second); /* which that release left alone */
    assert_int_equal(losses, 1);
}

static void test_break_wakes_who_waits(void **state)
{
    (void)state;
    struct lock_handle *hold;
    struct waiting waiting = {.client = NULL};
    assert_result(take(mine, 0, &hold), LOCK_OK);
    wait_begin(&waiting, other, LOCK_FOREVER);
    int64_t broken_ms = now_ms();
    assert_result(lock_break(other, subject->kind, name), LOCK_OK);
    wait_end(&waiting, LOCK_OK);
    assert_true(waiting.ended_ms - broken_ms < 1000);
    assert_result(lock_release(hold), LOCK_LOST);
    lock_free(&hold);
}

/* ---- fences ---- */

static void test_fence_grows(void **state)
{
    (void)state;
    uint64_t last = 0;
    for (int i = 0; i < 10; i++) {
        struct lock_handle *hold;
        assert_result(take(i % 2 ? mine : other, 0, &hold), LOCK_OK);
        if (subject->is & FENCED)
            assert_true(lock_fence(hold) > last);
        else
            assert_int_equal(lock_fence(hold), 0);
        last = lock_fence(hold);
        give(&hold);
    }
}

/* A server that lost all, or was replaced by a copy that had missed the last writes. */
static void test_fence_grows_on_a_server_that_forgot(void **state)
{
    (void)state;
    struct lock_handle *hold;
    if (!(subject->is & FENCE_AGES))
        return;
    assert_result(take(mine, 0, &hold), LOCK_OK);
    uint64_t first = lock_fence(hold);
    redis_forget_all();
    lock_free(&hold);
    assert_result(take(mine, 0, &hold), LOCK_OK);
    uint64_t second = lock_fence(hold);
    assert_true(second > first);
    assert_int_equal(redis_each_key("if key:find(':fence') then n = n + 1 redis.call('SET', key, "
                                    "string.format('%.0f', redis.call('GET', key) - 5), "
                                    "'EX', 1000) else redis.call('DEL', key) end"),
                     1);
    lock_free(&hold);
    assert_result(take(mine, 0, &hold), LOCK_OK);
    assert_true(lock_fence(hold) > second);
    give(&hold);
}

static void table_query(const char *text)
{
    char error[128];
    struct db *db = db_open(servers.mysql, 2000, error, sizeof error);
    assert_non_null(db);
    assert_int_equal(db_query(db, text, strlen(text)), DB_OK);
    db_close(&db);
}

static void test_fence_grows_in_a_row_that_was_purged(void **state)
{
    (void)state;
    struct lock_handle *hold;
    char text[256];
    if (subject->kind != LOCK_KIND_TABLE)
        return;
    assert_result(take(mine, 0, &hold), LOCK_OK);
    uint64_t first = lock_fence(hold);
    snprintf(text, sizeof text, "DELETE FROM distributed_lock WHERE name='%s%s'", servers.prefix,
             name);
    table_query(text);
    assert_result(lock_release(hold), LOCK_LOST);
    lock_free(&hold);
    assert_result(take(other, 0, &hold), LOCK_OK);
    assert_true(lock_fence(hold) > first);
    give(&hold);
}

/* ---- for operators ---- */

static void test_status_tells(void **state)
{
    (void)state;
    struct lock_handle *hold;
    assert_false(status().held);
    assert_result(take(mine, 0, &hold), LOCK_OK);
    struct lock_status seen = status();
    assert_true(seen.held);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.fence, lock_fence(hold));
    if (subject->kind != LOCK_KIND_GET_LOCK)
        assert_string_equal(seen.holder, lock_token(hold));
    if (subject->is & LEASED)
        assert_in_range(seen.remaining_ms, LEASE_MS / 2, LEASE_MS);
    give(&hold);
    assert_false(status().held);
}

/* ---- servers that misbehave ---- */

static void flush_scripts(void)
{
    redis_number("SCRIPT", "FLUSH", NULL, NULL);
}

static void test_scripts_are_flushed(void **state)
{
    (void)state;
    struct lock_handle *hold, *second;
    if (!(subject->is & SCRIPTED))
        return;
    flush_scripts();
    assert_result(take(mine, 0, &hold), LOCK_OK);
    flush_scripts();
    assert_result(take(other, 0, &second), LOCK_BUSY);
    flush_scripts();
    assert_result(lock_renew(hold), LOCK_OK);
    flush_scripts();
    give(&hold);
    flush_scripts();
    assert_result(take(other, 0, &second), LOCK_OK);
    give(&second);
}

/* The message of the release goes to nobody: the waiter must find out by itself. */
static void test_subscriptions_are_killed(void **state)
{
    (void)state;
    struct lock_handle *hold;
    struct waiting waiting = {.client = NULL};
    if (!(subject->is & TOLD))
        return;
    assert_result(take(mine, 0, &hold), LOCK_OK);
    wait_begin(&waiting, other, LOCK_FOREVER);
    for (int i = 0; i < 3; i++) {
        redis_number("CLIENT", "KILL", "TYPE", "pubsub");
        sleep_ms(i * 30);
    }
    redis_number("CLIENT", "KILL", "TYPE", "pubsub");
    int64_t released_ms = now_ms();
    give(&hold);
    wait_end(&waiting, LOCK_OK);
    assert_true(waiting.ended_ms - released_ms < POLL_MS + 500);
}

static void test_connections_are_killed(void **state)
{
    (void)state;
    struct lock_handle *hold, *second;
    if (!(subject->is & ON_REDIS))
        return;
    assert_result(take(mine, 0, &hold), LOCK_OK);
    redis_number("CLIENT", "KILL", "TYPE", "normal");
    assert_result(lock_renew(hold), LOCK_OK);
    redis_number("CLIENT", "KILL", "TYPE", "normal");
    assert_result(take(other, 0, &second), LOCK_BUSY);
    redis_number("CLIENT", "KILL", "TYPE", "normal");
    assert_true(status().held);
    redis_number("CLIENT", "KILL", "TYPE", "normal");
    give(&hold);
}

static void test_no_server(void **state)
{
    (void)state;
    static const char *const nowhere[] = {"redis://127.0.0.1:1",     "redis://127.0.0.1:1/1",
                                          "redis://127.0.0.1:1/2",   "mysql://root@127.0.0.1:1/x",
                                          "zookeeper://127.0.0.1:1", NULL};
    struct lock_handle *hold;
    struct lock_client *client;
    struct lock_options options = {.servers = nowhere, .timeout_ms = 300, .outage_ms = 300};
    assert_result(lock_open(&options, &client), LOCK_OK);
    assert_result(take(client, 0, &hold), LOCK_FAILED);
    assert_null(hold);
    int64_t began_ms = now_ms();
    assert_result(take(client, LOCK_FOREVER, &hold), LOCK_FAILED);
    assert_in_range(now_ms() - began_ms, 300, 3000);
    assert_true(lock_error()[0] != '\0');
    lock_close(&client);
}

static void test_wrong_requests_are_refused(void **state)
{
    (void)state;
    struct lock_handle *hold;
    char longest[LOCK_NAME_MAX + 1];
    memset(longest, 'n', LOCK_NAME_MAX);
    longest[LOCK_NAME_MAX] = '\0';
    struct lock_request wanted = request(0);
    wanted.name = longest;
    assert_result(lock_acquire(mine, &wanted, &hold), LOCK_CONFIG);
    wanted.name = "";
    assert_result(lock_acquire(mine, &wanted, &hold), LOCK_CONFIG);
    wanted = request(-2);
    assert_result(lock_acquire(mine, &wanted, &hold), LOCK_CONFIG);
    wanted = request(0);
    wanted.lease_ms = LOCK_LEASE_MS_MIN - 1;
    assert_result(lock_acquire(mine, &wanted, &hold), LOCK_CONFIG);
    wanted = request(0);
    wanted.permits = 2;
    assert_result(lock_acquire(mine, &wanted, &hold),
                  subject->limit ? LOCK_CONFIG : LOCK_UNSUPPORTED);
    longest[LOCK_NAME_MAX - 1] = '\0';
    wanted = request(0);
    wanted.name = longest;
    assert_result(lock_acquire(mine, &wanted, &hold), LOCK_OK);
    give(&hold);
}

/* ---- fork ---- */

/* In the child; an exit status, 0 when all is as it should be. */
static int as_child(struct lock_handle *inherited, const char *parent_id)
{
    struct lock_handle *hold;
    alarm(3 * PATIENCE_MS / 1000); /* what a thread of the parent had locked stays so */
    if (lock_state(inherited) != LOCK_STATE_LOST)
        return 1;
    if (lock_release(inherited) != LOCK_NOT_OWNER)
        return 2;
    if (strcmp(lock_client_id(mine), parent_id) == 0)
        return 3;
    if (take(mine, 0, &hold) != LOCK_BUSY)
        return 4;
    if (take(mine, PATIENCE_MS, &hold) != LOCK_OK)
        return 5;
    if (lock_release(hold) != LOCK_OK)
        return 6;
    lock_free(&hold);
    lock_free(&inherited);
    return losses == 0 ? 0 : 7;
}

static void test_child_of_fork_holds_nothing(void **state)
{
    (void)state;
    struct lock_handle *hold;
    char id[LOCK_TOKEN_MAX];
    snprintf(id, sizeof id, "%s", lock_client_id(mine));
    assert_result(take(mine, 0, &hold), LOCK_OK);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(as_child(hold, id));
    sleep_ms(300);
    assert_int_equal(lock_state(hold), LOCK_STATE_HELD);
    assert_result(lock_renew(hold), LOCK_OK);
    give(&hold);
    int ended;
    while (waitpid(child, &ended, 0) < 0 && errno == EINTR)
        ;
    assert_int_equal(ended, 0);
    assert_result(take(mine, PATIENCE_MS, &hold), LOCK_OK);
    give(&hold);
}

/* ---- what stays behind ---- */

static void test_no_key_stays_for_ever(void **state)
{
    (void)state;
    struct lock_handle *hold, *second;
    assert_result(take(mine, 0, &hold), LOCK_OK);
    assert_result(take(other, 50, &second), LOCK_TIMEOUT);
    assert_int_equal(redis_each_key("if redis.call('PTTL', key) < 0 then n = n + 1 end"), 0);
    give(&hold);
    assert_int_equal(redis_each_key("if redis.call('PTTL', key) < 0 then n = n + 1 end"), 0);
    if (subject->is & ON_REDIS)
        assert_true(redis_each_key("n = n + 1") > 0);
}

/* ---- all of them ---- */

#define CASE(function)                                                                             \
    {                                                                                              \
#function + 5, function                                                                    \
    }

static const struct {
    const char *name;
    void (*function)(void **state);
} cases[] = {
    CASE(test_excludes),
    CASE(test_waits_as_long_as_told),
    CASE(test_releases_once),
    CASE(test_former_holder_changes_nothing),
    CASE(test_abandoned_hold_ends),
    CASE(test_release_wakes_who_waits),
    CASE(test_waiting_is_cancelled),
    CASE(test_crowd_goes_one_by_one),
    CASE(test_owner_enters_again),
    CASE(test_owners_are_apart_from_threads),
    CASE(test_watchdog_renews),
    CASE(test_fixed_lease_ends),
    CASE(test_hold_is_renewed_up_to_a_time),
    CASE(test_loss_by_time_is_told_once),
    CASE(test_break_is_told_once),
    CASE(test_loss_may_be_answered_by_a_release),
    CASE(test_break_wakes_who_waits),
    CASE(test_fence_grows),
    CASE(test_fence_grows_on_a_server_that_forgot),
    CASE(test_fence_grows_in_a_row_that_was_purged),
    CASE(test_status_tells),
    CASE(test_scripts_are_flushed),
    CASE(test_subscriptions_are_killed),
    CASE(test_connections_are_killed),
    CASE(test_no_server),
    CASE(test_wrong_requests_are_refused),
    CASE(test_child_of_fork_holds_nothing),
    CASE(test_no_key_stays_for_ever),
};

enum {
    SUBJECTS = sizeof subjects / sizeof subjects[0],
    CASES = sizeof cases / sizeof cases[0],
    TITLE_MAX = 80,
};

/* With an argument, only the tests whose title ("KIND: CASE") holds it. */
int main(int argc, char **argv)
{
    static char titles[SUBJECTS * CASES][TITLE_MAX];
    static struct CMUnitTest tests[SUBJECTS * CASES];
    size_t count = 0;
    if (!servers_open("conformance"))
        return 1;
    for (size_t i = 0; i < SUBJECTS; i++)
        for (size_t j = 0; j < CASES; j++) {
            snprintf(titles[count], TITLE_MAX, "%s: %s", lock_kind_name(subjects[i].kind),
                     cases[j].name);
            if ((argc > 1 && !strstr(titles[count], argv[1])) ||
                (subjects[i].kind == LOCK_KIND_QUEUE && servers.zookeeper[0] == '\0'))
                continue;
            tests[count] = (struct CMUnitTest){titles[count], cases[j].function, begin, end,
                                               (void *)(uintptr_t)&subjects[i]};
            count++;
        }
    int failed = _cmocka_run_group_tests("conformance", tests, count, NULL, NULL);
    redis_forget_all();
    redis_close(&servers.commands);
    return failed;
}
