/* Asks each master of a Redis Cluster whether it would take a write, for the health of Redis. */
#ifndef SECKILL_WORKERS_CLUSTER_PROBE_H
#define SECKILL_WORKERS_CLUSTER_PROBE_H

#include <stdbool.h>

struct redis;

/* The masters that were down when last asked; all zeros: none. One per thread that asks. */
struct cluster_probe {
    char down[1024]; /* where they are, with commas between; cut */
};

/* Asks all masters of the cluster side by side. True when one of them takes writes: orders go on
 * with the segments that it has. Logs each change of the set of those that do not, and sets their
 * metric. */
bool cluster_probe_ask(struct cluster_probe *probe, struct redis *redis);

#endif
