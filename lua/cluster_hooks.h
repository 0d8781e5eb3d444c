/* What the client of one server, lua/redis.c, calls of a cluster's, lua/cluster.c, which is made of
 * clients of one server each: a table, so that the two do not include each other. */
#ifndef LUA_CLUSTER_HOOKS_H
#define LUA_CLUSTER_HOOKS_H

#include "lua/redis_result.h"

struct cluster;
struct redis;
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
};

extern const struct cluster_hooks cluster_hooks;

#endif
