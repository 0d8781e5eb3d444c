/* The state that all threads of the daemon share. */
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
    REASON_SIZE = 256,
};

struct admin_actions;
struct health;
struct live;
struct stock_snapshots;

/* Proxies whose X-Forwarded-For is trusted. Replaced lists are kept to the end, since an HTTP
 * thread may still read them. */
struct proxies {
    struct networks networks;
    const struct proxies *older;
};

/* The number of connections at one listener, counted by its HTTP threads. */
struct connection_use {
    _Atomic unsigned open; /* including those that are being closed to make room */
    _Atomic unsigned max;  /* current limit, lower while descriptors are lacking; 0: not open */
};

struct service {
    struct config config;
    struct stock_options stock; /* options of every stock that sells */
    struct synced_clock clock;  /* the ledger's time */
    struct order_ids ids;
    struct node node;     /* the preparer's until `prepared`, then health's, then main's */
    struct queue *orders; /* HTTP threads to order workers */
    struct queue *calls[CALL_KINDS];   /* HTTP threads to call workers */
    _Atomic int64_t sold_ns;           /* when an order worker last completed a batch (monotonic) */
    _Atomic bool elected;              /* this daemon's expiry worker is active */
    _Atomic bool publishes;            /* this daemon's publisher is active */
    _Atomic int64_t events_waiting_ms; /* age of the oldest unpublished event, as it last saw */
    _Atomic bool replicated;           /* the ledger is not known to be one server alone */
    _Atomic bool prepared;             /* the ledger's tables exist and the node is leased */
    _Atomic bool refused;              /* by the ledger, or because another daemon has the node */
    char refusal[REASON_SIZE];         /* why refused; the preparer's until then */
    char error[REASON_SIZE];           /* why a part cannot start; main's */
    _Atomic unsigned other_daemons;    /* sharing the ledger, as the live thread last counted */
    struct sale_cache *sale_cache;
    struct tokens *tokens;
    struct stock_snapshots *stock_snapshots;
    struct stock_rates rates; /* from config; a reload changes these, and the two below */
    _Atomic(const struct proxies *) proxies;
    _Atomic unsigned access_log;
    unsigned connections_max; /* from config, or fewer if descriptors are scarce */
    unsigned operators_max;   /* of admin_listen: OPERATORS_MAX, or fewer likewise */
    struct health *health;    /* health of all servers; set before HTTP starts */
    struct live *live;        /* what pages and metrics show; set before HTTP starts */
    struct connection_use public_use, admin_use; /* admin_use is all zeros without admin_listen */
    struct admin_actions *admin_actions;         /* call workers to the live thread */
    _Atomic int phase;                           /* enum service_phase */
    struct drain drain;                          /* changes the phase */
};

/* Makes everything except `config`, which must be filled in. The caller owns the struct; no other
 * thread may see it yet. */
void service_open(struct service *service);

/* Frees what service_open made, after all threads have ended. */
void service_close(struct service *service);

/* Ends the workers of orders and calls once their queues are empty. Any thread, once no HTTP thread
 * sends requests to them. */
void service_stop_queues(struct service *service);

/* ---- reloading the configuration ---- */

/* Reads the configuration again, from the same flags and variables, the file as it is now, and the
 * files of tokens. Takes over the options that can change at run time; the log names those that
 * need a restart. If anything is wrong, nothing changes, and the log says why. Main thread, between
 * service_open and service_close. */
void reload_config(struct service *service, char **argv, char **envp);

#endif
