/* One order on its way through the stock, and the outcomes that it can have. */
#ifndef STOCK_ORDER_H
#define STOCK_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sql/orders/orders.h"
#include "sql/sales/sales.h"
#include "sql/ledger/ledger.h"

enum {
    STOCK_BATCH_MAX = 512,   /* orders that one call may carry */
    STOCK_QTY_MAX = 1000,    /* units of one order */
    STOCK_ADDRESS_SIZE = 46, /* a client's address as text, with its NUL */
};

enum stock_outcome {
    STOCK_OPEN,         /* not decided yet */
    STOCK_ACCEPTED,     /* in the ledger */
    STOCK_REPLAYED,     /* its key had been accepted before: the fields are those of that order */
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

/* The rate limit that an order is over. */
struct stock_rate_status {
    unsigned burst;
    int64_t retry_ms; /* until one more order would be let through */
    int64_t reset_ms; /* until the whole burst is there again */
};

/* The units and orders that a user has already, whose order was refused for the limit. */
struct stock_history {
    uint32_t limit;
    size_t order_count;
    uint64_t order_ids[LEDGER_QUOTA_ORDERS_MAX]; /* newest first */
};

struct sale;
struct sale_snapshot;

/* The caller owns the order and fills in the first part; the second is valid once the outcome says
 * so. */
struct stock_order {
    char sku[IDENTIFIER_SIZE];
    char user_id[USER_ID_SIZE];
    char key[IDENTIFIER_SIZE];        /* idempotency key, "" for none */
    char address[STOCK_ADDRESS_SIZE]; /* the client's, "" where that has no limit */
    uint32_t qty;                     /* 1..STOCK_QTY_MAX */
    uint64_t order_id;
    int64_t created_ms; /* UTC, since 1970: the moment that is compared with a sale's window */
    int64_t until_ns;   /* monotonic: from then on it is not accepted any more; 0: no such bound */
    int attempts;       /* failures of Redis or the ledger met so far; 0 to begin with */
    int passes;         /* passes over the segments that found nothing; 0 to begin with */
    bool rate_passed;   /* the rate limits have let it through; false to begin with */

    enum stock_outcome outcome;
    uint32_t round;   /* of the sale */
    uint32_t segment; /* the first one that its units were taken from */
    char created_at[LEDGER_TIME_SIZE];
    int64_t at_ms;
    struct stock_history *history;        /* NULL, or with STOCK_LIMIT */
    char expires_at[LEDGER_TIME_SIZE];    /* unless it is paid; "": never */
    struct stock_rate_status rate_status; /* of STOCK_RATE_LIMITED */
    char status[16]; /* of STOCK_REPLAYED: what has become of the order since */

    /* Private to stock/: set by check_settings. */
    struct sale *sale;
    const struct sale_snapshot *snapshot; /* its stock update must name these settings */
    bool deferred; /* an earlier order in the batch has its key: see orders/orders.h */
};

/* Frees what stock_sell allocated in an order; to be called before another try. */
void stock_order_clear(struct stock_order *order);

/* True when the order's time is over at `now_ns` (monotonic): its client was told so, and may have
 * heard more by now. Any thread. */
bool stock_order_late(const struct stock_order *order, int64_t now_ns);

/* True for an outcome that says no to the order, which must not have been accepted before then. */
bool stock_outcome_refused(enum stock_outcome outcome);

/* STOCK_OPEN, or why these settings refuse an order of that moment, and when the sale opens or
 * ended. Any thread. */
enum stock_outcome stock_window_check(const struct ledger_settings *settings, int64_t now_ms,
                                      int64_t *at_ms_out);

#endif
