/* Renews holds in batches, with one thread for each kind of server, and notifies of lost holds from
 * another thread.
 *
 * A renewal is due when a third of the lease has passed (a little earlier or later, so that holds
 * taken together drift apart), or a twelfth after an error. The look for a loss is due at the local
 * deadline. Each renewal moves that deadline but not the look, so the thread looks about once a
 * lease and then finds a later deadline.
 *
 * why_threads_apart: a renewal may have to wait for a silent server and for its client library.
 * That must delay neither another loss's notice nor renewals at other kinds of servers. */
#include "lock/watchdog.h"

#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/worker.h"
#include "lock/driver.h"
#include "lock/process.h"

/* The clock of a sleep stands still while the host is suspended, but a lease's clock goes on. */
enum { SLEEP_MS_MAX = 1000 };

enum { LOSSES = SECLOCK_KIND_COUNT }; /* the watch that looks for losses */

/* A thread with the holds that it looks at, sorted by when they are due. */
struct watch {
    struct watchdog *watchdog;
    bool (*act)(struct watch *watch); /* false: nothing is due */
    pthread_cond_t changed;
    pthread_t thread;
    bool running;
    int64_t sleeps_until_ns; /* adding something due later need not wake the thread */
    struct due_heap heap;
};

struct watchdog {
    pthread_mutex_t mutex; /* guards all below, and the watchdog's part of the handles */
    /* One for renewals of each family of handles, and one for losses. Each starts its thread with
     * its first hold. */
    struct watch watches[LOSSES + 1];
    pthread_cond_t settled; /* a batch is done, or an on_lost has returned */
    bool stopping;
    const struct seclock_options *options; /* the core's, as the counters are */
    struct lock_counters *counters;        /* by kind */
};

static struct lock_counters *counters_of(const struct watchdog *watchdog,
                                         const struct seclock_handle *handle)
{
    return &watchdog->counters[handle->driver->kind];
}

/* The mutex is not held: the caller's function may ask the library anything. */
__attribute__((format(printf, 2, 3))) static void tell(const struct watchdog *watchdog,
                                                       const char *format, ...)
{
    char text[512];
    va_list arguments;
    if (!watchdog->options->log)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    watchdog->options->log(watchdog->options->log_context, text);
}

/* ---- when ---- */

/* Returns when 1/part of the lease has passed, +- 10 %, but not beyond the local deadline. */
static int64_t due_after(const struct seclock_handle *handle, int64_t from_ns, int part)
{
    assert(part > 0);
    int64_t span_ns = (int64_t)handle->lease_ms * 1000000 / part;
    int64_t due_ns = from_ns + span_ns * (int64_t)(900 + lock_random(200)) / 1000;
    int64_t deadline_ns = handle->deadline_ns;
    return due_ns < deadline_ns ? due_ns : deadline_ns;
}

static bool may_renew(const struct seclock_handle *handle, int64_t now_ns)
{
    return handle->renews &&
           (handle->hold_ms_max == 0 ||
            now_ns - handle->acquired_ns < (int64_t)handle->hold_ms_max * 1000000);
}

static struct watch *renewals_of(struct watchdog *watchdog, const struct seclock_handle *handle)
{
    return &watchdog->watches[handle->family];
}

/* Calls due_put, and wakes the watch's thread if it would sleep past `at_ns`. The mutex is held. */
static bool put(struct watch *watch, struct due *due, int64_t at_ns)
{
    assert(due->handle);
    bool in = due_put(&watch->heap, due, at_ns);
    if (in && at_ns < watch->sleeps_until_ns)
        pthread_cond_signal(&watch->changed);
    return in;
}

/* ---- renewing; the mutex is held, but not during requests ---- */

/* Stops the renewal of a lost hold. The notifier counts the losses that it reports itself. */
static void lose(struct watchdog *watchdog, struct seclock_handle *handle)
{
    assert(handle->watchdog == watchdog);
    handle->state = SECLOCK_STATE_LOST;
    due_remove(&renewals_of(watchdog, handle)->heap, &handle->renewal);
    if (!handle_reports_loss(handle))
        atomic_fetch_add(&counters_of(watchdog, handle)->lost, 1);
    else if (handle->loss.slot != 0) /* not notified yet */
        put(&watchdog->watches[LOSSES], &handle->loss, 0);
}

/* Sets the time of the next renewal, after one that was sent at `sent_ns`. */
static void put_next(struct watchdog *watchdog, struct seclock_handle *handle,
                     enum seclock_result result, int64_t sent_ns)
{
    int64_t now_ns = watchdog->options->now_ns();
    int64_t due_ns = due_after(handle, sent_ns, result == SECLOCK_OK ? 3 : 12);
    if (due_ns <= now_ns) /* a slow server must not cause a busy loop */
        due_ns = now_ns + 1000000;
    put(renewals_of(watchdog, handle), &handle->renewal, due_ns);
}

/* Applies the result of a renewal. */
static void apply(struct watchdog *watchdog, struct seclock_handle *handle,
                  enum seclock_result result, int64_t sent_ns)
{
    assert(handle->renewing);
    if (result == SECLOCK_OK)
        atomic_fetch_add(&counters_of(watchdog, handle)->renewals, 1);
    else if (result != SECLOCK_LOST)
        atomic_fetch_add(&counters_of(watchdog, handle)->renew_errors, 1);
    if (handle_extend(handle, result, sent_ns, watchdog->options->now_ns()))
        put_next(watchdog, handle, result, sent_ns);
    else
        lose(watchdog, handle);
}

static int by_name(const void *a, const void *b)
{
    const struct seclock_handle *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* Tells the log of the first renewal that fails, and of the first that is answered again. */
static void tell_renewals(const struct watchdog *watchdog, const struct seclock_handle *handle,
                          const enum seclock_result *results, size_t count)
{
    struct lock_counters *counters = counters_of(watchdog, handle);
    const char *kind = seclock_kind_name(handle->driver->kind);
    bool failing = false;
    for (size_t i = 0; i < count; i++)
        failing = failing || results[i] == SECLOCK_FAILED || results[i] == SECLOCK_UNKNOWN;
    if (atomic_exchange(&counters->failing, failing) == failing)
        return;
    if (failing)
        tell(watchdog, "renewals of %s locks fail: %s", kind, seclock_error());
    else
        tell(watchdog, "renewals of %s locks are answered again", kind);
}

/* Renews holds of one driver. `renewing` keeps watchdog_remove waiting, so that no handle is freed
 * while the mutex is not held. */
static void renew_batch(struct watchdog *watchdog, struct seclock_handle **handles, size_t count)
{
    enum seclock_result results[LOCK_RENEWALS_MAX];
    int64_t sent_ns = watchdog->options->now_ns();
    assert(count > 0 && count <= LOCK_RENEWALS_MAX);
    for (size_t i = 0; i < count; i++) {
        assert(!handles[i]->renewing && handles[i]->driver == handles[0]->driver);
        handles[i]->renewing = true;
    }
    pthread_mutex_unlock(&watchdog->mutex);
    qsort(handles, count, sizeof handles[0], by_name);
    handles[0]->driver->renew(handles[0]->self, handles, count, results);
    tell_renewals(watchdog, handles[0], results, count);
    pthread_mutex_lock(&watchdog->mutex);
    for (size_t i = 0; i < count; i++) {
        apply(watchdog, handles[i], results[i], sent_ns);
        handles[i]->renewing = false;
    }
    pthread_cond_broadcast(&watchdog->settled);
}

/* True when the due hold must be renewed now. Otherwise puts it to another time. */
static bool to_be_renewed(struct watchdog *watchdog, struct seclock_handle *handle, int64_t now_ns)
{
    assert(handle->renews && !handle->renewing);
    enum seclock_state state = seclock_state(handle);
    if (state == SECLOCK_STATE_RELEASED) /* the acquisition is still under way */
        put(renewals_of(watchdog, handle), &handle->renewal,
            now_ns + (int64_t)handle->lease_ms * 1000000 / 3);
    else if (state == SECLOCK_STATE_LOST)
        lose(watchdog, handle);
    else if (!may_renew(handle, now_ns))
        put(renewals_of(watchdog, handle), &handle->renewal, handle->deadline_ns);
    else
        return true;
    return false;
}

/* Collects due holds of one driver, up to one batch. */
static size_t collect(struct watch *renewals, struct seclock_handle **batch)
{
    struct watchdog *watchdog = renewals->watchdog;
    size_t count = 0;
    int64_t now_ns = watchdog->options->now_ns();
    struct due *due;
    while (count < LOCK_RENEWALS_MAX && (due = due_first(&renewals->heap)) != NULL) {
        struct seclock_handle *handle = due->handle;
        if (due->at_ns > now_ns || (count > 0 && handle->self != batch[0]->self) ||
            (count > 0 && handle->driver != batch[0]->driver))
            break;
        if (!to_be_renewed(watchdog, handle, now_ns))
            continue;
        batch[count++] = handle;
        put(renewals, due, INT64_MAX); /* until apply sets the time */
    }
    return count;
}

static bool renew_due(struct watch *renewals)
{
    struct seclock_handle *batch[LOCK_RENEWALS_MAX];
    size_t count = collect(renewals, batch);
    if (count > 0)
        renew_batch(renewals->watchdog, batch, count);
    return count > 0;
}

/* ---- notifying; the mutex is held, but not during lapse and on_lost ---- */

static void notify(struct watchdog *watchdog, struct seclock_handle *handle)
{
    assert(handle_reports_loss(handle) && !handle->notifying);
    due_remove(&watchdog->watches[LOSSES].heap, &handle->loss);
    due_remove(&renewals_of(watchdog, handle)->heap, &handle->renewal);
    atomic_fetch_add(&counters_of(watchdog, handle)->lost, 1);
    if (handle->leaving)
        return;
    handle->notifying = true;
    pthread_mutex_unlock(&watchdog->mutex);
    if (handle->logs)
        tell(watchdog, "the %s lock %s is lost: %s", seclock_kind_name(handle->driver->kind),
             handle->name, seclock_loss_name(seclock_loss(handle)));
    if (handle->lapses)
        handle->driver->lapse(handle->self, handle);
    if (handle->on_lost)
        handle->on_lost(handle, handle->context);
    pthread_mutex_lock(&watchdog->mutex);
    handle->notifying = false;
    pthread_cond_broadcast(&watchdog->settled);
}

/* Looks at a hold whose deadline was due by now, unless a renewal has moved it. */
static bool notify_due(struct watch *losses)
{
    struct watchdog *watchdog = losses->watchdog;
    const struct due *first = due_first(&losses->heap);
    int64_t now_ns = watchdog->options->now_ns();
    if (!first || first->at_ns > now_ns)
        return false;
    struct seclock_handle *handle = first->handle;
    assert(handle_reports_loss(handle));
    enum seclock_state state = seclock_state(handle);
    if (state == SECLOCK_STATE_LOST)
        notify(watchdog, handle);
    else if (state == SECLOCK_STATE_RELEASED) /* the acquisition is still under way */
        put(losses, &handle->loss, now_ns + (int64_t)handle->lease_ms * 1000000 / 3);
    else
        put(losses, &handle->loss, handle->deadline_ns);
    return true;
}

/* ---- the threads ---- */

/* Sleeps until a hold of the watch is due. Due times are of the client's clock, which tests move,
 * so the sleep takes the difference on the real clock. */
static void sleep_on(struct watch *watch)
{
    struct watchdog *watchdog = watch->watchdog;
    const struct due *first = due_first(&watch->heap);
    watch->sleeps_until_ns = first ? first->at_ns : INT64_MAX;
    if (watch->sleeps_until_ns == INT64_MAX) {
        pthread_cond_wait(&watch->changed, &watchdog->mutex);
    } else {
        int64_t left_ns = watch->sleeps_until_ns - watchdog->options->now_ns();
        if (left_ns > SLEEP_MS_MAX * CLOCK_NS_PER_MS)
            left_ns = SLEEP_MS_MAX * CLOCK_NS_PER_MS;
        clock_wait(&watch->changed, &watchdog->mutex, clock_now_ns() + (left_ns > 0 ? left_ns : 0));
    }
    watch->sleeps_until_ns = INT64_MIN; /* awake: needs no signal */
}

static void *watch_thread(void *argument)
{
    struct watch *watch = argument;
    struct watchdog *watchdog = watch->watchdog;
    prctl(PR_SET_NAME, watch == &watchdog->watches[LOSSES] ? "seclock-notify" : "seclock-renew");
    pthread_mutex_lock(&watchdog->mutex);
    while (!watchdog->stopping)
        if (!watch->act(watch))
            sleep_on(watch);
    pthread_mutex_unlock(&watchdog->mutex);
    return NULL;
}

/* Blocks all signals in the thread: the application's handlers run in its own threads.
 *
 * why_no_worker: a worker of base/ stops through a descriptor, which every child of fork would
 * inherit from a library that promises to leave none. These threads sleep on a condition. */
static bool start(struct watch *watch)
{
    assert(!watch->watchdog->stopping);
    if (!watch->running)
        watch->running = worker_thread(&watch->thread, watch_thread, watch);
    return watch->running;
}

/* ---- open and close ---- */

struct watchdog *watchdog_open(const struct seclock_options *options,
                               struct lock_counters *counters)
{
    assert(options->now_ns && counters);
    struct watchdog *watchdog = calloc(1, sizeof *watchdog);
    if (!watchdog)
        return NULL;
    pthread_mutex_init(&watchdog->mutex, NULL);
    pthread_cond_init(&watchdog->settled, NULL);
    for (int i = 0; i <= LOSSES; i++) {
        watchdog->watches[i].watchdog = watchdog;
        watchdog->watches[i].act = i == LOSSES ? notify_due : renew_due;
        clock_condition_init(&watchdog->watches[i].changed);
    }
    watchdog->options = options;
    watchdog->counters = counters;
    return watchdog;
}

void watchdog_stop(struct watchdog *watchdog)
{
    pthread_mutex_lock(&watchdog->mutex);
    watchdog->stopping = true;
    pthread_mutex_unlock(&watchdog->mutex);
    for (struct watch *watch = watchdog->watches; watch <= &watchdog->watches[LOSSES]; watch++) {
        pthread_cond_signal(&watch->changed);
        if (watch->running)
            pthread_join(watch->thread, NULL);
        watch->running = false;
    }
}

void watchdog_close(struct watchdog **place)
{
    struct watchdog *watchdog = *place;
    *place = NULL;
    if (!watchdog)
        return;
    watchdog_stop(watchdog);
    for (struct watch *watch = watchdog->watches; watch <= &watchdog->watches[LOSSES]; watch++) {
        assert(!due_first(&watch->heap));
        pthread_cond_destroy(&watch->changed);
        due_heap_free(&watch->heap);
    }
    pthread_cond_destroy(&watchdog->settled);
    pthread_mutex_destroy(&watchdog->mutex);
    free(watchdog);
}

/* ---- holds come and go ---- */

bool watchdog_add(struct watchdog *watchdog, struct seclock_handle *handle, int64_t sent_ns)
{
    struct watch *losses = &watchdog->watches[LOSSES], *renewals = renewals_of(watchdog, handle);
    bool added = true;
    pthread_mutex_lock(&watchdog->mutex);
    assert(handle->watchdog == watchdog && !handle->renewing);
    handle->renewal.handle = handle->loss.handle = handle;
    handle->deadline_ns = sent_ns + handle_valid_ns(handle->lease_ms);
    if (handle_reports_loss(handle))
        added = start(losses) && put(losses, &handle->loss, handle->deadline_ns);
    if (added && handle->renews)
        added = start(renewals) && put(renewals, &handle->renewal, due_after(handle, sent_ns, 3));
    pthread_mutex_unlock(&watchdog->mutex);
    return added;
}

/* why_taking_turns: a driver stores in the handle what it learns of a doubtful hold, so two
 * renewals at once would both store it. The owner sets the watchdog's flag, too: each waits for the
 * other, and a release for both. */
bool watchdog_renewal_begin(struct watchdog *watchdog, struct seclock_handle *handle, bool wait)
{
    assert(handle->watchdog == watchdog && !handle_inherited(handle));
    pthread_mutex_lock(&watchdog->mutex);
    while (handle->renewing && wait)
        pthread_cond_wait(&watchdog->settled, &watchdog->mutex);
    bool begun = !handle->renewing;
    if (begun && handle->renewal.slot != 0)
        put(renewals_of(watchdog, handle), &handle->renewal, INT64_MAX);
    handle->renewing = true;
    pthread_mutex_unlock(&watchdog->mutex);
    return begun;
}

void watchdog_renewal_end(struct watchdog *watchdog, struct seclock_handle *handle,
                          enum seclock_result result, int64_t sent_ns)
{
    pthread_mutex_lock(&watchdog->mutex);
    assert(handle->renewing);
    handle->renewing = false;
    if (handle->renewal.slot != 0)
        put_next(watchdog, handle, result, sent_ns);
    pthread_cond_broadcast(&watchdog->settled);
    pthread_mutex_unlock(&watchdog->mutex);
}

/* on_lost may release the hold that it is called for. The check of the thread keeps it from waiting
 * for itself. */
bool watchdog_remove(struct watchdog *watchdog, struct seclock_handle *handle, bool wait)
{
    assert(handle->watchdog == watchdog && !handle_inherited(handle));
    pthread_mutex_lock(&watchdog->mutex);
    const struct watch *losses = &watchdog->watches[LOSSES];
    bool from_on_lost = losses->running && pthread_equal(pthread_self(), losses->thread);
    handle->leaving = wait;
    while (wait && (handle->renewing || (handle->notifying && !from_on_lost)))
        pthread_cond_wait(&watchdog->settled, &watchdog->mutex);
    handle->leaving = false;
    bool free = !handle->renewing && (!handle->notifying || from_on_lost);
    if (free) {
        due_remove(&watchdog->watches[LOSSES].heap, &handle->loss);
        due_remove(&renewals_of(watchdog, handle)->heap, &handle->renewal);
    }
    pthread_mutex_unlock(&watchdog->mutex);
    return free;
}

void watchdog_poke(struct watchdog *watchdog, struct seclock_handle *handle)
{
    assert(!handle || handle->watchdog == watchdog);
    pthread_mutex_lock(&watchdog->mutex);
    if (handle && handle->loss.slot != 0)
        put(&watchdog->watches[LOSSES], &handle->loss, 0);
    if (handle && handle->renewal.slot != 0 && !handle->renewing)
        put(renewals_of(watchdog, handle), &handle->renewal, 0);
    for (int i = 0; i <= LOSSES; i++)
        pthread_cond_signal(&watchdog->watches[i].changed);
    pthread_mutex_unlock(&watchdog->mutex);
}

void watchdog_lost(struct seclock_handle *handle, enum seclock_loss loss)
{
    assert(handle->watchdog);
    int state = handle->state;
    if (loss != SECLOCK_LOSS_NONE && state != SECLOCK_STATE_RELEASED)
        handle_keep_loss(handle, loss);
    while (state == SECLOCK_STATE_HELD || state == SECLOCK_STATE_UNKNOWN)
        if (atomic_compare_exchange_weak(&handle->state, &state, SECLOCK_STATE_LOST))
            watchdog_poke(handle->watchdog, handle);
}

void watchdog_doubt(struct seclock_handle *handle)
{
    int state = SECLOCK_STATE_HELD;
    if (atomic_compare_exchange_strong(&handle->state, &state, SECLOCK_STATE_UNKNOWN))
        watchdog_poke(handle->watchdog, handle);
}

/* A hold may be in one of the heaps or in both. */
size_t watchdog_count(struct watchdog *watchdog)
{
    pthread_mutex_lock(&watchdog->mutex);
    size_t count = 0;
    for (int i = 0; i < SECLOCK_KIND_COUNT; i++)
        count += watchdog->watches[i].heap.count;
    for (size_t i = 0; i < watchdog->watches[LOSSES].heap.count; i++)
        count += watchdog->watches[LOSSES].heap.slots[i]->handle->renewal.slot == 0;
    pthread_mutex_unlock(&watchdog->mutex);
    return count;
}
