/* The events of the live page: one thread makes each, every open page gets the same one. */
#include "service/live_feed.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct live_feed {
    _Atomic unsigned pages;
    pthread_mutex_t mutex; /* guards what follows */
    struct live_event *latest;
    uint64_t number;
    int watchers[LIVE_WATCHERS_MAX];
    size_t watcher_count;
};

struct live_feed *live_feed_open(void)
{
    struct live_feed *feed = calloc(1, sizeof *feed);
    if (!feed)
        abort();
    pthread_mutex_init(&feed->mutex, NULL);
    return feed;
}

void live_feed_close(struct live_feed **feed)
{
    if (*feed) {
        assert(atomic_load(&(*feed)->pages) == 0 && (*feed)->watcher_count == 0);
        live_event_release(&(*feed)->latest);
        pthread_mutex_destroy(&(*feed)->mutex);
    }
    free(*feed);
    *feed = NULL;
}

/* ---- pages ---- */

bool live_feed_enter(struct live_feed *feed, unsigned places)
{
    unsigned part = places > LIVE_PAGES_PART ? places / LIVE_PAGES_PART : 1;
    unsigned max = part < LIVE_PAGES_MAX ? part : LIVE_PAGES_MAX;
    if (atomic_fetch_add(&feed->pages, 1) < max)
        return true;
    live_feed_leave(feed);
    return false;
}

void live_feed_leave(struct live_feed *feed)
{
    unsigned before = atomic_fetch_sub(&feed->pages, 1);
    assert(before > 0);
}

unsigned live_feed_pages(const struct live_feed *feed)
{
    return atomic_load(&feed->pages);
}

/* ---- watchers ---- */

static size_t find_watcher(const struct live_feed *feed, int wake_fd)
{
    size_t i = 0;
    while (i < feed->watcher_count && feed->watchers[i] != wake_fd)
        i++;
    return i;
}

void live_feed_watch(struct live_feed *feed, int wake_fd)
{
    pthread_mutex_lock(&feed->mutex);
    if (find_watcher(feed, wake_fd) == feed->watcher_count) {
        assert(feed->watcher_count < LIVE_WATCHERS_MAX);
        feed->watchers[feed->watcher_count++] = wake_fd;
    }
    pthread_mutex_unlock(&feed->mutex);
}

void live_feed_unwatch(struct live_feed *feed, int wake_fd)
{
    pthread_mutex_lock(&feed->mutex);
    size_t place = find_watcher(feed, wake_fd);
    if (place < feed->watcher_count)
        feed->watchers[place] = feed->watchers[--feed->watcher_count];
    pthread_mutex_unlock(&feed->mutex);
}

/* An eventfd that is full is readable, too. */
static void wake(int wake_fd)
{
    uint64_t one = 1;
    ssize_t written = write(wake_fd, &one, sizeof one);
    assert(written == sizeof one || errno == EAGAIN);
}

/* ---- events ---- */

static struct live_event *event_new(uint64_t number, const char *data, size_t length)
{
    enum { FRAME_MAX = 96 }; /* the lines around the data */
    struct live_event *event = malloc(sizeof *event + length + FRAME_MAX);
    if (!event)
        abort();
    int head = snprintf(event->text, FRAME_MAX,
                        "retry: 1000\nevent: state\nid: %" PRIu64 "\ndata: ", number);
    assert(head > 0 && head + 2 <= FRAME_MAX);
    memcpy(event->text + head, data, length);
    memcpy(event->text + head + length, "\n\n", 2);
    event->length = (size_t)head + length + 2;
    event->number = number;
    atomic_init(&event->holds, 1);
    return event;
}

void live_feed_publish(struct live_feed *feed, const char *data, size_t length)
{
    pthread_mutex_lock(&feed->mutex);
    struct live_event *before = feed->latest;
    feed->latest = event_new(++feed->number, data, length);
    for (size_t i = 0; i < feed->watcher_count; i++)
        wake(feed->watchers[i]);
    pthread_mutex_unlock(&feed->mutex);
    live_event_release(&before);
}

struct live_event *live_feed_latest(struct live_feed *feed, uint64_t after)
{
    struct live_event *event = NULL;
    pthread_mutex_lock(&feed->mutex);
    if (feed->latest && feed->number > after) {
        event = feed->latest;
        atomic_fetch_add(&event->holds, 1);
    }
    pthread_mutex_unlock(&feed->mutex);
    return event;
}

void live_event_release(struct live_event **event)
{
    struct live_event *held = *event;
    *event = NULL;
    if (held && atomic_fetch_sub(&held->holds, 1) == 1)
        free(held);
}
