/* Order ids: snowflakes, 63-bit numbers that grow with time and that a daemon makes by itself.
 *
 *   41 bits: ms since ORDER_ID_EPOCH_MS, until 2094 | 10 bits: node | 4 bits: pod | 8 bits: number
 *
 * No two daemons of one ledger make the same id: each leases its node from the ledger, and the
 * lease bounds the time that ids carry as well (sql/server/server.h, service/node.h). Without
 * a lease, or once it has ended, the generator makes no ids. Ids of two ledgers differ by the pod,
 * as each ledger leases its nodes by itself.
 *
 * why_old_ids: versions before had a sequence of 12 bits and no pod. Their ids stay unique beside
 * these, because a lease begins behind the time of all ids of the node's last holder; but what
 * stands in the place of the pod says nothing. All orders of that time are in pod 0. */
#ifndef SECKILL_SERVICE_REQUEST_ORDER_ID_H
#define SECKILL_SERVICE_REQUEST_ORDER_ID_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define ORDER_ID_EPOCH_MS UINT64_C(1735689600000) /* 2025-01-01T00:00:00Z, in Unix ms */
#define ORDER_ID_NODE_BITS 10
#define ORDER_ID_POD_BITS 4
#define ORDER_ID_SEQUENCE_BITS 8
#define ORDER_ID_TIME_BITS 41
#define ORDER_ID_LAST_MS                                                                           \
    (ORDER_ID_EPOCH_MS + (UINT64_C(1) << ORDER_ID_TIME_BITS) - 1) /* no id carries a later time */
#define ORDER_ID_NODE_MAX ((1U << ORDER_ID_NODE_BITS) - 1)
#define ORDER_ID_POD_MAX ((1U << ORDER_ID_POD_BITS) - 1)
#define ORDER_ID_RESERVE_MAX (1U << ORDER_ID_SEQUENCE_BITS) /* most ids of one ms */
#define ORDER_ID_TEXT_SIZE 21                               /* 20 digits and the final NUL */

/* Unix time in ms. Called by whichever thread asks for an id. */
typedef uint64_t (*order_id_clock_t)(void *context);

/* A node, and the range of ids that it may make. */
struct order_id_lease {
    unsigned node;    /* 0..ORDER_ID_NODE_MAX */
    uint64_t from_ms; /* ids carry this Unix time or a later one, */
    uint64_t to_ms;   /* but a time before this one */
    int64_t until_ns; /* by clock_boot_ns; from then on no ids are made */
};

/* The generator, one per process. Its fields are private. Any number of threads may use it; its
 * mutex is held for some ns, once or twice per batch of orders. */
struct order_ids {
    pthread_mutex_t mutex;
    uint64_t next; /* the first unused place: ms since the epoch << 8 | sequence */
    uint64_t end;  /* one past the lease's last place */
    uint64_t node, pod;
    int64_t until_ns;
    order_id_clock_t clock;
    void *clock_context;
};

/* pod: 0..ORDER_ID_POD_MAX. The generator starts without a lease. Call before any other thread sees
 * the generator; nothing in it needs freeing. */
void order_ids_init(struct order_ids *ids, order_id_clock_t clock, void *clock_context,
                    unsigned pod);

/* Continues with this lease: an extension for the same node, or another node's. */
void order_ids_lease(struct order_ids *ids, const struct order_id_lease *lease);

/* The node of the present lease; -1 before the first one. */
int order_ids_node(struct order_ids *ids);

/* The least Unix time in ms that the next id may carry, for a lease's bound: the clock's, or a
 * later one. No earlier id carries a later time. */
uint64_t order_ids_next_ms(struct order_ids *ids);

/* Returns the first of n consecutive ids (id, id + 1, ... id + n - 1) of one ms, larger than every
 * earlier id of this generator even if the clock stepped back; n: 1..ORDER_ID_RESERVE_MAX. If fewer
 * than n are left in the present ms, takes ids of the next ms, ahead of the clock: the call never
 * waits. A clock beyond the lease's bound is not followed: the ids continue from the last ones. 0:
 * there is no lease, it has ended, its ids are used up, or the clock is beyond ORDER_ID_LAST_MS, so
 * that orders' dates would be wrong by decades.
 *
 * *now_ms_out is the clock's time. Take an order's dates from it, never from the id: after the
 * clock has stepped back, ids stay ahead for as long as it had been ahead. */
uint64_t order_ids_reserve(struct order_ids *ids, unsigned n, uint64_t *now_ms_out);

/* The pod that the id names: the order's pod, or any number in an id of an earlier version. */
unsigned order_id_pod(uint64_t id);

/* True for digits only, without leading zeros, of at most 63 bits; *id_out is 0 otherwise. Accepts
 * exactly what decimal_put writes for ids, so that each order has one spelling. */
bool order_id_parse(const char *text, uint64_t *id_out);

#endif
