/* The feed of events and the receivers of webhooks, as pages and metrics show them. */
#ifndef SECKILL_SERVICE_LIVE_LIVE_EVENTS_H
#define SECKILL_SERVICE_LIVE_LIVE_EVENTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct ledger;
struct live_events;

/* The caller closes it. */
struct live_events *live_events_open(void);

/* Frees it and sets the pointer to NULL. */
void live_events_close(struct live_events **events);

/* Reads the feed's ends and all webhooks; without an answer the last ones stay. False: the ledger
 * failed. Live thread. */
bool live_events_read(struct live_events *events, struct ledger *ledger);

/* Adds the member "events" to what dashboards show, once they are known. Live thread. */
void live_events_add(struct live_events *events, json_t *all);

/* Writes their gauges, like metrics_print. Any thread. */
void live_events_print(struct live_events *events, FILE *page);

#endif
