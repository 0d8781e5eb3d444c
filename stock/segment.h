/* One hold of one segment, as calls of the next pipeline (lock and take, settle and release), and
 * segments set again from the ledger.
 *
 * A `post` function appends calls to the pipeline, a `read` function reads their answers after
 * stock_run_calls. */
#ifndef STOCK_SEGMENT_H
#define STOCK_SEGMENT_H

#include "lock/redis/pipeline.h"
#include "sql/ledger/ledger.h"
#include "stock/stock_core.h"

enum segment_state {
    SEGMENT_POSTED, /* its calls are in the pipeline */
    SEGMENT_BUSY,   /* another holder has the lock, or the segment was not marked open */
    SEGMENT_EMPTY,  /* locked and settled, and nothing is left in it */
    SEGMENT_TAKEN,  /* locked and marked open; units may be taken from it */
    SEGMENT_DIRTY,  /* locked; must be recovered before units can be taken */
    SEGMENT_DOUBT,  /* Redis was lost: it may be locked, and units may have been taken */
    SEGMENT_ENDED,  /* released */
};

struct segment_hold {
    struct sale *sale; /* NULL: the cache does not have it */
    uint32_t segment;
    uint32_t round;
    uint32_t settings_version;
    enum segment_state state;
    struct lock_hold lock;
    size_t call; /* the place of its locking call in the pipeline */
    int64_t sent_ns;
    uint32_t wanted;  /* units asked for */
    uint32_t taken;   /* units taken from Redis */
    uint32_t used;    /* of these, units given to orders; set by strategy_commit */
    bool withheld;    /* no unit of it can be sold now: another transaction holds its row */
    uint32_t left;    /* units still in Redis */
    uint64_t settled; /* the fence at which the segment was settled when they were taken */
    bool refused;     /* the ledger refused its update; set by strategy_commit */
    struct segment_hold *group_next; /* the next hold of the same group */
};

/* The lock name of a segment, "sku:7". */
void segment_name(const char *sku, uint32_t segment, char name_out[SECLOCK_NAME_MAX]);

/* Compares two pointers to holds by sku and segment, for qsort. All transactions take the rows of
 * segments in this order. */
int segment_compare(const void *left, const void *right);

/* Begins a hold of an unknown state. Its stock update will name the round and the settings of
 * `snapshot`, by which its orders are decided. */
void segment_begin(struct segment_hold *hold, struct sale *sale,
                   const struct sale_snapshot *snapshot, uint32_t segment);

/* Posts the lock and the mark of an open round, to change the segment in the ledger: if the holder
 * dies before it has loaded the segment, the segment stays dirty. segment_read_open sets the state:
 * taken, without units, when the hold has marked the segment; dirty when it was dirty or missing
 * before; else busy or in doubt. */
void segment_post_open(struct stock *stock, struct segment_hold *hold, struct sale *sale,
                       const struct sale_snapshot *snapshot, uint32_t segment);
void segment_read_open(struct stock *stock, struct segment_hold *hold);

/* Posts one call: the lock and a take of up to `wanted` units. segment_read_take sets the state and
 * the hint. */
void segment_post_take(struct stock *stock, struct segment_hold *hold, struct sale *sale,
                       const struct sale_snapshot *snapshot, uint32_t segment, uint32_t wanted);
void segment_read_take(struct stock *stock, struct segment_hold *hold);

/* Posts the end of the round and of the hold: the ledger now has `fence`, and `back` of the units
 * taken were not sold. */
void segment_post_settle(struct stock *stock, struct segment_hold *hold, uint64_t fence,
                         uint32_t back);

/* Posts the mark of an open round for a lock that is already held. segment_read_mark sets the state
 * as segment_read_open does, and returns false when the lock was lost or Redis did not answer. */
void segment_post_mark(struct stock *stock, struct segment_hold *hold);
bool segment_read_mark(struct stock *stock, struct segment_hold *hold);

/* Posts the segment's contents from the ledger, and the release of its lock. */
void segment_post_load(struct stock *stock, struct lock_hold *lock, uint32_t available,
                       uint32_t round, uint64_t fence);

/* Posts the deletion of the segment and its fence, because the ledger no longer has it, and the
 * release of its lock. */
void segment_post_retire(struct stock *stock, struct lock_hold *lock);

/* Posts raising the fence in Redis above the ledger's `fence`: the next lock gets a greater one. */
void segment_post_fence(struct stock *stock, const struct lock_hold *lock, uint64_t fence);

/* Posts the release alone. A segment that is not settled stays dirty. */
void segment_post_release(struct stock *stock, struct segment_hold *hold);

/* Ends a hold whose units were certainly not sold: gives them back, unmarks and releases it. */
void segment_give_back(struct stock *stock, struct segment_hold *hold);

/* Recovers dirty holds of one sale: raises the ledger's fences to the holds' fences, posts the
 * segments' contents from the ledger and then their release; the same pipeline may lock them again.
 * (Each fence serves one update only, so no units can be taken under this one.) Sets their hints.
 * False when the ledger cannot be asked; the holds are then released dirty. `stale_out`: the
 * ledger's round is not that of the holds. */
bool recovery_run(struct stock *stock, struct segment_hold *const *dirty, size_t count,
                  bool *stale_out);

/* Finishes the recovery of one hold: loads the segment from its row, read in a transaction that
 * raised the ledger's fence to the hold's. */
void recovery_load(struct stock *stock, struct segment_hold *hold,
                   const struct ledger_segment *row);

#endif
