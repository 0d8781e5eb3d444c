/* A shard: one ledger of the daemon, with everything that talks to it.
 *
 * Each sale is on one shard, and so are its orders, their keys and what its users have; the order's
 * id names the shard (order_id.h). Shards have queues, threads and connections of their own, so
 * that a ledger that is away or hangs stops its own sales and no others. With one URL in mysql_url
 * there is one shard. */
#ifndef SECKILL_SERVICE_SHARD_H
#define SECKILL_SERVICE_SHARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/worker.h"
#include "service/call_kind.h"
#include "service/config/ledgers.h"
#include "service/node.h"
#include "service/order_id.h"
#include "service/queue.h"
#include "service/shard_clock.h"
#include "sql/ledger_fit.h"
#include "stock/stock.h"

enum { SHARDS_MAX = LEDGERS_MAX };

struct service;

struct shard {
    struct service *service;
    const struct config *config;
    struct sale_cache *sale_cache; /* the service's: that of all shards */
    unsigned number;               /* its place in mysql_url, from 0 */
    struct stock_options stock;    /* of every stock that sells its sales */
    struct shard_clock clock;      /* the time of its ledger */
    struct order_ids ids;
    struct node node; /* of the ids: the preparer's until `prepared`, then health's, then main's */
    struct queue *orders;            /* HTTP threads to its order workers */
    struct queue *calls[CALL_KINDS]; /* HTTP threads to its call workers */
    _Atomic int64_t sold_ns;   /* when an order worker last carried a batch through (monotonic) */
    _Atomic int64_t settle_ns; /* until when a start waits for `prepared` (monotonic) */
    _Atomic bool elected;      /* this daemon's expiry worker is */
    _Atomic int64_t indexed_s; /* UTC: up to when all orders are indexed; 0: not known */
    char unfit[LEDGER_UNFIT_SIZE]; /* why the server is none for orders; the preparer's */
    _Atomic bool prepared;         /* the ledger's tables are there and the node is known */
};

/* Makes a shard, of which `number`, `service`, `config`, `stock` and `sale_cache` are set. The
 * caller owns the struct and no other thread has seen it yet. */
void shard_open(struct shard *shard);

/* Frees what shard_open made, after all threads have ended. */
void shard_close(struct shard *shard);

/* Ends the shard's workers of orders and calls once their queues are empty. Any thread, once no
 * HTTP thread sends anything on. */
void shard_stop_queues(struct shard *shard);

/* Creates the ledger's tables, leases this daemon's node there and learns the sales; then sets
 * `prepared`. False after a line in the log when the ledger cannot be reached (yet), has no node
 * for this daemon (node_refused), is not fit for orders (`unfit`), or `worker` was told to stop. */
bool shard_prepare(struct shard *shard, struct ledger *ledger, const struct worker *worker);

#endif
