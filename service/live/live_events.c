/* The feed of events and the receivers of webhooks, as pages and metrics show them. */
#include "service/live/live_events.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "service/metrics/metrics.h"
#include "sql/events/webhooks.h"

struct live_events {
    struct ledger_webhook read[WEBHOOKS_MAX]; /* by the live thread, before they are taken over */

    pthread_mutex_t mutex; /* guards the members below */
    bool known;
    struct ledger_event_bounds bounds;
    struct ledger_webhook webhooks[WEBHOOKS_MAX];
    size_t count;
};

struct live_events *live_events_open(void)
{
    struct live_events *events = memory_must(calloc(1, sizeof *events));
    pthread_mutex_init(&events->mutex, NULL);
    return events;
}

void live_events_close(struct live_events **events)
{
    if (*events)
        pthread_mutex_destroy(&(*events)->mutex);
    free(*events);
    *events = NULL;
}

bool live_events_read(struct live_events *events, struct ledger *ledger)
{
    struct ledger_event_bounds bounds;
    size_t count = 0;
    if (ledger_webhooks_list(ledger, events->read, &count) != LEDGER_OK ||
        ledger_events_bounds(ledger, &bounds) != LEDGER_OK)
        return false;
    pthread_mutex_lock(&events->mutex);
    memcpy(events->webhooks, events->read, count * sizeof events->read[0]);
    events->count = count;
    events->bounds = bounds;
    events->known = true;
    pthread_mutex_unlock(&events->mutex);
    return true;
}

static int64_t seconds_since(const struct live_events *events, int64_t ms)
{
    return ms > 0 && ms < events->bounds.now_ms ? (events->bounds.now_ms - ms) / 1000 : 0;
}

/* Since when the receiver, or one of its requests, has failed. */
static int64_t failing_since_ms(const struct ledger_webhook *webhook)
{
    int64_t receiver_ms = webhook->progress.failing_since_ms, ms = webhook->retrying_since_ms;
    return receiver_ms > 0 && (ms == 0 || receiver_ms < ms) ? receiver_ms : ms;
}

/* ---- dashboards ---- */

static json_t *webhook_json(const struct live_events *events, const struct ledger_webhook *webhook)
{
    const struct webhook_progress *progress = &webhook->progress;
    int64_t wait_ms = progress->next_try_ms - events->bounds.now_ms;
    return json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:I}", "name", webhook->name, "state",
        webhook_state_names[webhook->state], "reason", webhook_reason_names[webhook->reason], "lag",
        (json_int_t)webhook_lag(webhook, &events->bounds), "delivered",
        (json_int_t)progress->delivered, "failing_s",
        (json_int_t)seconds_since(events, failing_since_ms(webhook)), "last_status",
        (json_int_t)progress->last_status, "undelivered", (json_int_t)webhook->undelivered,
        "waits_for", webhook_wait_names[progress->wait], "wait_s",
        (json_int_t)(wait_ms > 0 ? (wait_ms + 999) / 1000 : 0));
}

/* Only the live thread writes them, so it reads them without the lock. */
void live_events_add(struct live_events *events, json_t *all)
{
    if (!events->known)
        return;
    json_t *webhooks = json_array();
    for (size_t i = 0; i < events->count; i++)
        json_array_append_new(webhooks, webhook_json(events, &events->webhooks[i]));
    json_t *feed = json_pack(
        "{s:I, s:I, s:I, s:o}", "published", (json_int_t)(events->bounds.next - 1), "kept",
        (json_int_t)(events->bounds.next - events->bounds.oldest), "waiting_s",
        (json_int_t)seconds_since(events, events->bounds.waiting_ms), "webhooks", webhooks);
    json_object_set_new(all, "events", feed);
}

/* ---- metrics ---- */

enum { LAG, FAILING, UNDELIVERED, DISABLED, FAMILIES };

static const struct {
    const char *name, *help;
} families[FAMILIES] = {
    [LAG] = {"seckill_webhook_lag_events", "Events that the receiver has not got yet."},
    [FAILING] = {"seckill_webhook_failing_seconds",
                 "For how long the receiver, or one request to it, has failed."},
    [UNDELIVERED] = {"seckill_webhook_undelivered",
                     "Events given up, until an operator sends them again."},
    [DISABLED] = {"seckill_webhook_disabled", "1 while the daemons have given the receiver up."},
};

static double value_of(const struct live_events *events, const struct ledger_webhook *webhook,
                       int family)
{
    bool tried = webhook->state == WEBHOOK_ACTIVE;
    const double values[FAMILIES] = {
        [LAG] = (double)webhook_lag(webhook, &events->bounds),
        [FAILING] = tried ? (double)seconds_since(events, failing_since_ms(webhook)) : 0,
        [UNDELIVERED] = webhook->undelivered,
        [DISABLED] = webhook->state == WEBHOOK_DISABLED,
    };
    return values[family];
}

/* Names of webhooks need no escapes. */
void live_events_print(struct live_events *events, FILE *page)
{
    pthread_mutex_lock(&events->mutex);
    if (events->known) {
        metrics_print_head(page, "seckill_events_kept", "gauge", "Events in the feed.");
        fprintf(page, "seckill_events_kept %" PRIu64 "\n",
                events->bounds.next - events->bounds.oldest);
    }
    for (int f = 0; f < FAMILIES && events->count > 0; f++) {
        metrics_print_head(page, families[f].name, "gauge", families[f].help);
        for (size_t i = 0; i < events->count; i++)
            fprintf(page, "%s{webhook=\"%s\"} %.15g\n", families[f].name, events->webhooks[i].name,
                    value_of(events, &events->webhooks[i], f));
    }
    pthread_mutex_unlock(&events->mutex);
}
