/* Batches of the feed as text, and the newest of them in memory. */
#include "service/events/feed_page.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "service/events/event_text.h"

/* ---- one page ---- */

static size_t begin_of(const struct feed_page *page, uint32_t event)
{
    return event == 0 ? 0 : page->ends[event - 1];
}

struct feed_page *feed_page_make(const struct ledger_event_batch *batch, unsigned pod,
                                 bool *damaged_out)
{
    struct event_writer writer;
    struct ledger_event event = {.order_id = 0};
    const char *at = batch->body;
    struct feed_page *page =
        memory_must(malloc(sizeof *page + batch->events * sizeof page->ends[0]));
    page->position = batch->position;
    page->mark = feed_mark(batch->written_ms, pod);
    page->events = batch->events;
    char *text = memory_must(malloc(batch->events * (size_t)EVENT_TEXT_MAX)), *end = text;
    event_writer_init(&writer, pod, batch->written_ms);
    *damaged_out = false;
    for (uint32_t i = 0; i < batch->events; i++) {
        *damaged_out |= !ledger_event_next(batch, &at, &event);
        if (!*damaged_out)
            end = event_text(end, &writer, &event, batch->position + i);
        page->ends[i] = (uint32_t)(end - text);
    }
    /* Gives the rest back: most events take a third of the longest. */
    page->text = memory_must(realloc(text, (size_t)(end - text) + 1));
    *damaged_out |= at != NULL; /* there are more lines than events */
    return page;
}

void feed_page_free(struct feed_page **page)
{
    if (*page)
        free((*page)->text);
    free(*page);
    *page = NULL;
}

static uint32_t end_of(const struct feed_page *page, uint32_t first, uint32_t limit)
{
    return page->events - first < limit ? page->events : first + limit;
}

size_t feed_page_bytes(const struct feed_page *page, uint64_t position, uint32_t limit,
                       uint32_t *count_out)
{
    assert(position >= page->position && position - page->position < page->events && limit > 0);
    uint32_t first = (uint32_t)(position - page->position), end = end_of(page, first, limit);
    *count_out = end - first;
    return page->ends[end - 1] - begin_of(page, first) + *count_out;
}

char *feed_page_put(char *at, const struct feed_page *page, uint64_t position, uint32_t limit)
{
    uint32_t first = (uint32_t)(position - page->position), end = end_of(page, first, limit);
    for (uint32_t i = first; i < end; i++) {
        size_t begin = begin_of(page, i), length = page->ends[i] - begin;
        if (length == 0)
            continue;
        at = (char *)memcpy(at, page->text + begin, length) + length;
        *at++ = ',';
    }
    return at;
}

/* ---- the newest pages ---- */

static struct feed_page *page_at(const struct feed_tail *tail, size_t i)
{
    return tail->pages[(tail->first + i) % FEED_TAIL_PAGES];
}

static size_t size_of(const struct feed_page *page)
{
    return page->ends[page->events - 1];
}

static void drop_first(struct feed_tail *tail)
{
    struct feed_page *page = page_at(tail, 0);
    tail->bytes -= size_of(page);
    tail->first = (tail->first + 1) % FEED_TAIL_PAGES;
    tail->count--;
    feed_page_free(&page);
}

void feed_tail_clear(struct feed_tail *tail)
{
    while (tail->count > 0)
        drop_first(tail);
}

void feed_tail_add(struct feed_tail *tail, struct feed_page *page)
{
    const struct feed_page *last = tail->count > 0 ? page_at(tail, tail->count - 1) : NULL;
    assert(page->events > 0);
    if (last && last->position + last->events != page->position)
        feed_tail_clear(tail);
    while (tail->count == FEED_TAIL_PAGES ||
           (tail->count > 0 && tail->bytes + size_of(page) > FEED_TAIL_BYTES))
        drop_first(tail);
    tail->pages[(tail->first + tail->count++) % FEED_TAIL_PAGES] = page;
    tail->bytes += size_of(page);
}

const struct feed_page *feed_tail_find(const struct feed_tail *tail, uint64_t position)
{
    size_t low = 0, high = tail->count;
    while (low < high) { /* the first page behind the position */
        size_t middle = (low + high) / 2;
        if (page_at(tail, middle)->position <= position)
            low = middle + 1;
        else
            high = middle;
    }
    const struct feed_page *page = low > 0 ? page_at(tail, low - 1) : NULL;
    return page && position - page->position < page->events ? page : NULL;
}
