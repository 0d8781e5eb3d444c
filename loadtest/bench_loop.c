/* Measures the form for event loops next to the calls that wait, on one Redis.
 *
 * usage: bench_loop MS HOLDS HOLD_SECONDS
 *
 * SECKILL_REDIS_URL names the server. Prints one line of JSON: pairs of acquire and release by one
 * who has the lock to himself, in turns of a few ms by either form; hand-overs to a waiter of
 * either form, one after the other; and the processor time of a process that holds HOLDS locks with
 * a lease of 30 s for HOLD_SECONDS, in parts of one core. */
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "loadtest/bench_limit.h"

enum { SLICE_NS = 4000000, SAMPLES_MAX = 20000, SETTLE_US = 1500, LOOK_US = 50 };

struct samples {
    int count;
    double values[SAMPLES_MAX];
};

static struct seclock_client *holder, *waiter, *looper;
static struct seclock_loop *loop;

/* ---- figures ---- */

static int64_t clock_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void add(struct samples *samples, double value)
{
    if (samples->count < SAMPLES_MAX)
        samples->values[samples->count++] = value;
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(struct samples *samples)
{
    qsort(samples->values, (size_t)samples->count, sizeof *samples->values, by_size);
    return samples->count > 0 ? samples->values[samples->count / 2] : 0;
}

/* ---- the two forms ---- */

static struct seclock_handle *take(struct seclock_client *client, int wait_ms)
{
    struct seclock_handle *hold;
    struct seclock_request request = SECLOCK_REQUEST(.name = "bench", .wait_ms = wait_ms);
    if (seclock_acquire(client, &request, &hold) != SECLOCK_OK)
        die("acquire", seclock_error());
    return hold;
}

static void give(struct seclock_handle *hold)
{
    if (seclock_release(hold) != SECLOCK_OK)
        die("release", seclock_error());
    seclock_free(&hold);
}

static struct seclock_handle *next(void)
{
    struct seclock_event event = SECLOCK_EVENT();
    struct pollfd readable = {.fd = seclock_loop_fd(loop), .events = POLLIN};
    while (!seclock_loop_next(loop, &event))
        poll(&readable, 1, -1);
    if (event.result != SECLOCK_OK)
        die("event", seclock_error());
    return event.handle;
}

static struct seclock_handle *begin(const char *name, int wait_ms)
{
    struct seclock_handle *hold;
    struct seclock_request request =
        SECLOCK_REQUEST(.name = name, .wait_ms = wait_ms, .lease_ms = 30000);
    if (seclock_loop_acquire(loop, &request, &hold) != SECLOCK_OK)
        die("acquire", seclock_error());
    return hold;
}

static struct seclock_handle *take_in_loop(struct seclock_client *client, int wait_ms)
{
    (void)client;
    begin("bench", wait_ms);
    return next();
}

static void give_in_loop(struct seclock_handle *hold)
{
    seclock_loop_release(loop, hold);
    hold = next();
    seclock_free(&hold);
}

/* ---- uncontended ---- */

static double slice(bool in_loop)
{
    int64_t began_ns = clock_of(CLOCK_MONOTONIC), ended_ns;
    int done = 0;
    do {
        if (in_loop)
            give_in_loop(take_in_loop(looper, 0));
        else
            give(take(waiter, 0));
        done++;
        ended_ns = clock_of(CLOCK_MONOTONIC);
    } while (ended_ns - began_ns < SLICE_NS);
    return (double)(ended_ns - began_ns) / 1e3 / done;
}

static void measure_pairs(int ms)
{
    static struct samples waits, loops, ratios;
    double before = slice(false);
    for (int64_t until_ns = clock_of(CLOCK_MONOTONIC) + ms * INT64_C(1000000);
         clock_of(CLOCK_MONOTONIC) < until_ns;) {
        double in_loop = slice(true), after = slice(false);
        add(&loops, in_loop);
        add(&waits, after);
        add(&ratios, (before + after) / 2 / in_loop);
        before = after;
    }
    printf("{\"pair_us\": %.1f, \"loop_pair_us\": %.1f, \"pair_ratio\": %.3f", median(&waits),
           median(&loops), median(&ratios));
}

/* ---- hand-over ---- */

static sem_t asked;                 /* the holder is to take the lock */
static sem_t held;                  /* it has */
static _Atomic int64_t released_ns; /* when it began to release */
static struct seclock_client *_Atomic next_waiter;
static _Atomic bool stop;

static uint64_t waits_of(struct seclock_client *client)
{
    struct seclock_stats stats = SECLOCK_STATS();
    seclock_client_stats(client, &stats);
    return stats.waits;
}

static void sleep_us(int us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000L}, NULL);
}

/* Holds the lock until the waiter sleeps, and then releases it. */
static void *hold_thread(void *argument)
{
    for (;;) {
        sem_wait(&asked);
        if (stop)
            return argument;
        struct seclock_handle *hold = take(holder, SECLOCK_FOREVER);
        uint64_t waits = waits_of(next_waiter);
        sem_post(&held);
        while (waits_of(next_waiter) == waits)
            sleep_us(LOOK_US);
        sleep_us(SETTLE_US);
        released_ns = clock_of(CLOCK_MONOTONIC);
        give(hold);
    }
}

static double hand_over(bool in_loop)
{
    next_waiter = in_loop ? looper : waiter;
    sem_post(&asked);
    sem_wait(&held);
    struct seclock_handle *hold =
        in_loop ? take_in_loop(looper, SECLOCK_FOREVER) : take(waiter, SECLOCK_FOREVER);
    double us = (double)(clock_of(CLOCK_MONOTONIC) - released_ns) / 1e3;
    if (in_loop)
        give_in_loop(hold);
    else
        give(hold);
    return us;
}

static void measure_hand_overs(int ms)
{
    static struct samples waits, loops;
    pthread_t thread;
    sem_init(&asked, 0, 0);
    sem_init(&held, 0, 0);
    if (pthread_create(&thread, NULL, hold_thread, NULL) != 0)
        die("pthread_create", "no thread");
    for (int64_t until_ns = clock_of(CLOCK_MONOTONIC) + ms * INT64_C(1000000);
         clock_of(CLOCK_MONOTONIC) < until_ns;) {
        add(&waits, hand_over(false));
        add(&loops, hand_over(true));
    }
    stop = true;
    sem_post(&asked);
    pthread_join(thread, NULL);
    double waiting_us = median(&waits), loop_us = median(&loops);
    printf(", \"hand_overs\": %d, \"hand_over_us\": %.1f, \"loop_hand_over_us\": %.1f, "
           "\"hand_over_ratio\": %.3f",
           loops.count, waiting_us, loop_us, waiting_us / loop_us);
}

/* ---- many holds ---- */

static int threads_now(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks)
        die("/proc/self/task", "not there");
    while (readdir(tasks))
        count++;
    closedir(tasks);
    return count - 2;
}

static void measure_holds(int holds, int seconds)
{
    char name[32];
    struct seclock_stats before = SECLOCK_STATS(), after = SECLOCK_STATS();
    int threads = threads_now();
    int64_t began_ns = clock_of(CLOCK_MONOTONIC);
    for (int i = 0; i < holds; i++) {
        snprintf(name, sizeof name, "hold-%d", i);
        begin(name, 0);
    }
    for (int i = 0; i < holds; i++)
        next();
    double rate = holds * 1e9 / (double)(clock_of(CLOCK_MONOTONIC) - began_ns);
    seclock_client_stats(looper, &before);
    began_ns = clock_of(CLOCK_MONOTONIC);
    int64_t cpu_ns = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    struct pollfd readable = {.fd = seclock_loop_fd(loop), .events = POLLIN};
    struct seclock_event event = SECLOCK_EVENT();
    for (int64_t until_ns = began_ns + seconds * INT64_C(1000000000), left_ns;
         (left_ns = until_ns - clock_of(CLOCK_MONOTONIC)) > 0;) {
        poll(&readable, 1, (int)(left_ns / 1000000) + 1);
        while (seclock_loop_next(loop, &event))
            die("a hold", seclock_error());
    }
    cpu_ns = clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
    seclock_client_stats(looper, &after);
    printf(", \"holds\": %d, \"acquired_per_s\": %.0f, \"core_share\": %.4f, \"renewals\": %llu, "
           "\"lost\": %llu, \"more_threads\": %d}\n",
           holds, rate, (double)cpu_ns / (double)(clock_of(CLOCK_MONOTONIC) - began_ns),
           (unsigned long long)(after.renewals - before.renewals), (unsigned long long)after.lost,
           threads_now() - threads);
}

static struct seclock_client *client_open(void)
{
    struct seclock_client *client;
    const char *const urls[] = {getenv("SECKILL_REDIS_URL"), NULL};
    struct seclock_options options =
        SECLOCK_OPTIONS(.servers = urls, .prefix = "bench:", .timeout_ms = 5000);
    if (seclock_open(&options, &client) != SECLOCK_OK)
        die("SECKILL_REDIS_URL", seclock_error());
    return client;
}

int main(int argc, char **argv)
{
    int ms = argc == 4 ? (int)strtol(argv[1], NULL, 10) : 0;
    if (ms < 1) {
        fprintf(stderr, "usage: bench_loop MS HOLDS HOLD_SECONDS\n");
        return 2;
    }
    holder = client_open();
    waiter = client_open();
    looper = client_open();
    if (seclock_loop_open(looper, &loop) != SECLOCK_OK)
        die("loop", seclock_error());
    measure_pairs(ms);
    measure_hand_overs(ms);
    measure_holds((int)strtol(argv[2], NULL, 10), (int)strtol(argv[3], NULL, 10));
    return 0; /* the holds end with their leases */
}
