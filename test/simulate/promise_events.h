/* Checks the feed of events against the orders in the ledger, and what its readers are told. */
#ifndef SIMULATE_PROMISE_EVENTS_H
#define SIMULATE_PROMISE_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ledger_event;
struct txn;

void promise_events_begin(void);

/* Notes that a reader is told of the event at a position. What this version of an event's type
 * does not use is zero. */
void promise_event(uint64_t position, const struct ledger_event *event);

/* Checks the answer of a daemon to a reader who wants the events behind `after`; returns the
 * position of the last one that it tells. */
uint64_t promise_feed(uint64_t after, const char *text, size_t length);

/* The mark of a cursor at this position, as it is on the disk; 0: there is no event. */
uint64_t promise_feed_mark(uint64_t position);

/* True when all events are published, and a reader was told of each; with `sales`, the publisher
 * has also seen how each sale is now. */
bool promise_events_told(bool sales);

/* After each commit; true when it has written or published events. And at the end, when all are
 * told. */
bool promise_events_commit(const struct txn *txn);
void promise_events_end(void);

#endif
