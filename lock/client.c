/* Opens and closes clients, opens their drivers, replaces their core in a child of fork, and asks
 * and breaks locks for operators. */
#include "lock/client.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/url.h"
#include "lock/library/loaded.h"
#include "lock/process.h"
#include "lock/redis/server.h"
#include "lock/text.h"

enum {
    LEASE_MS = 30000,
    TIMEOUT_MS = 1000,
    POLL_MS = 1000,
    OUTAGE_MS = 1000,
    /* The sizes in release 1.0, up to the last fields then. */
    OPTIONS_SIZE_MIN = offsetof(struct seclock_options, now_ns) + sizeof(void *),
    STATS_SIZE_MIN = offsetof(struct seclock_stats, watched) + sizeof(uint64_t),
    KIND_STATS_SIZE_MIN = sizeof(struct seclock_kind_stats),
    STATUS_SIZE_MIN = offsetof(struct seclock_status, fence) + sizeof(uint64_t),
};

/* why_client_and_core: the caller keeps one pointer over a fork, but the threads, connections and
 * mutexes behind it belong to the parent. So the core holds all of these, and the child replaces
 * the core with its first call. */
struct seclock_client {
    struct seclock_options options; /* with every default filled in */
    char **servers;
    char prefix[SECLOCK_PREFIX_MAX];
    _Atomic(struct lock_core *) core;
};

/* ---- the drivers ---- */

static const struct lock_driver *const drivers[SECLOCK_KIND_COUNT] = {
    [SECLOCK_KIND_SIMPLE] = &redis_simple_driver,
    [SECLOCK_KIND_REENTRANT] = &redis_reentrant_driver,
    [SECLOCK_KIND_TIMESTAMP] = &redis_timestamp_driver,
    [SECLOCK_KIND_SPIN] = &redis_spin_driver,
    [SECLOCK_KIND_FAIR] = &redis_fair_driver,
    [SECLOCK_KIND_READ_WRITE] = &redis_rw_driver,
    [SECLOCK_KIND_SEMAPHORE] = &redis_semaphore_driver,
    [SECLOCK_KIND_PERMIT] = &redis_permit_driver,
    [SECLOCK_KIND_LATCH] = &redis_latch_driver,
    [SECLOCK_KIND_RED] = &redlock_driver,
    [SECLOCK_KIND_TABLE] = &mysql_table_driver,
    [SECLOCK_KIND_GET_LOCK] = &mysql_get_lock_driver,
#ifdef LOCK_WITH_ZOOKEEPER
    [SECLOCK_KIND_QUEUE] = &zookeeper_queue_driver,
#endif
#ifdef LOCK_WITH_ETCD
    [SECLOCK_KIND_ETCD] = &etcd_driver,
#endif
};

/* NULL also for a kind out of range: the number may come from the caller of the library. */
const struct lock_driver *driver_of(enum seclock_kind kind)
{
    const struct lock_driver *driver = (unsigned)kind < SECLOCK_KIND_COUNT ? drivers[kind] : NULL;
    assert(!driver || driver->kind == kind);
    return driver;
}

#define KIND_SCHEME(id, name, scheme, what) [SECLOCK_KIND_##id] = scheme,
static const char *const schemes[SECLOCK_KIND_COUNT] = {SECLOCK_KINDS(KIND_SCHEME)};
#undef KIND_SCHEME

enum seclock_kind driver_family(enum seclock_kind kind)
{
    int first = 0;
    while (strcmp(schemes[first], schemes[kind]) != 0)
        first++;
    return (enum seclock_kind)first;
}

/* Redis has several URL schemes, all valid for each of its kinds: see base/url.h. */
static bool serves(const char *url, enum seclock_kind kind)
{
    const char *scheme = url_scheme(url);
    return scheme && strcmp(scheme, schemes[kind]) == 0;
}

const char *core_server(const struct lock_core *core, enum seclock_kind kind, size_t index)
{
    const char *const *url = core->options.servers;
    while (*url && (!serves(*url, kind) || index-- > 0))
        url++;
    return *url;
}

/* ---- the core ---- */

static struct lock_core *core_make(const struct seclock_client *client)
{
    struct lock_core *core = calloc(1, sizeof *core);
    if (!core)
        return NULL;
    core->generation = process_generation();
    core->users = 1;
    core->options = client->options;
    process_client_id(core->id);
    core->watchdog = watchdog_open(&core->options, core->counters);
    if (!core->watchdog) {
        free(core);
        return NULL;
    }
    return core;
}

static void core_free(struct lock_core *core)
{
    if (!core)
        return;
    watchdog_close(&core->watchdog); /* first: it renews by the drivers */
    for (int i = 0; i < SECLOCK_KIND_COUNT; i++)
        if (core->drivers[i] && driver_of((enum seclock_kind)i)->close)
            driver_of((enum seclock_kind)i)->close(core->drivers[i]);
    redis_server_close(&core->redis);
    free(core);
}

void core_hold(struct lock_core *core)
{
    assert(core->users > 0);
    atomic_fetch_add(&core->users, 1);
}

void core_let_go(struct lock_core *core)
{
    int users = atomic_fetch_sub(&core->users, 1);
    assert(users > 0);
    if (users == 1)
        core_free(core);
}

/* Runs in the child. It cannot know what the parent's threads were changing in the core at the
 * fork, so it leaves all of it as it is, and only closes its copies of the connections. */
static void core_forget(struct lock_core *core)
{
    assert(core->generation != process_generation());
    for (int i = 0; i < SECLOCK_KIND_COUNT; i++) {
        const struct lock_driver *driver = driver_of((enum seclock_kind)i);
        if (core->drivers[i] && driver->forget)
            driver->forget(core->drivers[i]);
    }
    if (core->redis)
        redis_server_forget(core->redis);
}

struct lock_core *client_core(struct seclock_client *client)
{
    struct lock_core *core = client->core;
    if (core->generation == process_generation())
        return core;
    process_lock(); /* two threads of the child may meet here */
    core = client->core;
    if (core->generation != process_generation()) {
        struct lock_core *fresh = core_make(client);
        if (fresh) {
            core_forget(core);
            client->core = fresh;
        }
        core = fresh;
    }
    process_unlock();
    if (!core)
        lock_set_error("out of memory");
    return core;
}

enum seclock_result client_driver(struct seclock_client *client, enum seclock_kind kind,
                                  const struct lock_driver **driver_out, void **self_out)
{
    struct lock_core *core = client_core(client);
    *driver_out = driver_of(kind);
    *self_out = NULL;
    if (!core)
        return SECLOCK_FAILED;
    if (!*driver_out)
        return lock_fail(SECLOCK_UNSUPPORTED, "this kind of lock is not built in");
    assert(core->generation == process_generation());
    *self_out = core->drivers[kind];
    if (*self_out)
        return SECLOCK_OK;
    const char *server = core_server(core, kind, 0);
    if (!server) /* refused at first use, not at open */
        return lock_fail(SECLOCK_CONFIG, "no server %s://", schemes[kind]);
    enum seclock_result result = SECLOCK_OK;
    process_lock();
    *self_out = core->drivers[kind]; /* another thread may have opened the driver meanwhile */
    if (!*self_out && !loaded_for(schemes[kind])) {
        result = SECLOCK_UNSUPPORTED;
    } else if (!*self_out) {
        result = (*driver_out)->open(core, server, self_out);
        assert((result == SECLOCK_OK) == (*self_out != NULL));
        core->drivers[kind] = *self_out;
    }
    process_unlock();
    return result;
}

struct redis_server *core_redis(struct lock_core *core)
{
    assert(core->generation == process_generation());
    if (!core->redis)
        redis_server_open(core_server(core, SECLOCK_KIND_SIMPLE, 0), core->options.prefix,
                          core->options.timeout_ms, &core->redis);
    return core->redis;
}

/* ---- open and close ---- */

static int or_default(int value, int fallback)
{
    assert(value >= 0);
    return value == 0 ? fallback : value;
}

static enum seclock_result options_check(const struct seclock_options *options)
{
    int lease_ms = options->lease_ms;
    if (!options->servers || !options->servers[0])
        return lock_fail(SECLOCK_CONFIG, "no servers");
    if (options->prefix && strlen(options->prefix) >= SECLOCK_PREFIX_MAX)
        return lock_fail(SECLOCK_CONFIG, "the prefix is longer than %d bytes",
                         SECLOCK_PREFIX_MAX - 1);
    if (lease_ms != 0 && (lease_ms < SECLOCK_LEASE_MS_MIN || lease_ms > SECLOCK_LEASE_MS_MAX))
        return lock_fail(SECLOCK_CONFIG, "the lease is not within %d..%d ms", SECLOCK_LEASE_MS_MIN,
                         SECLOCK_LEASE_MS_MAX);
    if (options->timeout_ms < 0 || options->poll_ms < 0 || options->outage_ms < 0)
        return lock_fail(SECLOCK_CONFIG, "a time is negative");
    /* A URL that no kind uses is a mistake of the caller, most often a wrong scheme. */
    for (size_t i = 0; options->servers[i]; i++) {
        int kind = 0;
        while (kind < SECLOCK_KIND_COUNT && !serves(options->servers[i], (enum seclock_kind)kind))
            kind++;
        if (kind == SECLOCK_KIND_COUNT) /* omits the URL, which may hold a password */
            return lock_fail(SECLOCK_CONFIG, "no kind of lock uses a server like number %zu",
                             i + 1);
    }
    return SECLOCK_OK;
}

/* Copies the list, because the caller may free its own after seclock_open, and a core that is made
 * after a fork reads ours. */
static bool servers_copy(struct seclock_client *client, const char *const *servers)
{
    assert(!client->servers && servers);
    size_t count = 0;
    while (servers[count])
        count++;
    client->servers = calloc(count + 1, sizeof *client->servers);
    for (size_t i = 0; client->servers && i < count; i++)
        if (!(client->servers[i] = strdup(servers[i])))
            return false;
    client->options.servers = (const char *const *)client->servers;
    return client->servers != NULL;
}

/* why_boot_time: the monotonic clock stands still while the host sleeps, but the servers' clocks go
 * on: a hold would seem valid after its lease has ended. */
static void options_copy(struct seclock_client *client, const struct seclock_options *options)
{
    assert(!client->core);
    client->options = *options;
    strcpy(client->prefix, options->prefix ? options->prefix : "");
    client->options.prefix = client->prefix;
    client->options.lease_ms = or_default(options->lease_ms, LEASE_MS);
    client->options.timeout_ms = or_default(options->timeout_ms, TIMEOUT_MS);
    client->options.poll_ms = or_default(options->poll_ms, POLL_MS);
    client->options.outage_ms = or_default(options->outage_ms, OUTAGE_MS);
    if (!options->now_ns)
        client->options.now_ns = clock_boot_ns;
}

enum seclock_result seclock_open(const struct seclock_options *options,
                                 struct seclock_client **client_out)
{
    struct seclock_options known;
    *client_out = NULL;
    if (!lock_sized_read(&known, sizeof known, OPTIONS_SIZE_MIN, options) ||
        options_check(&known) != SECLOCK_OK)
        return SECLOCK_CONFIG;
    struct seclock_client *client = calloc(1, sizeof *client);
    if (!client)
        return lock_fail(SECLOCK_FAILED, "out of memory");
    process_lock(); /* from here on this process counts its forks */
    process_unlock();
    options_copy(client, &known);
    if (servers_copy(client, known.servers))
        client->core = core_make(client);
    if (!client->core) {
        seclock_close(&client);
        return lock_fail(SECLOCK_FAILED, "out of memory");
    }
    *client_out = client;
    return SECLOCK_OK;
}

void seclock_close(struct seclock_client **client)
{
    struct seclock_client *old = *client;
    *client = NULL;
    if (!old)
        return;
    struct lock_core *core = old->core;
    if (core && core->generation != process_generation())
        core_forget(core);
    else if (core) {
        watchdog_stop(core->watchdog); /* remaining holds end with their leases */
        core_let_go(core);
    }
    for (size_t i = 0; old->servers && old->servers[i]; i++)
        free(old->servers[i]);
    free(old->servers);
    free(old);
}

/* ---- small questions ---- */

const char *seclock_client_id(struct seclock_client *client)
{
    struct lock_core *core = client_core(client);
    return core ? core->id : "";
}

void seclock_poke(struct seclock_client *client)
{
    struct lock_core *core = client_core(client);
    if (core)
        watchdog_poke(core->watchdog, NULL);
}

enum seclock_result seclock_client_stats(struct seclock_client *client,
                                         struct seclock_stats *stats_out)
{
    struct lock_core *core = client_core(client);
    if (!core)
        return SECLOCK_FAILED;
    assert(core->generation == process_generation());
    struct seclock_stats stats = {.watched = watchdog_count(core->watchdog)};
    for (int i = 0; i < SECLOCK_KIND_COUNT; i++) {
        stats.acquired += core->counters[i].acquired;
        stats.busy += core->counters[i].busy;
        stats.waits += core->counters[i].waits;
        stats.renewals += core->counters[i].renewals;
        stats.renew_errors += core->counters[i].renew_errors;
        stats.lost += core->counters[i].lost;
    }
    bool written = lock_sized_write(stats_out, sizeof stats, STATS_SIZE_MIN, &stats);
    return written ? SECLOCK_OK : SECLOCK_CONFIG;
}

enum seclock_result seclock_kind_stats(struct seclock_client *client, enum seclock_kind kind,
                                       struct seclock_kind_stats *stats_out)
{
    const struct lock_core *core = client_core(client);
    if (!core)
        return SECLOCK_FAILED;
    if ((unsigned)kind >= SECLOCK_KIND_COUNT)
        return lock_fail(SECLOCK_CONFIG, "there is no such kind of lock");
    const struct lock_counters *counters = &core->counters[kind];
    struct seclock_kind_stats stats = {
        .acquired = counters->acquired,
        .busy = counters->busy,
        .waits = counters->waits,
        .renewals = counters->renewals,
        .renew_errors = counters->renew_errors,
        .lost = counters->lost,
    };
    for (int i = 0; i < SECLOCK_BUCKETS; i++) {
        stats.acquire_us[i] = counters->acquire_us[i];
        stats.hold_us[i] = counters->hold_us[i];
    }
    return lock_sized_write(stats_out, sizeof stats, KIND_STATS_SIZE_MIN, &stats) ? SECLOCK_OK
                                                                                  : SECLOCK_CONFIG;
}

/* Numbers of owners and threads come from one counter, so that no owner equals a thread. */
struct seclock_owner *seclock_owner_new(struct seclock_client *client)
{
    (void)client;
    struct seclock_owner *owner = malloc(sizeof *owner);
    if (owner)
        owner->number = process_next_number();
    return owner;
}

void seclock_owner_free(struct seclock_owner **owner)
{
    free(*owner);
    *owner = NULL;
}

/* ---- for operators ---- */

/* Checks the name first, because a name with a brace would address keys of another lock. */
enum seclock_result client_lock(struct seclock_client *client, enum seclock_kind kind,
                                const char *name, const struct lock_driver **driver_out,
                                void **self_out)
{
    enum seclock_result result = lock_name_check(name);
    return result == SECLOCK_OK ? client_driver(client, kind, driver_out, self_out) : result;
}

/* Fills in a status struct of our own, because the caller's may be shorter or longer. */
enum seclock_result seclock_status(struct seclock_client *client, enum seclock_kind kind,
                                   const char *name, struct seclock_status *status_out)
{
    const struct lock_driver *driver;
    void *self;
    struct seclock_status status = {.waiting = -1, .remaining_ms = -1};
    if (!lock_sized_write(status_out, sizeof status, STATUS_SIZE_MIN, &status))
        return SECLOCK_CONFIG;
    enum seclock_result result = client_lock(client, kind, name, &driver, &self);
    if (result == SECLOCK_OK)
        result = driver->status(driver, self, name, &status);
    process_read_id(&status);
    lock_sized_write(status_out, sizeof status, STATUS_SIZE_MIN, &status);
    return result;
}

enum seclock_result seclock_break(struct seclock_client *client, enum seclock_kind kind,
                                  const char *name)
{
    const struct lock_driver *driver;
    void *self;
    enum seclock_result result = client_lock(client, kind, name, &driver, &self);
    return result == SECLOCK_OK ? driver->break_lock(driver, self, name) : result;
}

enum seclock_result seclock_semaphore_set(struct seclock_client *client, enum seclock_kind kind,
                                          const char *name, int limit)
{
    const struct lock_driver *driver;
    void *self;
    enum seclock_result result = client_lock(client, kind, name, &driver, &self);
    if (result != SECLOCK_OK)
        return result;
    if (!driver->set_limit)
        return lock_fail(SECLOCK_UNSUPPORTED, "this kind of lock has no permits");
    if (limit <= 0)
        return lock_fail(SECLOCK_CONFIG, "a semaphore has at least one permit");
    return driver->set_limit(driver, self, name, limit);
}

/* A kind without a check has nothing to warn of. */
enum seclock_result seclock_check(struct seclock_client *client, enum seclock_kind kind,
                                  char *warning_out, size_t size)
{
    const struct lock_driver *driver;
    void *self;
    if (size > 0)
        warning_out[0] = '\0';
    enum seclock_result result = client_driver(client, kind, &driver, &self);
    return result == SECLOCK_OK && driver->check ? driver->check(self, warning_out, size) : result;
}
