/* The inside of a thread's stock, for stock/ alone: its connections, the pipeline of calls for
 * Redis, and the working space of the present batch. */
#ifndef STOCK_STOCK_CORE_H
#define STOCK_STOCK_CORE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/fault.h"
#include "lock/seclock.h"
#include "lua/script.h"
#include "sql/sales/sales.h"
#include "stock/stock.h"

struct stock {
    const struct stock_strategy *strategy;
    struct stock_options options;
    struct sale_cache *sale_cache;
    struct redis *redis;
    struct ledger *ledger;
    struct seclock_client *locks;  /* see stock_locks */
    struct guard_lock *guard_lock; /* NULL for the lock in Redis alone */
    struct fault lock_fault;       /* failures of its servers */
    struct stock_held held_row;    /* a held row of the ledger; see orders/orders.h */
    int64_t holder_due_ns;         /* when to ask again who holds such rows */
    struct stock_stats stats;
    unsigned random;
    unsigned look_batches;      /* that look up all users of limited sales; see limit_find */
    unsigned replay_batches;    /* that look up all keys first; see check_replay.c */
    bool replay_unconfirmed;    /* a repeat's first order may not be on disk yet */
    uint64_t replay_connection; /* on which it was found; see replay_committed */

    struct script_call *calls; /* the next pipeline; the last batch's settles and releases first */
    size_t call_count;

    struct segment_hold *holds; /* of the present batch */
    size_t hold_count;

    struct rate *rate;                       /* NULL: no limits */
    void (*read_rates)(struct stock *stock); /* called when the pipeline was sent; or NULL */
    uint32_t count_rows;                     /* of the next piece of a count; 0: no piece yet */
    struct ledger_held held;        /* the count of a sale being retired, if it takes long */
    struct batch *batch;            /* of the present batch */
    struct returns_work *returning; /* owned by returns.c; NULL before its first use */
};

enum {
    STOCK_RATE_BUCKETS = 16, /* calls for the rate limits of one batch, in a cluster */
    STOCK_CALLS_MAX = 4 * LEDGER_SEGMENTS_MAX + 8 + STOCK_RATE_BUCKETS,
    STOCK_HOLDS_MAX = LEDGER_SEGMENTS_MAX,
};

/* A batch posts the ends of all holds of the last batch, each with a raised fence if recovered, and
 * the rate limits; a change of a sale posts a fence and a load for each segment. */
_Static_assert(STOCK_CALLS_MAX >= 3 * STOCK_HOLDS_MAX + STOCK_RATE_BUCKETS, "room for a batch");

/* A uniform number below `bound` > 0, good enough to spread load. */
uint32_t stock_random(struct stock *stock, uint32_t bound);

/* The client of this Redis' locks; opened when first used. */
struct seclock_client *stock_locks(struct stock *stock);

/* Returns the pipeline's next call, for the caller to fill in. After stock_run_calls it overwrites
 * an answer: read all answers first. */
struct script_call *stock_call(struct stock *stock);

/* Sends the pipeline, which is empty then; the answers stay in stock->calls until the next
 * stock_call. False when Redis could not be reached or was lost on the way; a cluster, when none of
 * its nodes can be reached. If only some nodes are down, each call tells what became of it. */
bool stock_run_calls(struct stock *stock);

/* Pings Redis and the ledger before a rare call, so that a connection which the other side has
 * closed meanwhile is reopened first. */
void stock_revalidate(struct stock *stock);

/* Reads the sale again from the ledger into the cache. */
enum ledger_result stock_sale_reload(struct stock *stock, const char *sku, struct sale **sale_out);

#endif
