/* Commands to a cluster that belong to one connection: WATCH and what it reads, MULTI to EXEC. */
#ifndef LUA_CLUSTER_WATCH_H
#define LUA_CLUSTER_WATCH_H

#include <stdbool.h>
#include <stddef.h>

struct cluster;
struct command;

/* Whether the commands belong to one connection. */
bool cluster_is_bound(const struct command *commands, size_t count);

/* Whether the commands are the transaction of a WATCH. It goes where that is in force, whatever the
 * slots are by now, so nothing is learnt before it. */
bool cluster_is_watched(const struct cluster *cluster, const struct command *commands,
                        size_t count);

/* Runs such commands, all of them at the node that has the slot: see cluster_run_commands. They
 * have no replies yet, and are REDIS_FAILED. */
void cluster_run_bound(struct cluster *cluster, struct command *commands, size_t count,
                       unsigned slot);

#endif
