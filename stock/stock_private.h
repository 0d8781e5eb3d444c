/* Private to stock/: what the strategies and the recovery share. */
#ifndef STOCK_STOCK_PRIVATE_H
#define STOCK_STOCK_PRIVATE_H

#include "lock/seclock.h"
#include "lua/script.h"
#include "stock/stock.h"

/* A way of deciding a batch; stock.c has the only list of them. */
struct stock_strategy {
    const char *name;
    enum ledger_guard guard; /* of its moves in the ledger */
    size_t batch_max;        /* orders that one call should carry */
    bool limits_ride;        /* nothing is accepted before a stock_run_calls of its own */
    void (*sell)(struct stock *stock, struct stock_order *const *orders, size_t count);
};

extern const struct stock_strategy stock_segment_lock, stock_single_lock, stock_atomic,
    stock_optimistic, stock_database, stock_database_for_update;

struct stock {
    const struct stock_strategy *strategy;
    struct stock_options options;
    struct sale_catalog *catalog;
    struct redis *redis;
    struct ledger *ledger;
    struct seclock_client *locks; /* see stock_locks */
    struct outer *outer;          /* see outer.h; NULL for the lock in Redis alone */
    struct stock_stats stats;
    unsigned random;
    struct terms_book *terms; /* of the present batch */
    unsigned look_batches;    /* in which all users of limited sales are looked up; see limit.c */

    struct script_call *calls; /* the next pipeline: what is left of the last batch stands first */
    size_t call_count;

    struct segment_hold *holds; /* of the present batch */
    size_t hold_count;

    struct rate *rate; /* NULL: no limits */

    struct batch *batch; /* working space of segment_lock */
};

enum { STOCK_CALLS_MAX = 4 * LEDGER_SEGMENTS_MAX + 8, STOCK_HOLDS_MAX = LEDGER_SEGMENTS_MAX };

int64_t stock_now_ns(void);

/* A uniform number below `bound` > 0, good enough to spread load. */
uint32_t stock_random(struct stock *stock, uint32_t bound);

/* The client of this Redis' locks; opened when first used. */
struct seclock_client *stock_locks(struct stock *stock);

/* The next call of the pipeline, to be filled in. */
struct script_call *stock_call(struct stock *stock);

/* Sends the pipeline. The answers stay in stock->calls until the next stock_call; after it the
 * pipeline is empty. False when Redis could not be reached or was lost on the way. */
bool stock_run_calls(struct stock *stock);

/* True for an outcome that says no to the order, which must not have been accepted before then. */
bool stock_outcome_refused(enum stock_outcome outcome);

/* The ledger has refused to commit open orders, with `why` (LEDGER_DUPLICATE or LEDGER_LIMIT):
 * decides those for whose sake it did. False when there are none, or the ledger cannot be asked. */
bool stock_sort_out(struct stock *stock, struct stock_order *const *orders, size_t count,
                    enum ledger_result why);

/* Reads the sale again from the ledger into the catalog. */
enum ledger_result stock_sale_reload(struct stock *stock, const char *sku, struct sale **sale_out);

/* Finds a sale, in the catalog or else in the ledger. LEDGER_NO: there is none. */
enum ledger_result stock_sale(struct stock *stock, const char *sku, struct sale **sale_out);

#endif
