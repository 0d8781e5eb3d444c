/* A bounded queue of requests between threads, taken in batches. */
#ifndef SECKILL_SERVICE_QUEUE_H
#define SECKILL_SERVICE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

struct queue;
struct request;

struct queue *queue_open(size_t max);
void queue_close(struct queue **queue);

/* Claims a place for one request; false when all are taken. Any thread; takes no lock. */
bool queue_reserve(struct queue *queue);

/* Frees the place of a request that has left for good. */
void queue_leave(struct queue *queue);

/* Places claimed: requests waiting, and those taken that may come back. */
size_t queue_depth(const struct queue *queue);

/* Appends a list linked by queue_next, whose requests all have a place, and wakes a waiting thread
 * for it. */
void queue_push(struct queue *queue, struct request *first, struct request *last);

/* Takes up to `max` requests, all that are waiting at most, into `requests_out`; waits up to
 * `wait_ms` for the first. 0 when none came or the queue was stopped and is empty. */
size_t queue_take(struct queue *queue, struct request **requests_out, size_t max, int wait_ms);

/* True when something is waiting; a hint. */
bool queue_waiting(const struct queue *queue);

/* Wakes all waiting threads; from now on queue_take does not wait. */
void queue_stop(struct queue *queue);
bool queue_stopped(const struct queue *queue);

#endif
