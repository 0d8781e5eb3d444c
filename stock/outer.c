/* The outer lock of a segment: one of another kind around its lock in Redis.
 *
 * why_two: the counter in Redis is guarded by the token of the lock there, and the chain of fences
 * needs one scale, which that lock makes. So it is taken as ever, in the same round trip as the
 * units, and the outer lock decides before it who may try. A holder that outlives the one or the
 * other is refused by the ledger. Resets and recoveries need the inner lock alone: nobody sells
 * without it. */
#include "stock/outer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Apart from the inner locks: a server of redlock may be the one that has those. */
#define OUTER_PREFIX STOCK_PREFIX "outer:"

enum { SERVERS_MAX = 32 };

struct outer {
    enum seclock_kind kind;
    struct seclock_client *client;
    struct seclock_handle *handles[STOCK_HOLDS_MAX]; /* of the present batch */
    size_t count;
    bool failed;
    char error[200]; /* of the last try that failed; empty after one that did not */
};

/* Which kinds of lock an option's word stands for, with the least servers they need. */
static const struct kind {
    const char *name;
    enum seclock_kind kind;
    const char *scheme;
    size_t servers_min;
} kinds[] = {
    {"redlock", SECLOCK_KIND_RED, "redis://", 3},
    {"mysql", SECLOCK_KIND_TABLE, "mysql://", 1},
#ifdef LOCK_WITH_ZOOKEEPER
    {"zookeeper", SECLOCK_KIND_QUEUE, "zookeeper://", 1},
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
    if (count == 0 && kind->kind == SECLOCK_KIND_TABLE) {
        servers[count++] = stock->options.mysql_url;
        servers[count] = NULL;
    }
    if (count < kind->servers_min) {
        snprintf(error_out, error_size, "lock %s needs %zu or more %s servers in lock_servers",
                 kind->name, kind->servers_min, kind->scheme);
        return false;
    }
    struct seclock_options options =
        SECLOCK_OPTIONS(.servers = servers, .prefix = OUTER_PREFIX,
                        .lease_ms = stock->options.lease_ms,
                        .timeout_ms = stock->options.resolve_ms, /* no longer than an order has */
        );
    stock->outer->kind = kind->kind;
    if (seclock_open(&options, &stock->outer->client) == SECLOCK_OK)
        return true;
    snprintf(error_out, error_size, "lock %s: %s", kind->name, seclock_error());
    return false;
}

bool outer_open(struct stock *stock, char *error_out, size_t error_size)
{
    const char *name = stock->options.lock;
    if (!name || strcmp(name, "redis") == 0)
        return true;
    stock->outer = calloc(1, sizeof *stock->outer);
    char *text = strdup(stock->options.lock_servers ? stock->options.lock_servers : "");
    if (!stock->outer || !text)
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

void outer_close(struct stock *stock)
{
    if (stock->outer)
        seclock_close(&stock->outer->client);
    free(stock->outer);
    stock->outer = NULL;
}

/* Whether the batch has it already, from before the segment was recovered. */
static bool has(const struct outer *outer, const char *name)
{
    for (size_t i = 0; i < outer->count; i++)
        if (strcmp(seclock_name(outer->handles[i]), name) == 0 &&
            seclock_state(outer->handles[i]) == SECLOCK_STATE_HELD)
            return true;
    return false;
}

static bool take(struct stock *stock, const char *name)
{
    struct outer *outer = stock->outer;
    struct seclock_handle *handle;
    struct seclock_request request =
        SECLOCK_REQUEST(.name = name, .kind = outer->kind, .fixed_lease = true);
    if (has(outer, name))
        return true;
    if (outer->failed || outer->count == STOCK_HOLDS_MAX)
        return false;
    enum seclock_result result = seclock_acquire(outer->client, &request, &handle);
    outer->failed = result != SECLOCK_OK && result != SECLOCK_BUSY;
    snprintf(outer->error, sizeof outer->error, "%s", outer->failed ? seclock_error() : "");
    if (handle) /* in doubt as well: it is given back with the others */
        outer->handles[outer->count++] = handle;
    return result == SECLOCK_OK;
}

void outer_post_take(struct stock *stock, struct segment_hold *hold, struct sale *sale,
                     const struct sale_view *view, uint32_t segment, uint32_t wanted)
{
    char name[SECLOCK_NAME_MAX];
    segment_name(sale_sku(sale), segment, name);
    if (take(stock, name)) {
        segment_post_take(stock, hold, sale, view, segment, wanted);
        return;
    }
    segment_begin(hold, sale, view, segment);
    hold->lock.state = SECLOCK_STATE_RELEASED;
    hold->state = SEGMENT_BUSY;
}

bool outer_failed(const struct stock *stock)
{
    return stock->outer && stock->outer->failed;
}

const char *outer_error(const struct stock *stock)
{
    return stock->outer && stock->outer->error[0] != '\0' ? stock->outer->error : NULL;
}

void outer_end(struct stock *stock)
{
    struct outer *outer = stock->outer;
    if (outer->count > 0)
        stock_flush(stock);
    for (size_t i = 0; i < outer->count; i++)
        seclock_release(outer->handles[i]);
    seclock_multi_free(outer->handles, outer->count);
    outer->count = 0;
    outer->failed = false;
}
