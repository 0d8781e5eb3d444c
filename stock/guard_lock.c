/* The guard lock of a segment: one of another kind around its lock in Redis.
 *
 * why_two: the counter in Redis is guarded by the token of the lock there, and the chain of fences
 * needs one scale, which that lock makes. So it is taken as ever, in the same round trip as the
 * units, and the guard lock decides before it who may try. A holder that outlives the one or the
 * other is refused by the ledger. Resets and recoveries need the inner lock alone: nobody sells
 * without it. */
#include "stock/guard_lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Apart from the inner locks: a server of redlock may be the one that has those. */
#define GUARD_PREFIX STOCK_PREFIX "guard:"

enum { SERVERS_MAX = 32 };

struct guard_lock {
    enum lock_kind kind;
    struct lock_client *client;
    struct lock_handle *handles[STOCK_HOLDS_MAX]; /* of the present batch */
    size_t count;
    bool failed;
    char error[200]; /* of the last try that failed; empty after one that did not */
};

/* Which kinds of lock an option's word stands for, with the least servers they need. */
static const struct kind {
    const char *name;
    enum lock_kind kind;
    const char *scheme;
    size_t servers_min;
} kinds[] = {
    {"redlock", LOCK_KIND_RED, "redis://", 3},
    {"mysql", LOCK_KIND_TABLE, "mysql://", 1},
#ifdef LOCK_WITH_ZOOKEEPER
    {"zookeeper", LOCK_KIND_QUEUE, "zookeeper://", 1},
#endif
};

/* Cuts the list of servers in place, and keeps those of the kind. */
static size_t list_servers(char *text, const struct kind *kind, const char **servers_out)
{
    size_t count = 0;
    char *rest = NULL;
    for (char *url = strtok_r(text, " ", &rest); url && count < SERVERS_MAX;
         url = strtok_r(NULL, " ", &rest))
        if (strncmp(url, kind->scheme, strlen(kind->scheme)) == 0)
            servers_out[count++] = url;
    servers_out[count] = NULL;
    return count;
}

static bool open_kind(struct stock *stock, const struct kind *kind, char *text, char *error_out,
                      size_t error_size)
{
    const char *servers[SERVERS_MAX + 1];
    size_t count = list_servers(text, kind, servers);
    if (count == 0 && kind->kind == LOCK_KIND_TABLE) {
        servers[count++] = stock->options.mysql_url;
        servers[count] = NULL;
    }
    if (count < kind->servers_min) {
        snprintf(error_out, error_size, "lock %s needs %zu or more %s servers in lock_servers",
                 kind->name, kind->servers_min, kind->scheme);
        return false;
    }
    struct lock_options options = {
        .servers = servers,
        .prefix = GUARD_PREFIX,
        .lease_ms = stock->options.lease_ms,
        .timeout_ms = stock->options.resolve_ms, /* no longer than an order has */
    };
    stock->guard_lock->kind = kind->kind;
    if (lock_open(&options, &stock->guard_lock->client) == LOCK_OK)
        return true;
    snprintf(error_out, error_size, "lock %s: %s", kind->name, lock_error());
    return false;
}

bool guard_lock_open(struct stock *stock, char *error_out, size_t error_size)
{
    const char *name = stock->options.lock;
    if (!name || strcmp(name, "redis") == 0)
        return true;
    stock->guard_lock = calloc(1, sizeof *stock->guard_lock);
    char *text = strdup(stock->options.lock_servers ? stock->options.lock_servers : "");
    if (!stock->guard_lock || !text)
        abort();
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
        lock_close(&stock->guard_lock->client);
    free(stock->guard_lock);
    stock->guard_lock = NULL;
}

/* Whether the batch has it already, from before the segment was recovered. */
static bool has(const struct guard_lock *guard, const char *name)
{
    for (size_t i = 0; i < guard->count; i++)
        if (strcmp(lock_name(guard->handles[i]), name) == 0 &&
            lock_state(guard->handles[i]) == LOCK_STATE_HELD)
            return true;
    return false;
}

static bool take(struct stock *stock, const char *name)
{
    struct guard_lock *guard = stock->guard_lock;
    struct lock_handle *handle;
    struct lock_request request = {.name = name, .kind = guard->kind, .fixed_lease = true};
    if (has(guard, name))
        return true;
    if (guard->failed || guard->count == STOCK_HOLDS_MAX)
        return false;
    enum lock_result result = lock_acquire(guard->client, &request, &handle);
    guard->failed = result != LOCK_OK && result != LOCK_BUSY;
    snprintf(guard->error, sizeof guard->error, "%s", guard->failed ? lock_error() : "");
    if (handle) /* in doubt as well: it is given back with the others */
        guard->handles[guard->count++] = handle;
    return result == LOCK_OK;
}

void guard_lock_post_take(struct stock *stock, struct segment_hold *hold, struct sale *sale,
                          const struct sale_snapshot *snapshot, uint32_t segment, uint32_t wanted)
{
    char name[LOCK_NAME_MAX];
    segment_name(sale_sku(sale), segment, name);
    if (take(stock, name)) {
        segment_post_take(stock, hold, sale, snapshot, segment, wanted);
        return;
    }
    segment_begin(hold, sale, snapshot, segment);
    hold->lock.state = LOCK_STATE_RELEASED;
    hold->state = SEGMENT_BUSY;
}

bool guard_lock_failed(const struct stock *stock)
{
    return stock->guard_lock && stock->guard_lock->failed;
}

const char *guard_lock_error(const struct stock *stock)
{
    return stock->guard_lock && stock->guard_lock->error[0] != '\0' ? stock->guard_lock->error
                                                                    : NULL;
}

void guard_lock_end(struct stock *stock)
{
    struct guard_lock *guard = stock->guard_lock;
    if (guard->count > 0)
        stock_run_posted(stock);
    for (size_t i = 0; i < guard->count; i++)
        lock_release(guard->handles[i]);
    lock_multi_free(guard->handles, guard->count);
    guard->count = 0;
    guard->failed = false;
}
