/* A host that sleeps: its monotonic clock stands still meanwhile, its boot-time clock goes on, and
 * so does the server's. This program stands between the library and the clocks. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "lock/test_support.h"

#include <dlfcn.h>
#include <sys/syscall.h>

static _Atomic int64_t slept_s;

/* In place of the C library's. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_BOOTTIME)
        now->tv_sec += slept_s;
    return result;
}

static _Atomic int64_t longest_nap_ns; /* that the library's threads have asked for */

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                           const struct timespec *until)
{
    int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    int64_t nap_ns = (int64_t)until->tv_sec * 1000000000 + until->tv_nsec - real_now_ns();
    int64_t longest_ns = longest_nap_ns;
    while (nap_ns > longest_ns &&
           !atomic_compare_exchange_weak(&longest_nap_ns, &longest_ns, nap_ns))
        ;
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    return real(condition, mutex, until);
}

static atomic_int losses;

static void count_loss(struct seclock_handle *handle, void *context)
{
    (void)handle;
    (void)context;
    losses++;
}

static void test_hold_is_lost_while_the_host_sleeps(void **state)
{
    (void)state;
    struct seclock_handle *handle;
    struct seclock_client *client = client_open(SECLOCK_KIND_SIMPLE, SECLOCK_OPTIONS(.prefix = ""));
    struct seclock_request request =
        SECLOCK_REQUEST(.name = "n", .lease_ms = 60000, .on_lost = count_loss);
    assert_result(seclock_acquire(client, &request, &handle), SECLOCK_OK);
    wait_for(longest_nap_ns > 0); /* the watchdog sleeps, too */
    slept_s = 3600;
    wait_for(losses == 1);
    assert_int_in_range(longest_nap_ns, 1, 1000 * INT64_C(1000000)); /* told within a second */
    assert_int_equal(seclock_remaining_ms(handle), 0);
    assert_int_equal(seclock_state(handle), SECLOCK_STATE_LOST);
    assert_result(seclock_release(handle), SECLOCK_LOST);
    seclock_free(&handle);
    seclock_close(&client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hold_is_lost_while_the_host_sleeps),
    };
    if (!servers_open("suspend"))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    redis_forget_all();
    redis_close(&servers.commands);
    return failed;
}
