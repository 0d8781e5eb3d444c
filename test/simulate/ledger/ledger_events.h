/* Events of the simulated ledger, for the other parts of it, which write them. */
#ifndef SIMULATE_LEDGER_EVENTS_H
#define SIMULATE_LEDGER_EVENTS_H

#include "sql/db/sql_text.h"
#include "sql/events/events.h"
#include "test/simulate/ledger/ledger_table.h"

/* The events of one type that a statement writes; all zeros but for the type at first. */
struct event_lines {
    enum ledger_event_type type;
    size_t count;
    struct version last; /* the order of the last one */
    struct sql_text text;
};

/* Adds an order as it is now; `ref` is the name of its payment, NULL or "" for none. */
void event_add(struct event_lines *lines, const struct version *order, const char *ref);

/* Writes the lines as a batch, unless there is none or events are off; and frees them. */
void event_write(struct ledger *ledger, struct event_lines *lines);

#endif
