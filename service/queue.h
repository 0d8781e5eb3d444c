/* A bounded queue of requests between threads, taken in batches that share fairly between flows.
 *
 * A flow is what one sale's orders go through: the skus are hashed onto QUEUE_FLOWS of them (the
 * buckets of stochastic fairness queueing, McKenney 1990). Within a flow requests come out in the
 * order they went in; between the flows that have something waiting, takers go around, with at most
 * a share of the batch for each in a turn. A flow may hold places up to the dynamic threshold of
 * Choudhury and Hahne (Dynamic Queue Length Thresholds for Shared-Memory Packet Switches, IEEE/ACM
 * Transactions on Networking 6(2), 1998): QUEUE_ALPHA times those that nobody has. So a single busy
 * sale gets nearly the whole queue, and still there is always room for another one. */
#ifndef SECKILL_SERVICE_QUEUE_H
#define SECKILL_SERVICE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

enum {
    QUEUE_FLOWS = 1024, /* a power of two */
    QUEUE_ALPHA = 8,    /* one busy flow gets 8/9 of the places, two 8/17 each, … */
    QUEUE_SHARE = 8,    /* a flow gets 1/8 of a batch in its turn, at least one request */
};

struct queue;
struct request;

struct queue *queue_open(size_t max);
void queue_close(struct queue **queue);

/* The flow of a word, below QUEUE_FLOWS. */
unsigned queue_flow(const char *word);

/* Claims a place for one request of a flow; false when all are taken, or the flow has its part of
 * them. Any thread; takes no lock. */
bool queue_reserve(struct queue *queue, unsigned flow);

/* Frees the place of a request that has left for good. */
void queue_leave(struct queue *queue, unsigned flow);

/* Places claimed: requests waiting, and those taken that may come back. */
size_t queue_depth(const struct queue *queue);

/* Appends a list linked by queue_next, whose requests all have a place in the flow they name, each
 * to its flow, and wakes a waiting thread for it. */
void queue_push(struct queue *queue, struct request *first, struct request *last);

/* Takes up to `max` requests, all that are waiting at most, into `requests_out`, a share of each
 * flow in turn; waits up to `wait_ms` for the first. 0 when none came or the queue was stopped and
 * is empty. */
size_t queue_take(struct queue *queue, struct request **requests_out, size_t max, int wait_ms);

/* True when something is waiting; a hint. */
bool queue_waiting(const struct queue *queue);

/* Wakes all waiting threads; from now on queue_take does not wait. */
void queue_stop(struct queue *queue);
bool queue_stopped(const struct queue *queue);

#endif
