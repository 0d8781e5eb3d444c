/* For the tests of lock/: servers from the environment, clients, owners on threads, a clock that
 * tests can move. All keys of a test program begin with a prefix of its own. */
#ifndef LOCK_TEST_SUPPORT_H
#define LOCK_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/test_range.h"
#include "lock/seclock.h"
#ifdef LOCK_TEST_LOOP
#include "lock/test_loop_form.h"
enum { IN_LOOP = 1 };
#else
enum { IN_LOOP = 0 };
#endif
#include "lua/cluster/cluster.h"
#include "lua/command.h"
#include "sql/db/db.h"

enum {
    RED_SERVERS = 3,
    LEASE_MS = 15000,
    POLL_MS = 300,
    REQUEST_MS = 5000, /* for one request, a handshake of TLS included, on a busy machine */
    PATIENCE_MS = 30000,
    SLACK_MS = 9000, /* that a busy machine may add to a wait */
};

struct servers {
    char redis[256], mysql[256], zookeeper[256], etcd[256];
    char red[RED_SERVERS][256]; /* databases of one server stand in for independent servers */
    char prefix[SECLOCK_PREFIX_MAX];
    struct redis *commands; /* the tests' own connection */
};

static struct servers servers;
static _Atomic int64_t clock_ahead_ns;

static inline int64_t real_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* After so many looks at the clock, that one included, an hour passes; 0: none. Only the looks of
 * this thread count, but those of every thread where the loop's threads do the work. */
#ifdef LOCK_TEST_LOOP
static _Atomic int looks_until_jump;
#else
static _Thread_local _Atomic int looks_until_jump;
#endif

static inline int64_t moved_now_ns(void)
{
    int looks = looks_until_jump;
    while (looks > 0 && !atomic_compare_exchange_weak(&looks_until_jump, &looks, looks - 1))
        ;
    if (looks == 1)
        clock_ahead_ns += INT64_C(3600) * 1000000000;
    return real_now_ns() + clock_ahead_ns;
}

static inline int64_t now_ms(void)
{
    return real_now_ns() / 1000000;
}

static inline void sleep_ms(int ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    while (nanosleep(&left, &left) != 0)
        ;
}

/* Waits until another thread or a server has done its part; fails the test when it does not. */
#define wait_for(condition)                                                                        \
    do {                                                                                           \
        int64_t end_ms = now_ms() + PATIENCE_MS;                                                   \
        while (!(condition) && now_ms() < end_ms)                                                  \
            sleep_ms(2);                                                                           \
        assert_true(condition);                                                                    \
    } while (0)

/* Compares results by name, and prints the reason when they differ. */
#define assert_result(call, expected)                                                              \
    do {                                                                                           \
        enum seclock_result result_is = (call), result_wanted = (expected);                        \
        if (result_is != result_wanted)                                                            \
            print_error("%s: %s, not %s (%s)\n", #call, seclock_result_name(result_is),            \
                        seclock_result_name(result_wanted), seclock_error());                      \
        assert_int_equal(result_is, result_wanted);                                                \
    } while (0)

/* As seclock_acquire, for a short lease: again while the machine takes longer than it to answer. */
static inline enum seclock_result acquire_in_time(struct seclock_client *client,
                                                  const struct seclock_request *request,
                                                  struct seclock_handle **hold_out)
{
    enum seclock_result result;
    do
        result = seclock_acquire(client, request, hold_out);
    while (result == SECLOCK_FAILED && strstr(seclock_error(), "after the lease had ended"));
    return result;
}

static inline bool server_from(const char *variable, char out[256], bool needed)
{
    const char *url = getenv(variable);
    snprintf(out, 256, "%s", url ? url : "");
    if (!url && needed)
        fprintf(stderr, "%s is not set: these tests need that server\n", variable);
    return url || !needed;
}

/* False, with the reason printed, when a needed server is missing. */
static inline bool servers_open(const char *program)
{
    char error[128], url[sizeof servers.redis];
    if (!server_from("SECKILL_REDIS_URL", servers.redis, true) ||
        !server_from("SECKILL_MYSQL_URL", servers.mysql, true) ||
        !server_from("SECKILL_ZOOKEEPER_URL", servers.zookeeper, false) ||
        !server_from("SECKILL_ETCD_URL", servers.etcd, false))
        return false;
    /* The number of the database stands at the end, or before the options. */
    memcpy(url, servers.redis, sizeof url);
    const char *options = strchr(servers.redis, '?') ? strchr(servers.redis, '?') : "";
    url[strcspn(url, "?")] = '\0';
    char *slash = strrchr(url, '/');
    if (slash > url + 8)
        *slash = '\0';
    for (int i = 0; i < RED_SERVERS; i++)
        snprintf(servers.red[i], sizeof servers.red[i], "%.200s/%d%.40s", url, 13 + i, options);
    snprintf(servers.prefix, sizeof servers.prefix, "%.16s-%d:", program, (int)getpid());
    servers.commands = redis_open(servers.redis, 2000, error, sizeof error);
    if (!servers.commands)
        fprintf(stderr, "SECKILL_REDIS_URL: %s\n", error);
    if (servers.zookeeper[0] == '\0')
        printf("SECKILL_ZOOKEEPER_URL is not set: the queue lock is not tested\n");
    if (servers.etcd[0] == '\0')
        printf("SECKILL_ETCD_URL is not set: the lock of etcd is not tested\n");
    fflush(stdout);
    return servers.commands != NULL;
}

/* False for a kind that the servers at hand cannot have: of a cluster no majority lock. */
static inline bool kind_served(enum seclock_kind kind)
{
    if (kind == SECLOCK_KIND_QUEUE)
        return servers.zookeeper[0] != '\0';
    if (kind == SECLOCK_KIND_ETCD)
        return servers.etcd[0] != '\0';
    return kind != SECLOCK_KIND_RED || !redis_cluster(servers.commands);
}

/* A client of the servers that the kind uses; the options may be adjusted first. */
static inline struct seclock_client *client_open(enum seclock_kind kind,
                                                 struct seclock_options options)
{
    const char *urls[RED_SERVERS + 1] = {servers.redis};
    struct seclock_client *client;
    if (kind == SECLOCK_KIND_TABLE || kind == SECLOCK_KIND_GET_LOCK)
        urls[0] = servers.mysql;
    else if (kind == SECLOCK_KIND_QUEUE)
        urls[0] = servers.zookeeper;
    else if (kind == SECLOCK_KIND_ETCD)
        urls[0] = servers.etcd;
    for (int i = 0; kind == SECLOCK_KIND_RED && i < RED_SERVERS; i++)
        urls[i] = servers.red[i];
    options.servers = urls;
    options.prefix = servers.prefix;
    options.lease_ms = options.lease_ms ? options.lease_ms : LEASE_MS;
    options.poll_ms = options.poll_ms ? options.poll_ms : POLL_MS;
    options.timeout_ms = options.timeout_ms ? options.timeout_ms : REQUEST_MS;
    assert_result(seclock_open(&options, &client), SECLOCK_OK);
    return client;
}

/* The client's counts since it was opened. */
static inline struct seclock_stats stats_of(struct seclock_client *client)
{
    struct seclock_stats stats = SECLOCK_STATS();
    assert_result(seclock_client_stats(client, &stats), SECLOCK_OK);
    return stats;
}

static inline int64_t number_at(struct redis *redis, struct command command)
{
    command_run(redis, &command, 1);
    assert_int_equal(command.result, REDIS_ANSWERED);
    int64_t number = command_int(&command, -1);
    command_clear(&command, 1);
    return number;
}

/* One Redis command with up to four words, its reply as a number; of a cluster, what all masters
 * reply to a command without a key. */
static inline int64_t redis_number(const char *a, const char *b, const char *c, const char *d)
{
    struct cluster *cluster = redis_cluster(servers.commands);
    struct command command = {.argv = {a, b, c, d}};
    int64_t sum = 0;
    size_t length;
    while (command.argc < 4 && command.argv[command.argc])
        command.argc++;
    if (!cluster || command_key(&command, &length))
        return number_at(servers.commands, command);
    assert_true(cluster_masters(cluster) > 0);
    for (size_t i = 0; i < cluster_masters(cluster); i++)
        sum += number_at(cluster_master(cluster, i), command);
    return sum;
}

/* Runs `body` for each key of this program, named `key`, and returns what it adds up in `n`. */
static inline int64_t redis_each_key(const char *body)
{
    char script[1024], pattern[SECLOCK_PREFIX_MAX + 1];
    snprintf(pattern, sizeof pattern, "%s*", servers.prefix);
    snprintf(script, sizeof script,
             "local n, at = 0, '0' repeat "
             "local page = redis.call('SCAN', at, 'MATCH', ARGV[1], 'COUNT', 1000) at = page[1] "
             "for _, key in ipairs(page[2]) do %s end until at == '0' return n",
             body);
    return redis_number("EVAL", script, "0", pattern);
}

static bool redis_is_full;

/* A full Redis refuses whatever needs memory. */
static inline void redis_fill_up(bool full)
{
    redis_number("CONFIG", "SET", "maxmemory", full ? "1" : "0");
    redis_is_full = full;
}

/* How many threads of the process could run a handler of SIGUSR1, the main thread aside. */
static inline int threads_open_to_signals(void)
{
    char path[300], line[128];
    unsigned long long blocked;
    int found = 0;
    DIR *threads = opendir("/proc/self/task");
    assert_non_null(threads);
    for (struct dirent *thread; (thread = readdir(threads)) != NULL;) {
        snprintf(path, sizeof path, "/proc/self/task/%s/status", thread->d_name);
        FILE *status =
            atoi(thread->d_name) > 0 && atoi(thread->d_name) != getpid() ? fopen(path, "r") : NULL;
        while (status && fgets(line, sizeof line, status))
            if (sscanf(line, "SigBlk: %llx", &blocked) == 1)
                found += (blocked >> (SIGUSR1 - 1) & 1) == 0;
        if (status)
            fclose(status);
    }
    closedir(threads);
    return found;
}

static inline void redis_forget_all(void)
{
    redis_each_key("redis.call('DEL', key)");
}

/* Chooses a test by parts of its title ("KIND: CASE"): it must hold each, but none of those with a
 * '-' before them. */
static inline bool title_chosen(const char *title, char *const *parts)
{
    for (; *parts; parts++)
        if ((*parts)[0] == '-' ? strstr(title, *parts + 1) != NULL : !strstr(title, *parts))
            return false;
    return true;
}

#endif
