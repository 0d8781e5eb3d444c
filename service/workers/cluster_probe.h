/* Probes each master of a Redis Cluster for whether it accepts writes, for the health of Redis. */
#ifndef SECKILL_WORKERS_CLUSTER_PROBE_H
#define SECKILL_WORKERS_CLUSTER_PROBE_H

#include <stdbool.h>

struct redis;

/* The masters that were down at the last probe; all zeros: none. One per probing thread. */
struct cluster_probe {
    char down[1024]; /* their addresses, separated by commas; cut to fit */
};

/* Probes all masters concurrently. True when at least one accepts writes: orders continue with its
 * segments. Logs each change of the set of masters that do not, and sets their metric. */
bool cluster_probe_ask(struct cluster_probe *probe, struct redis *redis);

#endif
