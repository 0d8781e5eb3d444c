/* This daemon's lease of a node number: taken at the start, renewed in the background, given back
 * at a clean stop.
 *
 * Between renewals the id generator (order_id.h) makes only ids that the ledger has reserved for
 * this daemon, and none once its own clock says that the lease may have ended. So a daemon that
 * slept, or had no ledger for long, makes no id that another one could make: it continues with a
 * renewed lease, or with another number if somebody took its own. */
#ifndef SECKILL_SERVICE_NODE_H
#define SECKILL_SERVICE_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/request/order_id.h"
#include "sql/server/server.h"

enum {
    NODE_LEASE_MS = 10000,
    NODE_RENEW_MS = NODE_LEASE_MS / 4,
    NODE_MARGIN_MS = 500, /* the lease ends this much earlier here: clock rates differ */
};

/* The members are private to node.c. */
struct node {
    int wanted;                   /* option node_id: -1 for any */
    char holder[IDENTIFIER_SIZE]; /* this process: host, pid and a random part */
    bool held;
    struct ledger_node lease; /* while held */
    int64_t due_ns;           /* next renewal, by clock_boot_ns */
    bool answered;            /* the ledger carried out the last statement */
    char other[IDENTIFIER_SIZE], other_until[LEDGER_TIME_SIZE]; /* holder of the wanted number */
    bool other_lives;
};

/* Starts without a lease. wanted: -1 or 0..ORDER_ID_NODE_MAX. */
void node_init(struct node *node, int wanted);

/* The name of this process: host, pid and a random part. Valid as long as the node. */
const char *node_holder(const struct node *node);

/* Takes a number, or renews its lease when due, and tells the generator. False when, as far as this
 * daemon knows, it has no number. Must be called again soon in either case. Logs changes. One
 * thread at a time. */
bool node_keep(struct node *node, struct order_ids *ids, struct ledger *ledger);

/* To be called when the ledger does not answer, or is now another server that may lack the newest
 * lease: the lease is renewed as soon as the ledger answers, and not given back before. The thread
 * of node_keep. */
void node_doubt(struct node *node);

/* True when another live daemon holds the number that this one must have; error_out then names it.
 * A dead daemon's lease ends by itself. */
bool node_refused(const struct node *node, char *error_out, size_t error_size);

/* Gives the number back. No thread may make ids any more. */
void node_release(struct node *node, struct order_ids *ids, struct ledger *ledger);

#endif
