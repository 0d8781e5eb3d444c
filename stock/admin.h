/* Private to stock/: a sale with all of its segments locked, for those who change it as a whole. */
#ifndef STOCK_ADMIN_H
#define STOCK_ADMIN_H

#include "lock/redis_pipeline.h"
#include "sql/ledger_sale.h"
#include "sql/ledger_segment.h"
#include "stock/stock_private.h"

/* All segments of a sale, locked. The handles keep the leases renewed. */
struct locked {
    size_t count;
    struct lock_hold holds[LEDGER_SEGMENTS_MAX];
    struct seclock_handle *handles[LEDGER_SEGMENTS_MAX];
    struct seclock_request requests[LEDGER_SEGMENTS_MAX];
    struct seclock_member members[LEDGER_SEGMENTS_MAX];
    char names[LEDGER_SEGMENTS_MAX][SECLOCK_NAME_MAX];
};

/* These connections are used now and then: finds out which of them the other side has closed. */
void admin_freshen(struct stock *stock);

/* Locks all segments the sale has, waiting up to `wait_ms` for them. On anything but STOCK_ADMIN_OK
 * nothing is held. */
enum stock_admin_result admin_lock(struct stock *stock, const char *sku, int wait_ms,
                                   struct locked *locked);

/* Posts all segments as the ledger says them now, and that there are no others. */
void admin_post_round(struct stock *stock, struct locked *locked, const struct ledger_sale *sale,
                      const struct ledger_segment *segments);

/* Sends what was posted for the locked segments, and releases those that are still held. True when
 * every call was answered with yes. */
bool admin_unlock(struct stock *stock, struct locked *locked);

/* Tells every process, this one included, that the sale has units again or other terms. */
void admin_announce(struct stock *stock, const struct ledger_sale *row);

#endif
