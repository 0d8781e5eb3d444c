/* The slots of a Redis Cluster: the slot of a key, the node that has a slot, the refusals that name
 * another node; and this client's connection to each node. */
#ifndef LUA_CLUSTER_MAP_H
#define LUA_CLUSTER_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/url.h"

enum {
    CLUSTER_SLOTS = 16384,
    CLUSTER_NODES_MAX = 256, /* known at a time; a larger cluster is refused */
    CLUSTER_NO_NODE = -1,    /* no node, e.g. as the owner of a slot that is not served */
};

struct redis;
struct redisReply;

/* The slot of a key: CRC16 of its hash tag, the text between the first '{' and the next '}', or of
 * the whole key when there is no tag or an empty one. Any thread. */
unsigned cluster_slot(const char *key, size_t length);

/* Why a node of a cluster refused a command; it has certainly not run there. */
enum cluster_refusal {
    CLUSTER_NO_REFUSAL, /* any other text */
    CLUSTER_MOVED,      /* another node has the slot */
    CLUSTER_ASK,        /* the slot is moving, and this key is at the other node already */
    CLUSTER_TRY_AGAIN,  /* the slot is moving, and the command's keys are at both nodes */
    CLUSTER_DOWN,       /* the node serves no slots, or nobody serves this one */
};

/* The node that MOVED or ASK names. An empty host means the host of the node that said it. */
struct cluster_redirect {
    unsigned slot;
    char host[URL_PART_SIZE];
    unsigned port;
};

/* Reads an error reply; writes `redirect_out` for MOVED and ASK. A MOVED or ASK not of Redis' form
 * counts as CLUSTER_DOWN, and one to "?", a node whose name the other does not know, as
 * CLUSTER_TRY_AGAIN: CLUSTER SLOTS may tell its address. */
enum cluster_refusal cluster_refusal(const char *error, struct cluster_redirect *redirect_out);

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
    int16_t owner[CLUSTER_SLOTS]; /* indices of `nodes` */
};

/* Begins an empty map; cluster_map_clear closes all connections and forgets all nodes. */
void cluster_map_begin(struct cluster_map *map);
void cluster_map_clear(struct cluster_map *map);

/* The index of the node with that address; adds it if it is new. CLUSTER_NO_NODE when there are too
 * many, or memory ran out. */
int cluster_map_node(struct cluster_map *map, const char *host, unsigned port);

/* The index of the node that a MOVED or an ASK of node `from` leads to; a MOVED changes the owner
 * of its slot. CLUSTER_NO_NODE: see cluster_map_node. */
int cluster_map_follow(struct cluster_map *map, int from, enum cluster_refusal why,
                       const struct cluster_redirect *redirect);

/* Returns a slot for commands without a key: of a connected master, or of any. */
unsigned cluster_map_any_slot(const struct cluster_map *map);

/* Reads the reply to CLUSTER SLOTS. `asked` is the address of the node that gave it, which stands
 * for a node without an address. False, and the map is as it was, when the reply has another form,
 * or names no slot or too many nodes. */
bool cluster_map_learn(struct cluster_map *map, const struct redisReply *reply, const char *asked);

/* Closes the connections to nodes that have no slots, and forgets those nodes: the indices of
 * others change. */
void cluster_map_prune(struct cluster_map *map);

#endif
