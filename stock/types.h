/* Options, counters and results that the callers of stock/ and its parts share. */
#ifndef STOCK_TYPES_H
#define STOCK_TYPES_H

#include <stdint.h>

#include "base/identifier.h"
#include "sql/ledger/ledger.h"

#define STOCK_CHANNEL "seckill:changed" /* see sale_cache_on_message */
#define STOCK_PREFIX "seckill:"         /* of every Redis key */

/* The stock as one thread sees it, over its own connections. */
struct stock;

/* Orders per minute at a steady rate, and how many may come at once; 0 per minute: no limit. Shared
 * by all processes on one Redis. Any thread may change them at any time: the next batch sees it. */
struct stock_rates {
    _Atomic unsigned user_per_min, user_burst;
    _Atomic unsigned address_per_min, address_burst;
};

struct stock_options {
    const char *strategy;
    const char *lock; /* of segment_lock: "redis" (or NULL), "redlock", "mysql", "zookeeper" */
    const char *lock_servers; /* its URLs, separated by spaces; NULL or "" for none */
    const char *redis_url;
    const char *mysql_url;
    int lease_ms;
    int redis_timeout_ms;
    int mysql_timeout_ms;
    int resolve_ms;       /* how long the ledger is asked about an unknown commit */
    int remember_left_ms; /* how long a shortage or settings read from the ledger refuse orders */
    const struct stock_rates *rates; /* the caller's, who keeps them; NULL: no limits */
};

/* Counted since stock_open; read by the owning thread. */
struct stock_stats {
    uint64_t recoveries;      /* segments set again from the ledger */
    uint64_t refusals;        /* updates that the ledger refused: the segment was changed before */
    uint64_t unknown_commits; /* commits whose connection died */
    uint64_t redis_calls_ns, redis_calls;   /* time spent in Redis round trips, and their number */
    uint64_t ledger_calls_ns, ledger_calls; /* the same for the ledger */
};

/* The servers that a stock talks to. */
enum stock_server { STOCK_REDIS, STOCK_LEDGER, STOCK_LOCKS, STOCK_SERVERS };

/* Rows of the ledger that other transactions held, noted by the calls on a stock; all zeros while
 * they met no such row. */
struct stock_held {
    unsigned count;                  /* how often, since the caller last set it to 0 */
    char sku[IDENTIFIER_SIZE];       /* the sale of the last of them; "": it is not known */
    char row[64];                    /* which row of it, by table and number; or "unknown" */
    char holder[LEDGER_HOLDER_SIZE]; /* who held it, a second ago at most; see ledger_row_holder */
};

/* The result of a change to a sale as a whole. */
enum stock_admin_result {
    STOCK_ADMIN_OK,
    STOCK_ADMIN_NO_SALE,
    STOCK_ADMIN_BUSY,       /* not all segments could be locked in time: nothing is done */
    STOCK_ADMIN_FAILED,     /* a server failed, see stock_fault: nothing is done */
    STOCK_ADMIN_IN_DOUBT,   /* the commit was not answered: it may be done */
    STOCK_ADMIN_FULL,       /* SALES_MAX sales already */
    STOCK_ADMIN_IN_USE,     /* orders of the sale are reserved: nothing is done */
    STOCK_ADMIN_WINDOW,     /* the sale would end before it starts: nothing is done */
    STOCK_ADMIN_ENDED,      /* the sale would have ended already: nothing is done */
    STOCK_ADMIN_KEY_REUSED, /* the key belongs to another call: nothing is done */
    STOCK_ADMIN_KEY_OVER,   /* the key belongs to a round or a sale that is over: nothing is done */
    STOCK_ADMIN_TOO_MANY,   /* the sale would have too many units: nothing is done */
    STOCK_ADMIN_OTHER_ROUND,  /* the sale is in another round than expected: nothing is done */
    STOCK_ADMIN_ROUND_IN_USE, /* orders of the round hold units: nothing is done */
    STOCK_ADMIN_COUNTING,     /* its orders are still being counted: nothing is done, call again */
};

/* The result of a change to an order's status. */
enum stock_state_result {
    STOCK_STATE_OK,       /* the order has the status asked for, since this call or before */
    STOCK_STATE_NO_ORDER, /* no order has that id */
    STOCK_STATE_REFUSED,  /* the order's status does not allow it */
    STOCK_STATE_BUSY,     /* its segments could not be locked in time: nothing is done */
    STOCK_STATE_FAILED,   /* a server failed, see stock_fault: nothing is done */
    STOCK_STATE_DAMAGED,  /* its rows in the ledger make no sense: nothing is done */
    STOCK_STATE_IN_DOUBT, /* a commit was not answered and the ledger cannot be asked */
};

#endif
