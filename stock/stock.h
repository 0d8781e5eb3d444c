/* Taking stock without overselling: orders in, decided orders out, by one of several strategies. */
#ifndef STOCK_STOCK_H
#define STOCK_STOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sql/ledger.h"
#include "stock/sale_cache.h"

enum {
    STOCK_BATCH_MAX = 512,   /* orders that one call may carry */
    STOCK_QTY_MAX = 1000,    /* units of one order */
    STOCK_ADDRESS_SIZE = 46, /* a client's address as text, with its NUL */
};

#define STOCK_CHANNEL "seckill:changed" /* a sku is published here when its units came back */
#define STOCK_PREFIX "seckill:"         /* of every Redis key */

enum stock_outcome {
    STOCK_OPEN,         /* not decided yet */
    STOCK_ACCEPTED,     /* in the ledger */
    STOCK_REPLAYED,     /* its key had been accepted before: the fields are those of that order */
    STOCK_KEY_REUSED,   /* its key belongs to an order with another sku or qty */
    STOCK_SOLD_OUT,     /* the ledger has fewer units left than it wants */
    STOCK_NOT_STARTED,  /* the sale opens at at_ms */
    STOCK_ENDED,        /* the sale was open until at_ms */
    STOCK_PAUSED,       /* the sale takes no orders for now */
    STOCK_LIMIT,        /* its user would have more units than the limit; see `history` */
    STOCK_RATE_LIMITED, /* its user or its address has ordered too often; see `over` */
    STOCK_UNKNOWN_SKU,  /* there is no such sale */
    STOCK_AGAIN,        /* nothing was done: segments were busy or had to be recovered; try again */
    STOCK_UNAVAILABLE,  /* nothing was done: Redis or the ledger cannot be reached */
    STOCK_IN_DOUBT,     /* its commit was not answered and the ledger cannot be asked */
};

/* The rate limit that an order is over. */
struct stock_rate_status {
    unsigned burst;
    int64_t retry_ms; /* until one more order would be let through */
    int64_t reset_ms; /* until the whole burst is there again */
};

/* What the user of an order that was refused for the limit has already. */
struct stock_history {
    uint32_t limit;
    size_t order_count;
    uint64_t order_ids[LEDGER_BUYER_ORDERS_MAX]; /* newest first */
};

/* One order on its way through the stock. The caller fills in the first part and owns it all; the
 * rest is valid once the outcome says so. */
struct stock_order {
    char sku[LEDGER_WORD_SIZE];
    char user_id[LEDGER_WORD_SIZE];
    char key[LEDGER_WORD_SIZE];       /* idempotency key, "" for none */
    char address[STOCK_ADDRESS_SIZE]; /* the client's, "" where that has no limit */
    uint32_t qty;                     /* 1..STOCK_QTY_MAX */
    uint64_t order_id;
    int64_t created_ms; /* UTC, since 1970: the moment that a sale's window is held against */
    int attempts;       /* failures of Redis or the ledger met so far; 0 to begin with */
    int passes;         /* passes over the segments that found nothing; 0 to begin with */
    bool rate_passed;   /* the rate limits have let it through; false to begin with */

    enum stock_outcome outcome;
    uint32_t segment;                      /* the first one that filled it */
    struct ledger_allocation *allocations; /* NULL, or of an order that several segments filled */
    size_t allocation_count;
    char created_at[LEDGER_TIME_SIZE];
    int64_t at_ms;
    struct stock_history *history;        /* NULL, or with STOCK_LIMIT */
    char expires_at[LEDGER_TIME_SIZE];    /* unless it is paid; "": never */
    struct stock_rate_status rate_status; /* of STOCK_RATE_LIMITED */

    /* Private to stock/. */
    struct sale *sale;
    const struct sale_snapshot
        *snapshot;            /* by which it is decided; its move must name these terms */
    struct stock_order *twin; /* an earlier one in the batch with the same key */
};

/* Orders per minute at a steady rate, and how many may come at once; 0 per minute: no limit. Shared
 * by all processes on one Redis. */
struct stock_rates {
    unsigned user_per_min, user_burst;
    unsigned address_per_min, address_burst;
};

struct stock_options {
    const char *strategy;
    const char *lock; /* of segment_lock: "redis" (or NULL), "redlock", "mysql", "zookeeper" */
    const char *lock_servers; /* its URLs, apart by spaces; NULL or "" for none */
    const char *redis_url;
    const char *mysql_url;
    int lease_ms;
    int redis_timeout_ms;
    int mysql_timeout_ms;
    int resolve_ms;       /* how long an unknown commit is asked after before it is in doubt */
    int remember_left_ms; /* how long a shortage or terms found in the ledger are used to refuse */
    struct stock_rates rates;
};

/* Counted since stock_open; read by the owning thread. */
struct stock_stats {
    uint64_t recoveries;      /* segments set again from the ledger */
    uint64_t refusals;        /* moves the ledger refused: somebody else had moved the segment */
    uint64_t unknown_commits; /* commits whose connection died */
    uint64_t redis_calls_ns, redis_calls;   /* time spent in Redis round trips, and their number */
    uint64_t ledger_calls_ns, ledger_calls; /* the same for the ledger */
};

/* The stock as one thread sees it, over its own connections. */
struct stock;

/* Opens a client of Redis and of the ledger without connecting. The cache is shared with other
 * threads and outlives it. NULL with the reason in `error_out`. */
struct stock *stock_open(const struct stock_options *options, struct sale_cache *cache,
                         char *error_out, size_t error_size);
void stock_close(struct stock **stock);

/* How many orders one stock_sell should be given at most: 1 for a strategy that takes orders one at
 * a time. */
size_t stock_batch_max(const struct stock *stock);

/* Decides `count` <= STOCK_BATCH_MAX orders, blocking for as long as Redis and the ledger take
 * (their timeouts bound it). No outcome is left at STOCK_OPEN. Accepted means committed. What has
 * to follow a commit in Redis is sent with the next call, or by stock_flush: after a batch that
 * decided nothing, flush before trying again, so that what was given back is there for others. */
void stock_sell(struct stock *stock, struct stock_order *const *orders, size_t count);

/* Settles and releases what the last stock_sell left to be done; cheap when nothing is due. Call it
 * when no next batch is waiting. */
void stock_flush(struct stock *stock);

/* Asks Redis, or the ledger, for a sign of life; a connection that the other side has closed is
 * found out and made again. */
bool stock_ping_redis(struct stock *stock);
bool stock_ping_ledger(struct stock *stock);

/* The connection's ledger, for look-ups by the thread that owns the stock. */
struct ledger *stock_ledger(struct stock *stock);

struct stock_stats stock_stats(const struct stock *stock);
/* The last error of Redis, or of the server of another lock, in words. */
const char *stock_redis_error(const struct stock *stock);
uint64_t stock_redis_connects(const struct stock *stock);

/* STOCK_OPEN, or why these terms refuse an order of that moment, and when the sale opens or ended.
 * Any thread. */
enum stock_outcome stock_closed(const struct ledger_terms *terms, int64_t now_ms,
                                int64_t *at_ms_out);

/* Frees what stock_sell allocated in an order. */
void stock_order_clear(struct stock_order *order);

enum stock_admin_result {
    STOCK_ADMIN_OK,
    STOCK_ADMIN_NO_SALE,
    STOCK_ADMIN_BUSY,     /* not all segments could be locked in time: nothing is done */
    STOCK_ADMIN_FAILED,   /* Redis or the ledger cannot be reached: nothing is done */
    STOCK_ADMIN_IN_DOUBT, /* the commit was not answered: it may be done */
    STOCK_ADMIN_FULL,     /* SALES_MAX sales already */
    STOCK_ADMIN_WINDOW,   /* it would end before it starts: nothing is done */
};

/* Begins the next round of a sale, or its first, holding all of its segments' locks, and tells
 * every process. `sale` has its sku, total, segments and terms, and gets the rest. Waits up to
 * `wait_ms` for the locks. 1 <= segments <= LEDGER_SEGMENTS_MAX, <= total. */
enum stock_admin_result stock_reset(struct stock *stock, struct ledger_sale *sale, int wait_ms);

/* Which of the terms to change, and into what. */
enum {
    STOCK_CHANGE_STARTS = 1,
    STOCK_CHANGE_ENDS = 2,
    STOCK_CHANGE_LIMIT = 4,
    STOCK_CHANGE_PAY = 8,
    STOCK_CHANGE_PAUSED = 16,
};

struct stock_change {
    unsigned fields;
    struct ledger_terms settings;
};

/* Changes the terms of a sale while it runs, and tells every process. After STOCK_ADMIN_OK no order
 * is accepted that older terms let in, by whichever process. */
enum stock_admin_result stock_change(struct stock *stock, const char *sku,
                                     const struct stock_change *change,
                                     struct ledger_sale *sale_out);

/* Why a segment in Redis was not what the ledger says. */
enum stock_difference_reason { STOCK_MISSING, STOCK_OTHER_ROUND, STOCK_DIRTY, STOCK_MISMATCH };

struct stock_difference {
    uint32_t segment;
    enum stock_difference_reason reason;
    int64_t redis_available; /* -1: the segment was missing */
    int64_t ledger_available;
};

struct stock_report {
    uint32_t round;
    uint32_t segments;
    size_t difference_count;
    struct stock_difference differences[LEDGER_SEGMENTS_MAX];
};

/* Compares each segment in Redis with the ledger, under the segments' locks, and sets again those
 * that differ; on STOCK_ADMIN_OK there is no difference any more. */
enum stock_admin_result stock_reconcile(struct stock *stock, const char *sku, int wait_ms,
                                        struct stock_report *report_out);

/* True when there is a strategy of that name. */
bool stock_strategy_known(const char *name);

#endif
