/* Guards a segment with a lock of another kind, around the segment's own lock in Redis.
 *
 * why_two: the scripts that change the counter in Redis check the token of the lock beside it, and
 * the chain of fences needs numbers of one scale, which that lock makes. So the segment's lock is
 * taken as always, by the same call as the units; the guard lock, taken before, decides who may
 * try. The ledger refuses a holder that outlives either lock. Resets and recoveries need only the
 * segment's lock: nobody sells without it. */
#include "stock/orders/orders.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/url.h"

/* Differs from the segments' own locks, whose server may be one of the redlock servers. */
#define GUARD_PREFIX STOCK_PREFIX "guard:"

enum { SERVERS_MAX = 32 };

struct guard_lock {
    enum seclock_kind kind;
    struct seclock_client *client;
    struct seclock_handle *handles[STOCK_HOLDS_MAX]; /* of the present batch */
    size_t count;
    bool failed; /* the present batch could not ask a server */
};

/* A kind of lock by the option's value, and how many servers it needs at least. */
static const struct kind {
    const char *name;
    enum seclock_kind kind;
    const char *scheme;
    size_t servers_min;
} kinds[] = {
    {"redlock", SECLOCK_KIND_RED, "redis", 3},
    {"mysql", SECLOCK_KIND_TABLE, "mysql", 1},
#ifdef LOCK_WITH_ZOOKEEPER
    {"zookeeper", SECLOCK_KIND_QUEUE, "zookeeper", 1},
#endif
};

/* Cuts the list of servers in place, and keeps the URLs of the kind's family. */
static size_t list_servers(char *text, const struct kind *kind, const char **servers_out)
{
    size_t count = 0;
    char *rest = NULL;
    for (char *url = strtok_r(text, " ", &rest); url && count < SERVERS_MAX;
         url = strtok_r(NULL, " ", &rest))
        if (url_scheme(url) && strcmp(url_scheme(url), kind->scheme) == 0)
            servers_out[count++] = url;
    servers_out[count] = NULL;
    return count;
}

static bool open_kind(struct stock *stock, const struct kind *kind, char *text, char *error_out,
                      size_t error_size)
{
    const char *servers[SERVERS_MAX + 1];
    size_t count = list_servers(text, kind, servers);
    if (count == 0 && kind->kind == SECLOCK_KIND_TABLE) {
        servers[count++] = stock->options.mysql_url;
        servers[count] = NULL;
    }
    if (count < kind->servers_min) {
        snprintf(error_out, error_size, "lock %s needs %zu or more %s:// servers in lock_servers",
                 kind->name, kind->servers_min, kind->scheme);
        return false;
    }
    struct seclock_options options =
        SECLOCK_OPTIONS(.servers = servers, .prefix = GUARD_PREFIX,
                        .lease_ms = stock->options.lease_ms,
                        .timeout_ms = stock->options.resolve_ms, /* no longer than an order has */
        );
    stock->guard_lock->kind = kind->kind;
    if (seclock_open(&options, &stock->guard_lock->client) == SECLOCK_OK)
        return true;
    snprintf(error_out, error_size, "lock %s: %s", kind->name, seclock_error());
    return false;
}

bool guard_lock_open(struct stock *stock, char *error_out, size_t error_size)
{
    const char *name = stock->options.lock;
    if (!name || strcmp(name, "redis") == 0)
        return true;
    assert(!stock->guard_lock);
    stock->guard_lock = memory_must(calloc(1, sizeof *stock->guard_lock));
    char *text =
        memory_must(strdup(stock->options.lock_servers ? stock->options.lock_servers : ""));
    const struct kind *kind = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, name) == 0)
            kind = &kinds[i];
    if (!kind)
        snprintf(error_out, error_size, "no lock \"%s\" is built in", name);
    bool done = kind && open_kind(stock, kind, text, error_out, error_size);
    free(text);
    return done;
}

void guard_lock_close(struct stock *stock)
{
    if (stock->guard_lock)
        seclock_close(&stock->guard_lock->client);
    free(stock->guard_lock);
    stock->guard_lock = NULL;
}

/* True when the batch already holds the lock, which it keeps while it recovers the segment. */
static bool has(const struct guard_lock *guard, const char *name)
{
    for (size_t i = 0; i < guard->count; i++)
        if (strcmp(seclock_name(guard->handles[i]), name) == 0 &&
            seclock_state(guard->handles[i]) == SECLOCK_STATE_HELD)
            return true;
    return false;
}

static bool take(struct stock *stock, const char *name)
{
    struct guard_lock *guard = stock->guard_lock;
    struct seclock_handle *handle;
    struct seclock_request request =
        SECLOCK_REQUEST(.name = name, .kind = guard->kind, .fixed_lease = true);
    assert(guard->count <= STOCK_HOLDS_MAX);
    if (has(guard, name))
        return true;
    if (guard->failed || guard->count == STOCK_HOLDS_MAX)
        return false;
    enum seclock_result result = seclock_acquire(guard->client, &request, &handle);
    guard->failed = result != SECLOCK_OK && result != SECLOCK_BUSY;
    if (guard->failed)
        fault_note(&stock->lock_fault, "acquire", seclock_error());
    if (handle) /* also if it may or may not be held: the release ends it */
        guard->handles[guard->count++] = handle;
    return result == SECLOCK_OK;
}

void guard_lock_post_take(struct stock *stock, struct segment_hold *hold, struct sale *sale,
                          const struct sale_snapshot *snapshot, uint32_t segment, uint32_t wanted)
{
    assert(stock->guard_lock && hold < &stock->holds[STOCK_HOLDS_MAX]);
    char name[SECLOCK_NAME_MAX];
    segment_name(sale_sku(sale), segment, name);
    if (take(stock, name)) {
        segment_post_take(stock, hold, sale, snapshot, segment, wanted);
        return;
    }
    segment_begin(hold, sale, snapshot, segment);
    hold->lock.state = SECLOCK_STATE_RELEASED;
    hold->state = SEGMENT_BUSY;
}

bool guard_lock_failed(const struct stock *stock)
{
    return stock->guard_lock && stock->guard_lock->failed;
}

void guard_lock_end(struct stock *stock)
{
    assert(stock->guard_lock);
    struct guard_lock *guard = stock->guard_lock;
    /* Settles first: the next holder of the guard lock must find the segment free. */
    if (guard->count > 0)
        stock_flush(stock);
    for (size_t i = 0; i < guard->count; i++)
        seclock_release(guard->handles[i]);
    seclock_multi_free(guard->handles, guard->count);
    guard->count = 0;
    guard->failed = false;
}
