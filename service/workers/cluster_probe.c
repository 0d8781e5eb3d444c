/* Probes each master of a Redis Cluster for whether it accepts writes, for the health of Redis.
 *
 * why_one_is_enough: a lost master affects only its own segments, and its replica takes over within
 * seconds. Meanwhile orders that find a segment elsewhere are accepted. */
#include "service/workers/cluster_probe.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "lua/cluster/cluster.h"
#include "lua/script.h"
#include "service/log/log.h"
#include "service/metrics/metrics.h"
#include "stock/stock.h"

/* A master, and a key in one of its slots. */
struct master {
    char place[URL_PLACE_SIZE];
    char key[CLUSTER_KEY_SIZE];
};

/* Lists the masters that gave no answer; returns their number. */
static size_t list_down(const struct master *masters, const struct script_call *calls, size_t count,
                        char *down_out, size_t size)
{
    size_t down = 0, used = 0;
    down_out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        if (calls[i].result == REDIS_ANSWERED)
            continue;
        int length =
            snprintf(down_out + used, size - used, "%s%s", down > 0 ? "," : "", masters[i].place);
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

bool cluster_probe_ask(struct cluster_probe *probe, struct redis *redis)
{
    struct cluster *cluster = redis_cluster(redis);
    assert(cluster);
    size_t count = cluster_masters(cluster);
    if (count == 0)
        return false;
    struct master *masters = calloc(count, sizeof *masters);
    struct script_call *calls = calloc(count, sizeof *calls);
    char down[sizeof probe->down];
    if (!masters || !calls)
        abort();
    for (size_t i = 0; i < count; i++) {
        snprintf(masters[i].place, URL_PLACE_SIZE, "%s", redis_place(cluster_master(cluster, i)));
        cluster_master_key(cluster, i, STOCK_PREFIX "health:", masters[i].key);
        script_begin(&calls[i], SCRIPT_health_probe);
        script_key(&calls[i], masters[i].key);
    }
    script_run(redis, calls, count);
    size_t down_count = list_down(masters, calls, count, down, sizeof down);
    note_change(probe, down, down_count, count, redis_error(redis));
    free(calls);
    free(masters);
    return down_count < count;
}
