/* The client of a Redis Cluster beside its front, the struct redis that the callers hold: which
 * node has which slot, and a connection to each node that is needed.
 *
 * The front's own connection leads to any one node; publishing and subscribing use it, as the nodes
 * pass messages on to each other. Everything that has keys goes through lua/cluster/run.h.
 * Opened, closed and so on by lua/redis.c (cluster_hooks.h). */
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

/* As many masters as are known, without asking. */
size_t cluster_masters_known(const struct cluster *cluster);

/* The masters, for a caller that asks each: learns them if need be, and returns how many there are.
 * 0: no server answers. The functions below take a number less than that; they hold until the next
 * call that takes the front or the cluster. */
size_t cluster_masters(struct cluster *cluster);

/* Where that master is, "host:port". */
const char *cluster_master_place(struct cluster *cluster, size_t master);

/* A client of that master alone, for commands without keys. */
struct redis *cluster_master(struct cluster *cluster, size_t master);

/* Writes a key that begins with `prefix` and lies in a slot of that master. */
void cluster_master_key(const struct cluster *cluster, size_t master, const char *prefix,
                        char key_out[CLUSTER_KEY_SIZE]);

#endif
