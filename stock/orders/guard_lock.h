/* The guard lock of a segment: a lock of another kind (RedLock, MySQL, ZooKeeper) around the
 * segment's own lock in Redis. */
#ifndef STOCK_ORDERS_GUARD_LOCK_H
#define STOCK_ORDERS_GUARD_LOCK_H

#include "stock/segment.h"

/* Opens the client of the lock that the options name; does nothing for "redis". False with the
 * reason in `error_out`. */
bool guard_lock_open(struct stock *stock, char *error_out, size_t error_size);
void guard_lock_close(struct stock *stock);

/* Takes the guard lock, and then does as segment_post_take. A segment whose guard lock somebody
 * else holds is busy at once. Once a guard lock could not be asked for, the batch asks for no
 * more. */
void guard_lock_post_take(struct stock *stock, struct segment_hold *hold, struct sale *sale,
                          const struct sale_snapshot *snapshot, uint32_t segment, uint32_t wanted);

/* True when a guard lock of the present batch could not be asked for. */
bool guard_lock_failed(const struct stock *stock);

/* Ends the batch: sends what is posted, which settles and releases the segments, and then releases
 * their guard locks. */
void guard_lock_end(struct stock *stock);

#endif
