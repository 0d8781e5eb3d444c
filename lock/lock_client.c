/* Clients: their options, their drivers, what a fork makes of them; and the operators' calls. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lock/lock_core.h"
#include "lock/redis_server.h"
#include "lock/sized.h"
#include "lock/watchdog.h"

enum {
    LEASE_MS = 30000,
    TIMEOUT_MS = 1000,
    POLL_MS = 1000,
    OUTAGE_MS = 1000,
};

/* The sizes in release 1.0, to their last fields of then. */
enum {
    OPTIONS_SIZE_MIN = offsetof(struct seclock_options, now_ns) + sizeof(void *),
    STATS_SIZE_MIN = offsetof(struct seclock_stats, watched) + sizeof(uint64_t),
    STATUS_SIZE_MIN = offsetof(struct seclock_status, fence) + sizeof(uint64_t),
};

static const struct lock_driver *const drivers[SECLOCK_KIND_COUNT] = {
    [SECLOCK_KIND_SIMPLE] = &lock_simple_driver,
    [SECLOCK_KIND_REENTRANT] = &lock_reentrant_driver,
    [SECLOCK_KIND_TIMESTAMP] = &lock_timestamp_driver,
    [SECLOCK_KIND_SPIN] = &lock_spin_driver,
    [SECLOCK_KIND_FAIR] = &lock_fair_driver,
    [SECLOCK_KIND_READ_WRITE] = &lock_rw_driver,
    [SECLOCK_KIND_SEMAPHORE] = &lock_semaphore_driver,
    [SECLOCK_KIND_PERMIT] = &lock_permit_driver,
    [SECLOCK_KIND_LATCH] = &lock_latch_driver,
    [SECLOCK_KIND_RED] = &lock_red_driver,
    [SECLOCK_KIND_TABLE] = &lock_table_driver,
    [SECLOCK_KIND_GET_LOCK] = &lock_get_lock_driver,
#ifdef LOCK_WITH_ZOOKEEPER
    [SECLOCK_KIND_QUEUE] = &lock_queue_driver,
#endif
};

#define KIND_SCHEME(id, name, scheme, what) [SECLOCK_KIND_##id] = scheme,
static const char *const schemes[SECLOCK_KIND_COUNT] = {SECLOCK_KINDS(KIND_SCHEME)};
#undef KIND_SCHEME

struct seclock_client {
    struct seclock_options options; /* without NULLs and 0s */
    char **servers;
    char prefix[SECLOCK_PREFIX_MAX];
    _Atomic(struct lock_core *) core;
};

/* Held to open a driver, to remake a core and across a fork: all are rare and short. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_watch = PTHREAD_ONCE_INIT;
static atomic_int generation;

static void before_fork(void)
{
    pthread_mutex_lock(&opening);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&opening);
}

static void after_fork_in_child(void)
{
    atomic_fetch_add(&generation, 1);
    pthread_mutex_unlock(&opening);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

int lock_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

static int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- the core ---- */

static bool of_scheme(const char *url, const char *scheme)
{
    size_t length = strlen(scheme);
    return strncmp(url, scheme, length) == 0 && strncmp(url + length, "://", 3) == 0;
}

static void context_fill(struct lock_context *context, const struct seclock_client *client,
                         struct lock_core *core, const char *scheme)
{
    *context = (struct lock_context){
        .core = core,
        .servers = client->options.servers,
        .prefix = client->prefix,
        .id = core->id,
        .lease_ms = client->options.lease_ms,
        .timeout_ms = client->options.timeout_ms,
        .poll_ms = client->options.poll_ms,
    };
    for (size_t i = 0; client->servers[i]; i++)
        if (of_scheme(client->servers[i], scheme)) {
            if (context->server_count++ == 0)
                context->server = client->servers[i];
        }
}

static struct lock_core *core_make(const struct seclock_client *client)
{
    struct lock_core *core = calloc(1, sizeof *core);
    if (!core)
        return NULL;
    core->generation = lock_generation();
    strcpy(core->prefix, client->prefix);
    core->outage_ms = client->options.outage_ms;
    core->now_ns = client->options.now_ns;
    lock_random_text(core->id);
    for (int i = 0; i < SECLOCK_KIND_COUNT; i++)
        context_fill(&core->contexts[i], client, core, schemes[i]);
    core->watchdog = watchdog_open(core->now_ns, &core->counters);
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
    watchdog_close(&core->watchdog);
    for (int i = 0; i < SECLOCK_KIND_COUNT; i++)
        if (core->drivers[i])
            drivers[i]->close(core->drivers[i]);
    struct redis_server *redis = core->redis;
    redis_server_close(&redis);
    free(core);
}

/* In the child: what the parent's threads were doing to it is not known, so it is left as it is,
 * but for the connections, which are closed on this side. */
static void core_forget(struct lock_core *core)
{
    for (int i = 0; i < SECLOCK_KIND_COUNT; i++)
        if (core->drivers[i] && drivers[i]->forget)
            drivers[i]->forget(core->drivers[i]);
    if (core->redis)
        redis_server_forget(core->redis);
}

struct lock_core *lock_client_core(struct seclock_client *client)
{
    struct lock_core *core = client->core;
    if (core->generation == lock_generation())
        return core;
    pthread_mutex_lock(&opening);
    core = client->core;
    if (core->generation != lock_generation()) {
        struct lock_core *fresh = core_make(client);
        if (fresh) {
            core_forget(core);
            client->core = fresh;
        }
        core = fresh;
    }
    pthread_mutex_unlock(&opening);
    if (!core)
        lock_set_error("out of memory");
    return core;
}

static enum seclock_result driver_open(struct lock_core *core, enum seclock_kind kind,
                                       void **self_out)
{
    enum seclock_result result = SECLOCK_OK;
    pthread_mutex_lock(&opening);
    *self_out = core->drivers[kind];
    if (!*self_out) {
        result = drivers[kind]->open(&core->contexts[kind], self_out);
        if (result == SECLOCK_OK)
            core->drivers[kind] = *self_out;
    }
    pthread_mutex_unlock(&opening);
    return result;
}

enum seclock_result lock_core_driver(struct lock_core *core, enum seclock_kind kind,
                                     const struct lock_driver **driver_out, void **self_out)
{
    *driver_out = (unsigned)kind < SECLOCK_KIND_COUNT ? drivers[kind] : NULL;
    *self_out = NULL;
    if (!*driver_out) {
        lock_set_error("this kind of lock is not built in");
        return SECLOCK_UNSUPPORTED;
    }
    *self_out = core->drivers[kind];
    if (*self_out)
        return SECLOCK_OK;
    if (!core->contexts[kind].server) {
        lock_set_error("no server %s://", schemes[kind]);
        return SECLOCK_CONFIG;
    }
    return driver_open(core, kind, self_out);
}

const struct lock_context *lock_core_context(const struct lock_core *core, enum seclock_kind kind)
{
    return &core->contexts[kind];
}

const struct lock_context *lock_client_context(struct seclock_client *client,
                                               enum seclock_kind kind)
{
    struct lock_core *core = lock_client_core(client);
    return core ? &core->contexts[kind] : NULL;
}

/* Called with `opening` held, from a driver's open, or without it from anywhere else: two that meet
 * agree on one. */
struct redis_server *lock_core_redis(struct lock_core *core)
{
    struct redis_server *server = core->redis, *none = NULL;
    const struct lock_context *context = &core->contexts[SECLOCK_KIND_SIMPLE];
    if (server)
        return server;
    if (!context->server) {
        lock_set_error("no server redis://");
        return NULL;
    }
    if (redis_server_open(context->server, context->prefix, context->timeout_ms, &server) !=
        SECLOCK_OK)
        return NULL;
    if (!atomic_compare_exchange_strong(&core->redis, &none, server)) {
        redis_server_close(&server);
        server = none;
    }
    return server;
}

int64_t lock_core_now_ns(const struct lock_core *core)
{
    return core->now_ns();
}

/* ---- open and close ---- */

static int or_default(int value, int fallback)
{
    return value == 0 ? fallback : value;
}

static bool options_right(const struct seclock_options *options)
{
    bool right = true;
    for (int i = 0; i < SECLOCK_KIND_COUNT; i++)
        if (drivers[i] && drivers[i]->kind != (enum seclock_kind)i)
            abort(); /* the list above is wrong */
    if (!options->servers || !options->servers[0]) {
        lock_set_error("no servers");
        right = false;
    } else if (options->prefix && strlen(options->prefix) >= SECLOCK_PREFIX_MAX) {
        lock_set_error("the prefix is longer than %d bytes", SECLOCK_PREFIX_MAX - 1);
        right = false;
    } else if (options->lease_ms != 0 && (options->lease_ms < SECLOCK_LEASE_MS_MIN ||
                                          options->lease_ms > SECLOCK_LEASE_MS_MAX)) {
        lock_set_error("the lease is not within %d..%d ms", SECLOCK_LEASE_MS_MIN,
                       SECLOCK_LEASE_MS_MAX);
        right = false;
    } else if (options->timeout_ms < 0 || options->poll_ms < 0 || options->outage_ms < 0) {
        lock_set_error("a time is negative");
        right = false;
    }
    for (size_t i = 0; right && options->servers[i]; i++) {
        bool known = false;
        for (int k = 0; k < SECLOCK_KIND_COUNT; k++)
            known = known || of_scheme(options->servers[i], schemes[k]);
        if (!known)
            lock_set_error("no kind of lock uses a server like that: %s", options->servers[i]);
        right = known;
    }
    return right;
}

static bool servers_copy(struct seclock_client *client, const char *const *servers)
{
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

enum seclock_result seclock_open(const struct seclock_options *given,
                                 struct seclock_client **client_out)
{
    struct seclock_options known;
    const struct seclock_options *options = &known;
    *client_out = NULL;
    if (!lock_sized_read(&known, sizeof known, OPTIONS_SIZE_MIN, given) || !options_right(options))
        return SECLOCK_CONFIG;
    struct seclock_client *client = calloc(1, sizeof *client);
    if (!client) {
        lock_set_error("out of memory");
        return SECLOCK_FAILED;
    }
    pthread_once(&fork_watch, watch_forks);
    client->options = *options;
    strcpy(client->prefix, options->prefix ? options->prefix : "");
    client->options.lease_ms = or_default(options->lease_ms, LEASE_MS);
    client->options.timeout_ms = or_default(options->timeout_ms, TIMEOUT_MS);
    client->options.poll_ms = or_default(options->poll_ms, POLL_MS);
    client->options.outage_ms = or_default(options->outage_ms, OUTAGE_MS);
    if (!options->now_ns)
        client->options.now_ns = monotonic_ns;
    if (servers_copy(client, options->servers))
        client->core = core_make(client);
    if (!client->core) {
        seclock_close(&client);
        lock_set_error("out of memory");
        return SECLOCK_FAILED;
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
    if (core && core->generation != lock_generation())
        core_forget(core);
    else
        core_free(core);
    for (size_t i = 0; old->servers && old->servers[i]; i++)
        free(old->servers[i]);
    free(old->servers);
    free(old);
}

const char *seclock_client_id(struct seclock_client *client)
{
    struct lock_core *core = lock_client_core(client);
    return core ? core->id : "";
}

void seclock_poke(struct seclock_client *client)
{
    struct lock_core *core = lock_client_core(client);
    if (core)
        watchdog_poke(core->watchdog, NULL);
}

enum seclock_result seclock_client_stats(struct seclock_client *client,
                                         struct seclock_stats *stats_out)
{
    struct lock_core *core = lock_client_core(client);
    if (!core)
        return SECLOCK_FAILED;
    struct seclock_stats stats = {
        .acquired = core->counters.acquired,
        .busy = core->counters.busy,
        .waits = core->counters.waits,
        .renewals = core->counters.renewals,
        .renew_errors = core->counters.renew_errors,
        .lost = core->counters.lost,
        .watched = watchdog_count(core->watchdog),
    };
    bool written = lock_sized_write(stats_out, sizeof stats, STATS_SIZE_MIN, &stats);
    return written ? SECLOCK_OK : SECLOCK_CONFIG;
}

/* ---- owners ---- */

uint64_t lock_next_number(void)
{
    static _Atomic uint64_t numbers;
    return atomic_fetch_add(&numbers, 1) + 1;
}

uint64_t lock_thread_number(void)
{
    static _Thread_local uint64_t number;
    if (number == 0)
        number = lock_next_number();
    return number;
}

struct seclock_owner *seclock_owner_new(struct seclock_client *client)
{
    (void)client;
    struct seclock_owner *owner = malloc(sizeof *owner);
    if (owner)
        owner->number = lock_next_number();
    return owner;
}

void seclock_owner_free(struct seclock_owner **owner)
{
    free(*owner);
    *owner = NULL;
}

/* ---- operators ---- */

static enum seclock_result find(struct seclock_client *client, enum seclock_kind kind,
                                const struct lock_driver **driver_out, void **self_out)
{
    struct lock_core *core = lock_client_core(client);
    return core ? lock_core_driver(core, kind, driver_out, self_out) : SECLOCK_FAILED;
}

enum seclock_result lock_name_check(const char *name)
{
    if (name && name[0] != '\0' && name[0] != '}' && strlen(name) < SECLOCK_NAME_MAX)
        return SECLOCK_OK;
    lock_set_error("a name has 1 to %d bytes and does not begin with '}'", SECLOCK_NAME_MAX - 1);
    return SECLOCK_CONFIG;
}

enum seclock_result seclock_status(struct seclock_client *client, enum seclock_kind kind,
                                   const char *name, struct seclock_status *status_out)
{
    const struct lock_driver *driver;
    void *self;
    struct seclock_status status = {.waiting = -1, .remaining_ms = -1};
    if (!lock_sized_write(status_out, sizeof status, STATUS_SIZE_MIN, &status))
        return SECLOCK_CONFIG;
    enum seclock_result result = lock_name_check(name);
    if (result == SECLOCK_OK)
        result = find(client, kind, &driver, &self);
    if (result == SECLOCK_OK)
        result = driver->status(self, name, &status);
    lock_sized_write(status_out, sizeof status, STATUS_SIZE_MIN, &status);
    return result;
}

enum seclock_result seclock_break(struct seclock_client *client, enum seclock_kind kind,
                                  const char *name)
{
    const struct lock_driver *driver;
    void *self;
    enum seclock_result result = lock_name_check(name);
    if (result == SECLOCK_OK)
        result = find(client, kind, &driver, &self);
    return result == SECLOCK_OK ? driver->break_lock(self, name) : result;
}

enum seclock_result seclock_semaphore_set(struct seclock_client *client, enum seclock_kind kind,
                                          const char *name, int limit)
{
    const struct lock_driver *driver;
    void *self;
    enum seclock_result result = lock_name_check(name);
    if (result == SECLOCK_OK)
        result = find(client, kind, &driver, &self);
    if (result != SECLOCK_OK)
        return result;
    if (!driver->set_limit || limit <= 0) {
        lock_set_error("%s", driver->set_limit ? "a semaphore has at least one permit"
                                               : "this kind of lock has no permits");
        return driver->set_limit ? SECLOCK_CONFIG : SECLOCK_UNSUPPORTED;
    }
    return driver->set_limit(self, name, limit);
}

enum seclock_result seclock_check(struct seclock_client *client, enum seclock_kind kind,
                                  char *warning_out, size_t size)
{
    const struct lock_driver *driver;
    void *self;
    warning_out[0] = '\0';
    enum seclock_result result = find(client, kind, &driver, &self);
    return result == SECLOCK_OK && driver->check ? driver->check(self, warning_out, size) : result;
}
