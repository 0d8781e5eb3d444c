/* Asks each master of a Redis Cluster whether it would take a write, for the health of Redis.
 *
 * why_one_is_enough: a lost master takes its own segments along and no others, and its replica
 * takes over within seconds. Orders that find a segment elsewhere are accepted meanwhile. */
#include "service/workers/cluster_probe.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lua/cluster/cluster.h"
#include "lua/command.h"
#include "service/log/log.h"
#include "service/metrics/metrics.h"
#include "stock/types.h"

/* Lists the masters that gave no answer; returns how many they are. */
static size_t list_down(struct cluster *cluster, const struct command *writes, size_t count,
                        char *down_out, size_t size)
{
    size_t down = 0, used = 0;
    down_out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        if (writes[i].result == REDIS_ANSWERED)
            continue;
        int length = snprintf(down_out + used, size - used, "%s%s", down > 0 ? "," : "",
                              cluster_master_place(cluster, i));
        used = used + (size_t)length < size ? used + (size_t)length : size - 1;
        down++;
    }
    return down;
}

static void note_change(struct cluster_probe *probe, const char *down, size_t down_count,
                        size_t count, const char *error)
{
    metrics_gauge_set(GAUGE_REDIS_NODES_DOWN, (int64_t)down_count);
    if (strcmp(down, probe->down) == 0)
        return;
    snprintf(probe->down, sizeof probe->down, "%s", down);
    if (down_count == 0)
        log_event(LOG_INFO, "redis_nodes_up", "of=%zu", count);
    else
        log_event(LOG_WARN, "redis_nodes_down", "nodes=%zu of=%zu addresses=%s error=%s effect=%s",
                  down_count, count, LOG_QUOTE(down), LOG_QUOTE(error),
                  LOG_QUOTE("their segments sell nothing until they answer or replicas take over"));
}

/* SET … XX, as health.c asks a single server, of a key in a slot of each master. The answers are
 * read before anything else is asked, so the numbers of the masters still hold. */
bool cluster_probe_ask(struct cluster_probe *probe, struct redis *redis)
{
    struct cluster *cluster = redis_cluster(redis);
    assert(cluster);
    size_t count = cluster_masters(cluster);
    if (count == 0)
        return false;
    char(*keys)[CLUSTER_KEY_SIZE] = calloc(count, sizeof *keys);
    struct command *writes = calloc(count, sizeof *writes);
    char down[sizeof probe->down];
    if (!keys || !writes)
        abort();
    for (size_t i = 0; i < count; i++) {
        cluster_master_key(cluster, i, STOCK_PREFIX "health:", keys[i]);
        writes[i] = (struct command){.argc = 4, .argv = {"SET", keys[i], "", "XX"}};
    }
    command_run(redis, writes, count);
    bool same =
        cluster_masters_known(cluster) == count; /* a master may have been found meanwhile */
    size_t down_count = same ? list_down(cluster, writes, count, down, sizeof down) : 0;
    bool answered = false;
    for (size_t i = 0; i < count; i++)
        answered = answered || writes[i].result == REDIS_ANSWERED;
    if (same)
        note_change(probe, down, down_count, count, redis_error(redis));
    command_clear(writes, count);
    free(writes);
    free(keys);
    return answered;
}
