/* What the client of one server, lua/redis.c, and the pipelines, lua/script.c and lua/command.c,
 * call of a cluster's, lua/cluster/cluster.c, which is made of clients of one server each and of pipelines
 * to them: a table, so that they do not include each other. */
#ifndef LUA_CLUSTER_HOOKS_H
#define LUA_CLUSTER_HOOKS_H

#include <stdbool.h>
#include <stddef.h>

#include "lua/redis_result.h"

struct cluster;
struct command;
struct redis;
struct script_call;
struct url;

struct cluster_hooks {
    /* Makes the client for the servers of `url`, of which one that answers is enough to learn the
     * others, without connecting. NULL: out of memory. `front` outlives it, and gets its errors and
     * faults. It belongs to the front's thread. */
    struct cluster *(*open)(struct redis *front, const struct url *url, int timeout_ms);

    /* Closes all connections to nodes, frees the client and sets the caller's pointer to NULL. */
    void (*close)(struct cluster **cluster);

    /* redis_drop and redis_set_timeout for all nodes. */
    void (*drop)(struct cluster *cluster);
    void (*set_timeout)(struct cluster *cluster, int timeout_ms);

    /* Pings every master. REDIS_ANSWERED when one of them answers. */
    enum redis_result (*ping)(struct cluster *cluster);

    /* Adds what was counted on the connections to nodes. */
    void (*add_stats)(const struct cluster *cluster, struct redis_stats *stats);

    /* The pipelines of script_run and command_run: see lua/cluster/run.h. */
    void (*run_scripts)(struct cluster *cluster, struct script_call *calls, size_t count);
    void (*run_commands)(struct cluster *cluster, struct command *commands, size_t count);

    /* True when a node has answered in the last pipeline, or another one is connected: while this
     * is true, calls that failed for a lost node may succeed at another. */
    bool (*reached)(const struct cluster *cluster);

    /* True when the last commands were refused, and not done, because their slot is being moved:
     * they may be tried again. */
    bool (*moving)(const struct cluster *cluster);
};

extern const struct cluster_hooks cluster_hooks;

#endif
