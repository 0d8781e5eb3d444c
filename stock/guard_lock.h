/* The outer lock of a segment: one of another kind around its lock in Redis. */
#ifndef STOCK_GUARD_LOCK_H
#define STOCK_GUARD_LOCK_H

#include "stock/segment.h"

/* Makes the client of the lock that the options name; nothing to be done for "redis". False with
 * the reason in `error_out`. */
bool outer_open(struct stock *stock, char *error_out, size_t error_size);
void outer_close(struct stock *stock);

/* As segment_post_take, once the outer lock is had: a segment whose outer lock is somebody else's
 * is busy at once. After the first that could not be asked for, none is, and outer_failed. */
void outer_post_take(struct stock *stock, struct segment_hold *hold, struct sale *sale,
                     const struct sale_snapshot *snapshot, uint32_t segment, uint32_t wanted);

/* True when an outer lock of the present batch could not be asked for. */
bool outer_failed(const struct stock *stock);

/* Why, while the last one could not; else NULL. */
const char *outer_error(const struct stock *stock);

/* Ends the batch: sends what is posted, by which the segments are settled and released, and then
 * gives the outer locks back. */
void outer_end(struct stock *stock);

#endif
