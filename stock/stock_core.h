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
    struct fault lock_fault;       /* of its servers */
    struct stock_held held_row;    /* of the ledger: see orders/orders.h */
    int64_t holder_due_ns;         /* when the server is asked again who holds them */
    struct stock_stats stats;
    unsigned random;
    unsigned look_batches;   /* in which all users of limited sales are looked up; see limit_find */
    unsigned replay_batches; /* in which all keys are looked up before; see check_replay.c */
    bool replay_unconfirmed; /* the first order of a repeat may not be on the disk yet */
    uint64_t replay_connection; /* on which it was found; see replay_committed */

    struct script_call *calls; /* the next pipeline; the last batch's settles and releases first */
    size_t call_count;

    struct segment_hold *holds; /* of the present batch */
    size_t hold_count;

    struct rate *rate;                       /* NULL: no limits */
    void (*read_rates)(struct stock *stock); /* called when the pipeline was sent; or NULL */
    uint32_t count_rows;                     /* of the next piece of a counting; 0: none yet */
    struct ledger_held held;        /* of the sale that is being retired, if that takes long */
    struct batch *batch;            /* the present one */
    struct returns_work *returning; /* that of returns.c; NULL until it is first used */
};

enum {
    STOCK_RATE_BUCKETS = 16, /* calls that ask for the rate limits of one batch, in a cluster */
    STOCK_CALLS_MAX = 4 * LEDGER_SEGMENTS_MAX + 8 + STOCK_RATE_BUCKETS,
    STOCK_HOLDS_MAX = LEDGER_SEGMENTS_MAX,
};

/* A batch posts the ends of all holds of the one before, a raised fence with each where they are
 * recovered, and the rate limits; a change of a sale a fence and a load for each segment. */
_Static_assert(STOCK_CALLS_MAX >= 3 * STOCK_HOLDS_MAX + STOCK_RATE_BUCKETS, "room for a batch");

/* A uniform number below `bound` > 0, good enough to spread load. */
uint32_t stock_random(struct stock *stock, uint32_t bound);

/* The client of this Redis' locks; opened when first used. */
struct seclock_client *stock_locks(struct stock *stock);

/* The next call of the pipeline, for the caller to fill in. After a stock_run_calls it overwrites
 * an answer: read all answers first. */
struct script_call *stock_call(struct stock *stock);

/* Sends the pipeline. The answers stay in stock->calls until the next stock_call; after it the
 * pipeline is empty. False when Redis could not be reached or was lost on the way. A cluster is
 * lost when none of its nodes can be reached: while one of them is down, this is true, and each
 * call tells what became of it. */
bool stock_run_calls(struct stock *stock);

/* Pings Redis and the ledger before a rare call, so that a connection which the other side has
 * closed meanwhile is reopened first. */
void stock_revalidate(struct stock *stock);

/* Reads the sale again from the ledger into the cache. */
enum ledger_result stock_sale_reload(struct stock *stock, const char *sku, struct sale **sale_out);

#endif
