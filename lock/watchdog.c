/* The watchdog: a heap of holds by when they are due next, and a thread that renews them in
 * batches.
 *
 * A hold is due when a third of its lease has passed (a little earlier or later, so that holds
 * taken together drift apart), a twelfth after an error, and at its local deadline, when it is
 * lost. Its entry is the handle itself, so nothing has to be allocated or looked up for one. */
#include "lock/watchdog.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH_MAX = 256 };

struct watchdog {
    pthread_mutex_t mutex; /* guards all below, and the watchdog's part of the handles */
    pthread_cond_t changed;
    pthread_cond_t settled; /* a batch is over */
    pthread_t thread;
    bool running, stopping;
    int64_t sleeps_until_ns; /* adding something due later need not wake the thread */
    int64_t (*now_ns)(void);
    struct lock_counters *counters;
    struct lock_handle **heap;
    size_t count, room;
};

/* ---- the heap; the mutex is held ---- */

static void heap_put(struct watchdog *watchdog, size_t place, struct lock_handle *handle)
{
    watchdog->heap[place] = handle;
    handle->place = place;
}

static void heap_up(struct watchdog *watchdog, size_t place)
{
    struct lock_handle *handle = watchdog->heap[place];
    while (place > 0 && watchdog->heap[(place - 1) / 2]->due_ns > handle->due_ns) {
        heap_put(watchdog, place, watchdog->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    heap_put(watchdog, place, handle);
}

static void heap_down(struct watchdog *watchdog, size_t place)
{
    struct lock_handle *handle = watchdog->heap[place];
    for (size_t child; (child = 2 * place + 1) < watchdog->count; place = child) {
        if (child + 1 < watchdog->count &&
            watchdog->heap[child + 1]->due_ns < watchdog->heap[child]->due_ns)
            child++;
        if (watchdog->heap[child]->due_ns >= handle->due_ns)
            break;
        heap_put(watchdog, place, watchdog->heap[child]);
    }
    heap_put(watchdog, place, handle);
}

static void heap_move(struct watchdog *watchdog, struct lock_handle *handle, int64_t due_ns)
{
    handle->due_ns = due_ns;
    heap_up(watchdog, handle->place);
    heap_down(watchdog, handle->place);
}

static bool heap_add(struct watchdog *watchdog, struct lock_handle *handle, int64_t due_ns)
{
    if (watchdog->count == watchdog->room) {
        size_t room = watchdog->room ? 2 * watchdog->room : 64;
        struct lock_handle **heap = realloc(watchdog->heap, room * sizeof *heap);
        if (!heap)
            return false;
        watchdog->heap = heap;
        watchdog->room = room;
    }
    handle->due_ns = due_ns;
    heap_put(watchdog, watchdog->count++, handle);
    heap_up(watchdog, handle->place);
    return true;
}

static void heap_remove(struct watchdog *watchdog, struct lock_handle *handle)
{
    size_t place = handle->place;
    struct lock_handle *last = watchdog->heap[--watchdog->count];
    handle->place = SIZE_MAX;
    if (last == handle)
        return;
    heap_put(watchdog, place, last);
    heap_up(watchdog, place);
    heap_down(watchdog, last->place);
}

/* ---- when ---- */

/* The part of the lease that passes before the next look: a third or a twelfth, 10 % more or less,
 * but not beyond the local deadline. */
static int64_t due_after(const struct lock_handle *handle, int64_t from_ns, int part)
{
    int64_t span_ns = (int64_t)handle->lease_ms * 1000000 / part;
    int64_t due_ns = from_ns + span_ns * (int64_t)(900 + lock_random(200)) / 1000;
    int64_t deadline_ns = handle->deadline_ns;
    return due_ns < deadline_ns ? due_ns : deadline_ns;
}

static bool may_renew(const struct lock_handle *handle, int64_t now_ns)
{
    return handle->renews &&
           (handle->hold_ms_max == 0 ||
            now_ns - handle->acquired_ns < (int64_t)handle->hold_ms_max * 1000000);
}

/* ---- the thread ---- */

/* Lets go of a lost hold; true when its on_lost is to be called. The mutex is held. */
static bool lose(struct watchdog *watchdog, struct lock_handle *handle)
{
    handle->state = LOCK_STATE_LOST;
    if (handle->place != SIZE_MAX)
        heap_remove(watchdog, handle);
    if (handle->told)
        return false;
    handle->told = true;
    atomic_fetch_add(&watchdog->counters->lost, 1);
    return handle->on_lost && !handle->leaving;
}

/* Calls on_lost of holds that are in flight, so that nobody frees them meanwhile; afterwards they
 * may be gone. The mutex is held, but not during the calls. */
static void tell(struct watchdog *watchdog, struct lock_handle *const *handles, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct lock_handle *handle = handles[i];
        if (!handle->leaving) {
            pthread_mutex_unlock(&watchdog->mutex);
            handle->on_lost(handle, handle->context);
            pthread_mutex_lock(&watchdog->mutex);
        }
        handle->in_flight = false;
        pthread_cond_broadcast(&watchdog->settled);
    }
}

/* Acts on what a renewal brought; true when the hold's on_lost is to be called. */
static bool apply(struct watchdog *watchdog, struct lock_handle *handle, enum lock_result result,
                  int64_t sent_ns)
{
    int64_t now_ns = watchdog->now_ns();
    if (result == LOCK_OK)
        atomic_fetch_add(&watchdog->counters->renewals, 1);
    else if (result != LOCK_LOST)
        atomic_fetch_add(&watchdog->counters->renew_errors, 1);
    if (!lock_handle_extend(handle, result, sent_ns, now_ns))
        return lose(watchdog, handle);
    int64_t due_ns = due_after(handle, sent_ns, result == LOCK_OK ? 3 : 12);
    if (due_ns <= now_ns) /* a slow server must not make a busy loop of it */
        due_ns = now_ns + 1000000;
    heap_move(watchdog, handle, due_ns);
    return false;
}

/* Renews holds of one driver. The mutex is held, but not while the server is asked: until then the
 * handles are in flight, and nobody frees them. */
static void renew_batch(struct watchdog *watchdog, struct lock_handle **handles, size_t count)
{
    enum lock_result results[BATCH_MAX];
    size_t lost = 0;
    int64_t sent_ns = watchdog->now_ns();
    for (size_t i = 0; i < count; i++)
        handles[i]->in_flight = true;
    pthread_mutex_unlock(&watchdog->mutex);
    handles[0]->driver->renew(handles[0]->self, handles, count, results);
    pthread_mutex_lock(&watchdog->mutex);
    for (size_t i = 0; i < count; i++) {
        struct lock_handle *handle = handles[i];
        if (apply(watchdog, handle, results[i], sent_ns))
            handles[lost++] = handle;
        else
            handle->in_flight = false;
    }
    pthread_cond_broadcast(&watchdog->settled);
    tell(watchdog, handles, lost);
}

/* Deals with one that is due: lost, nothing to be done yet, or (true) to be renewed. */
static bool look_at(struct watchdog *watchdog, struct lock_handle *handle, int64_t now_ns)
{
    if (handle->state == LOCK_STATE_RELEASED) { /* the acquisition is still under way */
        heap_move(watchdog, handle, now_ns + (int64_t)handle->lease_ms * 1000000 / 3);
        return false;
    }
    if (lock_state(handle) == LOCK_STATE_LOST) {
        handle->in_flight = lose(watchdog, handle);
        if (handle->in_flight)
            tell(watchdog, &handle, 1);
        return false;
    }
    if (!may_renew(handle, now_ns)) {
        heap_move(watchdog, handle, handle->deadline_ns);
        return false;
    }
    return true;
}

/* Takes what is due, as much as makes one batch of one driver. */
static size_t collect(struct watchdog *watchdog, struct lock_handle **batch)
{
    size_t count = 0;
    int64_t now_ns = watchdog->now_ns();
    while (count < BATCH_MAX && watchdog->count > 0) {
        struct lock_handle *handle = watchdog->heap[0];
        if (handle->due_ns > now_ns || (count > 0 && handle->self != batch[0]->self) ||
            (count > 0 && handle->driver != batch[0]->driver))
            break;
        if (!look_at(watchdog, handle, now_ns))
            continue;
        batch[count++] = handle;
        heap_move(watchdog, handle, INT64_MAX); /* till apply knows better */
    }
    return count;
}

static void sleep_until(struct watchdog *watchdog, int64_t due_ns)
{
    struct timespec until;
    watchdog->sleeps_until_ns = due_ns;
    if (due_ns == INT64_MAX) {
        pthread_cond_wait(&watchdog->changed, &watchdog->mutex);
        return;
    }
    int64_t left_ns = due_ns - watchdog->now_ns();
    clock_gettime(CLOCK_MONOTONIC, &until);
    left_ns = left_ns > 0 ? left_ns + until.tv_nsec : until.tv_nsec;
    until.tv_sec += left_ns / 1000000000;
    until.tv_nsec = left_ns % 1000000000;
    pthread_cond_timedwait(&watchdog->changed, &watchdog->mutex, &until);
}

static void *watch(void *argument)
{
    struct watchdog *watchdog = argument;
    struct lock_handle *batch[BATCH_MAX];
    pthread_mutex_lock(&watchdog->mutex);
    while (!watchdog->stopping) {
        size_t count = collect(watchdog, batch);
        if (count > 0)
            renew_batch(watchdog, batch, count);
        else if (watchdog->count == 0 || watchdog->heap[0]->due_ns > watchdog->now_ns())
            sleep_until(watchdog, watchdog->count > 0 ? watchdog->heap[0]->due_ns : INT64_MAX);
    }
    pthread_mutex_unlock(&watchdog->mutex);
    return NULL;
}

/* ---- for the core ---- */

struct watchdog *watchdog_open(int64_t (*now_ns)(void), struct lock_counters *counters)
{
    pthread_condattr_t monotonic;
    struct watchdog *watchdog = calloc(1, sizeof *watchdog);
    if (!watchdog)
        return NULL;
    pthread_mutex_init(&watchdog->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watchdog->changed, &monotonic);
    pthread_cond_init(&watchdog->settled, &monotonic);
    pthread_condattr_destroy(&monotonic);
    watchdog->now_ns = now_ns;
    watchdog->counters = counters;
    return watchdog;
}

void watchdog_close(struct watchdog **place)
{
    struct watchdog *watchdog = *place;
    *place = NULL;
    if (!watchdog)
        return;
    pthread_mutex_lock(&watchdog->mutex);
    assert(watchdog->count == 0);
    watchdog->stopping = true;
    pthread_cond_signal(&watchdog->changed);
    pthread_mutex_unlock(&watchdog->mutex);
    if (watchdog->running)
        pthread_join(watchdog->thread, NULL);
    pthread_cond_destroy(&watchdog->settled);
    pthread_cond_destroy(&watchdog->changed);
    pthread_mutex_destroy(&watchdog->mutex);
    free(watchdog->heap);
    free(watchdog);
}

/* The application's signal handlers are none of this thread's business. */
static bool start(struct watchdog *watchdog)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    watchdog->running = pthread_create(&watchdog->thread, NULL, watch, watchdog) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return watchdog->running;
}

static void wake_for(struct watchdog *watchdog, int64_t due_ns)
{
    if (due_ns < watchdog->sleeps_until_ns)
        pthread_cond_signal(&watchdog->changed);
}

bool watchdog_add(struct watchdog *watchdog, struct lock_handle *handle, int64_t sent_ns)
{
    bool added = true;
    pthread_mutex_lock(&watchdog->mutex);
    handle->deadline_ns = sent_ns + lock_valid_ns(handle->lease_ms);
    int64_t due_ns = handle->renews ? due_after(handle, sent_ns, 3) : handle->deadline_ns;
    if (!watchdog->running && !start(watchdog))
        added = false;
    else if (handle->place != SIZE_MAX)
        heap_move(watchdog, handle, due_ns);
    else
        added = heap_add(watchdog, handle, due_ns);
    if (added)
        wake_for(watchdog, due_ns);
    pthread_mutex_unlock(&watchdog->mutex);
    return added;
}

void watchdog_remove(struct watchdog *watchdog, struct lock_handle *handle)
{
    pthread_mutex_lock(&watchdog->mutex);
    bool inside = watchdog->running && pthread_equal(pthread_self(), watchdog->thread);
    handle->leaving = true;
    while (handle->in_flight && !inside)
        pthread_cond_wait(&watchdog->settled, &watchdog->mutex);
    handle->leaving = false;
    if (handle->place != SIZE_MAX)
        heap_remove(watchdog, handle);
    pthread_mutex_unlock(&watchdog->mutex);
}

void watchdog_poke(struct watchdog *watchdog, struct lock_handle *handle)
{
    pthread_mutex_lock(&watchdog->mutex);
    if (handle && handle->place != SIZE_MAX && !handle->in_flight)
        heap_move(watchdog, handle, 0);
    pthread_cond_signal(&watchdog->changed);
    pthread_mutex_unlock(&watchdog->mutex);
}

size_t watchdog_count(struct watchdog *watchdog)
{
    pthread_mutex_lock(&watchdog->mutex);
    size_t count = watchdog->count;
    pthread_mutex_unlock(&watchdog->mutex);
    return count;
}
