/* Leader elections, over every kind of lock that has them. */
#include "lock/test_support.h"

#include <sys/eventfd.h>

static const enum seclock_kind kinds[] = {
    SECLOCK_KIND_SIMPLE, SECLOCK_KIND_REENTRANT, SECLOCK_KIND_TIMESTAMP,
    SECLOCK_KIND_SPIN,   SECLOCK_KIND_FAIR,      SECLOCK_KIND_READ_WRITE,
    SECLOCK_KIND_TABLE,  SECLOCK_KIND_QUEUE,     SECLOCK_KIND_ETCD,
};

/* Two processes' worth: `mine` and `other` know nothing of each other. */
static enum seclock_kind kind;
static struct seclock_client *mine, *other;
static char name[SECLOCK_NAME_MAX];

static int begin(void **state)
{
    static int tests;
    kind = *(const enum seclock_kind *)*state;
    mine = client_open(kind, SECLOCK_OPTIONS(.now_ns = moved_now_ns));
    other = client_open(kind, SECLOCK_OPTIONS(.now_ns = NULL));
    snprintf(name, sizeof name, "election-%d", ++tests);
    return 0;
}

static int end(void **state)
{
    (void)state;
    if (redis_is_full)
        redis_fill_up(false);
    clock_ahead_ns = 0;
    if (stats_of(mine).watched == 0) /* else a test has failed half-way */
        seclock_close(&mine);
    if (stats_of(other).watched == 0)
        seclock_close(&other);
    return 0;
}

static bool on_redis(void)
{
    return kind != SECLOCK_KIND_TABLE && kind != SECLOCK_KIND_QUEUE && kind != SECLOCK_KIND_ETCD;
}

static enum seclock_result campaign(struct seclock_client *client, const char *value,
                                    struct seclock_handle **hold_out)
{
    struct seclock_request wanted = SECLOCK_REQUEST(.name = name, .kind = kind);
    return seclock_campaign(client, &wanted, value, hold_out);
}

static void resign(struct seclock_handle **hold)
{
    assert_result(seclock_release(*hold), SECLOCK_OK);
    seclock_free(hold);
}

static struct seclock_leader leader_of(struct seclock_client *client)
{
    struct seclock_leader leader = SECLOCK_LEADER();
    assert_result(seclock_leader(client, kind, name, &leader), SECLOCK_OK);
    return leader;
}

static void assert_leads(const struct seclock_handle *hold, const char *value)
{
    struct seclock_client *const clients[] = {mine, other};
    for (int i = 0; i < 2; i++) {
        struct seclock_leader leader = leader_of(clients[i]);
        assert_true(leader.led);
        assert_true(leader.term == seclock_fence(hold));
        assert_string_equal(leader.holder, seclock_token(hold));
        assert_string_equal(leader.value, value);
    }
}

static void assert_nobody_leads(void)
{
    struct seclock_leader leader = leader_of(other);
    assert_false(leader.led);
    assert_true(leader.term == 0);
    assert_string_equal(leader.holder, "");
    assert_string_equal(leader.value, "");
}

static enum seclock_result observe(struct seclock_client *client, int wait_ms,
                                   struct seclock_leader *leader)
{
    struct seclock_request wanted = SECLOCK_REQUEST(.name = name, .kind = kind, .wait_ms = wait_ms);
    return seclock_observe(client, &wanted, leader);
}

/* ---- terms ---- */

static void test_leader_changes(void **state)
{
    (void)state;
    struct seclock_handle *hold, *next = NULL;
    assert_nobody_leads();
    assert_result(campaign(mine, "a", &hold), SECLOCK_OK);
    assert_leads(hold, "a");
    uint64_t term = seclock_fence(hold);
    assert_true(term > 0);
    assert_result(campaign(other, "b", &next), SECLOCK_BUSY);
    assert_null(next);
    assert_result(seclock_proclaim(hold, "a two"), SECLOCK_OK);
    assert_leads(hold, "a two");
    assert_true(seclock_fence(hold) == term);
    resign(&hold);
    assert_nobody_leads();
    assert_result(campaign(other, "b", &next), SECLOCK_OK);
    assert_leads(next, "b");
    assert_true(seclock_fence(next) > term);
    resign(&next);
}

static void test_holder_leads_once_it_has_proclaimed(void **state)
{
    (void)state;
    struct seclock_request wanted = SECLOCK_REQUEST(.name = name, .kind = kind);
    struct seclock_handle *hold;
    assert_result(campaign(other, "before", &hold), SECLOCK_OK);
    resign(&hold);
    assert_result(seclock_acquire(mine, &wanted, &hold), SECLOCK_OK);
    assert_nobody_leads();
    assert_result(seclock_renew(hold), SECLOCK_OK);
    assert_nobody_leads();
    assert_result(seclock_proclaim(hold, "now"), SECLOCK_OK);
    assert_leads(hold, "now");
    struct seclock_status status = SECLOCK_STATUS();
    assert_result(seclock_status(other, kind, name, &status), SECLOCK_OK);
    assert_string_equal(status.holder, seclock_token(hold));
    assert_true(status.fence == seclock_fence(hold));
    resign(&hold);
    assert_result(seclock_status(other, kind, name, &status), SECLOCK_OK);
    assert_false(status.held);
}

static void test_former_leader_is_refused(void **state)
{
    (void)state;
    struct seclock_handle *hold, *next;
    assert_result(campaign(mine, "old", &hold), SECLOCK_OK);
    uint64_t term = seclock_fence(hold);
    assert_result(seclock_break(other, kind, name), SECLOCK_OK);
    assert_nobody_leads();
    struct seclock_request wanted = SECLOCK_REQUEST(.name = name, .kind = kind, .wait_ms = 5000);
    assert_result(seclock_acquire(other, &wanted, &next), SECLOCK_OK);
    assert_nobody_leads(); /* nothing of the former term counts in this one */
    assert_result(seclock_proclaim(hold, "too late"), SECLOCK_LOST);
    assert_nobody_leads();
    assert_result(seclock_proclaim(next, "new"), SECLOCK_OK);
    assert_result(seclock_proclaim(hold, "too late"), SECLOCK_LOST);
    assert_leads(next, "new");
    assert_true(seclock_fence(next) > term);
    assert_int_equal(seclock_state(hold), SECLOCK_STATE_LOST);
    assert_result(seclock_release(hold), SECLOCK_LOST);
    assert_result(seclock_proclaim(hold, "too late"), SECLOCK_NOT_OWNER);
    seclock_free(&hold);
    assert_leads(next, "new");
    resign(&next);
}

/* The clock of the leader steps past its lease: the leader stands down by itself. */
static void test_leader_sleeps_through_its_lease(void **state)
{
    (void)state;
    struct seclock_handle *hold, *next;
    assert_result(campaign(mine, "asleep", &hold), SECLOCK_OK);
    clock_ahead_ns = INT64_C(3600) * 1000000000;
    seclock_poke(mine);
    assert_int_equal(seclock_state(hold), SECLOCK_STATE_LOST);
    assert_result(seclock_proclaim(hold, "awake"), SECLOCK_LOST);
    assert_result(seclock_release(hold), SECLOCK_LOST);
    seclock_free(&hold);
    struct seclock_request wanted =
        SECLOCK_REQUEST(.name = name, .kind = kind, .wait_ms = PATIENCE_MS);
    assert_result(seclock_campaign(other, &wanted, "next", &next), SECLOCK_OK);
    assert_leads(next, "next");
    resign(&next);
}

/* Its value must not end before the hold does, nor live on after it. */
static void test_value_lives_as_long_as_the_hold(void **state)
{
    (void)state;
    struct seclock_handle *hold;
    struct seclock_request wanted =
        SECLOCK_REQUEST(.name = name, .kind = kind, .lease_ms = 3000, .hold_ms_max = 9000);
    assert_result(seclock_campaign(mine, &wanted, "stays", &hold), SECLOCK_OK);
    uint64_t term = seclock_fence(hold);
    struct seclock_leader leader = SECLOCK_LEADER();
    for (int i = 0; i < 20; i++) {
        sleep_ms(250);
        leader = leader_of(other);
        assert_true(seclock_state(hold) != SECLOCK_STATE_HELD || leader.led);
        assert_true(!leader.led || leader.term == term);
    }
    assert_int_equal(seclock_state(hold), SECLOCK_STATE_HELD);
    assert_true(leader.led);
    assert_result(observe(other, PATIENCE_MS, &leader), SECLOCK_OK);
    assert_false(leader.led);
    assert_int_equal(seclock_state(hold), SECLOCK_STATE_LOST);
    assert_result(seclock_release(hold), SECLOCK_LOST);
    seclock_free(&hold);
}

/* ---- values ---- */

static void test_any_text_is_proclaimed(void **state)
{
    (void)state;
    static const char *const texts[] = {"", " ", " a  b ", "it's \"x\" \\ %s :1",
                                        "\x01\n\xff\xc3\xa9"};
    char longest[SECLOCK_LEADER_VALUE_MAX + 1];
    struct seclock_handle *hold;
    memset(longest, '\'', sizeof longest);
    longest[SECLOCK_LEADER_VALUE_MAX] = '\0';
    assert_result(campaign(mine, longest, &hold), SECLOCK_CONFIG);
    assert_null(hold);
    assert_result(campaign(mine, NULL, &hold), SECLOCK_CONFIG);
    assert_result(campaign(mine, longest + 1, &hold), SECLOCK_OK);
    assert_leads(hold, longest + 1);
    assert_result(seclock_proclaim(hold, longest), SECLOCK_CONFIG);
    assert_leads(hold, longest + 1);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_result(seclock_proclaim(hold, texts[i]), SECLOCK_OK);
        assert_leads(hold, texts[i]);
        assert_result(seclock_proclaim(hold, texts[i]), SECLOCK_OK);
        assert_result(seclock_renew(hold), SECLOCK_OK);
        assert_leads(hold, texts[i]);
    }
    resign(&hold);
}

/* Two holds of one owner are one term, in which the later proclamation counts. */
static void test_owner_proclaims_by_any_hold(void **state)
{
    (void)state;
    struct seclock_handle *hold, *again;
    assert_result(campaign(mine, "first", &hold), SECLOCK_OK);
    enum seclock_result entered = campaign(mine, "second", &again);
    if (entered == SECLOCK_OK) {
        assert_true(seclock_fence(again) == seclock_fence(hold));
        assert_leads(again, "second");
        assert_result(seclock_renew(hold), SECLOCK_OK); /* which repeats nothing that is older */
        assert_leads(again, "second");
        assert_result(seclock_proclaim(hold, "third"), SECLOCK_OK);
        resign(&again);
    } else {
        assert_int_equal(entered, SECLOCK_BUSY);
        assert_result(seclock_proclaim(hold, "third"), SECLOCK_OK);
    }
    struct seclock_leader leader = leader_of(other);
    assert_true(leader.led);
    assert_string_equal(leader.value, "third");
    resign(&hold);
    assert_nobody_leads();
}

struct proclaimer {
    pthread_t thread;
    struct seclock_handle *hold;
    _Atomic bool stop;
    int last;
};

static void *proclaim_thread(void *argument)
{
    struct proclaimer *proclaimer = argument;
    char text[16];
    for (proclaimer->last = 1; !proclaimer->stop; proclaimer->last++) {
        snprintf(text, sizeof text, "%d", proclaimer->last);
        if (seclock_proclaim(proclaimer->hold, text) != SECLOCK_OK)
            return NULL;
    }
    return NULL;
}

/* Returns the greatest value that was seen while a leader proclaimed one after the other. */
static int look_at_values(void)
{
    struct proclaimer proclaimer = {.stop = false};
    struct seclock_request wanted = SECLOCK_REQUEST(.name = name, .kind = kind, .lease_ms = 300);
    if (seclock_campaign(mine, &wanted, "0", &proclaimer.hold) == SECLOCK_FAILED) {
        assert_null(proclaimer.hold);
        return 0;
    }
    assert_non_null(proclaimer.hold);
    assert_int_equal(pthread_create(&proclaimer.thread, NULL, proclaim_thread, &proclaimer), 0);
    int seen = 0;
    for (int64_t end_ms = now_ms() + 400; now_ms() < end_ms;) {
        struct seclock_leader leader = leader_of(other);
        if (leader.led) {
            assert_true(atoi(leader.value) >= seen);
            seen = atoi(leader.value);
        }
    }
    proclaimer.stop = true;
    pthread_join(proclaimer.thread, NULL);
    seclock_release(proclaimer.hold); /* a slow machine may have lost it */
    seclock_free(&proclaimer.hold);
    return seen;
}

/* Renewals of the watchdog, which on Redis repeat the value, bring no older one back: a short lease
 * has several of them. A slow machine may lose it too soon. */
static void test_values_come_in_order(void **state)
{
    (void)state;
    int seen = 0;
    for (int i = 0; i < 20 && seen <= 1; i++)
        seen = look_at_values();
    assert_true(seen > 1);
}

/* ---- to observe ---- */

static void test_observer_sees_each_change(void **state)
{
    (void)state;
    struct seclock_leader seen = SECLOCK_LEADER();
    struct seclock_handle *hold;
    assert_result(observe(other, 0, &seen), SECLOCK_TIMEOUT);
    assert_result(campaign(mine, "a", &hold), SECLOCK_OK);
    assert_result(observe(other, 0, &seen), SECLOCK_OK);
    assert_true(seen.led && seen.term == seclock_fence(hold));
    assert_string_equal(seen.value, "a");
    int64_t began_ms = now_ms();
    assert_result(observe(other, 200, &seen), SECLOCK_TIMEOUT);
    assert_int_in_range(now_ms() - began_ms, 200, 200 + SLACK_MS);
    assert_string_equal(seen.value, "a");
    assert_result(seclock_proclaim(hold, "b"), SECLOCK_OK);
    assert_result(observe(other, 0, &seen), SECLOCK_OK);
    assert_string_equal(seen.value, "b");
    resign(&hold);
    assert_result(observe(other, 0, &seen), SECLOCK_OK);
    assert_false(seen.led);
    assert_string_equal(seen.value, "");
    assert_result(observe(other, 0, &seen), SECLOCK_TIMEOUT);
}

struct observer {
    pthread_t thread;
    struct seclock_client *client;
    struct seclock_leader leader;
    int cancel_fd;
    enum seclock_result result;
};

static void *observe_thread(void *argument)
{
    struct observer *observer = argument;
    struct seclock_request wanted =
        SECLOCK_REQUEST(.name = name, .kind = kind, .wait_ms = SECLOCK_FOREVER,
                        .cancel_fd = observer->cancel_fd);
    observer->result = seclock_observe(observer->client, &wanted, &observer->leader);
    return NULL;
}

/* Returns when the observer sleeps with a subscription, if it has one. */
static void observer_begin(struct observer *observer, struct seclock_client *client)
{
    bool told = on_redis() && kind != SECLOCK_KIND_SPIN;
    uint64_t before = stats_of(client).waits;
    *observer = (struct observer){.client = client, .leader = leader_of(client)};
    observer->leader.size = sizeof observer->leader;
    observer->cancel_fd = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(pthread_create(&observer->thread, NULL, observe_thread, observer), 0);
    wait_for(stats_of(client).waits >= before + (told ? 2 : 1));
}

static void observer_end(struct observer *observer, enum seclock_result wanted)
{
    pthread_join(observer->thread, NULL);
    assert_int_equal(observer->result, wanted);
    close(observer->cancel_fd);
}

static void test_observers_are_woken(void **state)
{
    (void)state;
    bool told = on_redis() && kind != SECLOCK_KIND_SPIN;
    struct seclock_handle *hold;
    struct observer one, two;
    struct seclock_client *third =
        client_open(kind, SECLOCK_OPTIONS(.poll_ms = told ? 600000 : 50));
    assert_result(campaign(mine, "a", &hold), SECLOCK_OK);
    observer_begin(&one, third);
    observer_begin(&two, third);
    assert_result(seclock_proclaim(hold, "b"), SECLOCK_OK);
    observer_end(&one, SECLOCK_OK);
    observer_end(&two, SECLOCK_OK);
    assert_string_equal(one.leader.value, "b");
    assert_string_equal(two.leader.value, "b");
    observer_begin(&one, third);
    eventfd_write(one.cancel_fd, 1);
    observer_end(&one, SECLOCK_CANCELLED);
    assert_string_equal(one.leader.value, "b");
    resign(&hold);
    observer_begin(&one, third); /* a new leader wakes as well */
    assert_result(campaign(mine, "c", &hold), SECLOCK_OK);
    observer_end(&one, SECLOCK_OK);
    assert_true(one.leader.term == seclock_fence(hold));
    resign(&hold);
    seclock_close(&third);
}

/* An observer takes no wake-up from those who wait for the lock. */
static void test_observer_and_candidate_wait_in_one_client(void **state)
{
    (void)state;
    struct seclock_handle *hold, *next;
    struct observer observer;
    assert_result(campaign(mine, "a", &hold), SECLOCK_OK);
    observer_begin(&observer, other);
    struct seclock_request wanted =
        SECLOCK_REQUEST(.name = name, .kind = kind, .wait_ms = PATIENCE_MS);
    resign(&hold);
    assert_result(seclock_campaign(other, &wanted, "b", &next), SECLOCK_OK);
    observer_end(&observer, SECLOCK_OK);
    resign(&next);
}

static void test_no_server_answers_an_observer(void **state)
{
    (void)state;
    const char *const nowhere[] = {kind == SECLOCK_KIND_TABLE   ? "mysql://u@127.0.0.1:1/d"
                                   : kind == SECLOCK_KIND_QUEUE ? "zookeeper://127.0.0.1:1"
                                   : kind == SECLOCK_KIND_ETCD  ? "etcd://127.0.0.1:1"
                                                                : "redis://127.0.0.1:1",
                                   NULL};
    struct seclock_options options =
        SECLOCK_OPTIONS(.servers = nowhere, .timeout_ms = 200, .outage_ms = 300, .poll_ms = 50);
    struct seclock_client *lost;
    struct seclock_leader leader = SECLOCK_LEADER(), unsized = {.size = 0};
    assert_result(seclock_open(&options, &lost), SECLOCK_OK);
    assert_result(seclock_leader(lost, kind, name, &leader), SECLOCK_FAILED);
    int64_t began_ms = now_ms();
    assert_result(observe(lost, SECLOCK_FOREVER, &leader), SECLOCK_FAILED);
    assert_int_in_range(now_ms() - began_ms, 300, 1500 + SLACK_MS);
    seclock_close(&lost);
    assert_result(seclock_leader(mine, kind, name, &unsized), SECLOCK_CONFIG);
    assert_result(observe(mine, 0, &unsized), SECLOCK_CONFIG);
    assert_result(seclock_leader(mine, kind, "", &leader), SECLOCK_CONFIG);
}

/* Another kind of key where the leader's record would be fails each question, and none else. */
static void spoil(bool spoiled)
{
    char key[SECLOCK_PREFIX_MAX + SECLOCK_NAME_MAX + 32];
    snprintf(key, sizeof key, "%s{%s}:lock:leader", servers.prefix, name);
    redis_number(spoiled ? "SET" : "DEL", key, spoiled ? "1" : NULL, NULL);
}

/* Returns when the client has asked once more, from the beginning. */
static void wait_for_question(struct seclock_client *client)
{
    uint64_t before = stats_of(client).waits;
    wait_for(stats_of(client).waits >= before + 2);
}

/* Of two outages each is short, and between them the server has answered. */
static void test_observer_bears_a_second_outage(void **state)
{
    (void)state;
    enum { OUTAGE_MS = 60000 };
    struct observer observer;
    struct seclock_handle *hold;
    if (kind != SECLOCK_KIND_SIMPLE) /* what counts the outage is the same for all */
        return;
    struct seclock_client *patient = client_open(
        kind, SECLOCK_OPTIONS(.now_ns = moved_now_ns, .poll_ms = 20, .outage_ms = OUTAGE_MS));
    observer_begin(&observer, patient);
    for (int outage = 0; outage < 2; outage++) {
        spoil(true);
        wait_for_question(patient);
        spoil(false);
        wait_for_question(patient);
        clock_ahead_ns += 2 * OUTAGE_MS * INT64_C(1000000);
    }
    assert_result(campaign(other, "a", &hold), SECLOCK_OK);
    observer_end(&observer, SECLOCK_OK);
    assert_string_equal(observer.leader.value, "a");
    resign(&hold);
    seclock_close(&patient);
}

/* ---- what stays behind, and what cannot be ---- */

static void test_kinds_of_one_name_are_apart(void **state)
{
    (void)state;
    enum { MOST = sizeof kinds / sizeof kinds[0] };
    struct seclock_handle *holds[MOST] = {NULL};
    enum seclock_kind first = kind;
    if (!on_redis())
        return;
    for (int i = 0; i < MOST; i++) {
        kind = kinds[i];
        if (on_redis())
            assert_result(campaign(mine, seclock_kind_name(kind), &holds[i]), SECLOCK_OK);
    }
    assert_int_equal(redis_each_key("if redis.call('PTTL', key) < 0 then n = n + 1 end"), 0);
    for (int i = 0; i < MOST; i++) {
        kind = kinds[i];
        if (!on_redis())
            continue;
        assert_leads(holds[i], seclock_kind_name(kind));
        resign(&holds[i]);
    }
    kind = first;
}

/* It keeps a leader that there is, as it keeps any lock. */
static void test_full_redis_keeps_the_leader(void **state)
{
    (void)state;
    struct seclock_handle *hold;
    if (!on_redis())
        return;
    assert_result(campaign(mine, "a", &hold), SECLOCK_OK);
    redis_fill_up(true);
    assert_result(seclock_renew(hold), SECLOCK_OK);
    assert_leads(hold, "a");
    enum seclock_result result = seclock_proclaim(hold, "b"); /* some refuse, some have room */
    assert_leads(hold, result == SECLOCK_OK ? "b" : "a");
    assert_int_equal(seclock_state(hold), SECLOCK_STATE_HELD);
    redis_fill_up(false);
    assert_result(seclock_renew(hold), SECLOCK_OK);
    assert_leads(hold, result == SECLOCK_OK ? "b" : "a");
    resign(&hold);
}

static void test_readers_do_not_lead(void **state)
{
    (void)state;
    struct seclock_handle *hold = NULL;
    struct seclock_request wanted =
        SECLOCK_REQUEST(.name = name, .kind = kind, .mode = SECLOCK_MODE_READ);
    if (kind != SECLOCK_KIND_READ_WRITE && kind != SECLOCK_KIND_ETCD)
        return;
    assert_result(seclock_campaign(mine, &wanted, "a", &hold), SECLOCK_UNSUPPORTED);
    assert_null(hold);
    assert_result(seclock_acquire(mine, &wanted, &hold), SECLOCK_OK);
    assert_result(seclock_proclaim(hold, "a"), SECLOCK_UNSUPPORTED);
    assert_nobody_leads();
    resign(&hold);
}

static void test_other_kinds_elect_nobody(void **state)
{
    static const enum seclock_kind refusing[] = {SECLOCK_KIND_SEMAPHORE, SECLOCK_KIND_PERMIT,
                                                 SECLOCK_KIND_RED, SECLOCK_KIND_GET_LOCK};
    (void)state;
    for (size_t i = 0; i < sizeof refusing / sizeof refusing[0]; i++) {
        struct seclock_client *client = NULL;
        struct seclock_handle *hold = NULL;
        struct seclock_leader leader = SECLOCK_LEADER();
        kind = refusing[i];
        if (!kind_served(kind))
            continue;
        client = client_open(kind, SECLOCK_OPTIONS(.now_ns = NULL));
        struct seclock_request wanted =
            SECLOCK_REQUEST(.name = name, .kind = kind,
                            .limit = kind == SECLOCK_KIND_SEMAPHORE || kind == SECLOCK_KIND_PERMIT);
        assert_result(campaign(client, "a", &hold), SECLOCK_UNSUPPORTED);
        assert_non_null(strstr(seclock_error(), "no fence"));
        assert_null(hold);
        assert_result(seclock_leader(client, kind, name, &leader), SECLOCK_UNSUPPORTED);
        assert_result(observe(client, SECLOCK_FOREVER, &leader), SECLOCK_UNSUPPORTED);
        assert_result(seclock_acquire(client, &wanted, &hold), SECLOCK_OK);
        assert_result(seclock_proclaim(hold, "a"), SECLOCK_UNSUPPORTED);
        assert_result(seclock_renew(hold), SECLOCK_OK);
        resign(&hold);
        seclock_close(&client);
    }
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
    CASE(test_leader_changes),
    CASE(test_holder_leads_once_it_has_proclaimed),
    CASE(test_former_leader_is_refused),
    CASE(test_leader_sleeps_through_its_lease),
    CASE(test_value_lives_as_long_as_the_hold),
    CASE(test_any_text_is_proclaimed),
    CASE(test_owner_proclaims_by_any_hold),
    CASE(test_values_come_in_order),
    CASE(test_observer_sees_each_change),
    CASE(test_observers_are_woken),
    CASE(test_observer_and_candidate_wait_in_one_client),
    CASE(test_no_server_answers_an_observer),
    CASE(test_observer_bears_a_second_outage),
    CASE(test_kinds_of_one_name_are_apart),
    CASE(test_full_redis_keeps_the_leader),
    CASE(test_readers_do_not_lead),
};

enum {
    SUBJECTS = sizeof kinds / sizeof kinds[0],
    CASES = sizeof cases / sizeof cases[0],
    TITLE_MAX = 80,
};

int main(int argc, char **argv)
{
    (void)argc;
    static char titles[SUBJECTS * CASES][TITLE_MAX];
    static struct CMUnitTest tests[SUBJECTS * CASES + 1];
    size_t count = 0;
    if (!servers_open("election"))
        return 1;
    for (size_t i = 0; i < SUBJECTS; i++)
        for (size_t j = 0; j < CASES; j++) {
            snprintf(titles[count], TITLE_MAX, "%s: %s", seclock_kind_name(kinds[i]),
                     cases[j].name);
            if (!title_chosen(titles[count], argv + 1) || !kind_served(kinds[i]))
                continue;
            tests[count] = (struct CMUnitTest){titles[count], cases[j].function, begin, end,
                                               (void *)(uintptr_t)&kinds[i]};
            count++;
        }
    if (title_chosen("others: other_kinds_elect_nobody", argv + 1))
        tests[count++] =
            (struct CMUnitTest){"others: other_kinds_elect_nobody", test_other_kinds_elect_nobody,
                                begin, end, (void *)(uintptr_t)&kinds[0]};
    int failed = _cmocka_run_group_tests("election", tests, count, NULL, NULL);
    redis_forget_all();
    redis_close(&servers.commands);
    return failed;
}
