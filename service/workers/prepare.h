/* The preparer: a thread that prepares a shard's ledger at the start, and tries again until it is
 * there. Each shard has one, so that a ledger that is away or changes its tables holds up its own
 * sales alone. */
#ifndef SECKILL_SERVICE_WORKERS_PREPARE_H
#define SECKILL_SERVICE_WORKERS_PREPARE_H

#include <stddef.h>

#include "service/service.h"

struct preparer;

/* Makes the preparer, with a connection of its own. NULL with the reason in `error_out`. */
struct preparer *preparer_open(struct shard *shard, char *error_out, size_t error_size);

/* Starts the thread, which ends when the shard is prepared or cannot be. */
void preparer_start(struct preparer *preparer);

/* True when another daemon has the shard's node number, with the reason in `error_out`: then the
 * daemon cannot serve. Any thread. */
bool preparer_refused(const struct preparer *preparer, char *error_out, size_t error_size);

/* Tells the thread to end, and does not wait for it. NULL is fine. */
void preparer_stop(struct preparer *preparer);

/* Waits for the thread, gives the node number back, and frees the preparer. NULL is fine. After all
 * threads that use the shard's ids or its node. */
void preparer_join(struct preparer **preparer);

#endif
