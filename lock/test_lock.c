/* What the core makes of what its drivers say: renewals, releases and losses that meet. A driver
 * that is slow on purpose stands in front of the real one. */
#include "lock/test_support.h"

#include <dirent.h>
#include <sys/wait.h>

#include "lock/driver.h"
#include "lock/text.h"

static struct seclock_client *client;
static char name[32];

static int begin(void **state)
{
    static int tests;
    (void)state;
    snprintf(name, sizeof name, "lock-%d", ++tests);
    client = client_open(SECLOCK_KIND_SIMPLE, SECLOCK_OPTIONS(.now_ns = moved_now_ns));
    return 0;
}

static int end(void **state)
{
    (void)state;
    if (redis_is_full)
        redis_fill_up(false);
    if (stats_of(client).watched == 0)
        seclock_close(&client);
    clock_ahead_ns = 0;
    return 0;
}

/* ---- a slow driver ---- */

static const struct lock_driver *real;
static atomic_int inside, most_inside, calls;

static void slow_renew(void *self, struct seclock_handle *const *handles, size_t count,
                       enum seclock_result *results_out)
{
    int now_inside = atomic_fetch_add(&inside, 1) + 1;
    if (now_inside > most_inside)
        most_inside = now_inside;
    sleep_ms(10);
    real->renew(self, handles, count, results_out);
    atomic_fetch_sub(&inside, 1);
    calls++;
}

static struct seclock_handle *take_slow(struct lock_driver *slow, int lease_ms)
{
    struct seclock_handle *handle;
    struct seclock_request request = SECLOCK_REQUEST(.name = name, .lease_ms = lease_ms);
    assert_result(seclock_acquire(client, &request, &handle), SECLOCK_OK);
    real = handle->driver;
    *slow = *real;
    slow->renew = slow_renew;
    handle->driver = slow; /* before the first renewal is due */
    inside = most_inside = calls = 0;
    return handle;
}

/* ---- renewals ---- */

enum { TURNS_LEASE_MS = 1200 }; /* a slow machine outlasts a shorter one */

/* Renews for longer than a lease, beside the watchdog. False when the machine stood still for so
 * long that the lease ran out. */
static bool renew_in_turns(struct seclock_handle *handle, int *renewals_out)
{
    int64_t until_ms = now_ms() + TURNS_LEASE_MS + 300, renewed_ms = now_ms();
    for (*renewals_out = 0; now_ms() < until_ms; ++*renewals_out) {
        enum seclock_result result = seclock_renew(handle);
        if (result != SECLOCK_OK && now_ms() - renewed_ms > TURNS_LEASE_MS / 2)
            return false;
        assert_result(result, SECLOCK_OK);
        renewed_ms = now_ms();
        sleep_ms(*renewals_out % 4 == 3 ? 500 : 0); /* lets the watchdog be the next */
    }
    return seclock_state(handle) == SECLOCK_STATE_HELD;
}

/* Two who find out about one hold at once would do so twice. */
static void test_renewals_of_one_hold_take_turns(void **state)
{
    (void)state;
    static struct lock_driver slow;
    int renewals;
    struct seclock_handle *handle = take_slow(&slow, TURNS_LEASE_MS);
    for (int tries = 0; !renew_in_turns(handle, &renewals); tries++) {
        assert_int_in_range(tries, 0, 4);
        seclock_release(handle);
        seclock_free(&handle);
        handle = take_slow(&slow, TURNS_LEASE_MS);
    }
    assert_result(seclock_release(handle), SECLOCK_OK);
    assert_true(calls > renewals);
    assert_int_equal(most_inside, 1);
    seclock_free(&handle);
}

/* ---- a clock that stands still ---- */

enum {
    STILL_MS = 60000, /* a lease, which the server counts by its own clock */
    VALID_MS = STILL_MS - STILL_MS / 100 - 2, /* for so long the holder relies on it */
};

static _Atomic int64_t still_ns = INT64_C(1000000000000);

static int64_t still_now_ns(void)
{
    return still_ns;
}

static void pass_ms(int ms)
{
    still_ns += INT64_C(1000000) * ms;
}

static struct seclock_client *open_still(void)
{
    return client_open(SECLOCK_KIND_SIMPLE, SECLOCK_OPTIONS(.now_ns = still_now_ns));
}

static int renewal_ms; /* by that clock */

static void late_renew(void *self, struct seclock_handle *const *handles, size_t count,
                       enum seclock_result *results_out)
{
    real->renew(self, handles, count, results_out);
    pass_ms(renewal_ms);
}

/* Takes a hold that the watchdog does not look at, or one whose renewals take `renewal_ms`. */
static struct seclock_handle *take_still(struct seclock_client *still, bool fixed_lease)
{
    static struct lock_driver late;
    struct seclock_handle *handle;
    struct seclock_request request =
        SECLOCK_REQUEST(.name = name, .lease_ms = STILL_MS, .fixed_lease = fixed_lease);
    assert_result(seclock_acquire(still, &request, &handle), SECLOCK_OK);
    real = handle->driver;
    late = *real;
    late.renew = late_renew;
    handle->driver = &late;
    renewal_ms = 0;
    return handle;
}

/* The server's clock may run faster by 1 %. */
static void test_hold_is_valid_for_less_than_its_lease(void **state)
{
    (void)state;
    struct seclock_client *still = open_still();
    struct seclock_handle *handle = take_still(still, true);
    for (int renewals = 0; renewals < 2; renewals++) {
        assert_int_equal(seclock_remaining_ms(handle), VALID_MS);
        pass_ms(VALID_MS - 1);
        assert_int_equal(seclock_state(handle), SECLOCK_STATE_HELD);
        if (renewals == 0)
            assert_result(seclock_renew(handle), SECLOCK_OK);
    }
    pass_ms(1);
    assert_int_equal(seclock_state(handle), SECLOCK_STATE_LOST);
    assert_result(seclock_release(handle), SECLOCK_LOST);
    seclock_free(&handle);
    seclock_close(&still);
}

/* The server may have counted from then. */
static void test_renewed_lease_counts_from_the_sending(void **state)
{
    (void)state;
    struct seclock_client *still = open_still();
    struct seclock_handle *handle = take_still(still, true);
    renewal_ms = 3000;
    pass_ms(10000);
    assert_result(seclock_renew(handle), SECLOCK_OK);
    assert_int_equal(seclock_remaining_ms(handle), VALID_MS - 3000);
    assert_result(seclock_release(handle), SECLOCK_OK);
    seclock_free(&handle);
    seclock_close(&still);
}

/* The server has renewed it, but the holder's time was over: the answer comes at its last moment,
 * and another thread may have seen the hold as lost. */
static void test_renewal_answered_after_the_lease_is_a_loss(void **state)
{
    (void)state;
    struct seclock_client *still = open_still();
    struct seclock_handle *handle = take_still(still, true);
    renewal_ms = VALID_MS - 10000;
    pass_ms(10000);
    assert_result(seclock_renew(handle), SECLOCK_LOST);
    assert_int_equal(seclock_state(handle), SECLOCK_STATE_LOST);
    assert_int_equal(seclock_remaining_ms(handle), 0);
    assert_result(seclock_release(handle), SECLOCK_LOST);
    seclock_free(&handle);
    seclock_close(&still);
}

static void test_watchdogs_renewal_answered_after_the_lease_is_a_loss(void **state)
{
    (void)state;
    struct seclock_client *still = open_still();
    struct seclock_handle *handle = take_still(still, false);
    renewal_ms = STILL_MS * 2 / 3;
    pass_ms(STILL_MS / 2); /* a renewal is due, and answered when the lease is over */
    seclock_poke(still);
    wait_for(stats_of(still).renewals == 1);
    assert_int_equal(stats_of(still).watched, 0); /* the watchdog has nothing more to renew */
    assert_int_equal(seclock_state(handle), SECLOCK_STATE_LOST);
    assert_result(seclock_release(handle), SECLOCK_LOST);
    seclock_free(&handle);
    seclock_close(&still);
}

/* ---- outages ---- */

struct patient {
    struct seclock_client *client;
    enum seclock_result result;
    struct seclock_handle *handle;
    _Atomic bool done;
};

static void *patient_thread(void *argument)
{
    struct patient *patient = argument;
    struct seclock_request request = SECLOCK_REQUEST(.name = name, .wait_ms = SECLOCK_FOREVER);
    patient->result = seclock_acquire(patient->client, &request, &patient->handle);
    patient->done = true;
    return NULL;
}

/* How often at least it has waited after a try that was not answered: tries that were are counted
 * before their wait is. */
static uint64_t outages_seen(const struct patient *patient)
{
    uint64_t waits = stats_of(patient->client).waits, busy = stats_of(patient->client).busy;
    return waits > busy ? waits - busy : 0;
}

/* Lets the server refuse everything until the waiter has noticed. */
static void have_an_outage(const struct patient *patient)
{
    uint64_t before = outages_seen(patient);
    redis_fill_up(true);
    wait_for(patient->done || outages_seen(patient) > before + 1);
    redis_fill_up(false);
}

/* Each of two is short, and between them the server has answered. */
/* ---- what is counted and logged ---- */

static uint64_t sum_of(const uint64_t buckets[SECLOCK_BUCKETS])
{
    uint64_t sum = 0;
    for (int i = 0; i < SECLOCK_BUCKETS; i++)
        sum += buckets[i];
    return sum;
}

static void test_durations_are_counted_by_kind(void **state)
{
    (void)state;
    struct seclock_kind_stats stats = SECLOCK_KIND_STATS(), spins = SECLOCK_KIND_STATS();
    struct seclock_request request = SECLOCK_REQUEST(.name = name);
    struct seclock_handle *hold;
    for (int i = 0; i < 10; i++) {
        assert_result(seclock_acquire(client, &request, &hold), SECLOCK_OK);
        clock_ahead_ns += 5000000; /* held for 5 ms and more, less than the lease */
        assert_result(seclock_release(hold), SECLOCK_OK);
        seclock_free(&hold);
    }
    assert_result(seclock_kind_stats(client, SECLOCK_KIND_SIMPLE, &stats), SECLOCK_OK);
    assert_result(seclock_kind_stats(client, SECLOCK_KIND_SPIN, &spins), SECLOCK_OK);
    assert_int_equal(stats.acquired, 10);
    assert_int_equal(sum_of(stats.acquire_us), 10);
    assert_int_equal(sum_of(stats.hold_us), 10);
    for (int i = 0; i < 13; i++) /* below 4096 us */
        assert_int_equal(stats.hold_us[i], 0);
    assert_int_equal(spins.acquired + sum_of(spins.acquire_us), 0);
    assert_result(seclock_kind_stats(client, SECLOCK_KIND_COUNT, &stats), SECLOCK_CONFIG);
    stats.size = 0;
    assert_result(seclock_kind_stats(client, SECLOCK_KIND_SIMPLE, &stats), SECLOCK_CONFIG);
}

static struct {
    pthread_mutex_t mutex;
    int count;
    char texts[8][256];
} logged = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void log_text(void *context, const char *text)
{
    assert_ptr_equal(context, &logged);
    pthread_mutex_lock(&logged.mutex);
    snprintf(logged.texts[logged.count++ % 8], 256, "%s", text);
    pthread_mutex_unlock(&logged.mutex);
}

static int logged_count(void)
{
    pthread_mutex_lock(&logged.mutex);
    int count = logged.count;
    pthread_mutex_unlock(&logged.mutex);
    return count;
}

static _Atomic bool renewals_fail;

static void renew_or_fail(void *self, struct seclock_handle *const *handles, size_t count,
                          enum seclock_result *results_out)
{
    if (!renewals_fail) {
        real->renew(self, handles, count, results_out);
        return;
    }
    lock_set_error("nobody answers");
    for (size_t i = 0; i < count; i++)
        results_out[i] = SECLOCK_FAILED;
}

static void test_failing_renewals_and_losses_are_logged(void **state)
{
    (void)state;
    struct lock_driver failing;
    struct seclock_client *whole = client;
    client =
        client_open(SECLOCK_KIND_SIMPLE, SECLOCK_OPTIONS(.log = log_text, .log_context = &logged));
    renewals_fail = true;
    struct seclock_handle *hold = take_slow(&failing, 6000);
    failing.renew = renew_or_fail;
    seclock_poke(client); /* the watchdog is to see it */
    wait_for(logged_count() == 1);
    wait_for(stats_of(client).renew_errors > 1); /* of which one is told */
    renewals_fail = false;
    wait_for(logged_count() == 2);
    assert_string_equal(logged.texts[0], "renewals of simple locks fail: nobody answers");
    assert_string_equal(logged.texts[1], "renewals of simple locks are answered again");
    assert_result(seclock_break(whole, SECLOCK_KIND_SIMPLE, name), SECLOCK_OK);
    wait_for(logged_count() == 3);
    assert_non_null(strstr(logged.texts[2], "is lost: the server does not know it any more"));
    assert_non_null(strstr(logged.texts[2], name));
    seclock_free(&hold);
    seclock_close(&client);
    client = whole;
}

static void test_waiter_bears_a_second_outage(void **state)
{
    (void)state;
    pthread_t thread;
    struct seclock_handle *hold;
    struct seclock_request request = SECLOCK_REQUEST(.name = name);
    struct patient patient = {
        .client =
            client_open(SECLOCK_KIND_SIMPLE,
                        SECLOCK_OPTIONS(.now_ns = still_now_ns, .poll_ms = 20, .outage_ms = 1000))};
    assert_result(seclock_acquire(client, &request, &hold), SECLOCK_OK);
    assert_int_equal(pthread_create(&thread, NULL, patient_thread, &patient), 0);
    wait_for(stats_of(patient.client).busy > 0);
    have_an_outage(&patient);
    uint64_t busy = stats_of(patient.client).busy;
    wait_for(patient.done || stats_of(patient.client).busy > busy + 1);
    pass_ms(2000);
    have_an_outage(&patient);
    assert_result(seclock_release(hold), SECLOCK_OK);
    pthread_join(thread, NULL);
    assert_result(patient.result, SECLOCK_OK);
    assert_result(seclock_release(patient.handle), SECLOCK_OK);
    seclock_free(&patient.handle);
    seclock_free(&hold);
    seclock_close(&patient.client);
}

/* ---- fork ---- */

/* Open descriptors of this process that lead to a server or to another thread. */
static int connections(void)
{
    int count = 0;
    char path[300], target[64];
    DIR *descriptors = opendir("/proc/self/fd");
    assert_non_null(descriptors);
    for (struct dirent *entry; (entry = readdir(descriptors));) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        count += strncmp(target, "socket:", 7) == 0 || strstr(target, "eventfd") != NULL;
    }
    closedir(descriptors);
    return count;
}

static void *wait_thread(void *argument)
{
    struct seclock_handle *handle;
    struct seclock_request request = SECLOCK_REQUEST(.name = name, .wait_ms = PATIENCE_MS);
    if (seclock_acquire(argument, &request, &handle) == SECLOCK_OK)
        seclock_release(handle);
    seclock_free(&handle);
    return NULL;
}

/* Neither idle connections, nor the subscriber, nor those that are a hold of GET_LOCK: were one
 * left, the lock would outlive its holder as long as the child lives. */
static void test_child_of_fork_keeps_no_connection(void **state)
{
    (void)state;
    pthread_t thread;
    struct seclock_handle *simple, *get_lock;
    int before = connections(), ended;
    struct seclock_client *mysql =
        client_open(SECLOCK_KIND_GET_LOCK, SECLOCK_OPTIONS(.now_ns = NULL));
    struct seclock_request request = SECLOCK_REQUEST(.name = name);
    assert_result(seclock_acquire(client, &request, &simple), SECLOCK_OK);
    request.kind = SECLOCK_KIND_GET_LOCK;
    assert_result(seclock_acquire(mysql, &request, &get_lock), SECLOCK_OK);
    uint64_t waits = stats_of(client).waits;
    assert_int_equal(pthread_create(&thread, NULL, wait_thread, client), 0);
    wait_for(stats_of(client).waits > waits + 1); /* it has subscribed */
    assert_true(connections() >= before + 4);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        seclock_client_id(client); /* the first call finds out about the fork */
        seclock_client_id(mysql);
        _exit(connections() - before);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_result(seclock_release(simple), SECLOCK_OK);
    assert_result(seclock_release(get_lock), SECLOCK_OK);
    pthread_join(thread, NULL);
    seclock_free(&simple);
    seclock_free(&get_lock);
    seclock_close(&mysql);
    assert_int_equal(ended, 0);
}

/* Its clients open the servers of a cluster, of which none answers, until told to stop. */
static void *open_thread(void *argument)
{
    atomic_bool *stop = argument;
    const char *urls[] = {"mysql://nobody@127.0.0.1:1,127.0.0.1:2/nothing", NULL};
    struct seclock_options options = SECLOCK_OPTIONS(.servers = urls, .prefix = servers.prefix);
    struct seclock_request request = SECLOCK_REQUEST(.name = name, .kind = SECLOCK_KIND_TABLE);
    struct seclock_client *opened;
    struct seclock_handle *handle;
    while (!atomic_load(stop) && seclock_open(&options, &opened) == SECLOCK_OK) {
        seclock_acquire(opened, &request, &handle);
        seclock_close(&opened);
    }
    return NULL;
}

static void test_fork_while_servers_are_opened_ends(void **state)
{
    (void)state;
    enum { FORKS = 500 };
    atomic_bool stop = false;
    pthread_t thread;
    int ended;
    assert_int_equal(pthread_create(&thread, NULL, open_thread, &stop), 0);
    fflush(NULL);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            _exit(0);
        assert_int_equal(waitpid(child, &ended, 0), child);
        assert_int_equal(ended, 0);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
}

/* ---- callers that are wrong ---- */

static void test_nothing_is_not_held(void **state)
{
    (void)state;
    assert_result(seclock_release(NULL), SECLOCK_NOT_OWNER);
    assert_result(seclock_renew(NULL), SECLOCK_NOT_OWNER);
    assert_true(seclock_error()[0] != '\0');
}

static void *fail_otherwise(void *handle)
{
    assert_result(seclock_renew(handle), SECLOCK_NOT_OWNER);
    return NULL;
}

/* Each thread has a text of its own, even for one handle. */
static void test_error_text_is_the_threads_own(void **state)
{
    (void)state;
    pthread_t thread;
    char mine[256];
    struct seclock_handle *handle;
    struct seclock_request unnamed = SECLOCK_REQUEST(.name = "", .kind = SECLOCK_KIND_SIMPLE);
    assert_result(seclock_acquire(client, &unnamed, &handle), SECLOCK_CONFIG);
    snprintf(mine, sizeof mine, "%s", seclock_error());
    assert_non_null(strstr(mine, "name"));
    assert_int_equal(pthread_create(&thread, NULL, fail_otherwise, NULL), 0);
    pthread_join(thread, NULL);
    assert_string_equal(seclock_error(), mine);
    seclock_free(&handle);
}

static void note_loss(struct seclock_handle *handle, void *context)
{
    (void)handle;
    atomic_fetch_add((atomic_int *)context, 1);
}

/* Calls a red lock again while its servers are too slow for their share of its lease. */
static enum seclock_result certain(enum seclock_kind kind,
                                   enum seclock_result (*call)(struct seclock_handle *handle),
                                   struct seclock_handle *handle)
{
    enum seclock_result result = call(handle);
    int tries = kind == SECLOCK_KIND_RED ? 20 : 0;
    for (; tries > 0 && result == SECLOCK_UNKNOWN; tries--)
        result = call(handle);
    return result;
}

/* A client is closed before its handles: nothing is renewed any more, and nothing breaks. */
static void close_before(enum seclock_kind kind)
{
    enum { BRIEF_MS = 1000 };
    atomic_int losses = 0;
    int64_t began_ms = now_ms();
    struct seclock_handle *handle, *plain, *other_hold;
    struct seclock_client *early = client_open(kind, SECLOCK_OPTIONS(.lease_ms = BRIEF_MS));
    struct seclock_client *other = client_open(kind, SECLOCK_OPTIONS(.lease_ms = BRIEF_MS));
    struct seclock_request request =
        SECLOCK_REQUEST(.name = name, .kind = kind, .on_lost = note_loss, .context = &losses);
    assert_result(acquire_in_time(early, &request, &handle), SECLOCK_OK);
    request = SECLOCK_REQUEST(.name = "plain", .kind = kind, .fixed_lease = true);
    assert_result(acquire_in_time(early, &request, &plain), SECLOCK_OK);
    seclock_close(&early);
    assert_null(early);
    enum seclock_state state = seclock_state(handle);
    int64_t passed_ms = now_ms() - began_ms;
    bool renewing = passed_ms >= BRIEF_MS / 4; /* perhaps, and was cut off before its answer */
    assert_true(state == SECLOCK_STATE_HELD || (state == SECLOCK_STATE_UNKNOWN && renewing) ||
                passed_ms >= BRIEF_MS);
    wait_for(seclock_state(handle) == SECLOCK_STATE_LOST);
    assert_int_equal(losses, 0); /* whose thread has ended */
    assert_result(certain(kind, seclock_renew, handle), SECLOCK_LOST);
    assert_result(certain(kind, seclock_release, handle), SECLOCK_LOST);
    assert_string_equal(seclock_name(handle), name);
    seclock_free(&plain);
    seclock_free(&handle);
    request = SECLOCK_REQUEST(.name = name, .kind = kind, .wait_ms = PATIENCE_MS);
    assert_result(seclock_acquire(other, &request, &other_hold), SECLOCK_OK);
    assert_result(seclock_release(other_hold), SECLOCK_OK);
    seclock_free(&other_hold);
    seclock_close(&other);
}

static void test_client_is_closed_before_its_handles(void **state)
{
    (void)state;
    close_before(SECLOCK_KIND_SIMPLE);
    close_before(SECLOCK_KIND_RED);
    close_before(SECLOCK_KIND_TABLE);
    close_before(SECLOCK_KIND_GET_LOCK);
    if (servers.zookeeper[0] != '\0')
        close_before(SECLOCK_KIND_QUEUE);
    if (servers.etcd[0] != '\0')
        close_before(SECLOCK_KIND_ETCD);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_renewals_of_one_hold_take_turns),
        CASE(test_hold_is_valid_for_less_than_its_lease),
        CASE(test_renewed_lease_counts_from_the_sending),
        CASE(test_renewal_answered_after_the_lease_is_a_loss),
        CASE(test_watchdogs_renewal_answered_after_the_lease_is_a_loss),
        CASE(test_waiter_bears_a_second_outage),
        CASE(test_durations_are_counted_by_kind),
        CASE(test_failing_renewals_and_losses_are_logged),
        CASE(test_child_of_fork_keeps_no_connection),
        CASE(test_fork_while_servers_are_opened_ends),
        CASE(test_nothing_is_not_held),
        CASE(test_error_text_is_the_threads_own),
        CASE(test_client_is_closed_before_its_handles),
    };
    if (!servers_open("lock"))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    redis_forget_all();
    redis_close(&servers.commands);
    return failed;
}
