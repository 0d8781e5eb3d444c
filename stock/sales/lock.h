/* All segments of a sale, locked together for a change of the sale as a whole; for stock/ alone. */
#ifndef STOCK_SALES_LOCK_H
#define STOCK_SALES_LOCK_H

#include "lock/redis/pipeline.h"
#include "sql/sales/sales.h"
#include "sql/ledger/ledger.h"
#include "stock/segment.h"

/* All segments of a sale, locked. The handles keep the leases renewed. */
struct sale_lock {
    size_t count;
    struct segment_hold holds[LEDGER_SEGMENTS_MAX];
    struct seclock_handle *handles[LEDGER_SEGMENTS_MAX];
    struct seclock_request requests[LEDGER_SEGMENTS_MAX];
    const struct seclock_request *wanted[LEDGER_SEGMENTS_MAX];
    char names[LEDGER_SEGMENTS_MAX][SECLOCK_NAME_MAX];
};

/* Locks all segments that the sale has, waiting up to `wait_ms` for them. Unless STOCK_ADMIN_OK,
 * nothing is held. */
enum stock_admin_result sale_lock_acquire(struct stock *stock, const char *sku, int wait_ms,
                                          struct sale_lock *locked);

/* Does as sale_lock_acquire with the first `count` segments, even if the sale has fewer or more. */
enum stock_admin_result sale_lock_acquire_first(struct stock *stock, const char *sku, size_t count,
                                                int wait_ms, struct sale_lock *locked);

/* Marks all segments open before the ledger changes them: if the process dies before it loads them,
 * they stay dirty. `fences_out` gets the fences of the locks, one per segment; room for
 * LEDGER_SEGMENTS_MAX. False when a lock was lost or Redis does not answer; then do not change the
 * ledger. */
bool sale_lock_mark(struct stock *stock, struct sale_lock *locked, uint64_t *fences_out);

/* Ends what sale_lock_mark began, by the result of the change in the ledger, and releases the
 * locks. LEDGER_OK: sets the segments to `rows` and publishes `sale`. LEDGER_UNKNOWN: leaves the
 * segments dirty. Else restores them. */
void sale_lock_end(struct stock *stock, struct sale_lock *locked, enum ledger_result result,
                   const struct ledger_sale *sale, const struct ledger_segment *rows);

/* Posts the first `count` segments with the ledger's rows, and that there are no others. Each
 * hold's `call` tells where its call stands in the pipeline. */
void sale_lock_post_round(struct stock *stock, struct sale_lock *locked, uint32_t round,
                          const struct ledger_segment *rows, size_t count);

/* Sends what was posted for the locked segments, and releases the locks that are still held. True
 * when every call was answered with yes. */
bool sale_lock_release(struct stock *stock, struct sale_lock *locked);

/* A change of a sale, tried until its outcome is known. Embed it first in the data of a try. */
struct sale_change {
    const char *sku;
    const char *key; /* idempotency key; NULL or "" for none */
    int wait_ms;     /* for the locks of one try */
    struct ledger_sale *sale;
    /* Tries once; `locked` is room for the locks, not held before nor after. */
    enum stock_admin_result (*try_once)(struct stock *stock, struct sale_change *change,
                                        struct sale_lock *locked);
    bool again; /* set by a try: another try will find out more */
};

/* Tries to make the change, a bounded number of times. Once a commit was not answered, the doubt
 * ends only by what a later try finds under the key, or by a commit that others see: a refused try
 * does not see a commit that ends later. */
enum stock_admin_result sale_change_run(struct stock *stock, struct sale_change *change);

/* Translates the ledger's answer to a try; sets `again`. */
enum stock_admin_result sale_change_result(struct sale_change *change, enum ledger_result result);

/* Notes the sale in this process and publishes its change to the others: it may have units again,
 * or other settings. */
void sale_publish(struct stock *stock, const struct ledger_sale *row);

/* Notes and publishes that the sale was retired in this round. */
void sale_publish_retired(struct stock *stock, const char *sku, uint32_t round);

#endif
