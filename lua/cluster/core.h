/* The inside of a cluster's client, for lua/cluster/ alone. */
#ifndef LUA_CLUSTER_CORE_H
#define LUA_CLUSTER_CORE_H

#include "base/fault.h"
#include "lua/cluster/map.h"
#include "lua/redis.h"

/* The delay between two questions for the slots. Short, because a replica that takes over is found
 * only by asking. */
enum { CLUSTER_LEARN_MS_MIN = 20, CLUSTER_LEARN_MS_MAX = 250 };

/* What became of one call of a pipeline so far. */
struct cluster_entry {
    uint16_t slot;
    int16_t node;  /* where it was sent, or leads to by ASK */
    uint8_t state; /* see run.c */
    bool asking;   /* ASK has led it to `node` */
    bool text;     /* the node does not know its script */
};

/* Where a WATCH is in force. */
struct cluster_watch {
    int slot;          /* CLUSTER_NOBODY: there is none */
    int node;          /* CLUSTER_NOBODY: the node has been forgotten since */
    bool asking;       /* ASK has led it there */
    uint64_t connects; /* of that node's client: on a later connection it is in force no more */
};

struct cluster {
    struct redis *front;
    struct url url;
    int timeout_ms, patience_ms; /* 0: the time-out */
    struct cluster_map map;
    bool known;                    /* a node has told the slots */
    bool stale;                    /* something shows that they have changed since */
    bool reached, moving;          /* of the last pipeline: see cluster_hooks.h */
    struct backoff asking;         /* for the slots */
    int64_t until_ms;              /* of all connects and questions of the present call */
    unsigned turn;                 /* of the nodes that are asked for the slots */
    struct cluster_watch watch;    /* the last one, until its transaction */
    struct cluster_entry *entries; /* of the present pipeline */
    size_t room;
};

/* Begins a call: connects and questions for the slots have one time-out from now on, all together,
 * of which each may use a half of what is left: the nodes behind one that hangs are reached too. */
void cluster_begin(struct cluster *cluster);

/* Makes sure that the slots are known, and asks for them again when they seem to have changed; not
 * while replies are due. `between`: between two rounds of a pipeline, whose nodes keep their
 * places. False when no server has told them yet. */
bool cluster_learn(struct cluster *cluster, bool between);

/* Notes that something shows a change of the slots or the nodes. */
void cluster_doubt(struct cluster *cluster);

/* The client of a node; NULL: out of memory. */
struct redis *cluster_client(struct cluster *cluster, int node);

/* The client of a node, connected; NULL when it cannot be, with the reason noted. */
struct redis *cluster_node(struct cluster *cluster, int node, const char *doing);

/* redis_receive from a node, or the front, that waits up to `wait_ms`. cluster_receive_late waits
 * only for what is on its way already, after the time-out. */
struct redisReply *cluster_receive(struct cluster *cluster, struct redis *redis, int wait_ms);
struct redisReply *cluster_receive_late(struct redis *node);

/* Notes a failure at a node, CLUSTER_NOBODY for none, as the front's error and fault. */
void cluster_note(struct cluster *cluster, int node, const char *doing, const char *error);

/* The place of the node that a redirect of `from` leads to; CLUSTER_NOBODY: too many nodes. */
int cluster_target(struct cluster *cluster, int from, const struct cluster_redirect *redirect);

/* When the present pipeline is to give up the calls whose slot moves, by clock_now_ms. */
int64_t cluster_patience_end_ms(const struct cluster *cluster);

/* Waits a moment before the next round of a pipeline, counted from 0, if it is too `early` for it
 * or there were many; false when the patience has ended. */
bool cluster_wait(bool early, int round, int64_t until_ms);

/* A node that serves slots, for commands without keys; CLUSTER_NOBODY when none is known. */
int cluster_any(struct cluster *cluster);

#endif
