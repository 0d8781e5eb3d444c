/* Batches of the feed as text, and the newest of them in memory, so that an event is written once,
 * however many readers follow the feed. */
#ifndef SECKILL_SERVICE_EVENTS_FEED_PAGE_H
#define SECKILL_SERVICE_EVENTS_FEED_PAGE_H

#include <stdbool.h>

#include "sql/events/events.h"

enum {
    FEED_TAIL_PAGES = 8192,     /* newest pages in memory */
    FEED_TAIL_BYTES = 16 << 20, /* of their texts */
    FEED_PODS = 16,             /* more than any pod's number */
};

/* Tells a batch from another one that a restored ledger, or another pod, has at its position. */
static inline uint64_t feed_mark(int64_t written_ms, unsigned pod)
{
    return (uint64_t)written_ms * FEED_PODS + pod;
}

/* The events of one batch. */
struct feed_page {
    uint64_t position; /* of the first one */
    uint64_t mark;
    uint32_t events;
    char *text;
    uint32_t ends[]; /* where each event ends in the text */
};

/* Writes a batch as a page. A line that makes no sense sets `damaged_out`: its event, and those
 * behind it, have no text. The caller frees the page. */
struct feed_page *feed_page_make(const struct ledger_event_batch *batch, unsigned pod,
                                 bool *damaged_out);

void feed_page_free(struct feed_page **page);

/* Bytes of the page's events from `position` on, at most `limit` of them, with a comma behind each;
 * `count_out` counts them, those without a text included. */
size_t feed_page_bytes(const struct feed_page *page, uint64_t position, uint32_t limit,
                       uint32_t *count_out);

/* Writes these events, and returns where they end. */
char *feed_page_put(char *at, const struct feed_page *page, uint64_t position, uint32_t limit);

/* The newest pages, without a gap between; all zeros at first. It belongs to one thread. */
struct feed_tail {
    struct feed_page *pages[FEED_TAIL_PAGES]; /* a ring */
    size_t first, count, bytes;
};

/* Adds a page. Drops the oldest ones for it beyond the bounds, and all when it does not follow the
 * last one. */
void feed_tail_add(struct feed_tail *tail, struct feed_page *page);

/* The page with the event at this position; NULL: it is older than these pages, or to come. */
const struct feed_page *feed_tail_find(const struct feed_tail *tail, uint64_t position);

/* Drops all pages. */
void feed_tail_clear(struct feed_tail *tail);

#endif
