/* What the threads of the daemon share. */
#ifndef SECKILL_SERVICE_SERVICE_H
#define SECKILL_SERVICE_SERVICE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "service/call_kind.h"
#include "service/config/config.h"
#include "service/config/networks.h"
#include "service/order_id.h"
#include "service/queue.h"
#include "service/tokens.h"
#include "stock/stock.h"

struct health;
struct stock_snapshots;

struct service {
    struct config config;
    struct stock_options stock;
    struct sale_cache *sale_cache;
    struct tokens *tokens;
    struct stock_snapshots *stock_snapshots;
    struct networks proxies; /* whose X-Forwarded-For is believed */
    struct order_ids ids;
    struct queue *orders;            /* HTTP threads to order workers */
    struct queue *calls[CALL_KINDS]; /* HTTP threads to call workers */
    const struct health *health; /* what is known of Redis and the ledger; set before HTTP starts */
    _Atomic int streams;         /* answers being streamed */
    _Atomic int64_t sold_ns;     /* when an order worker last carried a batch through (monotonic) */
    _Atomic bool prepared;       /* the ledger's tables are there and the node is known */
    _Atomic bool draining;       /* no new connections; what was accepted is answered */
};

/* Makes everything but `config`, which is filled in before, and `ids`. The caller owns the struct
 * and no other thread has seen it yet. */
void service_open(struct service *service);

/* Frees what service_open made, after all threads have ended. */
void service_close(struct service *service);

/* Ends the workers of orders and calls once their queues are empty. Any thread, once no HTTP thread
 * sends anything on. */
void service_stop_queues(struct service *service);

/* Creates the ledger's tables, gives this daemon its node and learns the sales; then sets
 * `prepared`. False after a line in the log when the ledger cannot be reached (yet). */
bool service_prepare(struct service *service, struct ledger *ledger);

#endif
