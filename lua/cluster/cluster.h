/* The client of a Redis Cluster: it knows which node has which slot, and has a connection to each
 * node that is needed. It belongs to a struct redis, its seed client, which the callers hold.
 *
 * The seed's own connection leads to any one node; publishing and subscribing use it, because the
 * nodes pass messages on to each other, except those of sharded channels: a subscriber of these
 * connects to the channel's owner by redis_open_node. Commands with keys go through the pipelines
 * below.
 * lua/redis.c opens and closes the client, see struct cluster_hooks. */
#ifndef LUA_CLUSTER_CLUSTER_H
#define LUA_CLUSTER_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>

#include "lua/redis.h"

struct cluster;
struct url_server;

enum { CLUSTER_KEY_SIZE = 64 }; /* bytes of a key of cluster_master_key, with its NUL */

/* How long a call may wait while its slot is being moved from one node to another; the time-out of
 * the client unless set. */
void cluster_set_patience(struct cluster *cluster, int patience_ms);

/* Learns the masters if need be, and returns their number, for a caller that asks each. 0: no
 * server answers. The functions below take a smaller number; their results hold until the next call
 * that takes the seed client or the cluster. */
size_t cluster_masters(struct cluster *cluster);

/* A client of that master alone, for commands without keys. */
struct redis *cluster_master(struct cluster *cluster, size_t master);

/* Writes a key that begins with `prefix` and lies in a slot of that master. */
void cluster_master_key(const struct cluster *cluster, size_t master, const char *prefix,
                        char key_out[CLUSTER_KEY_SIZE]);

/* Writes the address of the master that has the key's slot, as far as this client knows, without
 * asking any server. False: it does not know. */
bool cluster_owner(const struct cluster *cluster, const char *key, struct url_server *owner_out);

/* ---- pipelines: split by node, sent to all nodes before any reply is read ---- */

/* For the hooks: script_run and command_run of a cluster set each call's result as those do. The
 * keys of one call lie in one slot; a command without keys goes to the node of its pipeline's first
 * command with a key, or to any node.
 *
 * Calls of one slot are sent in their order. A call that a node refused because its slot moves or
 * has moved has certainly not run: it is sent again, to the node that the refusal names, for as
 * long as the cluster's patience lasts; then it is REDIS_FAILED. A lost node makes only its own
 * calls REDIS_UNKNOWN.
 *
 * Commands with WATCH or MULTI among them go to one connection, and their keys lie in one slot.
 * With a MULTI they are not sent again: a refusal makes them REDIS_FAILED, and the hook `moving`
 * true. Without one, all are sent again together, so besides WATCH they only read. */
void cluster_run_scripts(struct cluster *cluster, struct script_call *calls, size_t count);
void cluster_run_commands(struct cluster *cluster, struct command *commands, size_t count);

/* The hook `ping`. */
enum redis_result cluster_ping(struct cluster *cluster);

#endif
