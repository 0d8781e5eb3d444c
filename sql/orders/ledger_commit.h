/* Accepted orders written to the ledger: the hot path. */
#ifndef SQL_LEDGER_COMMIT_H
#define SQL_LEDGER_COMMIT_H

#include "sql/ledger.h"

/* One order to be written. What the pointers point to stays the caller's. */
struct ledger_order {
    uint64_t order_id;
    const char *sku;
    const char *user_id;
    const char *key; /* idempotency key; NULL or "" for none */
    uint32_t round;
    uint32_t qty;
    uint32_t segment;   /* the first one that its units were taken from: for information only */
    int64_t created_ms; /* UTC, since 1970 */
    uint32_t limit;     /* units the user may have in this round; 0: no limit, and not counted */
    int64_t expires_ms; /* UTC, since 1970: when the order expires unless it is paid; 0: never */
    int64_t until_ns;   /* monotonic: from then on it must not be committed any more; 0: never so */
};

/* From which fence a stock update may bring a segment, and to which. Every guard also checks round
 * and settings, and that the segment has the units. */
enum ledger_guard {
    LEDGER_CHAIN,    /* from `settled`, which is smaller than `fence`, to `fence` */
    LEDGER_FENCED,   /* from any that is smaller than `fence`, to `fence` */
    LEDGER_EPOCH,    /* from `settled`, and it stays */
    LEDGER_UNFENCED, /* from any to the next number, so that sellers along the chain notice */
};

/* Units sold from one segment: one step along its chain of fences. */
struct ledger_stock_update {
    const char *sku;
    uint32_t segment;
    uint32_t round;
    uint32_t units;            /* sold more */
    uint64_t fence;            /* of the lock under which the units were taken */
    uint64_t settled;          /* the fence at which the segment was settled when they were taken */
    uint32_t settings_version; /* of the settings by which the orders were decided */
    enum ledger_guard guard;
    bool refused; /* out: this segment's guard refused the update, or perhaps that of another */
};

/* One transaction: inserts the orders and updates each segment. A segment changes only as its guard
 * allows; if one does not, nothing is done and its `refused` is set (LEDGER_NO); of many updates,
 * all of them are. `updates` are sorted by sku and segment: all transactions take the rows of
 * segments in that order, as they would deadlock otherwise. LEDGER_LIMIT and LEDGER_DUPLICATE: at
 * least one of the orders caused it, and nothing is done. LEDGER_LATE: the time of at least one was
 * over when all was written, and nothing is done.
 *
 * why_last: an order's time is looked at when its key is written and before the COMMIT is sent. So
 * whoever looks for the key when that time is over, and does not find it even uncommitted
 * (ledger_keys_find), knows that this order is never committed, whatever hangs. */
enum ledger_result ledger_commit(struct ledger *ledger, struct ledger_stock_update *updates,
                                 size_t update_count, const struct ledger_order *orders,
                                 size_t order_count);

#endif
