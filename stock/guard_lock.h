/* The guard lock of a segment: one of another kind around its lock in Redis. */
#ifndef STOCK_GUARD_LOCK_H
#define STOCK_GUARD_LOCK_H

#include "stock/segment.h"

/* Makes the client of the lock that the options name; nothing to be done for "redis". False with
 * the reason in `error_out`. */
bool guard_lock_open(struct stock *stock, char *error_out, size_t error_size);
void guard_lock_close(struct stock *stock);

/* As segment_post_take, once the guard lock is had: a segment whose guard lock is somebody else's
 * is busy at once. After the first that could not be asked for, none is, and guard_lock_failed. */
void guard_lock_post_take(struct stock *stock, struct segment_hold *hold, struct sale *sale,
                          const struct sale_snapshot *snapshot, uint32_t segment, uint32_t wanted);

/* True when an guard lock of the present batch could not be asked for. */
bool guard_lock_failed(const struct stock *stock);

/* Why, while the last one could not; else NULL. */
const char *guard_lock_error(const struct stock *stock);

/* Ends the batch: sends what is posted, by which the segments are settled and released, and then
 * gives the guard lock back. */
void guard_lock_end(struct stock *stock);

#endif
