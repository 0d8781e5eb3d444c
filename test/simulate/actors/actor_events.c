/* A publisher of events, and a reader of their feed, with the steps of service/workers/publisher.c
 * and service/workers/feed.c. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sql/events/events.h"
#include "sql/orders/orders.h"
#include "test/simulate/daemon/daemon.h"
#include "test/simulate/promise.h"
#include "test/simulate/promise_events.h"
#include "test/simulate/promise_request.h"
#include "test/simulate/tally.h"
#include "test/simulate/world.h"

enum {
    PAUSE_US_MAX = 6000,
    IDLE_MS = 400,    /* without a commit */
    PAGE_MAX = 8,     /* events that are read at once */
    TIMEOUT_MS = 200, /* shorter than a daemon takes to end */
    TRIES_MAX = 250,
    CLOSING_MS = 20, /* between two looks at the end */
};

static struct {
    uint64_t cursor; /* position of the next event that the reader wants; its shop keeps it */
} feed;

void actor_events_begin(void)
{
    feed.cursor = 1;
}

static struct ledger *open_ledger(void)
{
    char error[128];
    return ledger_open("mysql://simulated", TIMEOUT_MS, error, sizeof error);
}

/* ---- the publisher ---- */

struct publisher {
    struct ledger *ledger;
    struct chance chance;
    struct ledger_event_batch batches[LEDGER_EVENTS_BATCHES_MAX];
    size_t count;
};

static void note_batch(const struct ledger_event_batch *batch, void *context)
{
    struct publisher *publisher = context;
    publisher->batches[publisher->count++] = *batch;
}

/* Publishes the first ones of those that wait, mostly all. */
static enum ledger_result publish(struct publisher *publisher)
{
    struct ledger_event_bounds bounds;
    struct ledger *ledger = publisher->ledger;
    publisher->count = 0;
    enum ledger_result result = ledger_events_bounds(ledger, &bounds);
    if (result == LEDGER_OK)
        result = ledger_events_pending(ledger, note_batch, publisher);
    if (result != LEDGER_OK || publisher->count == 0)
        return result;
    size_t count = publisher->count;
    if (chance_below(&publisher->chance, 4) == 0)
        count = 1 + chance_below(&publisher->chance, (uint32_t)count);
    const struct ledger_placing placing = {
        .next = bounds.next, .batches = publisher->batches, .batch_count = count};
    return ledger_events_place(ledger, &placing);
}

static struct publisher *open_publisher(uint64_t stream)
{
    struct publisher *publisher = calloc(1, sizeof *publisher);
    publisher->ledger = open_ledger();
    publisher->chance = chance_stream(stream + task_current()->process->incarnation);
    return publisher;
}

/* A commit wakes it. */
static void rest(struct chance *chance, bool idle)
{
    if (idle && !world.ending)
        task_await_signal(&world.events, loop_now_ns() + IDLE_MS * LOOP_MS);
    clock_sleep_ns((int64_t)chance_below(chance, PAUSE_US_MAX) * 1000);
}

/* Two of them work at a time, as if one had lost its lease. */
void actor_publisher(void *argument)
{
    struct publisher *publisher = open_publisher(700 + (uint64_t)(intptr_t)argument * 1000);
    while (!world.ending) {
        enum ledger_result result = publish(publisher);
        rest(&publisher->chance, result == LEDGER_OK && publisher->count == 0);
    }
    free(publisher);
}

/* ---- the reader ---- */

struct reader {
    struct ledger *ledger;
    struct chance chance;
    uint64_t cursor;
    struct told_event {
        uint64_t position;
        struct ledger_event event;
    } page[PAGE_MAX];
    size_t count;
};

static void note_events(const struct ledger_event_batch *batch, void *context)
{
    struct reader *reader = context;
    const char *at = batch->body;
    struct ledger_event event;
    memset(&event, 0, sizeof event);
    for (uint64_t i = 0; ledger_event_next(batch, &at, &event); i++)
        if (batch->position + i >= reader->cursor && reader->count < PAGE_MAX)
            reader->page[reader->count++] = (struct told_event){batch->position + i, event};
}

/* Asks any daemon; it may be one that has looked at the feed before the last one asked. */
static bool ask_daemon(struct reader *reader)
{
    struct process *process = process_at(chance_below(&reader->chance, (uint32_t)world.processes));
    uint64_t before = reader->cursor;
    struct asked *asked = promise_ask(process, daemon_plan.deadline_ms);
    asked->kind = ASKED_EVENTS;
    asked->after = before - 1;
    asked->limit = 1 + chance_below(&reader->chance, PAGE_MAX);
    asked->wait_s = chance_below(&reader->chance, 2);
    asked->deadline_ms += asked->wait_s * 1000;
    if (!front_ask(process, asked)) {
        promise_unasked(asked);
        return false;
    }
    front_await(asked);
    reader->cursor = asked->after + 1;
    return reader->cursor != before;
}

/* Does as a feed's worker. */
static bool read_ledger(struct reader *reader)
{
    struct ledger *ledger = reader->ledger;
    uint32_t limit = 1 + chance_below(&reader->chance, PAGE_MAX);
    reader->count = 0;
    if (ledger_events_read(ledger, reader->cursor, limit, note_events, reader) != LEDGER_OK ||
        reader->count == 0)
        return false;
    if (ledger_confirm(ledger, ledger_connection(ledger)) != LEDGER_OK)
        return false;
    for (size_t i = 0; i < reader->count; i++) {
        if (reader->page[i].position != reader->cursor)
            promise_break("a reader who wants event %llu is told event %llu",
                          (unsigned long long)reader->cursor,
                          (unsigned long long)reader->page[i].position);
        promise_event(reader->cursor++, &reader->page[i].event);
    }
    return true;
}

/* True when it was told of an event. */
static bool read_on(struct reader *reader)
{
    return scene.daemons && !world.ending ? ask_daemon(reader) : read_ledger(reader);
}

static struct reader *open_reader(uint64_t stream)
{
    struct reader *reader = calloc(1, sizeof *reader);
    reader->ledger = open_ledger();
    reader->cursor = feed.cursor;
    reader->chance = chance_stream(stream + task_current()->process->incarnation);
    return reader;
}

/* Sometimes it reads again what it has read. */
void actor_reader(void *argument)
{
    struct reader *reader = open_reader(750);
    (void)argument;
    while (!world.ending) {
        if (chance_below(&reader->chance, 16) == 0)
            reader->cursor -= chance_below(&reader->chance, (uint32_t)reader->cursor);
        bool told = read_on(reader);
        feed.cursor = reader->cursor;
        rest(&reader->chance, !told);
    }
    free(reader);
}

/* ---- the end ---- */

/* With an argument it publishes by itself, without one the daemons must. */
void actor_events_closing(void *argument)
{
    struct publisher *publisher = open_publisher(800);
    struct reader *reader = open_reader(850);
    int tries = 0;
    for (; tries < TRIES_MAX && !promise_events_told(!argument) && !promise_broken(); tries++) {
        if (argument)
            publish(publisher);
        while (read_on(reader))
            continue;
        if (!promise_events_told(!argument))
            clock_sleep_ns(CLOSING_MS * CLOCK_NS_PER_MS);
    }
    if (tries == TRIES_MAX)
        promise_break("what has happened is not published although no fault strikes any more");
    free(publisher);
    free(reader);
}
