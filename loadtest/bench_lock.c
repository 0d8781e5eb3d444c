/* Measures the locks next to the limit that their server sets: acquire and release, and hand-over.
 *
 * usage: bench_lock [seconds]
 *
 * SECKILL_REDIS_URL, SECKILL_MYSQL_URL and SECKILL_ZOOKEEPER_URL name the servers; those not set
 * are left out. The limit of Redis is one SET NX PX and one EVALSHA of compare-and-delete by plain
 * hiredis. Limit and lock take turns of a few ms, so that whatever else the machine does befalls
 * both. Hand-over is the time from before lock_release in one thread to after lock_acquire in
 * another one, which slept. A round trip is half a limit pair, measured before each release. */
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lock/lock.h"

enum {
    SLICE_NS = 4000000,
    SAMPLES_MAX = 4000,
    RED_SERVERS = 3,
    URL_MAX = 256,
    LOOK_US = 50,     /* between looks whether the other one waits */
    SETTLE_US = 1500, /* from then until it is asleep for good */
    BACK_OFF_US = 100,
    LEASE_MS = 10000,
};

static const char release_text[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

static char release_sha1[41];
static redisContext *raw;
static int seconds = 2;
static char red_urls[RED_SERVERS][URL_MAX];

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void sleep_us(int us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000L}, NULL);
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "bench_lock: %s: %s\n", what, why);
    exit(1);
}

/* ---- the limit ---- */

static redisReply *raw_reply(redisReply *reply)
{
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        die("redis", reply ? reply->str : raw->errstr);
    return reply;
}

/* False for addresses with a password, which the benches' own servers do not need. */
static bool raw_open(const char *url)
{
    char host[URL_MAX] = "127.0.0.1";
    int port = 6379, db = 0;
    if (strchr(url, '@') || sscanf(url, "redis://%255[^:/]:%d/%d", host, &port, &db) < 1)
        return false;
    raw = redisConnect(host, port);
    if (!raw || raw->err)
        die("redis", raw ? raw->errstr : "out of memory");
    freeReplyObject(raw_reply(redisCommand(raw, "SELECT %d", db)));
    redisReply *reply = raw_reply(redisCommand(raw, "SCRIPT LOAD %s", release_text));
    snprintf(release_sha1, sizeof release_sha1, "%s", reply->str);
    freeReplyObject(reply);
    return true;
}

static void raw_pair(void)
{
    static const char token[] = "0123456789abcdef0123456789abcdef-1-1";
    freeReplyObject(raw_reply(redisCommand(raw, "SET {bench}:raw %s NX PX 10000", token)));
    freeReplyObject(
        raw_reply(redisCommand(raw, "EVALSHA %s 1 {bench}:raw %s", release_sha1, token)));
}

/* ---- one kind of lock ---- */

struct subject {
    enum lock_kind kind;
    const char *url;
    struct lock_client *client;
    double pairs_per_s, limit_per_s;    /* the limit is 0 where none is known */
    double median_us, late_us, trip_us; /* of hand-over; 1 % come later than late_us */
};

static struct lock_handle *take(const struct subject *subject, int wait_ms)
{
    struct lock_handle *hold;
    bool permits = subject->kind == LOCK_KIND_SEMAPHORE || subject->kind == LOCK_KIND_PERMIT;
    struct lock_request request = {
        .name = "bench", .kind = subject->kind, .wait_ms = wait_ms, .limit = permits ? 1 : 0};
    if (lock_acquire(subject->client, &request, &hold) != LOCK_OK)
        die(lock_kind_name(subject->kind), lock_error());
    return hold;
}

static void give(struct lock_handle *hold)
{
    if (lock_release(hold) != LOCK_OK)
        die("release", lock_error());
    lock_free(&hold);
}

static struct lock_client *client_open(const struct subject *subject)
{
    const char *urls[RED_SERVERS + 1] = {subject->url};
    struct lock_client *client;
    for (int i = 0; subject->kind == LOCK_KIND_RED && i < RED_SERVERS; i++)
        urls[i] = red_urls[i];
    struct lock_options options = {.servers = urls, .prefix = "bench:", .lease_ms = LEASE_MS};
    if (lock_open(&options, &client) != LOCK_OK)
        die(subject->url, lock_error());
    return client;
}

static bool has_limit(const struct subject *subject)
{
    return raw && strncmp(subject->url, "redis://", 8) == 0;
}

/* ---- uncontended ---- */

static void measure_pairs(struct subject *subject)
{
    int64_t lock_ns = 0, limit_ns = 0, locks = 0, limits = 0;
    int64_t until_ns = now_ns() + seconds * INT64_C(1000000000);
    give(take(subject, 0)); /* connects */
    while (now_ns() < until_ns) {
        int64_t began_ns = now_ns(), ended_ns;
        do {
            give(take(subject, 0));
            locks++;
            ended_ns = now_ns();
        } while (ended_ns - began_ns < SLICE_NS);
        lock_ns += ended_ns - began_ns;
        began_ns = ended_ns;
        while (has_limit(subject) && ended_ns - began_ns < SLICE_NS) {
            raw_pair();
            limits++;
            ended_ns = now_ns();
        }
        limit_ns += ended_ns - began_ns;
    }
    subject->pairs_per_s = (double)locks * 1e9 / (double)lock_ns;
    subject->limit_per_s = limits > 0 ? (double)limits * 1e9 / (double)limit_ns : 0;
}

/* ---- hand-over ---- */

struct relay {
    const struct subject *subject;
    _Atomic int64_t released_ns; /* when the last holder began to release */
    _Atomic bool stop;
    _Atomic int count, turns; /* samples; acquisitions */
    double *samples_us, *trips_us;
    int trips; /* the holder's alone, as is the connection for them */
};

static uint64_t waits_of(const struct relay *relay)
{
    return lock_client_stats(relay->subject->client).waits;
}

static void measure_trip(struct relay *relay)
{
    int64_t began_ns = now_ns();
    if (!has_limit(relay->subject) || relay->trips == SAMPLES_MAX)
        return;
    raw_pair();
    relay->trips_us[relay->trips++] = (double)(now_ns() - began_ns) / 2000;
}

/* Two of these pass the lock to and fro: whoever has it waits until the other one sleeps. */
static void *relay_thread(void *argument)
{
    struct relay *relay = argument;
    while (!relay->stop) {
        uint64_t waits = waits_of(relay);
        struct lock_handle *hold = take(relay->subject, LOCK_FOREVER);
        int64_t taken_ns = now_ns(), released_ns = relay->released_ns;
        int turns = ++relay->turns;
        if (released_ns > 0 && waits_of(relay) > waits && relay->count < SAMPLES_MAX)
            relay->samples_us[relay->count++] = (double)(taken_ns - released_ns) / 1000;
        waits = waits_of(relay);
        for (int i = 0; i < 200 && waits_of(relay) == waits; i++)
            sleep_us(LOOK_US);
        sleep_us(SETTLE_US);
        measure_trip(relay);
        relay->released_ns = now_ns();
        give(hold);
        while (relay->turns == turns && !relay->stop) /* the other one goes first */
            sleep_us(BACK_OFF_US);
    }
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double percentile(double *samples, int count, int percent)
{
    qsort(samples, (size_t)count, sizeof *samples, by_size);
    return count > 0 ? samples[(count - 1) * percent / 100] : 0;
}

static void measure_hand_over(struct subject *subject)
{
    pthread_t threads[2];
    static double samples_us[SAMPLES_MAX], trips_us[SAMPLES_MAX];
    struct relay relay = {.subject = subject, .samples_us = samples_us, .trips_us = trips_us};
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, relay_thread, &relay) != 0)
            die("pthread_create", "no thread");
    for (int64_t until_ns = now_ns() + seconds * INT64_C(1000000000); now_ns() < until_ns;)
        sleep_us(BACK_OFF_US * 100);
    relay.stop = true;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    subject->median_us = percentile(samples_us, relay.count, 50);
    subject->late_us = percentile(samples_us, relay.count, 99);
    subject->trip_us = percentile(trips_us, relay.trips, 50);
}

/* ---- all of them ---- */

static void print_ratio(double value, double limit)
{
    if (limit > 0)
        printf(" %7.2f", value / limit);
    else
        printf(" %7s", "-");
}

static void measure(enum lock_kind kind, const char *url)
{
    struct subject subject = {.kind = kind, .url = url};
    subject.client = client_open(&subject);
    measure_pairs(&subject);
    measure_hand_over(&subject);
    lock_close(&subject.client);
    printf("%-11s %9.0f %9.0f", lock_kind_name(kind), subject.pairs_per_s, subject.limit_per_s);
    print_ratio(subject.pairs_per_s, subject.limit_per_s);
    printf(" %11.0f %9.0f %9.0f", subject.median_us, subject.late_us, subject.trip_us);
    print_ratio(subject.median_us, subject.trip_us);
    printf("\n");
    fflush(stdout);
}

static void measure_all(const char *scheme, const char *url)
{
#define SCHEME(id, name, scheme, what) scheme,
    static const char *const schemes[] = {LOCK_KINDS(SCHEME)};
#undef SCHEME
    if (!url)
        fprintf(stderr, "bench_lock: no %s server is named: its locks are left out\n", scheme);
    for (int kind = 0; url && kind < LOCK_KIND_COUNT; kind++)
        if (strcmp(schemes[kind], scheme) == 0 && kind != LOCK_KIND_LATCH)
            measure((enum lock_kind)kind, url);
}

static void red_urls_fill(const char *url)
{
    const char *slash = strrchr(url, '/');
    int base = slash > url + 8 ? (int)(slash - url) : (int)strlen(url);
    for (int i = 0; i < RED_SERVERS; i++) /* databases in the place of independent servers */
        snprintf(red_urls[i], URL_MAX, "%.*s/%d", base, url, 13 + i);
}

int main(int argc, char **argv)
{
    const char *redis = getenv("SECKILL_REDIS_URL");
    if (argc > 1)
        seconds = atoi(argv[1]);
    if (argc > 2 || seconds < 1) {
        fprintf(stderr, "usage: bench_lock [seconds]\n");
        return 2;
    }
    if (redis && !raw_open(redis))
        fprintf(stderr, "bench_lock: no limit is measured for an address with a password\n");
    if (redis)
        red_urls_fill(redis);
    printf("%-11s %27s %40s\n", "", "acquire + release", "hand-over to a waiter");
    printf("%-11s %9s %9s %7s %11s %9s %9s %7s\n", "kind", "pairs/s", "limit/s", "ratio",
           "median us", "99 % us", "trip us", "trips");
    measure_all("redis", redis);
    measure_all("mysql", getenv("SECKILL_MYSQL_URL"));
    measure_all("zookeeper", getenv("SECKILL_ZOOKEEPER_URL"));
    if (raw)
        redisFree(raw);
    return 0;
}
