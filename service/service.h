/* What the threads of the daemon share. */
#ifndef SECKILL_SERVICE_SERVICE_H
#define SECKILL_SERVICE_SERVICE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "service/config/config.h"
#include "service/config/networks.h"
#include "service/drain.h"
#include "service/shard.h"
#include "service/tokens.h"
#include "stock/stock.h"

enum { OPERATORS_MAX = 256 }; /* connections of admin_listen */

struct admin_actions;
struct health;
struct http_room;
struct live_page;
struct observer;
struct stock_snapshots;

/* Proxies whose X-Forwarded-For is believed. Replaced ones are kept to the end, since an HTTP
 * thread may still be reading them. */
struct proxies {
    struct networks networks;
    const struct proxies *older;
};

struct service {
    struct config config;
    struct ledgers ledgers;     /* of config */
    struct stock_options stock; /* what all shards have in common */
    struct shard shards[SHARDS_MAX];
    unsigned shard_count;
    _Atomic unsigned other_daemons; /* that share the ledgers, by the live thread's last count */
    struct sale_cache *sale_cache;
    struct tokens *tokens;
    struct stock_snapshots *stock_snapshots;
    struct stock_rates rates; /* of config; these and `proxies` follow a reload */
    _Atomic(const struct proxies *) proxies;
    unsigned connections_max;    /* of config, or fewer: as many as there may be descriptors for */
    unsigned operators_max;      /* connections of admin_listen: OPERATORS_MAX, or fewer likewise */
    const struct health *health; /* what is known of all servers; set before HTTP starts */
    struct observer *observer;   /* what the metrics show of sales and process; the same */
    /* Of the listeners, for the metrics; the second is NULL without admin_listen. Set before the
     * first HTTP thread starts. */
    const struct http_room *public_room, *admin_room;
    struct live_page *live_page;         /* live thread to the dashboard */
    struct admin_actions *admin_actions; /* call workers to the live thread */
    _Atomic int phase;                   /* enum service_phase */
    struct drain drain;                  /* what changes the phase */
};

/* Makes everything but `config`, which is filled in before. The caller owns the struct and no other
 * thread has seen it yet. */
void service_open(struct service *service);

/* Takes over the rates and proxies of a configuration that config_load has checked. Main thread, at
 * any time: requests and batches that come later see them. */
void service_apply(struct service *service, const struct config *config);

/* Frees what service_open made, after all threads have ended. */
void service_close(struct service *service);

/* The shard of a sale that this process knows, or -1. Any thread; takes no lock. */
int service_shard_of_sku(const struct service *service, const char *sku);

/* The time at the ledger of the sale, in ms since 1970, by which its window goes; at the first
 * ledger when this process does not know the sale. The same. */
int64_t service_sale_ms(const struct service *service, const char *sku);

/* Orders that wait or are with their workers, and the places for them, of all shards together. Any
 * thread; takes no lock. */
size_t service_queue_depth(const struct service *service);
size_t service_queue_capacity(const struct service *service);

/* Whether a shard is prepared: the daemon can sell something. Any thread; takes no lock. */
bool service_prepared(const struct service *service);

/* Whether one is, and each of the others is as well or had its time to be: balancers may send
 * clients, who find all that there is. Stays true. */
bool service_begun(const struct service *service, int64_t now_ns);

/* Whether all of them are. */
bool service_prepared_all(const struct service *service);

#endif
