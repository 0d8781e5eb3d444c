/* Writes events as CloudEvents 1.0 in JSON. */
#ifndef SECKILL_SERVICE_EVENTS_EVENT_TEXT_H
#define SECKILL_SERVICE_EVENTS_EVENT_TEXT_H

#include "sql/events/events.h"

/* Bytes of the longest event: its members' names and numbers, two skus, and a user id and a
 * payment's name whose every byte may need an escape. */
enum { EVENT_TEXT_MAX = 640 + 2 * (USER_ID_SIZE + PAYMENT_REF_SIZE) + 2 * IDENTIFIER_SIZE };

/* The events of a batch, as they are written one after the other. */
struct event_writer {
    unsigned pod;
    char time[LEDGER_TIME_SIZE]; /* when the batch was written */
    int64_t expires_ms; /* of the last order, and as text: most orders of a batch share it */
    char expires_at[LEDGER_TIME_SIZE];
};

/* Begins a batch that was written at this time, in ms since 1970. */
void event_writer_init(struct event_writer *writer, unsigned pod, int64_t written_ms);

/* Writes one event, without a NUL, and returns where it ends; `out` has room for EVENT_TEXT_MAX.
 * The same event has the same text at every daemon, whenever it is read. */
char *event_text(char *out, struct event_writer *writer, const struct ledger_event *event,
                 uint64_t position);

#endif
