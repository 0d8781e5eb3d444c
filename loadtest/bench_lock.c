/* Measures locks next to the limit that their server sets: acquire and release, and hand-over.
 *
 * usage: bench_lock MS KIND...
 *
 * SECKILL_REDIS_URL, SECKILL_MYSQL_URL, SECKILL_ZOOKEEPER_URL and SECKILL_ETCD_URL name the
 * servers. Each kind is measured for twice MS milliseconds and gives one line of JSON.
 *
 * Uncontended: limit (bench_limit.h) and lock take turns in slices of a few ms, so that whatever
 * else the machine does befalls both; each slice of the lock is compared with the limit's slices
 * before and after it, and the median of these ratios counts.
 *
 * Hand-over: from just before seclock_release in one thread until seclock_acquire has returned in
 * another one, which slept. Each thread has a client of its own, so to the server they are two
 * processes.
 * Before each release, and after as much rest, the second request of the limit is timed: that is a
 * round trip. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "loadtest/bench_limit.h"

enum {
    SLICE_NS = 4000000,
    WARM_PAIRS = 20,
    SAMPLES_MAX = 20000,
    RED_SERVERS = 3,
    URL_MAX = 256,
    LOOK_US = 50, /* between checks whether the other one waits */
    LOOKS_MAX = 200,
    SETTLE_US = 1500, /* from then until it is asleep for good */
    BACK_OFF_US = 100,
    LEASE_MS = 10000,
};

struct subject {
    enum seclock_kind kind;
    const char *url;
    char red_urls[RED_SERVERS][URL_MAX];
    struct seclock_client *clients[2];
    const struct limit *limit;
};

/* Samples of one figure, of which the percentiles count. */
struct samples {
    int count;
    double values[SAMPLES_MAX];
};

static int measure_ms;

static int64_t clock_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t now_ns(void)
{
    return clock_of(CLOCK_MONOTONIC);
}

static void sleep_us(int us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000L}, NULL);
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

static double percentile(struct samples *samples, int percent)
{
    qsort(samples->values, (size_t)samples->count, sizeof *samples->values, by_size);
    return samples->count > 0 ? samples->values[(samples->count - 1) * percent / 100] : 0;
}

static void print(const char *name, double value)
{
    printf(", \"%s\": %.3f", name, value);
}

/* ---- one hold ---- */

static struct seclock_handle *take(const struct subject *subject, int who, int wait_ms)
{
    struct seclock_handle *hold;
    bool permits = subject->kind == SECLOCK_KIND_SEMAPHORE || subject->kind == SECLOCK_KIND_PERMIT;
    struct seclock_request request = SECLOCK_REQUEST(.name = "bench", .kind = subject->kind,
                                                     .wait_ms = wait_ms, .limit = permits ? 1 : 0);
    if (seclock_acquire(subject->clients[who], &request, &hold) != SECLOCK_OK)
        die(seclock_kind_name(subject->kind), seclock_error());
    return hold;
}

static void give(struct seclock_handle *hold)
{
    if (seclock_release(hold) != SECLOCK_OK)
        die("release", seclock_error());
    seclock_free(&hold);
}

/* ---- uncontended ---- */

/* The time and the processor time of one pair, in ns. */
struct cost {
    double wall, cpu;
};

static void lock_pair(const struct subject *subject)
{
    give(take(subject, 0, 0));
}

static void limit_pair(const struct subject *subject)
{
    subject->limit->first();
    subject->limit->second();
}

static struct cost slice(const struct subject *subject, void (*pair)(const struct subject *subject),
                         int64_t *pairs)
{
    int64_t began_ns = now_ns(), cpu_ns = clock_of(CLOCK_PROCESS_CPUTIME_ID), ended_ns;
    int64_t done = 0;
    do {
        pair(subject);
        done++;
        ended_ns = now_ns();
    } while (ended_ns - began_ns < SLICE_NS);
    cpu_ns = clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
    *pairs += done;
    return (struct cost){(double)(ended_ns - began_ns) / (double)done,
                         (double)cpu_ns / (double)done};
}

static void measure_pairs(const struct subject *subject)
{
    static struct samples wall, cpu, limit_wall, limit_cpu, ratios;
    int64_t pairs = 0, limits = 0;
    wall.count = cpu.count = limit_wall.count = limit_cpu.count = ratios.count = 0;
    for (int i = 0; i < WARM_PAIRS; i++) {
        lock_pair(subject);
        limit_pair(subject);
    }
    struct cost before = slice(subject, limit_pair, &limits);
    int64_t until_ns = now_ns() + measure_ms * INT64_C(1000000);
    while (now_ns() < until_ns) {
        struct cost lock = slice(subject, lock_pair, &pairs);
        struct cost after = slice(subject, limit_pair, &limits);
        add(&wall, lock.wall / 1e3);
        add(&cpu, lock.cpu / 1e3);
        add(&limit_wall, after.wall / 1e3);
        add(&limit_cpu, after.cpu / 1e3);
        add(&ratios, (before.wall + after.wall) / 2 / lock.wall);
        before = after;
    }
    printf(", \"pairs\": %lld, \"slices\": %d", (long long)pairs, ratios.count);
    print("pair_us", percentile(&wall, 50));
    print("limit_us", percentile(&limit_wall, 50));
    print("ratio", percentile(&ratios, 50));
    print("ratio_p25", percentile(&ratios, 25));
    print("ratio_p75", percentile(&ratios, 75));
    print("cpu_us", percentile(&cpu, 50));
    print("limit_cpu_us", percentile(&limit_cpu, 50));
}

/* ---- hand-over ---- */

struct relay {
    const struct subject *subject;
    _Atomic int64_t released_ns; /* when the last holder began to release */
    _Atomic bool stop;
    _Atomic int turns;                  /* acquisitions */
    struct samples *hand_overs, *trips; /* the holder's alone, as is the limit */
};

struct runner {
    struct relay *relay;
    int who;
};

static uint64_t waits_of(const struct relay *relay, int who)
{
    struct seclock_stats stats = SECLOCK_STATS();
    seclock_client_stats(relay->subject->clients[who], &stats);
    return stats.waits;
}

static void measure_trip(struct relay *relay)
{
    relay->subject->limit->first();
    sleep_us(SETTLE_US);
    int64_t began_ns = now_ns();
    relay->subject->limit->second();
    add(relay->trips, (double)(now_ns() - began_ns) / 1e3);
}

/* Two of these threads hand the lock to and fro: the holder waits until the other one sleeps. */
static void *relay_thread(void *argument)
{
    const struct runner *runner = argument;
    struct relay *relay = runner->relay;
    while (!relay->stop) {
        uint64_t waits = waits_of(relay, runner->who);
        struct seclock_handle *hold = take(relay->subject, runner->who, SECLOCK_FOREVER);
        int64_t taken_ns = now_ns(), released_ns = relay->released_ns;
        int turns = ++relay->turns;
        if (released_ns > 0 && waits_of(relay, runner->who) > waits)
            add(relay->hand_overs, (double)(taken_ns - released_ns) / 1e3);
        waits = waits_of(relay, 1 - runner->who);
        for (int i = 0; i < LOOKS_MAX && waits_of(relay, 1 - runner->who) == waits; i++)
            sleep_us(LOOK_US);
        measure_trip(relay);
        sleep_us(SETTLE_US);
        relay->released_ns = now_ns();
        give(hold);
        while (relay->turns == turns && !relay->stop) /* the other one goes first */
            sleep_us(BACK_OFF_US);
    }
    return NULL;
}

static void measure_hand_over(const struct subject *subject)
{
    static struct samples hand_overs, trips;
    struct relay relay = {.subject = subject, .hand_overs = &hand_overs, .trips = &trips};
    struct runner runners[2] = {{&relay, 0}, {&relay, 1}};
    pthread_t threads[2];
    hand_overs.count = trips.count = 0;
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, relay_thread, &runners[i]) != 0)
            die("pthread_create", "no thread");
    for (int64_t until_ns = now_ns() + measure_ms * INT64_C(1000000); now_ns() < until_ns;)
        sleep_us(BACK_OFF_US * 100);
    relay.stop = true;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    double median_us = percentile(&hand_overs, 50), trip_us = percentile(&trips, 50);
    printf(", \"hand_overs\": %d", hand_overs.count);
    print("hand_over_us", median_us);
    print("hand_over_p99_us", percentile(&hand_overs, 99));
    print("trip_us", trip_us);
    print("trips", trip_us > 0 ? median_us / trip_us : 0);
}

/* ---- all kinds ---- */

static struct seclock_client *client_open(const struct subject *subject)
{
    const char *urls[RED_SERVERS + 1] = {subject->url};
    struct seclock_client *client;
    for (int i = 0; subject->kind == SECLOCK_KIND_RED && i < RED_SERVERS; i++)
        urls[i] = subject->red_urls[i];
    struct seclock_options options =
        SECLOCK_OPTIONS(.servers = urls, .prefix = "bench:", .lease_ms = LEASE_MS);
    if (seclock_open(&options, &client) != SECLOCK_OK)
        die(subject->url, seclock_error());
    return client;
}

/* Databases of one server stand in for independent servers. */
static void red_urls_fill(struct subject *subject)
{
    const char *url = subject->url, *slash = strrchr(url, '/');
    int base = slash > url + 8 ? (int)(slash - url) : (int)strlen(url);
    for (int i = 0; i < RED_SERVERS; i++)
        snprintf(subject->red_urls[i], URL_MAX, "%.*s/%d", base, url, 13 + i);
}

static const char *url_for(enum seclock_kind kind)
{
    const char *variable = "SECKILL_REDIS_URL";
    if (kind == SECLOCK_KIND_TABLE || kind == SECLOCK_KIND_GET_LOCK)
        variable = "SECKILL_MYSQL_URL";
    else if (kind == SECLOCK_KIND_QUEUE)
        variable = "SECKILL_ZOOKEEPER_URL";
    else if (kind == SECLOCK_KIND_ETCD)
        variable = "SECKILL_ETCD_URL";
    const char *url = getenv(variable);
    if (!url)
        die(variable, "not set");
    return url;
}

static void measure(enum seclock_kind kind)
{
    struct subject subject = {.kind = kind, .url = url_for(kind)};
    subject.limit = limit_open(kind, subject.url);
    if (!subject.limit)
        die(subject.url, "no limit can be measured at this address");
    red_urls_fill(&subject);
    for (int i = 0; i < 2; i++)
        subject.clients[i] = client_open(&subject);
    printf("{\"kind\": \"%s\", \"limit\": \"%s\"", seclock_kind_name(kind), subject.limit->what);
    measure_pairs(&subject);
    measure_hand_over(&subject);
    printf("}\n");
    fflush(stdout);
    for (int i = 0; i < 2; i++)
        seclock_close(&subject.clients[i]);
}

static int kind_of(const char *name)
{
    int kind = 0;
    while (kind < SECLOCK_KIND_COUNT &&
           strcmp(seclock_kind_name((enum seclock_kind)kind), name) != 0)
        kind++;
    return kind;
}

int main(int argc, char **argv)
{
    measure_ms = argc > 2 ? (int)strtol(argv[1], NULL, 10) : 0;
    if (measure_ms < 1) {
        fprintf(stderr, "usage: bench_lock MS KIND...\n");
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        int kind = kind_of(argv[i]);
        if (kind == SECLOCK_KIND_COUNT || kind == SECLOCK_KIND_LATCH)
            die(argv[i], "no such kind");
        measure((enum seclock_kind)kind);
    }
    return 0;
}
