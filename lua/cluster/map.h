/* Which node of a cluster has which slot, and this client's connection to each node. */
#ifndef LUA_CLUSTER_MAP_H
#define LUA_CLUSTER_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/url.h"
#include "lua/cluster/slots.h"

enum {
    CLUSTER_NODES_MAX = 256, /* known at a time; a larger cluster is refused */
    CLUSTER_NOBODY = -1,     /* the owner of a slot that no node serves */
};

struct redis;
struct redisReply;

struct cluster_node {
    char host[URL_PART_SIZE];
    unsigned port;
    bool master;         /* it has slots, as far as this client knows */
    bool used;           /* in the present round of a pipeline */
    struct redis *redis; /* NULL until it is needed */
};

/* All zeros with count 0: nothing is known. One per client of a cluster. */
struct cluster_map {
    struct cluster_node *nodes[CLUSTER_NODES_MAX];
    int count;
    int16_t owner[CLUSTER_SLOTS]; /* places in `nodes` */
};

/* Begins an empty map; cluster_map_clear closes all connections and forgets all nodes. */
void cluster_map_begin(struct cluster_map *map);
void cluster_map_clear(struct cluster_map *map);

/* The place of the node with that address; a new one is added. CLUSTER_NOBODY when there are
 * too many, or memory ran out. */
int cluster_map_node(struct cluster_map *map, const char *host, unsigned port);

/* Reads the reply to CLUSTER SLOTS. `asked` is the address of the node that gave it, which stands
 * for a node without an address. False, and the map is as it was, when the reply has another form,
 * or names no slot or too many nodes. */
bool cluster_map_learn(struct cluster_map *map, const struct redisReply *reply, const char *asked);

/* Closes the connections to nodes that have no slots, and forgets those nodes: the places of others
 * change. */
void cluster_map_prune(struct cluster_map *map);

#endif
