/* The core of a cluster's client, for lua/cluster/ alone. */
#ifndef LUA_CLUSTER_CORE_H
#define LUA_CLUSTER_CORE_H

#include "base/fault.h"
#include "lua/cluster/map.h"
#include "lua/redis.h"

/* The delay between two questions for the slots. Short, because only a question finds a replica
 * that took over. */
enum { CLUSTER_LEARN_MS_MIN = 20, CLUSTER_LEARN_MS_MAX = 250 };

/* The state of one call of a pipeline. */
struct cluster_entry {
    uint16_t slot;
    int16_t node;  /* the node that it was sent to, or that ASK names */
    uint8_t state; /* see run.c */
    bool asking;   /* ASK has led it to `node` */
    bool text;     /* the node does not know its script */
};

/* The connection on which a WATCH is in force. */
struct cluster_watch {
    int slot;          /* CLUSTER_NO_NODE: no WATCH */
    int node;          /* CLUSTER_NO_NODE: the node has been forgotten since */
    bool asking;       /* ASK has led it there */
    uint64_t connects; /* of that node's client: a later connection has no WATCH */
};

struct cluster {
    struct redis *seed; /* the client that the callers hold, and its connection to any one node */
    struct url url;
    int timeout_ms, patience_ms; /* 0: the time-out */
    struct cluster_map map;
    bool known;           /* a node has told the slots */
    bool stale;           /* a sign shows that they have changed since */
    bool reached, moving; /* of the last pipeline: see struct cluster_hooks */
    struct backoff learn_backoff;
    int64_t until_ms;              /* bounds all connects and questions of this call */
    unsigned turn;                 /* of the nodes that are asked for the slots */
    struct cluster_watch watch;    /* the last one, until its transaction */
    struct cluster_entry *entries; /* of the present pipeline */
    size_t room;
};

/* Begins a call: from now on all its connects and questions for the slots share one time-out. Each
 * may use half of the rest, so that a node that hangs leaves time for the others. */
void cluster_begin(struct cluster *cluster);

/* Makes sure that the slots are known, and asks for them again when they seem to have changed; not
 * while replies are due. `between`: between two rounds of a pipeline, in which nodes keep their
 * indices. False when no server has told the slots yet. */
bool cluster_learn(struct cluster *cluster, bool between);

/* Notes a sign that the slots or the nodes have changed. */
void cluster_doubt(struct cluster *cluster);

/* The client of a node; NULL: out of memory. */
struct redis *cluster_client(struct cluster *cluster, int node);

/* Returns the client of a node, connected; NULL when it cannot be, with the reason noted. */
struct redis *cluster_node(struct cluster *cluster, int node, const char *doing);

/* Does redis_receive after the time-out: waits only for replies that are on their way. */
struct redisReply *cluster_receive_late(struct redis *node);

/* Notes a failure at a node, or at CLUSTER_NO_NODE, as the error and fault of the seed client. */
void cluster_note(struct cluster *cluster, int node, const char *doing, const char *error);

#endif
