/* The webhook sender: a thread, active where the publisher is, that delivers events to webhooks.
 *
 *   ledger ─► queue of each receiver ─► deliveries, each a run of events ─► libcurl, all together
 *                  ▲                          │ success: the run leaves the queue
 *                  └── position, once a second ◄┘ failure: the same request again, later
 *
 * Receivers share nothing but the thread, which waits for none of them. After a success is lost (a
 * crash, another sender) its events are sent again, under the same ids.
 *
 * why_one_try: a request that fails waits by itself, while others go on. A receiver that has failed
 * FAILING_FROM times in a row gets one request at a time, and the waits between them grow, until
 * one succeeds; further events come before those that have failed, which may always fail. A
 * receiver that fails now and then keeps its rate.
 *
 * why_aside: a request that has failed for a while is noted in the ledger. Then the webhook's
 * position passes it, and neither the queue nor the feed need keep its events. It is still tried,
 * and holds its subjects, until it is given up. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "service/events/event_text.h"
#include "service/events/webhook_http.h"
#include "service/events/webhook_queue.h"
#include "service/log/log.h"
#include "service/metrics/metrics.h"
#include "service/request/faults.h"
#include "service/workers/workers.h"
#include "sql/orders/orders.h"

enum {
    TURN_MS = 100,  /* between two looks for new events */
    LIST_MS = 1000, /* between two looks for changed webhooks */
    NOTE_MS = 1000, /* between two notes of a webhook's progress */
    READ_EVENTS = 512,
    ROOM_MIN = READ_EVENTS + LEDGER_EVENTS_MAX, /* a call may read one batch more */
    FAILING_FROM = 10, /* failures in a row: then the receiver fails, not a request */
    ASIDE_MS = 5000,   /* for which a request has failed when it is set aside */
    DISABLE_MS = 3 * 24 * 3600 * 1000,
};

static_assert((int)WEBHOOK_MAX_concurrency <= (int)WEBHOOK_OPEN_MAX, "each may be under way");
static_assert((int)ROOM_MIN <= (int)WEBHOOK_QUEUE_MAX, "a call's events fit into an empty queue");

struct receiver;

/* A run of events and the request that carries it, the same in each try. */
struct delivery {
    struct webhook_call call; /* first, so that libcurl gives the delivery back */
    struct receiver *receiver;
    struct webhook_run run; /* empty when it is set aside */
    struct webhook_aside aside;
    char *text; /* the call's body with what is before it */
    unsigned failures;
    int64_t began_ms; /* of the present try */
    int64_t due_ms;   /* of the next one */
};

struct receiver {
    struct ledger_webhook webhook; /* `progress` is what is to be noted */
    struct webhook_queue queue;
    struct delivery *open[WEBHOOK_OPEN_MAX];
    size_t open_count, in_flight;
    int64_t failed_ms; /* when the last failure was counted; by the ledger's clock, as all times */
    int64_t noted_ms;
    bool changed; /* `progress`, since then */
    bool gap;     /* the feed no longer has the events that it is to get */
    bool seen;    /* in the present list */
};

struct webhook_sender {
    struct service_worker base;
    struct webhook_client client;
    CURLM *multi;
    struct receiver *receivers[WEBHOOKS_MAX];
    size_t count;
    struct receiver *asks;                    /* the one that the feed is read for */
    struct ledger_webhook list[WEBHOOKS_MAX]; /* as last read */
    struct ledger_event_bounds bounds; /* as last read; events before bounds.next are durable */
    uint64_t connection;               /* that they were read on */
    int64_t now_ms, listed_ms, bounded_ms;
    unsigned random;
};

/* ---- deliveries ---- */

static void write_id(const struct webhook_sender *sender, struct delivery *delivery)
{
    struct receiver *receiver = delivery->receiver;
    uint64_t position = webhook_event_at(&receiver->queue, delivery->run.first)->position;
    char *id = delivery->aside.id;
    int length = snprintf(id, WEBHOOK_ID_SIZE, "evt_%u_%llu", sender->base.service->config.pod,
                          (unsigned long long)position);
    if (receiver->webhook.settings.batch > 1)
        snprintf(id + length, WEBHOOK_ID_SIZE - (size_t)length, "_%zu", delivery->run.count);
}

/* Makes room for a body with its NUL, and returns it. */
static char *add_text(struct delivery *delivery, size_t size)
{
    delivery->text = memory_must(malloc(WEBHOOK_HEAD_MAX + size));
    return delivery->call.body = delivery->text + WEBHOOK_HEAD_MAX;
}

static void write_body(struct delivery *delivery)
{
    struct webhook_queue *queue = &delivery->receiver->queue;
    const struct webhook_run *run = &delivery->run;
    size_t size = sizeof "[]";
    for (size_t i = 0; i < run->count; i++)
        size += webhook_event_at(queue, run->first + i)->length + 1;
    char *at = add_text(delivery, size);
    bool batch = delivery->receiver->webhook.settings.batch > 1;
    for (size_t i = 0; i < run->count; i++) {
        const struct webhook_event *event = webhook_event_at(queue, run->first + i);
        if (batch)
            *at++ = i == 0 ? '[' : ',';
        memcpy(at, event->text, event->length);
        at += event->length;
    }
    if (batch)
        *at++ = ']';
    *at = '\0';
    delivery->call.length = (size_t)(at - delivery->call.body);
}

static struct delivery *add_delivery(struct receiver *receiver)
{
    struct delivery *delivery = memory_must(calloc(1, sizeof *delivery));
    delivery->receiver = receiver;
    receiver->open[receiver->open_count++] = delivery;
    return delivery;
}

/* Returns NULL when no event can go now. */
static struct delivery *open_delivery(const struct webhook_sender *sender,
                                      struct receiver *receiver)
{
    struct webhook_run run;
    if (receiver->open_count == WEBHOOK_OPEN_MAX ||
        !webhook_queue_take(&receiver->queue, receiver->webhook.settings.batch, &run))
        return NULL;
    struct delivery *delivery = add_delivery(receiver);
    delivery->run = run;
    delivery->aside.events = (uint32_t)run.count;
    write_id(sender, delivery);
    write_body(delivery);
    return delivery;
}

/* Goes on with a request that was set aside, perhaps by another daemon. */
static void reopen_delivery(const struct webhook_aside *aside, void *context)
{
    struct receiver *receiver = context;
    if (receiver->open_count == WEBHOOK_OPEN_MAX)
        return;
    struct delivery *delivery = add_delivery(receiver);
    delivery->aside = *aside;
    delivery->call.length = strlen(aside->body);
    strcpy(add_text(delivery, delivery->call.length + 1), aside->body);
    webhook_queue_hold(&receiver->queue, aside->body, 1);
}

static void free_delivery(struct delivery *delivery)
{
    free(delivery->text);
    free(delivery);
}

/* What has waited for its events may go. */
static void close_delivery(struct delivery *delivery)
{
    struct receiver *receiver = delivery->receiver;
    size_t i = 0;
    if (delivery->run.count == 0)
        webhook_queue_hold(&receiver->queue, delivery->call.body, -1);
    webhook_queue_deliver(&receiver->queue, &delivery->run);
    while (receiver->open[i] != delivery)
        i++;
    receiver->open[i] = receiver->open[--receiver->open_count];
    free_delivery(delivery);
}

static void begin_try(struct webhook_sender *sender, struct delivery *delivery)
{
    struct receiver *receiver = delivery->receiver;
    struct webhook_call *call = &delivery->call;
    call->client = &sender->client;
    call->webhook = &receiver->webhook;
    call->id = delivery->aside.id;
    call->now_ms = delivery->began_ms = sender->now_ms;
    call->timeout_ms = receiver->webhook.settings.timeout_s * 1000L;
    webhook_call_begin(call);
    if (curl_multi_add_handle(sender->multi, call->easy) != CURLM_OK)
        abort();
    receiver->in_flight++;
}

/* True while the receiver itself fails, not only some of its requests. */
static bool is_failing(const struct receiver *receiver)
{
    return receiver->webhook.progress.failures >= FAILING_FROM;
}

/* Prefers the delivery that failed first among those that are due, to one of further events; but
 * see why_one_try. */
static struct delivery *next_delivery(const struct webhook_sender *sender,
                                      struct receiver *receiver)
{
    struct delivery *due = NULL;
    for (size_t i = 0; i < receiver->open_count; i++) {
        struct delivery *open = receiver->open[i];
        if (!open->call.easy && open->due_ms <= sender->now_ms &&
            (!due || open->due_ms < due->due_ms))
            due = open;
    }
    struct delivery *further =
        !due || is_failing(receiver) ? open_delivery(sender, receiver) : NULL;
    return further ? further : due;
}

/* True while no request may begin. */
static bool is_held(const struct webhook_sender *sender, const struct receiver *receiver)
{
    const struct webhook_progress *progress = &receiver->webhook.progress;
    return progress->wait > WEBHOOK_WAIT_RETRY && progress->next_try_ms > sender->now_ms;
}

static void begin_tries(struct webhook_sender *sender, struct receiver *receiver)
{
    const struct ledger_webhook *webhook = &receiver->webhook;
    size_t max = is_failing(receiver) ? 1 : webhook->settings.concurrency;
    while (webhook->state == WEBHOOK_ACTIVE && !is_held(sender, receiver) &&
           receiver->in_flight < max) {
        struct delivery *delivery = next_delivery(sender, receiver);
        if (!delivery)
            return;
        begin_try(sender, delivery);
    }
}

/* ---- receivers ---- */

/* Notes the progress since the last note. False: the ledger did not take it, so it is noted
 * later. */
static bool note(struct webhook_sender *sender, struct receiver *receiver)
{
    struct webhook_progress *progress = &receiver->webhook.progress;
    uint64_t position = webhook_queue_position(&receiver->queue);
    receiver->noted_ms = sender->now_ms;
    if (receiver->changed || position != progress->position) {
        progress->position = position;
        receiver->changed =
            ledger_webhook_note(sender->base.ledger, &receiver->webhook) != LEDGER_OK;
    }
    if (!receiver->changed)
        progress->delivered = 0;
    return !receiver->changed;
}

/* Forgets a receiver without a note. */
static void drop_receiver(struct webhook_sender *sender, size_t i)
{
    struct receiver *receiver = sender->receivers[i];
    sender->receivers[i] = sender->receivers[--sender->count];
    while (receiver->open_count > 0) {
        struct delivery *delivery = receiver->open[--receiver->open_count];
        if (delivery->call.easy) {
            curl_multi_remove_handle(sender->multi, delivery->call.easy);
            webhook_call_drop(&delivery->call);
        }
        free_delivery(delivery);
    }
    webhook_queue_clear(&receiver->queue, 0);
    explicit_bzero(&receiver->webhook, sizeof receiver->webhook);
    free(receiver);
}

static void open_receiver(struct webhook_sender *sender, const struct ledger_webhook *webhook)
{
    struct receiver *receiver = memory_must(calloc(1, sizeof *receiver));
    receiver->webhook = *webhook;
    receiver->webhook.progress.delivered = 0;
    receiver->queue.next = webhook->progress.position;
    receiver->seen = true;
    sender->receivers[sender->count++] = receiver;
    if (ledger_webhook_asides(sender->base.ledger, webhook->name, false, UINT32_MAX,
                              reopen_delivery, receiver) != LEDGER_OK)
        drop_receiver(sender, sender->count - 1); /* the next list has it again */
}

/* Forgets all receivers, and so what their queues have; the next turn begins anew. */
static void drop_all(struct webhook_sender *sender)
{
    while (sender->count > 0)
        drop_receiver(sender, 0);
    sender->listed_ms = sender->bounded_ms = 0;
}

static void note_and_drop_all(struct webhook_sender *sender)
{
    bool noted = true; /* a ledger that hangs is waited for once */
    sender->now_ms = synced_clock_ms(&sender->base.service->clock);
    for (size_t i = 0; i < sender->count; i++)
        noted = noted && note(sender, sender->receivers[i]);
    drop_all(sender);
}

static void disable(struct webhook_sender *sender, struct receiver *receiver,
                    enum webhook_reason reason)
{
    note(sender, receiver);
    if (ledger_webhook_disable(sender->base.ledger, &receiver->webhook, reason) != LEDGER_OK)
        return; /* it will come to this again */
    receiver->webhook.state = WEBHOOK_DISABLED;
    log_event(LOG_WARN, "webhook_disabled",
              "webhook=%s reason=%s position=%llu status=%u effect=%s", receiver->webhook.name,
              webhook_reason_names[reason], (unsigned long long)receiver->webhook.progress.position,
              receiver->webhook.progress.last_status,
              LOG_QUOTE("it gets no events until an operator resumes it"));
}

/* ---- what became of a try ---- */

static void succeed(struct webhook_sender *sender, struct delivery *delivery)
{
    struct receiver *receiver = delivery->receiver;
    struct webhook_progress *progress = &receiver->webhook.progress;
    if (is_failing(receiver)) {
        log_event(LOG_INFO, "webhook_recovered", "webhook=%s", receiver->webhook.name);
        for (size_t i = 0; i < receiver->open_count; i++)
            receiver->open[i]->due_ms = 0; /* they failed with the receiver, not by themselves */
    }
    progress->delivered += delivery->aside.events;
    progress->failures = 0;
    progress->failing_since_ms = 0;
    if (progress->wait == WEBHOOK_WAIT_FAILING)
        progress->next_try_ms = 0;
    if (delivery->run.count == 0)
        ledger_webhook_delivered(sender->base.ledger, &receiver->webhook, delivery->aside.id);
    close_delivery(delivery);
}

/* Sets a delivery aside that goes on failing, and gives it up in the end; at once, if all open ones
 * fail while the receiver takes others, so that these need not wait. What the ledger does not take
 * stays as it is, and comes to this again. */
static void pass_over(struct webhook_sender *sender, struct delivery *delivery)
{
    struct receiver *receiver = delivery->receiver;
    struct webhook_aside *aside = &delivery->aside;
    int64_t failing_ms = sender->now_ms - aside->failing_since_ms;
    bool now = failing_ms >= ASIDE_MS || webhook_queue_room(&receiver->queue) < ROOM_MIN;
    bool full = receiver->open_count == WEBHOOK_OPEN_MAX && !is_failing(receiver);
    bool give_up = failing_ms >= receiver->webhook.settings.give_up_s * INT64_C(1000);
    if (!(give_up |= now && full) && (!now || delivery->run.count == 0))
        return;
    aside->given_up_ms = give_up ? sender->now_ms : 0;
    aside->body = delivery->call.body;
    snprintf(aside->answer, sizeof aside->answer, "%u %.190s", delivery->call.status,
             delivery->call.answer);
    if (ledger_webhook_set_aside(sender->base.ledger, &receiver->webhook, aside) != LEDGER_OK)
        return;
    if (give_up) {
        log_event(LOG_WARN, "webhook_undelivered", "webhook=%s id=%s answer=%s effect=%s",
                  receiver->webhook.name, aside->id, LOG_QUOTE(aside->answer),
                  LOG_QUOTE("the receiver gets it only when an operator replays it"));
        close_delivery(delivery);
    } else {
        webhook_queue_hold(&receiver->queue, aside->body, 1);
        webhook_queue_deliver(&receiver->queue, &delivery->run);
        delivery->run.count = 0;
    }
}

/* When to try again: after a wait that counts from the beginning of this try, which may have taken
 * long, and at least after the shortest wait. */
static int64_t next_ms(struct webhook_sender *sender, const struct delivery *delivery,
                       unsigned failures, int64_t since_ms)
{
    int64_t max_ms = delivery->receiver->webhook.settings.retry_max_s * INT64_C(1000);
    int random = rand_r(&sender->random);
    int64_t failing_ms = sender->now_ms - since_ms;
    int64_t least_ms = sender->now_ms + webhook_backoff_ms(1, failing_ms, max_ms, random);
    int64_t ms = delivery->began_ms + webhook_backoff_ms(failures, failing_ms, max_ms, random);
    return ms > least_ms ? ms : least_ms;
}

/* The longest hold counts; a request's own wait is told only while there is none. */
static void wait_until(const struct webhook_sender *sender, struct receiver *receiver, int64_t ms,
                       enum webhook_wait wait)
{
    struct webhook_progress *progress = &receiver->webhook.progress;
    if (is_held(sender, receiver) && (wait == WEBHOOK_WAIT_RETRY || ms <= progress->next_try_ms))
        return;
    progress->next_try_ms = ms;
    progress->wait = wait;
}

/* Requests that were under way together count as one failure. */
static void fail(struct webhook_sender *sender, struct delivery *delivery)
{
    struct receiver *receiver = delivery->receiver;
    struct webhook_progress *progress = &receiver->webhook.progress;
    const struct webhook_call *call = &delivery->call;
    int64_t now_ms = sender->now_ms;
    if (progress->failures == 0 || delivery->began_ms >= receiver->failed_ms) {
        progress->failures++;
        receiver->failed_ms = now_ms;
        if (progress->failures == FAILING_FROM)
            log_event(LOG_WARN, "webhook_failing", "webhook=%s status=%u answer=%s effect=%s",
                      receiver->webhook.name, call->status, LOG_QUOTE(call->answer),
                      LOG_QUOTE("its events wait, and it is tried again"));
    }
    if (progress->failing_since_ms == 0)
        progress->failing_since_ms = now_ms;
    if (delivery->aside.failing_since_ms == 0)
        delivery->aside.failing_since_ms = now_ms;
    delivery->due_ms =
        next_ms(sender, delivery, ++delivery->failures, delivery->aside.failing_since_ms);
    wait_until(sender, receiver, delivery->due_ms, WEBHOOK_WAIT_RETRY);
    if (is_failing(receiver))
        wait_until(sender, receiver,
                   next_ms(sender, delivery, progress->failures - FAILING_FROM + 1,
                           progress->failing_since_ms),
                   WEBHOOK_WAIT_FAILING);
    unsigned wait_s = receiver->webhook.settings.retry_max_s;
    if ((call->status == 429 || call->status == 503) && call->retry_after_s > 0)
        wait_until(sender, receiver,
                   now_ms + INT64_C(1000) *
                                (call->retry_after_s < wait_s ? call->retry_after_s : wait_s),
                   WEBHOOK_WAIT_RETRY_AFTER);
    if (now_ms - progress->failing_since_ms >= DISABLE_MS)
        disable(sender, receiver, WEBHOOK_REASON_FAILING);
    else
        pass_over(sender, delivery);
}

static void end_try(struct webhook_sender *sender, struct delivery *delivery, CURLcode code)
{
    static const enum metrics_counter counters[] = {
        [WEBHOOK_OUTCOME_OK] = METRIC_WEBHOOK_OK,
        [WEBHOOK_OUTCOME_FAILED] = METRIC_WEBHOOK_FAILED,
        [WEBHOOK_OUTCOME_TIMEOUT] = METRIC_WEBHOOK_TIMEOUT,
        [WEBHOOK_OUTCOME_REFUSED] = METRIC_WEBHOOK_REFUSED,
        [WEBHOOK_OUTCOME_DISABLED] = METRIC_WEBHOOK_DISABLED,
    };
    struct receiver *receiver = delivery->receiver;
    struct webhook_progress *progress = &receiver->webhook.progress;
    curl_multi_remove_handle(sender->multi, delivery->call.easy);
    enum webhook_outcome outcome = webhook_call_end(&delivery->call, code);
    metrics_count(counters[outcome]);
    receiver->in_flight--;
    receiver->changed = true;
    progress->last_ms = sender->now_ms;
    progress->last_status = delivery->call.status;
    snprintf(progress->last_answer, sizeof progress->last_answer, "%s", delivery->call.answer);
    if (outcome == WEBHOOK_OUTCOME_OK) {
        succeed(sender, delivery);
        return;
    }
    fail(sender, delivery);
    if (outcome == WEBHOOK_OUTCOME_DISABLED)
        disable(sender, receiver, WEBHOOK_REASON_GONE);
}

static void run_transfers(struct webhook_sender *sender)
{
    int running, left;
    curl_multi_perform(sender->multi, &running);
    for (CURLMsg *message; (message = curl_multi_info_read(sender->multi, &left));) {
        struct delivery *delivery = NULL;
        if (message->msg != CURLMSG_DONE)
            continue;
        CURLcode code = message->data.result; /* the message ends with the handle */
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&delivery);
        end_try(sender, delivery, code);
    }
}

/* ---- reading ---- */

/* Writes the event's text once for all that want it. */
static void add_event(struct receiver *const *takers, size_t count, struct event_writer *writer,
                      const struct ledger_event *event, uint64_t position)
{
    char text[EVENT_TEXT_MAX];
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        struct webhook_queue *queue = &takers[i]->queue;
        if (position < queue->next || !webhook_wants(&takers[i]->webhook.settings, event))
            continue;
        if (length == 0)
            length = (size_t)(event_text(text, writer, event, position) - text);
        char *copy = memory_must(strndup(text, length));
        webhook_queue_add(queue, position, copy, length);
    }
}

/* True when the batch has the receiver's next event, and all of it fits into its queue. */
static bool takes(const struct receiver *receiver, const struct ledger_event_batch *batch)
{
    const struct webhook_queue *queue = &receiver->queue;
    return receiver->webhook.state == WEBHOOK_ACTIVE && !receiver->gap &&
           queue->next >= batch->position && queue->next - batch->position < batch->events &&
           webhook_queue_room(queue) >= batch->events;
}

/* Gives a batch to the receiver that asks, and to all others that are as far as it is. */
static void visit(const struct ledger_event_batch *batch, void *context)
{
    struct webhook_sender *sender = context;
    struct receiver *takers[WEBHOOKS_MAX];
    size_t count = 0;
    struct ledger_event event = {.order_id = 0};
    struct event_writer writer;
    const char *at = batch->body;
    uint64_t position = batch->position, end = batch->position + batch->events;
    sender->asks->gap |= position > sender->asks->queue.next;
    for (size_t i = 0; i < sender->count; i++)
        if (takes(sender->receivers[i], batch))
            takers[count++] = sender->receivers[i];
    if (count == 0)
        return;
    event_writer_init(&writer, sender->base.service->config.pod, batch->written_ms);
    for (; position < end && ledger_event_next(batch, &at, &event); position++)
        add_event(takers, count, &writer, &event, position);
    if (position < end || at)
        faults_log_events(batch, position, "webhooks do not get all events of this batch");
    for (size_t i = 0; i < count; i++)
        takers[i]->queue.next = end;
}

/* Fills the receiver's queue, with events that the last look has found. False when they may come
 * from another feed than its bounds. */
static bool fill(struct webhook_sender *sender, struct receiver *receiver)
{
    const struct ledger_event_bounds *bounds = &sender->bounds;
    const struct webhook_queue *queue = &receiver->queue;
    struct ledger *ledger = sender->base.ledger;
    bool good = true;
    if (receiver->webhook.state != WEBHOOK_ACTIVE ||
        ledger_connection(ledger) != sender->connection)
        return true;
    receiver->gap |= queue->next < bounds->oldest;
    if (!receiver->gap && queue->next < bounds->next && webhook_queue_room(queue) >= ROOM_MIN) {
        uint64_t left = bounds->next - queue->next;
        sender->asks = receiver;
        ledger_events_read(ledger, queue->next, left < READ_EVENTS ? (uint32_t)left : READ_EVENTS,
                           visit, sender);
        good = ledger_connection(ledger) == sender->connection;
    }
    if (receiver->gap)
        disable(sender, receiver, WEBHOOK_REASON_EXPIRED);
    return good;
}

/* ---- changes by operators ---- */

static struct receiver *find(struct webhook_sender *sender, const char *name)
{
    for (size_t i = 0; i < sender->count; i++)
        if (strcmp(sender->receivers[i]->webhook.name, name) == 0)
            return sender->receivers[i];
    return NULL;
}

/* Drops receivers that are gone, were changed, or are to rest and have nothing under way. */
static void drop_unseen(struct webhook_sender *sender)
{
    for (size_t i = sender->count; i-- > 0;) {
        struct receiver *receiver = sender->receivers[i];
        bool rests = receiver->webhook.state != WEBHOOK_ACTIVE && receiver->in_flight == 0;
        if (rests)
            note(sender, receiver);
        if (!receiver->seen || rests)
            drop_receiver(sender, i);
    }
}

static void read_list(struct webhook_sender *sender)
{
    size_t count = 0;
    if (ledger_webhooks_list(sender->base.ledger, sender->list, &count) != LEDGER_OK)
        return;
    sender->listed_ms = sender->now_ms;
    for (size_t i = 0; i < sender->count; i++)
        sender->receivers[i]->seen = false;
    for (size_t i = 0; i < count; i++) {
        const struct ledger_webhook *webhook = &sender->list[i];
        struct receiver *receiver = find(sender, webhook->name);
        if (!receiver || receiver->webhook.generation != webhook->generation)
            continue;
        receiver->seen = true;
        receiver->webhook.state = webhook->state;
        strcpy(receiver->webhook.old_secret, webhook->old_secret);
    }
    drop_unseen(sender);
    for (size_t i = 0; i < count; i++)
        if (sender->list[i].state == WEBHOOK_ACTIVE && !find(sender, sender->list[i].name))
            open_receiver(sender, &sender->list[i]);
}

/* ---- the thread ---- */

/* Reads the ends of the feed, and makes durable what is before them. */
static bool read_bounds(struct webhook_sender *sender)
{
    struct ledger *ledger = sender->base.ledger;
    struct ledger_event_bounds bounds;
    if (ledger_events_bounds(ledger, &bounds) != LEDGER_OK)
        return false;
    uint64_t connection = ledger_connection(ledger);
    bool known = bounds.next == sender->bounds.next && connection == sender->connection;
    if (!known && ledger_confirm(ledger, connection) != LEDGER_OK)
        return false;
    sender->bounds = bounds;
    sender->connection = connection;
    sender->bounded_ms = sender->now_ms;
    return true;
}

/* Asks the ledger for changed webhooks and for the ends of the feed, each when it is due. False
 * when it does not answer. */
static bool look(struct webhook_sender *sender)
{
    if (sender->now_ms - sender->listed_ms >= LIST_MS || sender->now_ms < sender->listed_ms)
        read_list(sender);
    if (sender->count == 0 || llabs(sender->now_ms - sender->bounded_ms) < TURN_MS)
        return true;
    if (!read_bounds(sender))
        return false;
    for (size_t i = 0; i < sender->count; i++) { /* a ledger that has gone back in time */
        struct receiver *receiver = sender->receivers[i];
        receiver->gap |= receiver->queue.next > sender->bounds.next;
    }
    return true;
}

static void turn(struct webhook_sender *sender)
{
    sender->now_ms = synced_clock_ms(&sender->base.service->clock);
    run_transfers(sender);
    bool good = look(sender);
    for (size_t i = 0; i < sender->count; i++) {
        struct receiver *receiver = sender->receivers[i];
        if (good && !fill(sender, receiver)) {
            drop_all(sender);
            break;
        }
        begin_tries(sender, receiver);
        if (good && llabs(sender->now_ms - receiver->noted_ms) >= NOTE_MS)
            good = note(sender, receiver);
    }
    if (ledger_fault(sender->base.ledger)->count > 0)
        faults_log_ledger(sender->base.ledger, "webhooks_not_read",
                          "webhooks get no new events until this succeeds");
}

static void run(void *context)
{
    struct webhook_sender *sender = context;
    struct service *service = sender->base.service;
    while (!worker_stopping(&sender->base.thread)) {
        if (!atomic_load(&service->publishes) || !atomic_load(&service->prepared)) {
            note_and_drop_all(sender);
            worker_sleep_ns(&sender->base.thread, TURN_MS * CLOCK_NS_PER_MS);
            continue;
        }
        turn(sender);
        curl_multi_poll(sender->multi, NULL, 0, TURN_MS, NULL);
    }
    note_and_drop_all(sender);
}

static bool open_sender(void *self)
{
    struct webhook_sender *sender = self;
    sender->random = (unsigned)clock_now_ns();
    webhook_client_init(&sender->client, &sender->base.service->config);
    sender->multi = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? curl_multi_init() : NULL;
    if (!sender->multi)
        strcpy(sender->base.service->error, "libcurl cannot be started");
    return sender->multi;
}

static void close_sender(void *self)
{
    struct webhook_sender *sender = self;
    curl_multi_cleanup(sender->multi);
}

const struct worker_kind webhook_sender_kind = {
    .name = "webhook-sender",
    .size = sizeof(struct webhook_sender),
    .servers = WORKER_OF_LEDGER,
    .ledger_ms_max = 2000,
    .open = open_sender,
    .run = run,
    .close = close_sender,
};
