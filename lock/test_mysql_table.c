/* Repeated requests of the table lock: what follows from a lost answer. */
#include "lock/test_support.h"

#include "lock/client.h"

static struct seclock_client *client;
static const struct lock_driver *driver;
static void *self;
static char name[32];

static struct db *database(void)
{
    char error[128];
    struct db *db = db_open(servers.mysql, 5000, error, sizeof error);
    assert_non_null(db);
    return db;
}

static int begin(void **state)
{
    static int tests;
    (void)state;
    client = client_open(SECLOCK_KIND_TABLE, SECLOCK_OPTIONS(.timeout_ms = 3000));
    snprintf(name, sizeof name, "table-%d", ++tests);
    return client_driver(client, SECLOCK_KIND_TABLE, &driver, &self) == SECLOCK_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    seclock_close(&client);
    return 0;
}

/* A handle as the core makes it: each hold of an owner has a number of its own. */
static struct seclock_handle handle_of(int owner, int number)
{
    struct seclock_handle handle = {
        .core = client_core(client), .now_ns = real_now_ns, .lease_ms = 20000};
    handle.deadline_ns = real_now_ns() + handle_valid_ns(handle.lease_ms);
    strcpy(handle.name, name);
    snprintf(handle.owner, SECLOCK_TOKEN_MAX, "%s-%x", seclock_client_id(client), owner);
    snprintf(handle.request, SECLOCK_TOKEN_MAX, "%s-%x-%x", seclock_client_id(client), owner,
             number);
    return handle;
}

static enum seclock_result renew(struct seclock_handle *handle)
{
    enum seclock_result result;
    driver->renew(self, &handle, 1, &result);
    return result;
}

static int count(void)
{
    struct seclock_status status = SECLOCK_STATUS();
    assert_result(driver->status(driver, self, name, &status), SECLOCK_OK);
    return (int)status.count;
}

static void test_acquisition_is_counted_once(void **state)
{
    (void)state;
    struct seclock_handle first = handle_of(1, 1), second = handle_of(1, 2),
                          third = handle_of(1, 3);
    assert_result(driver->acquire(self, &first), SECLOCK_OK);
    assert_result(driver->acquire(self, &second), SECLOCK_OK);
    assert_result(driver->acquire(self, &third), SECLOCK_OK);
    assert_result(driver->acquire(self, &first), SECLOCK_OK);
    assert_result(driver->acquire(self, &second), SECLOCK_OK);
    assert_int_equal(count(), 3);
    assert_int_equal(first.fence, third.fence);
    struct seclock_handle other = handle_of(2, 1);
    assert_result(driver->acquire(self, &other), SECLOCK_BUSY);
    assert_result(driver->release(self, &first), SECLOCK_OK);
    assert_result(driver->release(self, &second), SECLOCK_OK);
    assert_result(driver->release(self, &third), SECLOCK_OK);
    assert_result(driver->acquire(self, &other), SECLOCK_OK);
    assert_result(driver->release(self, &other), SECLOCK_OK);
}

/* A caller whose first tries were not answered counts its lease from the one that is. */
static void test_repeated_acquisition_renews(void **state)
{
    (void)state;
    struct seclock_handle first = handle_of(1, 1), second = handle_of(1, 2);
    first.lease_ms = 5000;
    assert_result(driver->acquire(self, &first), SECLOCK_OK);
    uint64_t fence = first.fence;
    first.lease_ms = 60000;
    assert_result(driver->acquire(self, &first), SECLOCK_OK);
    assert_int_equal(first.fence, fence);
    assert_int_equal(first.hold_count, 1);
    struct seclock_status status = SECLOCK_STATUS();
    assert_result(driver->status(driver, self, name, &status), SECLOCK_OK);
    assert_int_in_range(status.remaining_ms, 30000, 60000);
    assert_result(driver->acquire(self, &second), SECLOCK_OK);
    assert_result(driver->release(self, &first), SECLOCK_OK);
    assert_int_equal(count(), 1);
    assert_result(driver->release(self, &second), SECLOCK_OK);
    assert_int_equal(count(), 0);
}

static void test_release_is_counted_once(void **state)
{
    (void)state;
    struct seclock_handle first = handle_of(1, 1), second = handle_of(1, 2),
                          third = handle_of(1, 3);
    assert_result(driver->acquire(self, &first), SECLOCK_OK);
    assert_result(driver->acquire(self, &second), SECLOCK_OK);
    assert_result(driver->acquire(self, &third), SECLOCK_OK);
    assert_result(driver->release(self, &first), SECLOCK_OK);
    assert_result(driver->release(self, &second), SECLOCK_OK);
    assert_result(driver->release(self, &first), SECLOCK_OK); /* it does not release the third */
    assert_result(driver->release(self, &second), SECLOCK_OK);
    assert_int_equal(count(), 1);
    assert_result(renew(&third), SECLOCK_OK);
    assert_result(renew(&first), SECLOCK_LOST);
    assert_result(driver->release(self, &third), SECLOCK_OK);
    struct seclock_handle other = handle_of(2, 1);
    assert_result(driver->acquire(self, &other), SECLOCK_OK);
    assert_result(driver->release(self, &third), SECLOCK_OK); /* its answer was lost, too */
    assert_int_equal(count(), 1);
    assert_result(driver->release(self, &other), SECLOCK_OK);
}

/* The second acquisition was not answered; a renewal finds it, after a third one. */
static void test_unknown_hold_is_found_behind_another(void **state)
{
    (void)state;
    struct seclock_handle first = handle_of(1, 1), second = handle_of(1, 2),
                          third = handle_of(1, 3);
    assert_result(driver->acquire(self, &first), SECLOCK_OK);
    assert_result(driver->acquire(self, &second), SECLOCK_OK);
    second.fence = 0;
    assert_result(driver->acquire(self, &third), SECLOCK_OK);
    assert_result(renew(&second), SECLOCK_OK);
    assert_int_equal(second.fence, first.fence);
    second.fence = 0;
    assert_result(driver->release(self, &second), SECLOCK_OK);
    assert_int_equal(count(), 2);
    assert_result(driver->release(self, &third), SECLOCK_OK);
    assert_result(driver->release(self, &first), SECLOCK_OK);
    assert_int_equal(count(), 0);
}

/* An owner that lost the lock and acquires it again does not get its old holds back. */
static void test_holds_end_with_the_lease(void **state)
{
    (void)state;
    struct seclock_handle first = handle_of(1, 1), second = handle_of(1, 2);
    assert_result(driver->acquire(self, &first), SECLOCK_OK);
    assert_result(driver->break_lock(driver, self, name), SECLOCK_OK);
    assert_result(driver->acquire(self, &second), SECLOCK_OK);
    assert_true(second.fence > first.fence);
    assert_int_equal(count(), 1);
    assert_result(renew(&first), SECLOCK_LOST);
    assert_result(driver->release(self, &first), SECLOCK_LOST);
    assert_result(driver->release(self, &second), SECLOCK_OK);
}

/* Another transaction keeps the row locked: the watchdog has other locks to renew, and an answer
 * after the lease is of no use. */
static void test_renewal_waits_no_longer_than_the_hold_is_valid(void **state)
{
    (void)state;
    struct seclock_handle handle = handle_of(1, 1);
    struct db *db = database();
    char text[200];
    assert_result(driver->acquire(self, &handle), SECLOCK_OK);
    snprintf(text, sizeof text,
             "START TRANSACTION;"
             "SELECT fence FROM distributed_lock WHERE name=CONCAT('%s',CHAR(0),'%s')"
             " LOCK IN SHARE MODE",
             servers.prefix, name);
    assert_int_equal(db_query(db, text, strlen(text)), DB_OK);
    handle.deadline_ns = real_now_ns() + 300 * INT64_C(1000000);
    int64_t began_ms = now_ms();
    assert_result(renew(&handle), SECLOCK_UNKNOWN);
    assert_true(now_ms() - began_ms < 2500);
    db_close(&db);
    handle.deadline_ns = real_now_ns() + handle_valid_ns(handle.lease_ms);
    wait_for(renew(&handle) == SECLOCK_OK);
    assert_result(driver->release(self, &handle), SECLOCK_OK);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_acquisition_is_counted_once),
        CASE(test_repeated_acquisition_renews),
        CASE(test_release_is_counted_once),
        CASE(test_unknown_hold_is_found_behind_another),
        CASE(test_holds_end_with_the_lease),
        CASE(test_renewal_waits_no_longer_than_the_hold_is_valid),
    };
    if (!servers_open("table"))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    redis_close(&servers.commands);
    return failed;
}
