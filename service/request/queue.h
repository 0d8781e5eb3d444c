/* A bounded queue of requests between threads, taken in batches that share fairly between flows.
 *
 * All orders of one sale go through one flow: skus are hashed onto QUEUE_FLOWS flows (the buckets
 * of stochastic fairness queueing, McKenney 1990). Within a flow requests come out in the order
 * they went in. Workers serve the flows in which requests wait in turn, with at most a share of the
 * batch for each turn. A flow may hold places up to the dynamic threshold of Choudhury and Hahne
 * (Dynamic Queue Length Thresholds for Shared-Memory Packet Switches, IEEE/ACM Transactions on
 * Networking 6(2), 1998): QUEUE_ALPHA times the number of free places. So a single busy sale gets
 * nearly the whole queue, and another sale still finds room.
 *
 * The rule of batches: a batch leaves when a whole batch waits, or when its oldest request has
 * waited for the worker's patience; it takes what waits, up to a whole batch or QUEUE_BATCH_MIN
 * requests, whichever is more.
 *
 * A whole batch is half of the requests in flight, so that one batch is carried while the other
 * half is answered and sent; or three quarters of them, up to QUEUE_BATCH_MIN requests; or the
 * worker's maximum, which also bounds what it takes. So where few requests are in flight one worker
 * carries whole batches, else two at a time; more are busy only when requests fill batches of the
 * maximum, or when patience ends. */
#ifndef SECKILL_SERVICE_REQUEST_QUEUE_H
#define SECKILL_SERVICE_REQUEST_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    QUEUE_FLOWS = 1024,   /* a power of two */
    QUEUE_ALPHA = 8,      /* one busy flow gets 8/9 of the places, two 8/17 each, … */
    QUEUE_SHARE = 8,      /* a flow gets 1/8 of a batch in its turn, at least one request */
    QUEUE_BATCH_MIN = 64, /* up to here a batch is cheaper than two batches of half its size */
    QUEUE_FADE = 32,      /* the remembered peak of requests in flight loses 1/32 with each batch */
};

struct queue;
struct request;

/* Any thread may call every function below but queue_close. */

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

/* Takes a batch of up to `max` requests by the rule above, a share of each flow in turn; waits up
 * to `wait_ms` until one may leave. A request waits for `patience_ns` at most while a worker waits
 * here, whatever the other workers do. A stopped queue gives what it has at once. Returns the size
 * of the batch, or 0. */
size_t queue_take(struct queue *queue, struct request **requests_out, size_t max,
                  int64_t patience_ns, int wait_ms);

/* True when requests wait; a hint, as others may take them at the same moment. */
bool queue_waiting(const struct queue *queue);

/* Wakes all waiting workers; from now on queue_take does not wait. */
void queue_stop(struct queue *queue);
bool queue_stopped(const struct queue *queue);

#endif
