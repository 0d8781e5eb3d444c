/* The threads of one shard: order workers, call workers, order indexer, expiry worker, preparer. */
#ifndef SECKILL_SERVICE_WORKERS_SHARD_THREADS_H
#define SECKILL_SERVICE_WORKERS_SHARD_THREADS_H

#include <stddef.h>
#include <stdint.h>

#include "service/workers/calls.h"
#include "service/workers/expiry.h"
#include "service/workers/index.h"
#include "service/workers/orders.h"
#include "service/workers/prepare.h"

enum { ORDER_WORKERS_MAX = 64 }; /* the upper end of the option order_workers */

/* Zero before the start. The owner's thread alone uses it. */
struct shard_threads {
    struct order_worker *order_workers[ORDER_WORKERS_MAX];
    struct call_worker_thread *call_workers[CALL_KINDS];
    struct order_indexer *order_indexer;
    struct expiry_worker *expiry_worker;
    struct preparer *preparer; /* opened, and not started */
};

/* Starts all but the preparer. Servers need not be there. False with the reason in `error_out`; the
 * caller ends those that were started in any case. */
bool shard_threads_start(struct shard_threads *threads, struct shard *shard, char *error_out,
                         size_t error_size);

/* When the order worker that looked longest ago last began to look for orders (monotonic). */
int64_t shard_threads_turned_ns(const struct shard_threads *threads);

/* Tells the threads in the background to end, and does not wait; those that carry requests end with
 * shard_stop_queues. */
void shard_threads_stop(struct shard_threads *threads);

/* Waits for all of them. shard_threads_release then frees what is left, and gives the node number
 * back: after everybody who uses the shard's ids. */
void shard_threads_join(struct shard_threads *threads);
void shard_threads_release(struct shard_threads *threads);

#endif
