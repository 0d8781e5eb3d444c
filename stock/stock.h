/* The stock of one thread: opens its connections to Redis and the ledger, and decides orders. */
#ifndef STOCK_STOCK_H
#define STOCK_STOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/identifier.h"
#include "sql/ledger/ledger.h"
#include "sql/orders/orders.h"
#include "sql/sales/sales.h"
#include "stock/sale_cache.h"

#define STOCK_CHANNEL "seckill:changed" /* see sale_cache_on_message */
#define STOCK_PREFIX "seckill:"         /* of every Redis key */

/* One thread's stock, over its own connections. */
struct stock;

/* Orders per minute at a steady rate, and the number that may come at once; 0 per minute: no limit.
 * All processes on one Redis share them. Any thread may change them: the next batch sees it. */
struct stock_rates {
    _Atomic unsigned user_per_min, user_burst;
    _Atomic unsigned address_per_min, address_burst;
};

struct stock_options {
    const char *strategy;
    const char *lock; /* of segment_lock: "redis" (or NULL), "redlock", "mysql", "zookeeper" */
    const char *lock_servers; /* its URLs, separated by spaces; NULL or "": no servers */
    const char *redis_url;
    const char *mysql_url;
    int lease_ms;
    int redis_timeout_ms;
    int mysql_timeout_ms;
    int resolve_ms;       /* how long the ledger is asked about an unknown commit */
    bool events;          /* the ledger notes what happens to orders, see sql/events/ */
    int remember_left_ms; /* how long a shortage or settings read from the ledger refuse orders */
    const struct stock_rates *rates; /* owned by the caller; NULL: no limits */
};

/* Counted since stock_open; read by the owning thread. */
struct stock_stats {
    uint64_t recoveries;      /* segments set again from the ledger */
    uint64_t refusals;        /* updates that the ledger refused: the segment had changed */
    uint64_t unknown_commits; /* commits whose connection died */
    uint64_t redis_calls_ns, redis_calls;   /* time spent in Redis round trips, and their number */
    uint64_t ledger_calls_ns, ledger_calls; /* time and number of the ledger's */
};

/* The servers that a stock talks to. */
enum stock_server { STOCK_REDIS, STOCK_LEDGER, STOCK_LOCKS, STOCK_SERVERS };

/* Rows of the ledger that other transactions held, noted by the calls on a stock; all zeros until a
 * call meets one. */
struct stock_held {
    unsigned count;                  /* rows met since the caller last set it to 0 */
    char sku[IDENTIFIER_SIZE];       /* the sale of the last row; "": not known */
    char row[64];                    /* the last row, by table and number; or "unknown" */
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
    STOCK_ADMIN_REFUNDS_DUE,  /* payments of the sale's orders are due back: nothing is done */
    STOCK_ADMIN_COUNTING,     /* its orders are still being counted: nothing is done, call again */
};

/* The result of a change to an order's status. */
enum stock_state_result {
    STOCK_STATE_OK,         /* the order has the status asked for, since this call or before */
    STOCK_STATE_NO_ORDER,   /* no order has that id */
    STOCK_STATE_NO_PAYMENT, /* the order has no payment of that name */
    STOCK_STATE_EXPIRED,    /* a late payment, for stock_pay_late: nothing is done */
    STOCK_STATE_HOLD_LIMIT, /* it would be held for longer than its sale allows */
    STOCK_STATE_KEEP_LIMIT, /* it never had as many units as it is to keep */
    STOCK_STATE_REFUSED,    /* the order's status does not allow it */
    STOCK_STATE_BUSY,       /* its segments could not be locked in time: nothing is done */
    STOCK_STATE_FAILED,     /* a server failed, see stock_fault: nothing is done */
    STOCK_STATE_DAMAGED,    /* its rows in the ledger make no sense: nothing is done */
    STOCK_STATE_IN_DOUBT,   /* a commit was not answered, and the ledger cannot be asked, or does
                             * not show any more what became of it */
};

/* ---- one order, and the outcomes that it can have ---- */

enum {
    STOCK_BATCH_MAX = 512,   /* orders that one call may carry */
    STOCK_QTY_MAX = 1000,    /* units of one order */
    STOCK_ADDRESS_SIZE = 46, /* a client's address as text, with its NUL */
};

enum stock_outcome {
    STOCK_OPEN,         /* not decided yet */
    STOCK_ACCEPTED,     /* in the ledger */
    STOCK_REPLAYED,     /* its key was accepted before: the fields are that order's */
    STOCK_KEY_REUSED,   /* its key belongs to an order with another sku or qty */
    STOCK_SOLD_OUT,     /* the ledger has fewer units left than it wants */
    STOCK_NOT_STARTED,  /* the sale opens at at_ms */
    STOCK_ENDED,        /* the sale was open until at_ms */
    STOCK_PAUSED,       /* the sale takes no orders for now */
    STOCK_COUNTING,     /* the sale opens when its users' units are counted: try again */
    STOCK_LIMIT,        /* its user would have more units than the limit; see `history` */
    STOCK_RATE_LIMITED, /* its user or its address has ordered too often; see `rate_status` */
    STOCK_UNKNOWN_SKU,  /* there is no such sale */
    STOCK_AGAIN,        /* nothing was done: segments were busy or had to be recovered, another try
                         * with its key is under way, or its time is over; try again */
    STOCK_UNAVAILABLE,  /* nothing was done: a server failed, see stock_fault */
    STOCK_IN_DOUBT,     /* its commit was not answered and the ledger cannot be asked */
};

/* The rate limit that an order exceeds. */
struct stock_rate_status {
    unsigned burst;
    int64_t retry_ms; /* until one more order would be let through */
    int64_t reset_ms; /* until the whole burst is there again */
};

/* The units and orders that a user has whose order the limit refuses. */
struct stock_history {
    uint32_t limit;
    size_t order_count;
    uint64_t order_ids[LEDGER_QUOTA_ORDERS_MAX]; /* newest first */
};

struct group;

/* The caller owns the order and fills in the first part; the outcome tells when the second is
 * valid. */
struct stock_order {
    char sku[IDENTIFIER_SIZE];
    char user_id[USER_ID_SIZE];
    char key[IDENTIFIER_SIZE];        /* idempotency key, "" for none */
    char address[STOCK_ADDRESS_SIZE]; /* the client's, "" where that has no limit */
    uint32_t qty;                     /* 1..STOCK_QTY_MAX */
    uint64_t order_id;
    int64_t created_ms; /* UTC, since 1970: compared with the sale's window */
    int64_t until_ns;   /* monotonic: not accepted from then on; 0: no such bound */
    int attempts;       /* failures of Redis or the ledger met so far; initially 0 */
    int passes;         /* passes over the segments that found nothing; initially 0 */
    bool rate_passed;   /* the rate limits have let it through; initially false */
    /* NULL, or the late payment of an order that has expired: `order_id` and `round` are that
     * order's, and accepted means that it has its units again and is paid. */
    const char *payment_ref;

    enum stock_outcome outcome;
    uint32_t round;   /* of the sale */
    uint32_t segment; /* the first segment that gave it units */
    char created_at[LEDGER_TIME_SIZE];
    int64_t at_ms;
    struct stock_history *history;        /* NULL, or with STOCK_LIMIT */
    char expires_at[LEDGER_TIME_SIZE];    /* unless it is paid; "": never */
    struct stock_rate_status rate_status; /* of STOCK_RATE_LIMITED */
    char status[16];                      /* of STOCK_REPLAYED: the order's present status */
    uint32_t ordered; /* of STOCK_REPLAYED: units at first, if it has kept fewer; else 0 */

    /* Private to stock/. */
    struct group *group; /* the orders of its sale in the batch; NULL: it has no sale */
    bool deferred;       /* an earlier order in the batch has its key: see orders/orders.h */
};

/* Frees what stock_sell allocated in an order. Call it before another try. */
void stock_order_clear(struct stock_order *order);

/* True when the order's time is over at `now_ns` (monotonic): its client was told so, and may have
 * been told more by now. Any thread. */
bool stock_order_late(const struct stock_order *order, int64_t now_ns);

/* True for an outcome that refuses the order, which must not have been accepted before. */
bool stock_outcome_refused(enum stock_outcome outcome);

/* Returns STOCK_OPEN, or why these settings refuse an order of that moment; `at_ms_out`: when the
 * sale opens or ended. Any thread. */
enum stock_outcome stock_window_check(const struct ledger_settings *settings, int64_t now_ms,
                                      int64_t *at_ms_out);

/* ---- a thread's stock ---- */

/* Opens a client of Redis and of the ledger without connecting. The cache is shared with other
 * threads and outlives the stock. NULL with the reason in `error_out`. */
struct stock *stock_open(const struct stock_options *options, struct sale_cache *cache,
                         char *error_out, size_t error_size);
void stock_close(struct stock **stock);

/* Settles and releases what the last stock_sell left over; cheap when nothing is due. Call it when
 * no next batch is waiting. */
void stock_flush(struct stock *stock);

/* The connection to Redis, for commands by the thread that owns the stock, between its calls. */
struct redis *stock_redis(struct stock *stock);

/* The connection to the ledger, for look-ups by the thread that owns the stock. */
struct ledger *stock_ledger(struct stock *stock);

struct stock_stats stock_stats(const struct stock *stock);

/* A server's failures in the calls on this stock since the caller last cleared them. Those of
 * STOCK_LOCKS, the guard lock's servers, name the server in their text. */
struct fault *stock_fault(struct stock *stock, enum stock_server server);

/* Held rows met by the calls on this stock since the caller last cleared the count. */
struct stock_held *stock_held(struct stock *stock);

/* The server's address, for messages; "" for STOCK_LOCKS. */
const char *stock_place(const struct stock *stock, enum stock_server server);

/* The most orders to give to one stock_sell: 1 for a strategy that takes orders one at a time. */
size_t stock_batch_max(const struct stock *stock);

/* Decides `count` <= STOCK_BATCH_MAX orders, blocking as long as Redis and the ledger take (their
 * timeouts bound it). Leaves no outcome at STOCK_OPEN. Accepted means committed. The calls of Redis
 * that follow a commit go with the next call or stock_flush: after a batch that decided nothing,
 * flush before you try again, so that others can sell the units given back. */
void stock_sell(struct stock *stock, struct stock_order *const *orders, size_t count);

#endif
