/* This daemon's lease of a node number: taken at the start, renewed in the background, given back
 * at a clean stop.
 *
 * Between two renewals the generator of ids (order_id.h) makes only ids that the ledger has set
 * aside for this daemon, and none once its own clock says that the lease may have ended. So a
 * daemon that slept, or did without its ledger for long, makes no id that another one could make:
 * it goes on with a renewed lease, or with another number when somebody took its own. */
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
    NODE_MARGIN_MS = 500, /* the lease counts as ended so much earlier: clocks differ in rate */
};

/* The members are for node.c alone. */
struct node {
    int wanted;                   /* option node_id: -1 for any */
    char holder[IDENTIFIER_SIZE]; /* this process: host, pid and a random part */
    bool held;
    struct ledger_node lease; /* while held */
    int64_t due_ns;           /* of the next renewal, by clock_boot_ns */
    bool answered;            /* the ledger carried out the last statement */
    char other[IDENTIFIER_SIZE], other_until[LEDGER_TIME_SIZE]; /* who has the wanted number */
    bool other_lives;
};

/* Nothing is leased yet. wanted: -1 or 0..ORDER_ID_NODE_MAX. */
void node_init(struct node *node, int wanted);

/* Takes a number, or renews its lease when that is due, and tells the generator. False when, as far
 * as this daemon knows, there is no number. To be called again soon in any case. Logs what changes.
 * One thread at a time. */
bool node_keep(struct node *node, struct order_ids *ids, struct ledger *ledger);

/* The ledger does not answer, or it is another server by now, which may not have the newest lease:
 * the lease is renewed as soon as the ledger answers, and not given back before. The thread of
 * node_keep. */
void node_doubt(struct node *node);

/* Whether another daemon that is alive has the number that this one must have; then error_out says
 * which one. A dead one's lease ends by itself. */
bool node_refused(const struct node *node, char *error_out, size_t error_size);

/* Gives the number back, once no thread makes ids any more. */
void node_release(struct node *node, struct order_ids *ids, struct ledger *ledger);

#endif
