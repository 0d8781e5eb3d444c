/* A bounded queue of requests between threads, taken in batches with fair shares for flows.
 *
 * All orders of one sale share a flow: skus are hashed onto QUEUE_FLOWS flows (the buckets of
 * stochastic fairness queueing, McKenney 1990). A flow is first in, first out. Workers serve the
 * waiting flows in turn, taking at most a share of the batch from each. A flow may hold places up
 * to the dynamic threshold of Choudhury and Hahne (Dynamic Queue Length Thresholds for
 * Shared-Memory Packet Switches, IEEE/ACM Transactions on Networking 6(2), 1998): QUEUE_ALPHA times
 * the number of free places. So a single busy sale gets nearly the whole queue, and another sale
 * still finds room.
 *
 * The rule of batches: a batch leaves when a whole batch waits, or when its oldest request has
 * waited for the worker's patience; it takes what waits, up to a whole batch or QUEUE_BATCH_MIN
 * requests, whichever is more.
 *
 * A whole batch is half of the requests in flight, so that one half is carried while the other is
 * answered and sent; or three quarters of them, up to QUEUE_BATCH_MIN requests; the worker's
 * maximum bounds it, and what a worker takes. So with few requests in flight one worker carries
 * whole batches, with more two do; further workers are busy only with batches of the maximum, or
 * when patience ends. */
#ifndef SECKILL_SERVICE_REQUEST_QUEUE_H
#define SECKILL_SERVICE_REQUEST_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    QUEUE_FLOWS = 1024,   /* a power of two */
    QUEUE_ALPHA = 8,      /* one busy flow gets 8/9 of the places, two get 8/17 each, … */
    QUEUE_SHARE = 8,      /* per turn a flow gets 1/8 of a batch, at least one request */
    QUEUE_BATCH_MIN = 64, /* up to this size one batch is cheaper than two halves */
    QUEUE_FADE = 32,      /* the peak of requests in flight decays by 1/32 per batch */
};

struct queue;
struct request;

/* Any thread may call any function below except queue_close. */

/* A queue with `max` places; aborts without memory. */
struct queue *queue_open(size_t max);

/* Frees an empty queue that no thread uses any more; NULL is fine. */
void queue_close(struct queue **queue);

/* Maps an identifier to its flow, below QUEUE_FLOWS. */
unsigned queue_flow(const char *identifier);

/* Claims a place for a request of this flow; false when no place is free or the flow holds its
 * share. Takes no lock. */
bool queue_reserve(struct queue *queue, unsigned flow);

/* Frees the place of a request that will not return to the queue. */
void queue_leave(struct queue *queue, unsigned flow);

/* Claimed places: of waiting requests, and of those with a worker, which may come back. */
size_t queue_depth(const struct queue *queue);

/* The number of places given to queue_open. */
size_t queue_capacity(const struct queue *queue);

/* Appends each request of a list, linked by queue_next, to its flow, and wakes a waiting worker.
 * The caller has claimed a place for each. */
void queue_push(struct queue *queue, struct request *first, struct request *last);

/* Takes a batch of up to `max` requests by the rule above, a share of each flow in turn; waits up
 * to `wait_ms` for one that may leave. While a worker waits here, no request waits longer than
 * `patience_ns`, whatever other workers do. A stopped queue gives what it has at once. Returns the
 * size of the batch, or 0. */
size_t queue_take(struct queue *queue, struct request **requests_out, size_t max,
                  int64_t patience_ns, int wait_ms);

/* Takes a batch likewise, without patience, and marks its requests as taken; those whose deadline
 * came first go back to their HTTP threads. Returns the number of the others, at the array's
 * beginning. `max`: CALL_BATCH_MAX at most. */
size_t queue_take_marked(struct queue *queue, struct request **requests_out, size_t max,
                         int wait_ms);

/* Gives requests that will not return to the queue back to their HTTP threads, and frees their
 * places. Overwrites the array. */
void queue_give_back(struct queue *queue, struct request **requests, size_t count);

/* True when requests wait; a hint, as other threads may take them meanwhile. */
bool queue_waiting(const struct queue *queue);

/* Wakes all waiting workers; later queue_take calls do not wait. Whoever reserves a place and then
 * finds the queue not stopped may push: a worker that then finds it stopped finds the place, too.
 * */
void queue_stop(struct queue *queue);
bool queue_stopped(const struct queue *queue);

#endif
