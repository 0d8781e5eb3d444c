/* The publisher: a thread, active in one daemon of many, that gives the batches of events their
 * positions in the feed, adds the events of sales, and deletes what is too old.
 *
 *   batches without a position, by their ids ─► positions from `next` on ┐
 *   sales that differ from what was published ─► events of sales         ┴─► one transaction
 *
 * why_no_fence: a publisher that outlives its lease works beside the next one for a moment. The
 * ledger refuses what either has prepared for positions that are given away by now, so no position
 * has two events. The lock's fence would add nothing, and after a Redis that came back empty with
 * an earlier clock it would refuse every publisher.
 *
 * why_sales_are_walked: whether a sale is sold out is the sum over its segments, which no
 * transaction of an order knows. So the publisher walks through all sales, a page in each turn, and
 * compares them with what it has published of them. What changes and changes back in between is no
 * event. */
#include "service/workers/workers.h"

#include <string.h>

#include "base/clock.h"
#include "service/log/log.h"
#include "service/metrics/metrics.h"
#include "service/request/faults.h"
#include "sql/events/events.h"
#include "sql/sales/sales.h"

enum {
    PERIOD_MS = 100,     /* between two looks for batches */
    WALK_MS = 1000,      /* from the beginning of a walk through the sales to the next, at least */
    WALK_PAGE = 64,      /* sales of one turn */
    PURGE_BATCHES = 100, /* deleted in one transaction */
    PURGE_PAUSE_MS = 5000, /* before the next look when nothing was too old */
};

_Static_assert((int)WALK_PAGE <= (int)LEDGER_STOCK_SKUS_MAX, "one query finds what was published");

struct publisher {
    struct service_worker base;
    int64_t walk_next_ns, purge_next_ns;
    char walked[IDENTIFIER_SIZE]; /* the last sale of the page before; "": no walk is under way */
    bool walk_ends;               /* with the retired sales */
    struct ledger_event_batch batches[LEDGER_EVENTS_BATCHES_MAX];
    size_t batch_count;
    /* Of this turn: what is to be noted of sales, and their events. */
    struct ledger_event_sale sales[WALK_PAGE];
    struct ledger_event sale_events[2 * WALK_PAGE];
    size_t sale_count, sale_event_count;
};

/* ---- events of sales ---- */

static void add_event(struct publisher *publisher, enum ledger_event_type type,
                      const struct ledger_sale *sale, const char *sku)
{
    struct ledger_event *event = &publisher->sale_events[publisher->sale_event_count++];
    *event = (struct ledger_event){.type = type};
    strcpy(event->sku, sku);
    if (!sale)
        return;
    event->round = sale->round;
    event->total = sale->total;
    event->left = sale->total - sale->sold;
    event->settings_version = sale->settings.version;
    event->paused = sale->settings.paused;
}

/* Compares a sale with what was published of it, which it then replaces. True when they differ. */
static bool compare(struct publisher *publisher, const struct ledger_sale *sale,
                    struct ledger_event_sale *told)
{
    bool sold_out = sale->sold >= sale->total;
    bool changed = told->round != sale->round || told->settings_version < sale->settings.version;
    bool turned = told->sold_out != sold_out;
    if (changed)
        add_event(publisher, LEDGER_EVENT_SALE_CHANGED, sale, sale->sku);
    if (turned)
        add_event(publisher, sold_out ? LEDGER_EVENT_SOLD_OUT : LEDGER_EVENT_AVAILABLE, sale,
                  sale->sku);
    told->round = sale->round;
    told->settings_version = sale->settings.version;
    told->sold_out = sold_out;
    return changed || turned;
}

/* Compares the next page of sales. */
static enum ledger_result walk_page(struct publisher *publisher)
{
    struct ledger_sale page[WALK_PAGE];
    struct ledger *ledger = publisher->base.ledger;
    size_t count = 0;
    enum ledger_result result =
        ledger_sale_list(ledger, publisher->walked, WALK_PAGE, page, &count);
    for (size_t i = 0; i < count; i++)
        strcpy(publisher->sales[i].sku, page[i].sku);
    if (result == LEDGER_OK && count > 0)
        result = ledger_event_sales(ledger, publisher->sales, count);
    for (size_t i = 0; i < count && result == LEDGER_OK; i++)
        if (compare(publisher, &page[i], &publisher->sales[i]))
            publisher->sales[publisher->sale_count++] = publisher->sales[i];
    strcpy(publisher->walked, count == WALK_PAGE ? page[count - 1].sku : "");
    faults_log_damage(ledger);
    return result == LEDGER_DAMAGED ? LEDGER_OK : result; /* its sales have no events */
}

/* Finds sales that were retired since they were published. */
static enum ledger_result find_retired(struct publisher *publisher)
{
    enum ledger_result result = ledger_event_sales_retired(
        publisher->base.ledger, WALK_PAGE, publisher->sales, &publisher->sale_count);
    for (size_t i = 0; i < publisher->sale_count; i++)
        add_event(publisher, LEDGER_EVENT_SALE_CHANGED, NULL, publisher->sales[i].sku);
    return result;
}

/* Goes on with the walk. Each one ends with the retired sales, in a turn of their own. */
static enum ledger_result walk(struct publisher *publisher)
{
    publisher->sale_count = publisher->sale_event_count = 0;
    if (publisher->walked[0] != '\0')
        return walk_page(publisher);
    if (clock_now_ns() < publisher->walk_next_ns)
        return LEDGER_OK;
    if (publisher->walk_ends) {
        publisher->walk_ends = false;
        publisher->walk_next_ns = clock_now_ns() + WALK_MS * CLOCK_NS_PER_MS;
        return find_retired(publisher);
    }
    publisher->walk_ends = true;
    return walk_page(publisher);
}

/* ---- batches ---- */

static void note_batch(const struct ledger_event_batch *batch, void *context)
{
    struct publisher *publisher = context;
    publisher->batches[publisher->batch_count++] = *batch;
}

static void count_published(const struct publisher *publisher,
                            const struct ledger_event_bounds *bounds)
{
    uint64_t events = publisher->sale_event_count;
    for (size_t i = 0; i < publisher->batch_count; i++) {
        int64_t ms = bounds->now_ms - publisher->batches[i].written_ms;
        events += publisher->batches[i].events;
        metrics_observe_times(HISTOGRAM_EVENT_SECONDS,
                              ms > 0 ? (uint64_t)(ms * CLOCK_NS_PER_MS) : 0,
                              publisher->batches[i].events);
    }
    metrics_add(METRIC_EVENTS_PUBLISHED, events);
}

/* Publishes what waits, if this daemon is elected. Everything is prepared outside the transaction,
 * whose guards refuse it when another publisher came first. */
static enum ledger_result publish(struct publisher *publisher)
{
    struct ledger_event_bounds bounds;
    struct ledger *ledger = publisher->base.ledger;
    publisher->batch_count = 0;
    enum ledger_result result = ledger_events_bounds(ledger, &bounds);
    if (result != LEDGER_OK)
        return result;
    int64_t waits_ms = bounds.waiting_ms == 0 ? 0 : bounds.now_ms - bounds.waiting_ms;
    atomic_store(&publisher->base.service->events_waiting_ms, waits_ms > 0 ? waits_ms : 0);
    if (!election_held(&publisher->base.election))
        return LEDGER_OK;
    result = ledger_events_pending(ledger, note_batch, publisher);
    if (result == LEDGER_OK)
        result = walk(publisher);
    if (result != LEDGER_OK || publisher->batch_count + publisher->sale_count == 0)
        return result;
    const struct ledger_placing placing = {
        .next = bounds.next,
        .batches = publisher->batches,
        .batch_count = publisher->batch_count,
        .sale_events = publisher->sale_events,
        .sale_event_count = publisher->sale_event_count,
        .sales = publisher->sales,
        .sale_count = publisher->sale_count,
    };
    result = ledger_events_place(ledger, &placing);
    if (result == LEDGER_OK)
        count_published(publisher, &bounds);
    return result;
}

/* A turn deletes little, so that publishing never waits long. */
static enum ledger_result purge(struct publisher *publisher)
{
    unsigned hours = publisher->base.service->config.events_retention_h;
    uint32_t deleted = 0;
    if (clock_now_ns() < publisher->purge_next_ns)
        return LEDGER_OK;
    enum ledger_result result =
        ledger_events_purge(publisher->base.ledger, hours, PURGE_BATCHES, &deleted);
    if (deleted < PURGE_BATCHES)
        publisher->purge_next_ns = clock_now_ns() + PURGE_PAUSE_MS * CLOCK_NS_PER_MS;
    return result;
}

/* ---- the thread ---- */

/* Publishes and deletes. False when this daemon should resign: the ledger failed, or another
 * publisher came first. */
static bool work(void *self)
{
    struct publisher *publisher = self;
    enum ledger_result result = LEDGER_OK;
    do
        result = publish(publisher);
    while (result == LEDGER_OK && publisher->batch_count == LEDGER_EVENTS_BATCHES_MAX &&
           election_held(&publisher->base.election) && !worker_stopping(&publisher->base.thread));
    if (result == LEDGER_OK)
        result = purge(publisher);
    if (result == LEDGER_NO)
        log_event(LOG_WARN, "publisher_refused", "effect=%s",
                  LOG_QUOTE("another daemon published first; who is elected next goes on"));
    else if (result != LEDGER_OK)
        faults_log_ledger(publisher->base.ledger, "publisher_failed",
                          "events are published late, unless another daemon does it");
    return result == LEDGER_OK;
}

static void tell(void *self, enum election_result result)
{
    struct publisher *publisher = self;
    struct service *service = publisher->base.service;
    atomic_store(&service->publishes, result == ELECTION_HELD);
    if (result == ELECTION_OTHER)
        atomic_store(&service->events_waiting_ms, 0); /* that daemon tells it */
    else if (result == ELECTION_FAILED)
        publish(publisher); /* only tells how long events wait */
}

static const struct election_task publishing = {
    .lock = "publisher",
    .period_ms = PERIOD_MS,
    .work = work,
    .tell = tell,
    .won = "publisher_elected",
    .lost = "publisher_lost_lock",
    .failed = "publisher_not_elected",
    .lost_effect = "another daemon publishes the events",
    .failed_effect = "events are published late, unless another daemon does it",
};

const struct worker_kind event_publisher_kind = {
    .name = "publisher",
    .size = sizeof(struct publisher),
    .servers = WORKER_OF_LEDGER,
    .task = &publishing,
};
