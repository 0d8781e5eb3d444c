/* One suite for every kind of lock with one owner at a time: what seclock.h promises of them. */
#include "lock/test_support.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

enum {
    REENTRANT = 1,
    FENCED = 2,
    LEASED = 4,        /* a lease is kept by the server to the millisecond */
    ON_REDIS = 8,      /* one Redis server, scripts or not */
    SCRIPTED = 16,     /* by scripts on Redis */
    TOLD = 32,         /* waits by publish and subscribe */
    FENCE_AGES = 64,   /* its fence bears a server that went back in time */
    LAPSES = 128,      /* the server would keep a hold longer than its lease */
    TELLS_TAKEN = 256, /* a renewal learns that another holds it */
};

struct subject {
    enum seclock_kind kind;
    unsigned is;
    int limit; /* of semaphores */
};

static const struct subject subjects[] = {
    {SECLOCK_KIND_SIMPLE, FENCED | LEASED | ON_REDIS | SCRIPTED | TOLD | FENCE_AGES | TELLS_TAKEN,
     0},
    {SECLOCK_KIND_REENTRANT,
     REENTRANT | FENCED | LEASED | ON_REDIS | SCRIPTED | TOLD | FENCE_AGES | TELLS_TAKEN, 0},
    {SECLOCK_KIND_TIMESTAMP, FENCED | LEASED | ON_REDIS | TOLD | FENCE_AGES | TELLS_TAKEN, 0},
    {SECLOCK_KIND_SPIN, FENCED | LEASED | ON_REDIS | SCRIPTED | FENCE_AGES | TELLS_TAKEN, 0},
    {SECLOCK_KIND_FAIR,
     REENTRANT | FENCED | LEASED | ON_REDIS | SCRIPTED | TOLD | FENCE_AGES | TELLS_TAKEN, 0},
    {SECLOCK_KIND_READ_WRITE,
     REENTRANT | FENCED | LEASED | ON_REDIS | SCRIPTED | TOLD | FENCE_AGES | TELLS_TAKEN, 0},
    {SECLOCK_KIND_SEMAPHORE, FENCED | LEASED | ON_REDIS | SCRIPTED | TOLD | FENCE_AGES, 1},
    {SECLOCK_KIND_PERMIT, FENCED | LEASED | ON_REDIS | SCRIPTED | TOLD | FENCE_AGES, 1},
    {SECLOCK_KIND_RED, LEASED | SCRIPTED, 0},
    {SECLOCK_KIND_TABLE, REENTRANT | FENCED | LEASED, 0},
    {SECLOCK_KIND_GET_LOCK, 0, 0},
    {SECLOCK_KIND_QUEUE, REENTRANT | FENCED | LAPSES, 0},
    {SECLOCK_KIND_ETCD, FENCED | LAPSES, 0},
};

/* Two processes' worth: `mine` and `other` know nothing of each other. */
static const struct subject *subject;
static struct seclock_client *mine, *other;
static char name[SECLOCK_NAME_MAX];
static atomic_int losses;

static int begin(void **state)
{
    static int tests;
    subject = *state;
    mine = client_open(subject->kind, SECLOCK_OPTIONS(.now_ns = moved_now_ns));
    other = client_open(subject->kind, SECLOCK_OPTIONS(.now_ns = NULL));
    snprintf(name, sizeof name, "lock-%d", ++tests);
    losses = 0;
    return 0;
}

/* A test that failed half-way has left holds behind, which must not be closed away under. */
static void close_unless_in_use(struct seclock_client **client)
{
    if (stats_of(*client).watched == 0)
        seclock_close(client);
}

static int end(void **state)
{
    (void)state;
    if (redis_is_full)
        redis_fill_up(false);
    close_unless_in_use(&mine);
    close_unless_in_use(&other);
    clock_ahead_ns = 0;
    return 0;
}

static void count_loss(struct seclock_handle *handle, void *context)
{
    enum seclock_state state = seclock_state(handle);
    /* The test's thread may have released it since the loop's thread took the event. */
    assert_true(state == SECLOCK_STATE_LOST || (IN_LOOP && state == SECLOCK_STATE_RELEASED));
    atomic_fetch_add((atomic_int *)context, 1);
}

static struct seclock_request request(int wait_ms)
{
    return SECLOCK_REQUEST(.name = name, .kind = subject->kind, .limit = subject->limit,
                           .wait_ms = wait_ms, .on_lost = count_loss, .context = &losses);
}

static enum seclock_result take(struct seclock_client *client, int wait_ms,
                                struct seclock_handle **out)
{
    struct seclock_request wanted = request(wait_ms);
    return seclock_acquire(client, &wanted, out);
}

static void give(struct seclock_handle **handle)
{
    assert_result(seclock_release(*handle), SECLOCK_OK);
    seclock_free(handle);
    assert_null(*handle);
}

static struct seclock_status status(void)
{
    struct seclock_status seen = SECLOCK_STATUS();
    assert_result(seclock_status(other, subject->kind, name, &seen), SECLOCK_OK);
    return seen;
}

/* ---- acquire and release ---- */

static void test_excludes(void **state)
{
    (void)state;
    struct seclock_handle *hold, *second = NULL;
    assert_result(take(mine, 0, &hold), SECLOCK_OK);
    assert_int_equal(seclock_state(hold), SECLOCK_STATE_HELD);
    assert_string_equal(seclock_name(hold), name);
    assert_int_equal(seclock_hold_count(hold), 1);
    assert_int_in_range(seclock_remaining_ms(hold), 1, LEASE_MS);
    assert_result(take(other, 0, &second), SECLOCK_BUSY);
    assert_null(second);
    give(&hold);
    assert_result(take(other, 0, &second), SECLOCK_OK);
    assert_result(take(mine, 0, &hold), SECLOCK_BUSY);
    give(&second);
    assert_int_equal(losses, 0);
}

static void test_waits_as_long_as_told(void **state)
{
    (void)state;
    struct seclock_handle *hold, *second;
    assert_result(take(mine, 0, &hold), SECLOCK_OK);
    int64_t began_ms = now_ms();
    assert_result(take(other, 200, &second), SECLOCK_TIMEOUT);
    assert_int_in_range(now_ms() - began_ms, 199, 200 + SLACK_MS);
    give(&hold);
}

static void test_releases_once(void **state)
{
    (void)state;
    struct seclock_handle *hold, *second;
    assert_result(take(mine, 0, &hold), SECLOCK_OK);
    assert_result(seclock_release(hold), SECLOCK_OK);
    assert_int_equal(seclock_state(hold), SECLOCK_STATE_RELEASED);
    assert_int_equal(seclock_remaining_ms(hold), 0);
    assert_result(take(other, 0, &second), SECLOCK_OK);
    assert_result(seclock_release(hold), SECLOCK_NOT_OWNER);
    assert_result(seclock_renew(hold), SECLOCK_NOT_OWNER);
    seclock_free(&hold);
    assert_result(seclock_renew(second), SECLOCK_OK);
    give(&second);
}

/* The hold of who has lost it must not touch the one who has it now. */
static void test_former_holder_changes_nothing(void **state)
{
    (void)state;
    struct seclock_handle *hold, *second;
    assert_result(take(mine, 0, &hold), SECLOCK_OK);
    assert_result(seclock_break(other, subject->kind, name), SECLOCK_OK);
    assert_result(take(other, PATIENCE_MS, &second), SECLOCK_OK);
    assert_result(seclock_renew(hold), SECLOCK_LOST);
    assert_int_equal(seclock_state(hold), SECLOCK_STATE_LOST);
    assert_result(seclock_release(hold), SECLOCK_LOST);
    assert_result(seclock_release(hold), SECLOCK_NOT_OWNER);
    seclock_free(&hold);
    assert_result(take(mine, 0, &hold), SECLOCK_BUSY);
    assert_int_equal(seclock_state(second), SECLOCK_STATE_HELD);
    assert_result(seclock_renew(second), SECLOCK_OK);
    give(&second);
}

/* A handle freed without release is one whose holder died: the lease ends it. */
static void test_abandoned_hold_ends(void **state)
{
    (void)state;
    struct seclock_handle *hold, *second;
    struct seclock_request wanted = request(0);
    wanted.lease_ms = 300;
    assert_result(acquire_in_time(mine, &wanted, &hold), SECLOCK_OK);
    seclock_free(&hold);
    int64_t began_ms = now_ms();
    assert_result(take(other, PATIENCE_MS, &second), SECLOCK_OK);
    if (subject->is & LEASED)
        assert_int_in_range(now_ms() - began_ms, 0, 300 + POLL_MS + SLACK_MS);
    give(&second);
}

struct waiting {
    struct seclock_client *client;
    pthread_t thread;
    int wait_ms, cancel_fd;
    enum seclock_result result;
    struct seclock_handle *handle;
    int64_t ended_ms;
};

static void *wait_thread(void *argument)
{
    struct waiting *waiting = argument;
    struct seclock_request wanted = request(waiting->wait_ms);
    wanted.cancel_fd = waiting->cancel_fd;
    waiting->result = seclock_acquire(waiting->client, &wanted, &waiting->handle);
    waiting->ended_ms = now_ms();
    return NULL;
}

static void wait_begin(struct waiting *waiting, struct seclock_client *client, int wait_ms)
{
    uint64_t before = stats_of(client).waits;
    waiting->client = client;
    waiting->wait_ms = wait_ms;
    assert_int_equal(pthread_create(&waiting->thread, NULL, wait_thread, waiting), 0);
    wait_for(stats_of(client).waits > before);
    sleep_ms(20);
}

static void wait_end(struct waiting *waiting, enum seclock_result wanted)
{
    pthread_join(waiting->thread, NULL);
    assert_int_equal(waiting->result, wanted);
    if (wanted == SECLOCK_OK) {
        assert_int_equal(seclock_state(waiting->handle), SECLOCK_STATE_HELD);
        assert_result(seclock_release(waiting->handle), SECLOCK_OK);
    }
    seclock_free(&waiting->handle);
}

static void test_release_wakes_who_waits(void **state)
{
    (void)state;
    struct seclock_handle *hold;
    struct waiting waiting = {.client = NULL};
    assert_result(take(mine, 0, &hold), SECLOCK_OK);
    wait_begin(&waiting, other, SECLOCK_FOREVER);
    int64_t released_ms = now_ms();
    give(&hold);
    wait_end(&waiting, SECLOCK_OK);
    assert_true(waiting.ended_ms - released_ms < POLL_MS + SLACK_MS);
}

static void test_waiting_is_cancelled(void **state)
{
    (void)state;
    struct seclock_handle *hold;
    struct waiting waiting = {.cancel_fd = eventfd(0, EFD_CLOEXEC)};
    uint64_t one = 1;
    assert_result(take(mine, 0, &hold), SECLOCK_OK);
    wait_begin(&waiting, other, SECLOCK_FOREVER);
    int64_t cancelled_ms = now_ms();
    assert_int_equal(write(waiting.cancel_fd, &one, sizeof one), sizeof one);
    wait_end(&waiting, SECLOCK_CANCELLED);
    assert_true(waiting.ended_ms - cancelled_ms < SLACK_MS);
    close(waiting.cancel_fd);
    give(&hold);
    assert_result(take(mine, 0, &hold), SECLOCK_OK); /* who gave up holds nobody up */
    give(&hold);
}

enum { THREADS = 4, TURNS = 10 };

struct crowd {
    struct seclock_client *client;
    atomic_int *inside, *overlaps;
    int acquired;
};

static void *crowd_thread(void *argument)
{
    struct crowd *crowd = argument;
    for (int i = 0; i < TURNS; i++) {
        struct seclock_handle *hold;
        if (take(crowd->client, PATIENCE_MS, &hold) != SECLOCK_OK)
            return NULL;
        if (atomic_fetch_add(crowd->inside, 1) != 0)
            atomic_fetch_add(crowd->overlaps, 1);
        sleep_ms(1);
        atomic_fetch_sub(crowd->inside, 1);
        if (seclock_release(hold) == SECLOCK_OK)
            crowd->acquired++;
        seclock_free(&hold);
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
    struct seclock_handle *first, *second, *third;
    struct seclock_request wanted = request(0);
    wanted.lease_ms = 20000;
    assert_result(seclock_acquire(mine, &wanted, &first), SECLOCK_OK);
    wanted.lease_ms = 3000;
    if (!(subject->is & REENTRANT)) {
        assert_result(seclock_acquire(mine, &wanted, &second), SECLOCK_BUSY);
        give(&first);
        return;
    }
    assert_result(acquire_in_time(mine, &wanted, &second), SECLOCK_OK);
    assert_int_equal(seclock_hold_count(second), 2);
    assert_int_equal(seclock_fence(second), seclock_fence(first));
    if (subject->is & LEASED) {
        assert_int_equal(status().count, 2);
        assert_int_in_range(status().remaining_ms, 15000, 20000);
        assert_result(seclock_renew(second), SECLOCK_OK);
        assert_int_in_range(status().remaining_ms, 15000, 20000);
    }
    give(&first); /* in any order */
    assert_result(take(other, 0, &third), SECLOCK_BUSY);
    give(&second);
    assert_result(take(other, 0, &third), SECLOCK_OK);
    give(&third);
}

/* Two holds of one owner: a brief one, which ends as told, and one of a long lease. */
struct unequal {
    bool brief_first, fixed;
    int hold_ms_max;
    struct seclock_handle *brief, *lasting;
    char name[SECLOCK_NAME_MAX];
};

enum { BRIEF_MS = 900, LASTING_MS = 30000 };

static void enter_unequally(struct unequal *unequal)
{
    struct seclock_request brief = request(PATIENCE_MS), lasting = request(PATIENCE_MS);
    brief.name = lasting.name = unequal->name;
    brief.lease_ms = BRIEF_MS;
    brief.fixed_lease = unequal->fixed;
    brief.hold_ms_max = unequal->hold_ms_max;
    lasting.lease_ms = LASTING_MS;
    if (unequal->brief_first)
        assert_result(seclock_acquire(mine, &brief, &unequal->brief), SECLOCK_OK);
    assert_result(seclock_acquire(mine, &lasting, &unequal->lasting), SECLOCK_OK);
    if (!unequal->brief_first)
        assert_result(seclock_acquire(mine, &brief, &unequal->brief), SECLOCK_OK);
    if (!unequal->fixed && unequal->hold_ms_max == 0)
        seclock_release(unequal->brief); /* SECLOCK_LOST on a machine that stood still */
}

/* Only the long lease keeps the lock, and does so after the short one would have ended. */
static void test_owner_has_unequal_leases(void **state)
{
    (void)state;
    struct unequal all[] = {
        {.brief_first = true},
        {.brief_first = true, .fixed = true},
        {.brief_first = false},
        {.brief_first = true, .hold_ms_max = BRIEF_MS},
    };
    enum { ALL = sizeof all / sizeof all[0] };
    struct seclock_handle *second;
    if (!(subject->is & REENTRANT))
        return;
    for (size_t i = 0; i < ALL; i++) {
        snprintf(all[i].name, sizeof all[i].name, "%.80s-%zu", name, i);
        enter_unequally(&all[i]);
    }
    int64_t until_ms = now_ms() + 3 * BRIEF_MS;
    while (now_ms() < until_ms) {
        struct seclock_request wanted = request(0);
        for (size_t i = 0; i < ALL; i++) {
            wanted.name = all[i].name;
            assert_result(seclock_acquire(other, &wanted, &second), SECLOCK_BUSY);
            assert_int_equal(seclock_state(all[i].lasting), SECLOCK_STATE_HELD);
        }
        sleep_ms(50);
    }
    for (size_t i = 0; i < ALL; i++) {
        give(&all[i].lasting);
        seclock_free(&all[i].brief);
    }
}

static void test_owners_are_apart_from_threads(void **state)
{
    (void)state;
    struct seclock_handle *hold, *second = NULL;
    struct seclock_owner *owner = seclock_owner_new(mine);
    struct seclock_request wanted = request(0);
    wanted.owner = owner;
    assert_result(seclock_acquire(mine, &wanted, &hold), SECLOCK_OK);
    assert_result(take(mine, 0, &second), SECLOCK_BUSY); /* this thread is another owner */
    assert_result(seclock_acquire(mine, &wanted, &second),
                  subject->is & REENTRANT ? SECLOCK_OK : SECLOCK_BUSY);
    if (second)
        give(&second);
    give(&hold);
    seclock_owner_free(&owner);
}

static void *share_thread(void *argument)
{
    struct seclock_request wanted = request(PATIENCE_MS);
    wanted.owner = argument;
    for (int i = 0; i < 40 * TURNS; i++) {
        struct seclock_handle *hold;
        enum seclock_result result = seclock_acquire(mine, &wanted, &hold);
        if (result == SECLOCK_OK && seclock_state(hold) != SECLOCK_STATE_HELD)
            return "acquired, and not held";
        if (result == SECLOCK_OK)
            result = seclock_release(hold);
        seclock_free(&hold);
        if (result != SECLOCK_OK)
            return (void *)(uintptr_t)seclock_result_name(result);
    }
    return NULL;
}

/* One of them often releases what the others have just entered again. */
static void test_owner_is_shared_by_threads(void **state)
{
    (void)state;
    pthread_t threads[2]; /* more would hardly ever all have let go */
    void *failed[2] = {NULL};
    struct seclock_owner *owner = seclock_owner_new(mine);
    if (subject->is & REENTRANT) {
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, share_thread, owner), 0);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], &failed[i]);
        for (int i = 0; i < 2; i++)
            if (failed[i])
                fail_msg("%s", (char *)failed[i]);
        assert_false(status().held);
    }
    seclock_owner_free(&owner);
}

/* ---- leases ---- */

static void test_watchdog_renews(void **state)
{
    (void)state;
    struct seclock_handle *hold, *second;
    struct seclock_request wanted = request(0);
    if (subject->kind == SECLOCK_KIND_PERMIT)
        return; /* of fixed lease */
    wanted.lease_ms = 8000;
    int64_t began_ms = now_ms();
    assert_result(seclock_acquire(mine, &wanted, &hold), SECLOCK_OK);
    for (int i = 0; i < 100; i++) {
        sleep_ms(100);
        assert_int_equal(seclock_state(hold), SECLOCK_STATE_HELD);
        assert_result(take(other, 0, &second), SECLOCK_BUSY);
    }
    if (subject->is & LEASED)
        assert_int_in_range(stats_of(mine).renewals, 2, 3 + 2 * (now_ms() - began_ms) / 2600);
    assert_int_equal(stats_of(mine).watched, 1);
    assert_int_equal(losses, 0);
    give(&hold);
    assert_int_equal(stats_of(mine).watched, 0);
}

static void test_fixed_lease_ends(void **state)
{
    (void)state;
    struct seclock_handle *hold, *second;
    struct seclock_request wanted = request(0);
    if (!(subject->is & (LEASED | LAPSES)))
        return; /* as long as its connection */
    wanted.lease_ms = 300;
    wanted.fixed_lease = true;
    int64_t began_ms = now_ms();
    assert_result(acquire_in_time(mine, &wanted, &hold), SECLOCK_OK);
    assert_int_in_range(seclock_remaining_ms(hold), 0, 300);
    assert_result(take(other, PATIENCE_MS, &second), SECLOCK_OK);
    assert_int_in_range(now_ms() - began_ms, 290, 300 + POLL_MS + SLACK_MS);
    assert_int_equal(seclock_state(hold), SECLOCK_STATE_LOST); /* before the other could have it */
    wait_for(losses == 1);
    assert_int_equal(seclock_loss(hold), SECLOCK_LOSS_ENDED);
    assert_result(seclock_release(hold), SECLOCK_LOST);
    assert_int_equal(seclock_loss(hold), SECLOCK_LOSS_ENDED);
    seclock_free(&hold);
    give(&second);
    assert_int_equal(losses, 1);
}

/* Nobody asks for a notice, renews or releases: but others wait. */
static void test_fixed_lease_ends_without_notice(void **state)
{
    (void)state;
    struct seclock_handle *hold, *again, *second;
    struct seclock_request wanted = SECLOCK_REQUEST(.name = name, .kind = subject->kind,
                                                    .limit = subject->limit, .fixed_lease = true);
    if (!(subject->is & (LEASED | LAPSES)))
        return;
    wanted.lease_ms = 600;
    assert_result(acquire_in_time(mine, &wanted, &hold), SECLOCK_OK);
    wanted.lease_ms = 2000;
    enum seclock_result reentry = seclock_acquire(mine, &wanted, &again);
    assert_int_equal(reentry == SECLOCK_OK, (subject->is & REENTRANT) != 0);
    sleep_ms(700);
    assert_int_equal(seclock_state(hold), SECLOCK_STATE_LOST);
    if (again)
        assert_result(take(other, 0, &second), SECLOCK_BUSY);
    if (again && (subject->is & LAPSES)) /* the lost hold keeps nobody out */
        assert_result(seclock_release(again), SECLOCK_OK);
    int64_t began_ms = now_ms();
    assert_result(take(other, PATIENCE_MS, &second), SECLOCK_OK);
    assert_true(now_ms() - began_ms < 1300 + POLL_MS + SLACK_MS);
    assert_result(seclock_release(hold), SECLOCK_LOST);
    seclock_free(&hold);
    seclock_free(&again);
    give(&second);
}

static void test_hold_is_renewed_up_to_a_time(void **state)
{
    (void)state;
    struct seclock_handle *hold, *second;
    struct seclock_request wanted = request(0);
    if (!(subject->is & (LEASED | LAPSES)) || subject->kind == SECLOCK_KIND_PERMIT)
        return;
    wanted.lease_ms = 1000;
    wanted.hold_ms_max = 1500;
    enum seclock_loss loss = SECLOCK_LOSS_NONE;
    for (int tries = 0; tries < 5 && loss != SECLOCK_LOSS_ENDED; tries++) {
        losses = 0;
        int64_t asked_ms = now_ms();
        assert_result(acquire_in_time(mine, &wanted, &hold), SECLOCK_OK);
        int64_t began_ms = now_ms();
        assert_result(take(other, PATIENCE_MS, &second), SECLOCK_OK);
        int64_t ended_ms = now_ms();
        wait_for(losses == 1);
        assert_int_equal(seclock_state(hold), SECLOCK_STATE_LOST);
        loss = seclock_loss(hold); /* on a slow machine it may be that no renewal came in time */
        if (loss == SECLOCK_LOSS_ENDED) {
            assert_true(ended_ms - asked_ms >= 1490);
            assert_true(ended_ms - began_ms <= 2500 + POLL_MS + SLACK_MS);
        }
        seclock_free(&hold);
        give(&second);
    }
    assert_int_equal(loss, SECLOCK_LOSS_ENDED);
}

/* The process sleeps past its lease: what SIGSTOP, or a machine that is put aside, looks like. */
static void test_loss_by_time_is_told_once(void **state)
{
    (void)state;
    struct seclock_handle *hold;
    assert_result(take(mine, 0, &hold), SECLOCK_OK);
    assert_int_equal(seclock_loss(hold), SECLOCK_LOSS_NONE);
    clock_ahead_ns = INT64_C(3600) * 1000000000;
    assert_int_equal(seclock_state(hold), SECLOCK_STATE_LOST); /* at once, whoever asks */
    assert_int_equal(seclock_loss(hold), subject->kind == SECLOCK_KIND_PERMIT
                                             ? SECLOCK_LOSS_ENDED
                                             : SECLOCK_LOSS_UNANSWERED);
    assert_int_equal(seclock_remaining_ms(hold), 0);
    seclock_poke(mine);
    wait_for(losses == 1);
    seclock_poke(mine);
    sleep_ms(50);
    assert_result(seclock_renew(hold), SECLOCK_LOST);
    assert_result(seclock_release(hold), SECLOCK_LOST);
    assert_int_equal(losses, 1);
    assert_int_equal(stats_of(mine).lost, 1);
    seclock_free(&hold);
}

/* The server says yes, but what it gave has ended: that is no acquisition, and is given back. */
static void test_answer_after_the_lease_acquires_nothing(void **state)
{
    (void)state;
    struct seclock_handle *hold, *second;
    int late = 0;
    for (int looks = 1; looks <= 8; looks++) {
        looks_until_jump = looks;
        enum seclock_result result = take(mine, 0, &hold);
        looks_until_jump = 0;
        if (result == SECLOCK_FAILED)
            late++;
        else if (seclock_state(hold) == SECLOCK_STATE_HELD)
            give(&hold);
        else { /* the hour passed after it had been acquired */
            assert_result(seclock_release(hold), SECLOCK_LOST);
            seclock_free(&hold);
        }
        assert_result(take(other, 0, &second), SECLOCK_OK);
        give(&second);
    }
    assert_true(late > 0);
    assert_int_equal(stats_of(mine).watched, 0);
}

static void test_break_is_told_once(void **state)
{
    (void)state;
    struct seclock_handle *hold;
    struct seclock_request wanted = request(0);
    wanted.lease_ms = 1000;
    assert_result(seclock_break(other, subject->kind, name), SECLOCK_NOT_OWNER);
    assert_result(acquire_in_time(mine, &wanted, &hold), SECLOCK_OK);
    assert_result(seclock_break(other, subject->kind, name), SECLOCK_OK);
    wait_for(losses == 1);
    assert_int_equal(seclock_state(hold), SECLOCK_STATE_LOST);
    assert_result(seclock_break(other, subject->kind, name), SECLOCK_NOT_OWNER);
    sleep_ms(1000); /* further renewals would be due, and the lease is over */
    assert_int_equal(losses, 1);
    assert_result(seclock_release(hold), SECLOCK_LOST);
    seclock_free(&hold);
    assert_int_equal(losses, 1);
}

/* A renewal finds the lock free, or another's where the server tells. */
static void test_reason_of_a_loss_is_told(void **state)
{
    (void)state;
    bool taken = subject->is & TELLS_TAKEN;
    struct seclock_handle *hold, *second = NULL;
    for (int i = 0; i <= taken; i++) {
        assert_result(take(mine, 0, &hold), SECLOCK_OK);
        assert_result(seclock_break(other, subject->kind, name), SECLOCK_OK);
        if (i == 1)
            assert_result(take(other, 0, &second), SECLOCK_OK);
        assert_result(seclock_renew(hold), SECLOCK_LOST);
        assert_int_equal(seclock_loss(hold), i == 1 ? SECLOCK_LOSS_TAKEN
                                             : subject->kind == SECLOCK_KIND_GET_LOCK
                                                 ? SECLOCK_LOSS_SESSION
                                                 : SECLOCK_LOSS_FORGOTTEN);
        seclock_free(&hold);
    }
    if (second)
        give(&second);
}

static void release_on_loss(struct seclock_handle *handle, void *context)
{
    assert_result(seclock_release(handle), SECLOCK_LOST);
    atomic_fetch_add((atomic_int *)context, 1);
}

static void test_loss_may_be_answered_by_a_release(void **state)
{
    (void)state;
    struct seclock_handle *hold, *second;
    struct seclock_request wanted = request(0);
    wanted.lease_ms = 1000;
    wanted.on_lost = release_on_loss;
    assert_result(acquire_in_time(mine, &wanted, &hold), SECLOCK_OK);
    assert_result(seclock_break(other, subject->kind, name), SECLOCK_OK);
    assert_result(take(other, PATIENCE_MS, &second), SECLOCK_OK);
    wait_for(losses == 1);
    wait_for(seclock_state(hold) == SECLOCK_STATE_RELEASED);
    assert_result(seclock_release(hold), SECLOCK_NOT_OWNER);
    seclock_free(&hold);
    give(&second); /* which that release left alone */
    assert_int_equal(losses, 1);
}

struct slow_loss {
    atomic_int *losses;
    _Atomic bool entered, owner_releases;
};

static void release_slowly(struct seclock_handle *handle, void *context)
{
    struct slow_loss *loss = context;
    loss->entered = true;
    wait_for(loss->owner_releases);
    sleep_ms(50); /* mostly it waits for this release by then */
    assert_result(seclock_release(handle), SECLOCK_LOST);
    atomic_fetch_add(loss->losses, 1);
}

/* The server still has the hold, and says yes to each of the two. In a loop there is no on_lost
 * that could release at the same time. */
static void test_no_release_of_a_lost_hold_says_ok(void **state)
{
    (void)state;
    struct seclock_handle *hold;
    struct slow_loss loss = {.losses = &losses};
    struct seclock_request wanted = request(0);
    wanted.on_lost = release_slowly;
    wanted.context = &loss;
    assert_result(seclock_acquire(mine, &wanted, &hold), SECLOCK_OK);
    clock_ahead_ns = INT64_C(3600) * 1000000000;
    seclock_poke(mine);
    wait_for(loss.entered);
    loss.owner_releases = true;
    enum seclock_result result = seclock_release(hold);
    assert_true(result == SECLOCK_LOST || result == SECLOCK_NOT_OWNER); /* a moment after it */
    wait_for(losses == 1);
    assert_int_equal(seclock_state(hold), SECLOCK_STATE_RELEASED);
    seclock_free(&hold);
}

static void test_break_wakes_who_waits(void **state)
{
    (void)state;
    struct seclock_handle *hold;
    struct waiting waiting = {.client = NULL};
    assert_result(take(mine, 0, &hold), SECLOCK_OK);
    wait_begin(&waiting, other, SECLOCK_FOREVER);
    int64_t broken_ms = now_ms();
    assert_result(seclock_break(other, subject->kind, name), SECLOCK_OK);
    wait_end(&waiting, SECLOCK_OK);
    assert_true(waiting.ended_ms - broken_ms < POLL_MS + SLACK_MS);
    assert_result(seclock_release(hold), SECLOCK_LOST);
    seclock_free(&hold);
}

/* ---- fences ---- */

static void test_fence_grows(void **state)
{
    (void)state;
    uint64_t last = 0;
    for (int i = 0; i < 10; i++) {
        struct seclock_handle *hold;
        assert_result(take(i % 2 ? mine : other, 0, &hold), SECLOCK_OK);
        if (subject->is & FENCED)
            assert_true(seclock_fence(hold) > last);
        else
            assert_int_equal(seclock_fence(hold), 0);
        last = seclock_fence(hold);
        give(&hold);
    }
}

/* A server that lost all, or was replaced by a copy that had missed the last writes. */
static void test_fence_grows_on_a_server_that_forgot(void **state)
{
    (void)state;
    struct seclock_handle *hold;
    if (!(subject->is & FENCE_AGES))
        return;
    assert_result(take(mine, 0, &hold), SECLOCK_OK);
    uint64_t first = seclock_fence(hold);
    redis_forget_all();
    seclock_free(&hold);
    assert_result(take(mine, 0, &hold), SECLOCK_OK);
    uint64_t second = seclock_fence(hold);
    assert_true(second > first);
    assert_int_equal(redis_each_key("if key:find(':fence') then n = n + 1 redis.call('SET', key, "
                                    "string.format('%.0f', redis.call('GET', key) - 5), "
                                    "'EX', 1000) else redis.call('DEL', key) end"),
                     1);
    seclock_free(&hold);
    assert_result(take(mine, 0, &hold), SECLOCK_OK);
    assert_true(seclock_fence(hold) > second);
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
    struct seclock_handle *hold;
    char text[256];
    if (subject->kind != SECLOCK_KIND_TABLE)
        return;
    assert_result(take(mine, 0, &hold), SECLOCK_OK);
    uint64_t first = seclock_fence(hold);
    snprintf(text, sizeof text, "DELETE FROM distributed_lock WHERE name=CONCAT('%s',CHAR(0),'%s')",
             servers.prefix, name);
    table_query(text);
    assert_result(seclock_release(hold), SECLOCK_LOST);
    seclock_free(&hold);
    assert_result(take(other, 0, &hold), SECLOCK_OK);
    assert_true(seclock_fence(hold) > first);
    give(&hold);
}

/* ---- for operators ---- */

static void test_status_tells(void **state)
{
    (void)state;
    struct seclock_handle *hold;
    assert_false(status().held);
    assert_result(take(mine, 0, &hold), SECLOCK_OK);
    struct seclock_status seen = status();
    assert_true(seen.held);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.fence, seclock_fence(hold));
    if (subject->kind != SECLOCK_KIND_GET_LOCK)
        assert_string_equal(seen.holder, seclock_token(hold));
    if (subject->kind != SECLOCK_KIND_GET_LOCK)
        assert_int_equal(seen.holder_pid, getpid());
    else
        assert_int_equal(seen.holder_pid, 0);
    if (subject->is & LEASED)
        assert_int_in_range(seen.remaining_ms, LEASE_MS / 2, LEASE_MS);
    give(&hold);
    assert_false(status().held);
}

/* The reason is one of this call, not of the one before. */
#define assert_reason(call, expected, text)                                                        \
    do {                                                                                           \
        assert_result(seclock_release(NULL), SECLOCK_NOT_OWNER);                                   \
        assert_result(call, expected);                                                             \
        if (!strstr(seclock_error(), text))                                                        \
            fail_msg("%s: %s", #call, seclock_error());                                            \
    } while (0)

static void test_reasons_are_told(void **state)
{
    (void)state;
    struct seclock_handle *hold, *second;
    struct seclock_request wanted = request(SECLOCK_FOREVER);
    assert_result(take(mine, 0, &hold), SECLOCK_OK);
    assert_reason(take(other, 0, &second), SECLOCK_BUSY, "another");
    assert_reason(take(other, 30, &second), SECLOCK_TIMEOUT, "30 ms");
    wanted.cancel_fd = eventfd(1, EFD_CLOEXEC);
    assert_reason(seclock_acquire(other, &wanted, &second), SECLOCK_CANCELLED, "cancel");
    close(wanted.cancel_fd);
    assert_result(seclock_break(other, subject->kind, name), SECLOCK_OK);
    assert_reason(seclock_release(hold), SECLOCK_LOST, "broken");
    seclock_free(&hold);
}

/* ---- servers that misbehave ---- */

static void flush_scripts(void)
{
    redis_number("SCRIPT", "FLUSH", NULL, NULL);
}

static void test_scripts_are_flushed(void **state)
{
    (void)state;
    struct seclock_handle *hold, *second;
    if (!(subject->is & SCRIPTED))
        return;
    flush_scripts();
    assert_result(take(mine, 0, &hold), SECLOCK_OK);
    flush_scripts();
    assert_result(take(other, 0, &second), SECLOCK_BUSY);
    flush_scripts();
    assert_result(seclock_renew(hold), SECLOCK_OK);
    flush_scripts();
    give(&hold);
    flush_scripts();
    assert_result(take(other, 0, &second), SECLOCK_OK);
    give(&second);
}

enum { NAMES = 6 };

struct named_wait {
    struct seclock_client *client;
    struct seclock_request wanted;
    char name[sizeof name + 12];
    struct seclock_handle *hold, *handle;
    pthread_t thread;
    enum seclock_result result;
    int64_t ended_ms;
};

static void *named_wait_thread(void *argument)
{
    struct named_wait *wait = argument;
    wait->result = seclock_acquire(wait->client, &wait->wanted, &wait->handle);
    wait->ended_ms = now_ms();
    return NULL;
}

/* They share the client's subscribers: in a cluster, one at each node that has some of the locks.
 * */
static void test_message_wakes_the_waiter_of_its_lock(void **state)
{
    (void)state;
    if (!(subject->is & TOLD))
        return;
    struct named_wait waits[NAMES];
    struct seclock_client *patient =
        client_open(subject->kind, SECLOCK_OPTIONS(.poll_ms = 4 * PATIENCE_MS));
    for (int i = 0; i < NAMES; i++) {
        struct named_wait *wait = &waits[i];
        *wait = (struct named_wait){.client = patient, .wanted = request(0)};
        snprintf(wait->name, sizeof wait->name, "%s-%d", name, i);
        wait->wanted.name = wait->name;
        wait->wanted.lease_ms = 4 * PATIENCE_MS;
        assert_result(seclock_acquire(mine, &wait->wanted, &wait->hold), SECLOCK_OK);
        wait->wanted.wait_ms = SECLOCK_FOREVER;
        assert_int_equal(pthread_create(&wait->thread, NULL, named_wait_thread, wait), 0);
    }
    wait_for(stats_of(patient).waits >= NAMES);
    for (int i = NAMES - 1; i >= 0; i--) {
        int64_t released_ms = now_ms();
        give(&waits[i].hold);
        pthread_join(waits[i].thread, NULL);
        assert_int_equal(waits[i].result, SECLOCK_OK);
        assert_true(waits[i].ended_ms - released_ms < PATIENCE_MS);
        give(&waits[i].handle);
    }
    seclock_close(&patient);
}

/* The message of the release goes to nobody: the waiter must find out by itself. */
static void test_subscriptions_are_killed(void **state)
{
    (void)state;
    struct seclock_handle *hold;
    struct waiting waiting = {.client = NULL};
    if (!(subject->is & TOLD))
        return;
    assert_result(take(mine, 0, &hold), SECLOCK_OK);
    wait_begin(&waiting, other, SECLOCK_FOREVER);
    for (int i = 0; i < 3; i++) {
        redis_number("CLIENT", "KILL", "TYPE", "pubsub");
        sleep_ms(i * 30);
    }
    redis_number("CLIENT", "KILL", "TYPE", "pubsub");
    int64_t released_ms = now_ms();
    give(&hold);
    wait_end(&waiting, SECLOCK_OK);
    assert_true(waiting.ended_ms - released_ms < POLL_MS + SLACK_MS);
}

/* It takes no new locks, but keeps and ends those that there are. */
static void test_full_redis_renews_and_releases(void **state)
{
    (void)state;
    struct seclock_handle *hold, *again = NULL, *second;
    if (!(subject->is & (ON_REDIS | SCRIPTED)))
        return;
    assert_result(take(mine, 0, &hold), SECLOCK_OK);
    if (subject->is & REENTRANT)
        assert_result(take(mine, 0, &again), SECLOCK_OK);
    redis_fill_up(true);
    assert_int_not_equal(take(other, 0, &second),
                         SECLOCK_OK); /* busy, or failed for want of room */
    assert_result(seclock_renew(hold), SECLOCK_OK);
    give(&hold);
    if (again)
        give(&again);
    redis_fill_up(false);
    assert_result(take(other, 0, &second), SECLOCK_OK);
    redis_fill_up(true);
    assert_result(seclock_break(mine, subject->kind, name), SECLOCK_OK);
    assert_result(seclock_release(second), SECLOCK_LOST); /* which is kept as well */
    seclock_free(&second);
}

static void test_connections_are_killed(void **state)
{
    (void)state;
    struct seclock_handle *hold, *second;
    if (!(subject->is & ON_REDIS))
        return;
    assert_result(take(mine, 0, &hold), SECLOCK_OK);
    redis_number("CLIENT", "KILL", "TYPE", "normal");
    assert_result(seclock_renew(hold), SECLOCK_OK);
    redis_number("CLIENT", "KILL", "TYPE", "normal");
    assert_result(take(other, 0, &second), SECLOCK_BUSY);
    redis_number("CLIENT", "KILL", "TYPE", "normal");
    assert_true(status().held);
    redis_number("CLIENT", "KILL", "TYPE", "normal");
    give(&hold);
}

/* The program's signals are for its own threads. */
static void test_threads_of_the_library_take_no_signals(void **state)
{
    (void)state;
    struct seclock_handle *hold;
    assert_result(take(mine, 0, &hold), SECLOCK_OK);
    assert_int_equal(threads_open_to_signals(), 0);
    give(&hold);
}

static void test_no_server(void **state)
{
    (void)state;
    static const char *const nowhere[] = {"redis://127.0.0.1:1",
                                          "redis://127.0.0.1:1/1",
                                          "redis://127.0.0.1:1/2",
                                          "mysql://root@127.0.0.1:1/x",
                                          "zookeeper://127.0.0.1:1",
                                          "etcd://127.0.0.1:1",
                                          NULL};
    struct seclock_handle *hold;
    struct seclock_client *client;
    struct seclock_options options =
        SECLOCK_OPTIONS(.servers = nowhere, .timeout_ms = 300, .outage_ms = 300);
    assert_result(seclock_open(&options, &client), SECLOCK_OK);
    assert_result(take(client, 0, &hold), SECLOCK_FAILED);
    assert_null(hold);
    int64_t began_ms = now_ms();
    assert_result(take(client, SECLOCK_FOREVER, &hold), SECLOCK_FAILED);
    assert_int_in_range(now_ms() - began_ms, 300, 2 * SLACK_MS);
    assert_reason(take(client, 0, &hold), SECLOCK_FAILED, "127.0.0.1");
    seclock_close(&client);
}

static void test_wrong_requests_are_refused(void **state)
{
    (void)state;
    struct seclock_handle *hold;
    char longest[SECLOCK_NAME_MAX + 1];
    memset(longest, 'n', SECLOCK_NAME_MAX);
    longest[SECLOCK_NAME_MAX] = '\0';
    struct seclock_request wanted = request(0);
    wanted.name = longest;
    assert_result(seclock_acquire(mine, &wanted, &hold), SECLOCK_CONFIG);
    wanted.name = "";
    assert_result(seclock_acquire(mine, &wanted, &hold), SECLOCK_CONFIG);
    wanted = request(-2);
    assert_result(seclock_acquire(mine, &wanted, &hold), SECLOCK_CONFIG);
    wanted = request(0);
    wanted.lease_ms = SECLOCK_LEASE_MS_MIN - 1;
    assert_result(seclock_acquire(mine, &wanted, &hold), SECLOCK_CONFIG);
    wanted = request(0);
    wanted.permits = 2;
    assert_result(seclock_acquire(mine, &wanted, &hold),
                  subject->limit ? SECLOCK_CONFIG : SECLOCK_UNSUPPORTED);
    longest[SECLOCK_NAME_MAX - 1] = '\0';
    wanted = request(0);
    wanted.name = longest;
    assert_result(seclock_acquire(mine, &wanted, &hold), SECLOCK_OK);
    give(&hold);
}

/* Of bytes that a path cannot have, which take the most room. */
static void test_longest_prefix_and_name(void **state)
{
    (void)state;
    struct seclock_handle *hold, *second, *another;
    char prefix[SECLOCK_PREFIX_MAX], longest[SECLOCK_NAME_MAX];
    memcpy(prefix, servers.prefix, sizeof prefix);
    memset(servers.prefix + strlen(prefix), '/', SECLOCK_PREFIX_MAX - 1 - strlen(prefix));
    struct seclock_client *client = client_open(subject->kind, SECLOCK_OPTIONS(.now_ns = NULL));
    memcpy(servers.prefix, prefix, sizeof prefix);
    memset(longest, '/', SECLOCK_NAME_MAX - 1);
    longest[SECLOCK_NAME_MAX - 1] = '\0';
    struct seclock_request wanted = request(100);
    wanted.name = longest;
    assert_result(seclock_acquire(client, &wanted, &hold), SECLOCK_OK);
    wanted.owner = seclock_owner_new(client);
    assert_result(seclock_acquire(client, &wanted, &second), SECLOCK_TIMEOUT);
    longest[SECLOCK_NAME_MAX - 2] = 'x';
    assert_result(seclock_acquire(client, &wanted, &another), SECLOCK_OK);
    give(&another);
    assert_result(seclock_renew(hold), SECLOCK_OK);
    give(&hold);
    struct seclock_owner *owner = (struct seclock_owner *)(uintptr_t)wanted.owner;
    seclock_owner_free(&owner);
    seclock_close(&client);
}

/* The same bytes, but another lock. */
static void test_prefix_ends_where_the_name_begins(void **state)
{
    (void)state;
    struct seclock_handle *hold, *second;
    char longer[SECLOCK_NAME_MAX];
    snprintf(longer, sizeof longer, "x%.90s", name);
    struct seclock_request wanted = request(0);
    wanted.name = longer;
    assert_result(seclock_acquire(mine, &wanted, &hold), SECLOCK_OK);
    strcat(servers.prefix, "x");
    struct seclock_client *client = client_open(subject->kind, SECLOCK_OPTIONS(.now_ns = NULL));
    servers.prefix[strlen(servers.prefix) - 1] = '\0';
    enum seclock_result result = take(client, 0, &second);
    if (second)
        give(&second);
    give(&hold);
    seclock_close(&client);
    assert_int_equal(result, SECLOCK_OK);
}

/* ---- fork ---- */

/* In the child; an exit status, 0 when all is as it should be. */
static int as_child(struct seclock_handle *inherited, const char *parent_id, int busy_fd)
{
    struct seclock_handle *hold;
    alarm(3 * PATIENCE_MS / 1000); /* what a thread of the parent had locked stays so */
    if (seclock_state(inherited) != SECLOCK_STATE_LOST)
        return 1;
    if (seclock_release(inherited) != SECLOCK_NOT_OWNER)
        return 2;
    if (strcmp(seclock_client_id(mine), parent_id) == 0)
        return 3;
    if (take(mine, 0, &hold) != SECLOCK_BUSY)
        return 4;
    close(busy_fd);
    if (take(mine, PATIENCE_MS, &hold) != SECLOCK_OK)
        return 5;
    if (seclock_release(hold) != SECLOCK_OK)
        return 6;
    seclock_free(&hold);
    seclock_free(&inherited);
    return losses == 0 ? 0 : 7;
}

static void test_child_of_fork_holds_nothing(void **state)
{
    (void)state;
    struct seclock_handle *hold;
    char id[SECLOCK_TOKEN_MAX];
    snprintf(id, sizeof id, "%s", seclock_client_id(mine));
    assert_result(take(mine, 0, &hold), SECLOCK_OK);
    fflush(NULL);
    int busy[2]; /* the child closes it when it has found the lock held, or ends */
    assert_int_equal(pipe(busy), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(as_child(hold, id, busy[1]));
    close(busy[1]);
    assert_int_equal(read(busy[0], &(char){0}, 1), 0);
    close(busy[0]);
    assert_int_equal(seclock_state(hold), SECLOCK_STATE_HELD);
    assert_result(seclock_renew(hold), SECLOCK_OK);
    give(&hold);
    int ended;
    while (waitpid(child, &ended, 0) < 0 && errno == EINTR)
        ;
    assert_int_equal(ended, 0);
    assert_result(take(mine, PATIENCE_MS, &hold), SECLOCK_OK);
    give(&hold);
}

/* ---- what stays behind ---- */

static void test_no_key_stays_for_ever(void **state)
{
    (void)state;
    struct seclock_handle *hold, *second;
    assert_result(take(mine, 0, &hold), SECLOCK_OK);
    assert_result(take(other, 50, &second), SECLOCK_TIMEOUT);
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
    CASE(test_message_wakes_the_waiter_of_its_lock),
    CASE(test_waiting_is_cancelled),
    CASE(test_crowd_goes_one_by_one),
    CASE(test_owner_enters_again),
    CASE(test_owner_has_unequal_leases),
    CASE(test_owners_are_apart_from_threads),
    CASE(test_owner_is_shared_by_threads),
    CASE(test_watchdog_renews),
    CASE(test_fixed_lease_ends),
    CASE(test_fixed_lease_ends_without_notice),
    CASE(test_hold_is_renewed_up_to_a_time),
    CASE(test_loss_by_time_is_told_once),
    CASE(test_answer_after_the_lease_acquires_nothing),
    CASE(test_break_is_told_once),
    CASE(test_reason_of_a_loss_is_told),
    CASE(test_loss_may_be_answered_by_a_release),
    CASE(test_no_release_of_a_lost_hold_says_ok),
    CASE(test_break_wakes_who_waits),
    CASE(test_fence_grows),
    CASE(test_fence_grows_on_a_server_that_forgot),
    CASE(test_fence_grows_in_a_row_that_was_purged),
    CASE(test_status_tells),
    CASE(test_reasons_are_told),
    CASE(test_scripts_are_flushed),
    CASE(test_subscriptions_are_killed),
    CASE(test_full_redis_renews_and_releases),
    CASE(test_connections_are_killed),
    CASE(test_threads_of_the_library_take_no_signals),
    CASE(test_no_server),
    CASE(test_wrong_requests_are_refused),
    CASE(test_longest_prefix_and_name),
    CASE(test_prefix_ends_where_the_name_begins),
    CASE(test_child_of_fork_holds_nothing),
    CASE(test_no_key_stays_for_ever),
};

enum {
    SUBJECTS = sizeof subjects / sizeof subjects[0],
    CASES = sizeof cases / sizeof cases[0],
    TITLE_MAX = 80,
};

/* ThreadSanitizer lets no child of fork start threads, which a loop there needs. */
static bool of_this_form(void (*function)(void **state))
{
#ifdef __SANITIZE_THREAD__
    if (IN_LOOP && function == test_child_of_fork_holds_nothing)
        return false;
#endif
    return !IN_LOOP || function != test_no_release_of_a_lost_hold_says_ok;
}

int main(int argc, char **argv)
{
    (void)argc;
    static char titles[SUBJECTS * CASES][TITLE_MAX];
    static struct CMUnitTest tests[SUBJECTS * CASES];
    size_t count = 0;
    if (!servers_open("conformance"))
        return 1;
    for (size_t i = 0; i < SUBJECTS; i++)
        for (size_t j = 0; j < CASES; j++) {
            snprintf(titles[count], TITLE_MAX, "%s: %s", seclock_kind_name(subjects[i].kind),
                     cases[j].name);
            if (!of_this_form(cases[j].function))
                continue;
            if (!title_chosen(titles[count], argv + 1) || !kind_served(subjects[i].kind))
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
