/* The client of a Redis Cluster: which node has which slot, and a connection to each node that is
 * needed. It belongs to a struct redis, its seed client, which the callers hold.
 *
 * The seed's own connection leads to any one node; publishing and subscribing use it, as the nodes
 * pass messages on to each other. Everything that has keys goes through lua/cluster/run.h.
 * lua/redis.c opens and closes it, see struct cluster_hooks. */
#ifndef LUA_CLUSTER_CLUSTER_H
#define LUA_CLUSTER_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>

#include "lua/redis.h"

struct cluster;

enum { CLUSTER_KEY_SIZE = 64 }; /* bytes of a key of cluster_master_key, with its NUL */

/* How long a call may wait while its slot is being moved from one node to another; the time-out of
 * the client unless set. */
void cluster_set_patience(struct cluster *cluster, int patience_ms);

/* The number of masters known so far, without asking. */
size_t cluster_masters_known(const struct cluster *cluster);

/* Learns the masters if need be, and returns how many there are, for a caller that asks each. 0: no
 * server answers. The functions below take a number less than that; their results hold until the
 * next call that takes the seed client or the cluster. */
size_t cluster_masters(struct cluster *cluster);

/* The address of that master, "host:port". */
const char *cluster_master_place(struct cluster *cluster, size_t master);

/* A client of that master alone, for commands without keys. */
struct redis *cluster_master(struct cluster *cluster, size_t master);

/* Writes a key that begins with `prefix` and lies in a slot of that master. */
void cluster_master_key(const struct cluster *cluster, size_t master, const char *prefix,
                        char key_out[CLUSTER_KEY_SIZE]);

#endif
