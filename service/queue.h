/* A bounded queue of requests between threads, taken in batches that share fairly between flows.
 *
 * All orders of one sale go through one flow: skus are hashed onto QUEUE_FLOWS flows (the buckets
 * of stochastic fairness queueing, McKenney 1990). Within a flow requests come out in the order
 * they went in. Workers serve the flows in which requests wait in turn, with at most a share of the
 * batch for each turn. A flow may hold places up to the dynamic threshold of Choudhury and Hahne
 * (Dynamic Queue Length Thresholds for Shared-Memory Packet Switches, IEEE/ACM Transactions on
 * Networking 6(2), 1998): QUEUE_ALPHA times the number of free places. So a single busy sale gets
 * nearly the whole queue, and another sale still finds room. */
#ifndef SECKILL_SERVICE_QUEUE_H
#define SECKILL_SERVICE_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    QUEUE_FLOWS = 1024,     /* a power of two */
    QUEUE_ALPHA = 8,        /* one busy flow gets 8/9 of the places, two 8/17 each, … */
    QUEUE_SHARE = 8,        /* a flow gets 1/8 of a batch in its turn, at least one request */
    QUEUE_BATCH_MIN = 32,   /* see queue_take_beside */
    QUEUE_BESIDE_MS = 20,   /* the same */
    QUEUE_FADE = 32,        /* in this many batches fades what was in flight of late */
    QUEUE_ALONE_TAKES = 64, /* see queue_collided */
    QUEUE_GATHER_US = 2000, /* see queue_gather */
};

struct queue;
struct request;

/* Any thread may call all that follows, but for queue_close. */

/* A queue with `max` places; aborts without memory. */
struct queue *queue_open(size_t max);

/* Frees an empty queue that no thread uses any more; NULL is fine. */
void queue_close(struct queue **queue);

/* The flow of an identifier, below QUEUE_FLOWS. */
unsigned queue_flow(const char *identifier);

/* Claims a place for one request of a flow; false when all places are taken, or the flow holds its
 * part of them. Takes no lock. */
bool queue_reserve(struct queue *queue, unsigned flow);

/* Frees the place of a request that does not come back to the queue. */
void queue_leave(struct queue *queue, unsigned flow);

/* Places claimed: by requests that wait, and by requests with a worker, which may come back. */
size_t queue_depth(const struct queue *queue);

/* The places that the queue was opened with. */
size_t queue_capacity(const struct queue *queue);

/* Appends each request of a list linked by queue_next to its flow, in which the caller has claimed
 * a place for it, and wakes a waiting worker. */
void queue_push(struct queue *queue, struct request *first, struct request *last);

/* Takes up to `max` of the waiting requests into `requests_out`, a share of each flow in turn;
 * waits up to `wait_ms` for the first one. Returns how many: 0 when none came, or the queue is
 * stopped and empty. */
size_t queue_take(struct queue *queue, struct request **requests_out, size_t max, int wait_ms);

/* The same for workers of which several carry batches at a time; `busy` is the worker's own flag,
 * false before its first call, and true while it carries a batch.
 *
 * A whole batch is half of the requests in flight (those with a place, now or a moment ago), so
 * that the other half is being answered and sent meanwhile; `max` is the bound. Up to
 * QUEUE_BATCH_MIN are taken together all the same. While another worker is busy the worker takes
 * nothing until a whole batch waits, or requests have waited for once or twice QUEUE_BESIDE_MS: it
 * pays to work beside the other one, but not with small batches. */
size_t queue_take_beside(struct queue *queue, struct request **requests_out, size_t max,
                         int wait_ms, bool *busy);

/* Tells whether other daemons use the same ledger, and then for how long requests may wait for a
 * larger batch; 0: not at all. A batch costs the ledger and Redis as much as a few dozen orders do
 * by themselves, so that daemons with a part of the orders each must not carry many more batches
 * than one daemon with all of them. So requests wait until three quarters of those in flight do,
 * or the oldest has waited for so long. All that wait are taken then, and beside another worker
 * only full batches are. Where requests come at a steady rate this is the time of two or three
 * batches. */
void queue_beside(struct queue *queue, unsigned batch_wait_ms);

/* How long requests wait for a larger batch at most, now; 0: not at all. */
int64_t queue_batch_wait_ns(const struct queue *queue);

/* Joins the queue to others whose workers share the machine's cores; `busy` is theirs together, 0
 * to begin with, and lives as long as they do. While workers of another one are busy, the cores
 * have work while this one's requests are answered and come again: then a whole batch is all that
 * is in flight, and a second worker takes only when two of the usual batches wait. Before any
 * thread takes. */
void queue_join(struct queue *queue, _Atomic unsigned *busy);

/* Waits, while workers of a joined queue are busy, until most of the requests in flight wait, for
 * QUEUE_GATHER_US at most; else returns at once. For a worker that has just carried a batch. */
void queue_gather(struct queue *queue);

/* The worker's batch is done, and it does not take the next one at once. */
void queue_finish(struct queue *queue, bool *busy);

/* Two workers got into each other's way: the next QUEUE_ALONE_TAKES batches are carried one after
 * the other, unless batches are small by choice. */
void queue_collided(struct queue *queue);

/* True when requests wait; a hint, as others may take them at the same moment. */
bool queue_waiting(const struct queue *queue);

/* Wakes all waiting workers; from now on queue_take does not wait. */
void queue_stop(struct queue *queue);
bool queue_stopped(const struct queue *queue);

#endif
