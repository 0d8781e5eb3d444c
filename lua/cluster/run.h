/* Pipelines to a cluster: split by node, sent to all nodes before any reply is read. */
#ifndef LUA_CLUSTER_RUN_H
#define LUA_CLUSTER_RUN_H

#include <stddef.h>

#include "lua/redis.h"

/* script_run and command_run of a cluster: they set each call's result as those do. The keys of one
 * call lie in one slot; a command without keys goes where the first command of its pipeline that
 * has one goes, or to any node.
 *
 * Calls of one slot are sent in their order. A call that a node refused because its slot moves or
 * has moved has certainly not run: it is sent again, where the refusal leads, for as long as the
 * cluster's patience lasts; then it is REDIS_FAILED. A lost node makes its own calls REDIS_UNKNOWN
 * and no others.
 *
 * Commands with WATCH or MULTI among them go to one connection, and their keys lie in one slot.
 * With a MULTI they are not sent again: a refusal makes them REDIS_FAILED, and the hook `moving`
 * true. Without one, all are sent again together, so besides WATCH they only read. */
void cluster_run_scripts(struct cluster *cluster, struct script_call *calls, size_t count);
void cluster_run_commands(struct cluster *cluster, struct command *commands, size_t count);

/* Pings every master. REDIS_ANSWERED when one of them answers. */
enum redis_result cluster_ping(struct cluster *cluster);

#endif
