/* The feed's worker: answers GET /events, from memory for readers who follow the feed, else from
 * the ledger.
 *
 *   queue ─► requests that wait here ─► events behind their positions? ─► answers
 *                  ▲                              │ none, and time is left
 *                  └──────────────────────────────┘
 *
 * A request that waits for events occupies a place here and no thread. libmicrohttpd polls its
 * connection as it does each other one that waits for a worker.
 *
 * why_a_crowd: a client that has gone away cannot be told from one that only reads. Clients that
 * come and go would fill all places, so of a crowd those that have waited longest are answered
 * without an event. A reader comes back at once, so each is held for a while first.
 *
 * why_confirmed: InnoDB shows what was published before it is on the disk, and a server that dies
 * in between forgets it. So `next`, up to which readers are told, moves on only after a commit of
 * our own on the connection that has read so far (ledger_confirm). A position that was told once
 * never gets another event.
 *
 * why_a_mark: a restored ledger gives positions again, to other events. So a cursor has, behind its
 * position, the mark of the batch with that event, and a feed that has another batch there does not
 * know the cursor. */
#include "service/workers/workers.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "service/events/feed_page.h"
#include "service/log/log.h"
#include "service/request/faults.h"
#include "service/request/queue.h"
#include "service/request/request.h"
#include "sql/orders/orders.h"

enum {
    PERIOD_MS = 100,            /* between two looks for events while requests wait */
    IDLE_MS = 1000,             /* longest wait for a request; stopping the queue ends it at once */
    GAP_MAX = 20000,            /* events that nobody followed: the tail begins anew behind them */
    CROWD = 128,                /* see why_a_crowd */
    HELD_MS = 1000,             /* of a crowd, at least */
    PLACES_MAX = 257,           /* requests here: more than the queue has places for */
    PAGES_MAX = FEED_LIMIT_MAX, /* of one answer */
};

struct feed {
    struct service_worker base;
    struct queue *queue;
    struct request *requests[PLACES_MAX]; /* taken; they wait for events */
    size_t count;
    struct feed_tail tail;
    /* The feed's ends, as far as they may be told (0: not known), and the batches before them. */
    uint64_t oldest, next, oldest_mark, next_mark;
    uint64_t connection;               /* on which they were read */
    int64_t looked_ns;                 /* when the last look for them began */
    int64_t confirmed_ns;              /* when the last commit for an unknown cursor began */
    struct feed_page *read[PAGES_MAX]; /* by the present reading of the ledger */
    size_t read_count;
};

/* ---- reading ---- */

static void note_page(const struct ledger_event_batch *batch, void *context)
{
    struct feed *feed = context;
    bool damaged = false;
    if (feed->read_count == PAGES_MAX)
        return;
    feed->read[feed->read_count++] =
        feed_page_make(batch, feed->base.service->config.pod, &damaged);
    if (damaged)
        faults_log_events(batch, batch->position, "readers do not get all events of this batch");
}

/* Reads the pages from `position` on, as of now. */
static bool read_pages(struct feed *feed, uint64_t position, uint32_t events)
{
    feed->read_count = 0;
    return ledger_events_read(feed->base.ledger, position, events, note_page, feed) == LEDGER_OK;
}

static void free_pages(struct feed *feed)
{
    for (size_t i = 0; i < feed->read_count; i++)
        feed_page_free(&feed->read[i]);
    feed->read_count = 0;
}

/* Adds what is new to the tail. False when the ledger failed, or has a gap there. */
static bool follow(struct feed *feed, uint64_t from, uint64_t end)
{
    for (uint64_t before = 0; before < from && from < end;) {
        before = from;
        if (!read_pages(feed, from, (uint32_t)(end - from)) || feed->read_count == 0)
            return false;
        for (size_t i = 0; i < feed->read_count; i++) {
            from = feed->read[i]->position + feed->read[i]->events;
            feed_tail_add(&feed->tail, feed->read[i]);
        }
        feed->read_count = 0;
    }
    return from >= end;
}

/* Reads how far the feed goes, and its new pages. A feed that ends earlier than before, or there
 * with another batch, is another one: its ledger has gone back in time. On another connection that
 * may not show. */
static bool look(struct feed *feed)
{
    struct ledger_event_bounds bounds;
    struct ledger *ledger = feed->base.ledger;
    if (ledger_events_bounds(ledger, &bounds) != LEDGER_OK)
        return false;
    unsigned pod = feed->base.service->config.pod;
    uint64_t connection = ledger_connection(ledger), mark = feed_mark(bounds.last_ms, pod);
    feed->oldest = bounds.oldest;
    feed->oldest_mark = feed_mark(bounds.before_ms, pod);
    bool same = connection == feed->connection;
    if (same && bounds.next == feed->next && mark == feed->next_mark)
        return true;
    if (!same || bounds.next <= feed->next || bounds.next - feed->next > GAP_MAX || !feed->next)
        feed_tail_clear(&feed->tail);
    else if (!follow(feed, feed->next, bounds.next))
        return false;
    if (ledger_confirm(ledger, connection) != LEDGER_OK) /* why_confirmed */
        return false;
    feed->connection = connection;
    feed->next = bounds.next;
    feed->next_mark = mark;
    return true;
}

static void look_again(struct feed *feed)
{
    feed->looked_ns = clock_now_ns();
    if (look(feed))
        return;
    feed_tail_clear(&feed->tail);
    feed->next = 0;
    faults_log_ledger(feed->base.ledger, "feed_failed",
                      "readers of events wait, or are answered 503: unavailable");
}

/* ---- answers ---- */

/* Lists the pages with the events from `position` on: those of the tail, else of the ledger. */
static size_t find_pages(struct feed *feed, uint64_t position, uint32_t limit,
                         const struct feed_page *pages_out[PAGES_MAX])
{
    size_t count = 0;
    uint64_t end = position + limit < feed->next ? position + limit : feed->next;
    const struct feed_page *page = feed_tail_find(&feed->tail, position);
    for (uint64_t at = position; page && at < end && count < PAGES_MAX;
         page = feed_tail_find(&feed->tail, at)) {
        pages_out[count++] = page;
        at = page->position + page->events;
    }
    if (count > 0 || !read_pages(feed, position, (uint32_t)(end - position)))
        return count;
    for (; count < feed->read_count; count++)
        pages_out[count] = feed->read[count];
    return count;
}

static void answer_events(struct request *request, const struct feed_page *const *pages,
                          size_t count, uint64_t position, uint64_t end)
{
    enum { FRAME_MAX = 80 }; /* everything except the events */
    size_t bytes = FRAME_MAX;
    uint64_t from = position, mark = request->call.cursor.mark;
    for (size_t i = 0; i < count && from < end; i++) {
        uint32_t taken = 0;
        bytes += feed_page_bytes(pages[i], from, (uint32_t)(end - from), &taken);
        from += taken;
    }
    char *text = memory_must(malloc(bytes));
    char *at = stpcpy(text, "{\"events\":["), *first = at;
    uint64_t next = position;
    for (size_t i = 0; i < count && next < end; i++) {
        at = feed_page_put(at, pages[i], next, (uint32_t)(end - next));
        next = pages[i]->position + pages[i]->events;
        mark = pages[i]->mark;
    }
    if (at > first)
        at--; /* the last comma */
    at = decimal_put(stpcpy(at, "],\"next\":\""), from - 1);
    at = decimal_put(stpcpy(at, "."), mark);
    at = stpcpy(at, "\"}\n");
    assert((size_t)(at - text) <= bytes);
    answer_text(&request->answer, 200, "application/json", text, (size_t)(at - text));
}

/* Answers a request behind whose cursor there are events, or none can be. */
static void serve(struct feed *feed, struct request *request)
{
    const struct feed_page *pages[PAGES_MAX];
    uint64_t position = request->call.cursor.position + 1;
    uint64_t limit_end = position + request->call.limit;
    uint64_t end = limit_end < feed->next ? limit_end : feed->next;
    if (answers_bytes() > ANSWERS_SHOP_MAX) {
        answer_problem(&request->answer, PROBLEM_OVERLOADED);
        return;
    }
    size_t count = find_pages(feed, position, request->call.limit, pages);
    bool there = count > 0 && pages[0]->position <= position &&
                 position - pages[0]->position < pages[0]->events;
    if (there)
        answer_events(request, pages, count, position, end);
    else /* deleted since the last look, or the ledger failed */
        answer_problem(&request->answer, PROBLEM_LEDGER_UNAVAILABLE);
    free_pages(feed);
}

/* True when the cursor is not of this feed, or older than what it keeps. A mark without a time is
 * not known. */
static bool is_foreign(struct feed *feed, const struct feed_cursor *cursor)
{
    const struct feed_page *pages[PAGES_MAX];
    uint64_t mark = 0, next = cursor->position + 1;
    if (next < feed->oldest || next > feed->next)
        return true;
    if (next == feed->oldest || next == feed->next)
        mark = next == feed->oldest ? feed->oldest_mark : feed->next_mark;
    else if (find_pages(feed, cursor->position, 1, pages) > 0)
        mark = pages[0]->mark;
    free_pages(feed);
    return mark >= FEED_PODS && mark != cursor->mark;
}

static bool is_over(const struct feed *feed, const struct request *request, int64_t now_ns,
                    bool crowded)
{
    int64_t until_ns = request->arrived_ns + request->call.wait_s * CLOCK_NS_PER_S;
    crowded = crowded && now_ns - request->arrived_ns >= HELD_MS * CLOCK_NS_PER_MS;
    return crowded || now_ns >= until_ns ||
           atomic_load(&feed->base.service->phase) != SERVICE_SERVES || queue_stopped(feed->queue);
}

/* A server that was left for another one knows nothing of later events. */
static bool is_primary(struct feed *feed, int64_t asked_ns)
{
    if (!atomic_load(&feed->base.service->replicated) || feed->confirmed_ns > asked_ns)
        return true;
    feed->confirmed_ns = clock_now_ns();
    if (ledger_confirm(feed->base.ledger, feed->connection) != LEDGER_OK)
        feed->next = 0; /* others wait for the next look */
    return feed->next != 0;
}

/* True when the request is answered, or nobody waits for it any more.
 *
 * why_a_fresh_look: another daemon may have told a reader of events that were published since this
 * one looked. So a cursor counts as foreign only by a look that began later. */
static bool try_answer(struct feed *feed, struct request *request, int64_t now_ns, bool crowded)
{
    struct feed_cursor *cursor = &request->call.cursor;
    if (atomic_load(&request->state) != REQUEST_TAKEN)
        return true;
    bool over = is_over(feed, request, now_ns, crowded);
    if (feed->next == 0) {
        if (over)
            answer_problem(&request->answer, PROBLEM_LEDGER_UNAVAILABLE);
        return over;
    }
    if (cursor->position == FEED_FROM_OLDEST)
        *cursor = (struct feed_cursor){feed->oldest - 1, feed->oldest_mark};
    else if (cursor->position == FEED_FROM_END)
        *cursor = (struct feed_cursor){feed->next - 1, feed->next_mark};
    bool foreign = is_foreign(feed, cursor);
    if (foreign && feed->looked_ns <= request->arrived_ns)
        return false;
    if (foreign && !is_primary(feed, request->arrived_ns)) {
        answer_problem(&request->answer, PROBLEM_LEDGER_UNAVAILABLE);
    } else if (foreign) {
        answer_members(&request->answer, PROBLEM_CURSOR_EXPIRED, NULL, ",\"oldest\":\"%llu.%llu\"",
                       (unsigned long long)feed->oldest - 1, (unsigned long long)feed->oldest_mark);
    } else if (cursor->position + 1 < feed->next) {
        serve(feed, request);
    } else if (over) {
        answer_events(request, NULL, 0, cursor->position + 1, cursor->position + 1);
    } else {
        return false;
    }
    return true;
}

/* ---- the thread ---- */

static void give_back(struct feed *feed, struct request **requests, size_t count)
{
    for (size_t i = 0; i < count; i++)
        request_move(requests[i], REQUEST_TAKEN, REQUEST_DONE);
    queue_give_back(feed->queue, requests, count);
}

static void answer_all(struct feed *feed)
{
    struct request *done[PLACES_MAX];
    size_t kept = 0, answered = 0;
    int64_t now_ns = clock_now_ns();
    for (size_t i = 0; i < feed->count; i++)
        if (try_answer(feed, feed->requests[i], now_ns, feed->count - i > CROWD))
            done[answered++] = feed->requests[i];
        else
            feed->requests[kept++] = feed->requests[i];
    feed->count = kept;
    give_back(feed, done, answered);
}

static void run(void *context)
{
    struct feed *feed = context;
    feed->queue = feed->base.service->calls[CALL_EVENTS];
    while (!queue_stopped(feed->queue) || queue_depth(feed->queue) > 0) {
        int wait_ms = feed->count > 0 ? PERIOD_MS : IDLE_MS;
        feed->count += queue_take_marked(feed->queue, feed->requests + feed->count,
                                         PLACES_MAX - feed->count, wait_ms);
        if (feed->count == 0)
            continue;
        if (clock_now_ns() - feed->looked_ns >= PERIOD_MS * CLOCK_NS_PER_MS)
            look_again(feed);
        answer_all(feed);
    }
}

static void close_feed(void *self)
{
    struct feed *feed = self;
    feed_tail_clear(&feed->tail);
}

const struct worker_kind event_feed_kind = {
    .name = "event-feed",
    .size = sizeof(struct feed),
    .servers = WORKER_OF_LEDGER,
    .run = run,
    .close = close_feed,
};
