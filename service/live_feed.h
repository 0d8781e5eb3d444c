/* The events of the live page: one thread makes each, every open page gets the same one.
 *
 *   live thread                    HTTP threads, each with its pages
 *   live_feed_publish ─► event ─► live_feed_latest, as often as each page has room for the next
 *
 * A page that reads slowly skips events; it holds one at a time, so memory is bounded. */
#ifndef SECKILL_SERVICE_LIVE_FEED_H
#define SECKILL_SERVICE_LIVE_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LIVE_PAGES_MAX = 64,    /* open at a time, in the process */
    LIVE_PAGES_PART = 4,    /* and at most this part of the places for connections, or one */
    LIVE_WATCHERS_MAX = 65, /* HTTP threads */
};

struct live_feed;

/* One event as it is sent. */
struct live_event {
    _Atomic unsigned holds;
    uint64_t number; /* from 1 */
    size_t length;
    char text[];
};

struct live_feed *live_feed_open(void);

/* Frees it, after all threads that use it have ended and every event was released. NULL is fine. */
void live_feed_close(struct live_feed **feed);

/* A page opens; `places` is the number of connections that its listener may have. False when there
 * are as many pages as may be. Any thread. */
bool live_feed_enter(struct live_feed *feed, unsigned places);

/* A page that has entered closes. Any thread. */
void live_feed_leave(struct live_feed *feed);

/* How many pages are open. Any thread. */
unsigned live_feed_pages(const struct live_feed *feed);

/* From now on each new event writes to this eventfd, which stays open until live_feed_unwatch. Any
 * thread; a second time for the same descriptor changes nothing. */
void live_feed_watch(struct live_feed *feed, int wake_fd);
void live_feed_unwatch(struct live_feed *feed, int wake_fd);

/* Makes the event `data`, one line of JSON, the latest, and wakes all who watch. Any thread. */
void live_feed_publish(struct live_feed *feed, const char *data, size_t length);

/* A hold of the latest event, if its number is above `after`; else NULL. Any thread. */
struct live_event *live_feed_latest(struct live_feed *feed, uint64_t after);

/* Releases a hold and sets the pointer to NULL; NULL is fine. Any thread. */
void live_event_release(struct live_event **event);

#endif
