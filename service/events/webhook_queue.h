/* The events that a webhook still has to deliver, in the order of their positions, and the rule by
 * which they go into requests.
 *
 * A request takes a run: events that follow each other in the queue. It begins with the first event
 * whose subject (an order, or a sale) is in no open run, and ends before the next event whose
 * subject is in one. So two requests never carry events of one subject at the same time, and an
 * order's events arrive in its order, while those of other orders pass by.
 *
 * A request that is set aside has left the queue, so that others do not run into its end. Its
 * subjects are held, as by an open run, until it is delivered or given up.
 *
 * why_runs: a receiver may drop requests whose id it knows, and the id of a batch tells only its
 * first event and how many there are. Without gaps in it, the same id means the same events. */
#ifndef SECKILL_SERVICE_EVENTS_WEBHOOK_QUEUE_H
#define SECKILL_SERVICE_EVENTS_WEBHOOK_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sql/events/webhooks.h"

enum {
    WEBHOOK_QUEUE_MAX = 2048,         /* events */
    WEBHOOK_QUEUE_SUBJECTS = 1 << 16, /* places, which subjects share: one may wait for another */
};

struct webhook_event {
    uint64_t position;
    char *text; /* malloc'ed; NULL once it is delivered */
    size_t length;
    uint16_t subject; /* its place */
    bool open;        /* in an open run */
};

/* Belongs to one thread at a time. All zeros, with `next` set, is an empty queue. */
struct webhook_queue {
    uint64_t next;       /* position of the next event to be read */
    uint64_t first, end; /* numbers of the first event and behind the last, from 0 on */
    uint64_t waiting;    /* no event before this number waits for a run */
    uint16_t open[WEBHOOK_QUEUE_SUBJECTS];          /* events in open runs, or held */
    struct webhook_event events[WEBHOOK_QUEUE_MAX]; /* by number modulo its size */
};

/* Events by their numbers. */
struct webhook_run {
    uint64_t first;
    size_t count;
};

static inline struct webhook_event *webhook_event_at(struct webhook_queue *queue, uint64_t number)
{
    return &queue->events[number % WEBHOOK_QUEUE_MAX];
}

/* Room for further events. */
size_t webhook_queue_room(const struct webhook_queue *queue);

/* Adds an event to a queue with room, whose positions it follows. The queue takes over the text, of
 * event_text with a NUL behind it. */
void webhook_queue_add(struct webhook_queue *queue, uint64_t position, char *text, size_t length);

/* Opens the next run, of `max` events at most. False: no event can go now. */
bool webhook_queue_take(struct webhook_queue *queue, size_t max, struct webhook_run *run_out);

/* Ends an open run: its events are delivered. */
void webhook_queue_deliver(struct webhook_queue *queue, const struct webhook_run *run);

/* Holds the subjects of a body's events (`by` is 1), or lets them go (-1). */
void webhook_queue_hold(struct webhook_queue *queue, const char *body, int by);

/* Position of the first event in the queue: all before are delivered, set aside or not wanted. */
uint64_t webhook_queue_position(struct webhook_queue *queue);

/* Frees the texts, and leaves an empty queue that begins at `next`. */
void webhook_queue_clear(struct webhook_queue *queue, uint64_t next);

#endif
