/* The client of a Redis Cluster as its callers see it: opened, closed, asked for each master. */
#include "lua/cluster/cluster.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "lua/cluster/core.h"
#include "lua/cluster/run.h"

static struct cluster *cluster_open(struct redis *seed, const struct url *url, int timeout_ms)
{
    assert(timeout_ms > 0);
    struct cluster *cluster = calloc(1, sizeof *cluster);
    if (!cluster)
        return NULL;
    cluster->seed = seed;
    cluster->url = *url;
    cluster->timeout_ms = timeout_ms;
    cluster->watch.slot = CLUSTER_NO_NODE;
    cluster_map_begin(&cluster->map);
    unsigned random = (unsigned)clock_now_ms() ^ (unsigned)(uintptr_t)cluster;
    backoff_init(&cluster->learn_backoff, CLUSTER_LEARN_MS_MIN, CLUSTER_LEARN_MS_MAX, random);
    cluster->turn = random % CLUSTER_NODES_MAX;
    return cluster;
}

static void cluster_close(struct cluster **cluster)
{
    if (*cluster) {
        cluster_map_clear(&(*cluster)->map);
        free((*cluster)->entries);
    }
    free(*cluster);
    *cluster = NULL;
}

static void cluster_drop(struct cluster *cluster)
{
    for (int i = 0; i < cluster->map.count; i++)
        if (cluster->map.nodes[i]->redis)
            redis_drop(cluster->map.nodes[i]->redis);
}

static void cluster_set_timeout(struct cluster *cluster, int timeout_ms)
{
    assert(timeout_ms > 0);
    cluster->timeout_ms = timeout_ms;
    for (int i = 0; i < cluster->map.count; i++)
        if (cluster->map.nodes[i]->redis)
            redis_set_timeout(cluster->map.nodes[i]->redis, timeout_ms);
}

void cluster_set_patience(struct cluster *cluster, int patience_ms)
{
    assert(patience_ms > 0);
    cluster->patience_ms = patience_ms;
}

static void cluster_add_stats(const struct cluster *cluster, struct redis_stats *stats)
{
    for (int i = 0; i < cluster->map.count; i++) {
        if (!cluster->map.nodes[i]->redis)
            continue;
        struct redis_stats node = redis_stats(cluster->map.nodes[i]->redis);
        stats->connects += node.connects;
        stats->failures += node.failures;
        stats->reloads += node.reloads;
    }
}

static bool cluster_reached(const struct cluster *cluster)
{
    for (int i = 0; i < cluster->map.count && !cluster->reached; i++)
        if (cluster->map.nodes[i]->redis && redis_connected(cluster->map.nodes[i]->redis))
            return true;
    return cluster->reached;
}

static bool cluster_moving(const struct cluster *cluster)
{
    return cluster->moving;
}

/* ---- each master ---- */

static int nth_master(const struct cluster *cluster, size_t master)
{
    for (int i = 0; i < cluster->map.count; i++)
        if (cluster->map.nodes[i]->master && master-- == 0)
            return i;
    assert(!"no such master");
    return 0;
}

size_t cluster_masters_known(const struct cluster *cluster)
{
    size_t count = 0;
    for (int i = 0; i < cluster->map.count; i++)
        count += cluster->map.nodes[i]->master;
    return count;
}

size_t cluster_masters(struct cluster *cluster)
{
    cluster_begin(cluster);
    if (!cluster_learn(cluster, false))
        return 0;
    for (int i = 0; i < cluster->map.count; i++)
        if (cluster->map.nodes[i]->master && !cluster_client(cluster, i))
            abort();
    return cluster_masters_known(cluster);
}

/* A master that was found meanwhile has no client yet. */
const char *cluster_master_place(struct cluster *cluster, size_t master)
{
    const struct redis *redis = cluster_client(cluster, nth_master(cluster, master));
    return redis ? redis_place(redis) : "?";
}

struct redis *cluster_master(struct cluster *cluster, size_t master)
{
    return cluster_client(cluster, nth_master(cluster, master));
}

/* Tries one number in braces after another until one hashes to the master: on average as many as
 * there are masters. A master that has few slots may take thousands. */
void cluster_master_key(const struct cluster *cluster, size_t master, const char *prefix,
                        char key_out[CLUSTER_KEY_SIZE])
{
    int node = nth_master(cluster, master);
    for (unsigned i = 0; i < 1000000; i++) {
        int length = snprintf(key_out, CLUSTER_KEY_SIZE, "%s{%u}", prefix, i);
        assert(length > 0 && length < CLUSTER_KEY_SIZE);
        if (cluster->map.owner[cluster_slot(key_out, (size_t)length)] == node)
            return;
    }
}

const struct cluster_hooks cluster_hooks = {
    .open = cluster_open,
    .close = cluster_close,
    .drop = cluster_drop,
    .set_timeout = cluster_set_timeout,
    .ping = cluster_ping,
    .add_stats = cluster_add_stats,
    .run_scripts = cluster_run_scripts,
    .run_commands = cluster_run_commands,
    .reached = cluster_reached,
    .moving = cluster_moving,
};
