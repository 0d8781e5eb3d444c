/* What Redis Cluster says in its protocol: the slot of a key, and the refusals that lead to another
 * node. */
#ifndef LUA_CLUSTER_SLOTS_H
#define LUA_CLUSTER_SLOTS_H

#include <stddef.h>

#include "base/url.h"

enum { CLUSTER_SLOTS = 16384 };

/* The slot of a key: CRC16 of its hash tag, the text between the first '{' and the next '}', or of
 * the whole key when there is no tag or an empty one. Any thread. */
unsigned cluster_slot(const char *key, size_t length);

/* Why a node of a cluster refused a command; it has certainly not run there. */
enum cluster_refusal {
    CLUSTER_NO_REFUSAL, /* any other text */
    CLUSTER_MOVED,      /* another node has the slot */
    CLUSTER_ASK,        /* the slot is on its way, and this key is at the other node already */
    CLUSTER_TRY_AGAIN,  /* the slot is on its way, and the command's keys are at both nodes */
    CLUSTER_DOWN,       /* the node serves no slots, or nobody serves this one */
};

/* Where MOVED and ASK lead to. An empty host means the host of the node that said it. */
struct cluster_redirect {
    unsigned slot;
    char host[URL_PART_SIZE];
    unsigned port;
};

/* Reads an error reply; writes `redirect_out` for MOVED and ASK. A MOVED or ASK of another form
 * than Redis' counts as CLUSTER_DOWN, and one to "?", a node whose name the other does not know, as
 * CLUSTER_TRY_AGAIN: CLUSTER SLOTS may tell its address. */
enum cluster_refusal cluster_refusal(const char *error, struct cluster_redirect *redirect_out);

#endif
