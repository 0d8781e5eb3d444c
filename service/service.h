/* What the threads of the daemon share. */
#ifndef SECKILL_SERVICE_SERVICE_H
#define SECKILL_SERVICE_SERVICE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "service/config/config.h"
#include "service/config/address.h"
#include "service/config/tokens.h"
#include "service/drain.h"
#include "service/node.h"
#include "service/request/order_id.h"
#include "service/request/queue.h"
#include "service/request/request.h"
#include "service/synced_clock.h"
#include "sql/server/server.h"
#include "stock/stock.h"

enum {
    OPERATORS_MAX = 256, /* connections of admin_listen */
    REFUSAL_SIZE = 256,
};

struct admin_actions;
struct health;
struct live;
struct stock_snapshots;

/* Proxies whose X-Forwarded-For is believed. Replaced ones are kept to the end, since an HTTP
 * thread may still be reading them. */
struct proxies {
    struct networks networks;
    const struct proxies *older;
};

/* Connections at one listener, which its HTTP threads count. */
struct connection_use {
    _Atomic unsigned open; /* also those that are being closed to make room */
    _Atomic unsigned max;  /* that there may be now: fewer while descriptors are lacking; 0: none */
};

struct service {
    struct config config;
    struct stock_options stock; /* of every stock that sells */
    struct synced_clock clock;  /* the time of the ledger */
    struct order_ids ids;
    struct node node; /* of the ids: the preparer's until `prepared`, then health's, then main's */
    struct queue *orders;            /* HTTP threads to order workers */
    struct queue *calls[CALL_KINDS]; /* HTTP threads to call workers */
    _Atomic int64_t sold_ns;    /* when an order worker last carried a batch through (monotonic) */
    _Atomic bool elected;       /* this daemon's expiry worker is */
    _Atomic bool prepared;      /* the ledger's tables are there and the node is known */
    _Atomic bool refused;       /* by its ledger, or for a node that another daemon has */
    char refusal[REFUSAL_SIZE]; /* the reason; the preparer's until then */
    _Atomic unsigned other_daemons; /* that share the ledger, by the live thread's last count */
    struct sale_cache *sale_cache;
    struct tokens *tokens;
    struct stock_snapshots *stock_snapshots;
    struct stock_rates rates; /* of config; these and `proxies` follow a reload */
    _Atomic(const struct proxies *) proxies;
    unsigned connections_max; /* of config, or fewer: as many as there may be descriptors for */
    unsigned operators_max;   /* connections of admin_listen: OPERATORS_MAX, or fewer likewise */
    struct health *health;    /* what is known of all servers; set before HTTP starts */
    struct live *live;        /* what pages and metrics show; the same */
    struct connection_use public_use, admin_use; /* the second is all zeros without admin_listen */
    struct admin_actions *admin_actions;         /* call workers to the live thread */
    _Atomic int phase;                           /* enum service_phase */
    struct drain drain;                          /* what changes the phase */
};

/* Makes everything but `config`, which is filled in before. The caller owns the struct and no other
 * thread has seen it yet. */
void service_open(struct service *service);

/* Frees what service_open made, after all threads have ended. */
void service_close(struct service *service);

/* Ends the workers of orders and calls once their queues are empty. Any thread, once no HTTP thread
 * sends anything on. */
void service_stop_queues(struct service *service);

/* ---- a configuration that was read anew ---- */

/* Reads the configuration again, from the same flags and variables and from the file as it is now,
 * and the files of tokens. Takes over the options that can change while the daemon runs; the log
 * names those that need a restart. If anything in it is wrong, nothing changes, and the log says
 * why. Main thread, between service_open and service_close. */
void reload_config(struct service *service, char **argv, char **envp);

#endif
