/* The events that a webhook still has to deliver, and the runs in which they go. */
#include "service/events/webhook_queue.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

size_t webhook_queue_room(const struct webhook_queue *queue)
{
    return (size_t)(WEBHOOK_QUEUE_MAX - (queue->end - queue->first));
}

/* Moves on to the next subject in a body, and returns its place; `at` is NULL when there is none.
 * No text of a client is like the member's name, as its quotes are escaped. Multiplies by the
 * golden ratio (Knuth's hash), and takes upper bits of the product. */
static uint16_t next_place(const char **at)
{
    static const uint64_t ratio = UINT64_C(0x9e3779b97f4a7c15);
    static const char member[] = ",\"subject\":\"";
    char subject[IDENTIFIER_SIZE];
    const char *begin = strstr(*at, member);
    *at = begin ? begin + sizeof member - 1 : NULL;
    if (!begin)
        return 0;
    snprintf(subject, sizeof subject, "%.*s", (int)strcspn(*at, "\""), *at);
    return (uint16_t)((hash_text(subject) * ratio >> 32) % WEBHOOK_QUEUE_SUBJECTS);
}

void webhook_queue_add(struct webhook_queue *queue, uint64_t position, char *text, size_t length)
{
    const char *at = text;
    assert(webhook_queue_room(queue) > 0);
    *webhook_event_at(queue, queue->end++) = (struct webhook_event){
        .position = position, .text = text, .length = length, .subject = next_place(&at)};
}

void webhook_queue_hold(struct webhook_queue *queue, const char *body, int by)
{
    for (uint16_t place = next_place(&body); body; place = next_place(&body))
        queue->open[place] = (uint16_t)(queue->open[place] + by);
}

static bool can_go(struct webhook_queue *queue, uint64_t number)
{
    const struct webhook_event *event = webhook_event_at(queue, number);
    return event->text && !event->open && queue->open[event->subject] == 0;
}

bool webhook_queue_take(struct webhook_queue *queue, size_t max, struct webhook_run *run_out)
{
    uint64_t at = queue->waiting;
    while (at < queue->end && !can_go(queue, at))
        at++;
    *run_out = (struct webhook_run){.first = at};
    for (; at < queue->end && run_out->count < max && can_go(queue, at); at++)
        run_out->count++;
    for (uint64_t number = run_out->first; number < at; number++) {
        struct webhook_event *event = webhook_event_at(queue, number);
        event->open = true;
        queue->open[event->subject]++;
    }
    while (queue->waiting < queue->end && (!webhook_event_at(queue, queue->waiting)->text ||
                                           webhook_event_at(queue, queue->waiting)->open))
        queue->waiting++;
    return run_out->count > 0;
}

void webhook_queue_deliver(struct webhook_queue *queue, const struct webhook_run *run)
{
    for (size_t i = 0; i < run->count; i++) {
        struct webhook_event *event = webhook_event_at(queue, run->first + i);
        assert(event->open);
        queue->open[event->subject]--;
        free(event->text);
        *event = (struct webhook_event){.position = event->position};
    }
    while (queue->first < queue->end && !webhook_event_at(queue, queue->first)->text)
        queue->first++;
}

uint64_t webhook_queue_position(struct webhook_queue *queue)
{
    return queue->first < queue->end ? webhook_event_at(queue, queue->first)->position
                                     : queue->next;
}

void webhook_queue_clear(struct webhook_queue *queue, uint64_t next)
{
    for (uint64_t number = queue->first; number < queue->end; number++)
        free(webhook_event_at(queue, number)->text);
    *queue = (struct webhook_queue){.next = next};
}
