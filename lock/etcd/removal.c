/* Deletes keys of etcd in a thread of its own. */
#include "lock/etcd/removal.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/worker.h"

enum { RETRY_MS = 500 };

struct etcd_removals {
    struct etcd *etcd;
    struct etcd_leases *leases;
    int timeout_ms;
    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t changed;
    LIST_HEAD(, etcd_removal) list; /* that are not under way */
    bool running, stopping;
    pthread_t thread;
};

static void removal_free(struct etcd_leases *leases, struct etcd_removal *removal)
{
    etcd_lease_drop(leases, &removal->lease);
    free(removal);
}

/* Returns the removal that is due first; NULL: there is none. The mutex is held. */
static struct etcd_removal *find_first(const struct etcd_removals *removals)
{
    struct etcd_removal *first = NULL, *i;
    LIST_FOREACH (i, &removals->list, in_list)
        if (!first || i->due_ns < first->due_ns)
            first = i;
    return first;
}

/* True when the key is gone, or soon will be. */
static bool remove_key(struct etcd_removals *removals, struct etcd_removal *removal)
{
    if (etcd_lease_over(removals->leases, removal->lease))
        return true;
    enum seclock_result result =
        etcd_key_end(removals->etcd, removals->leases, &removal->key, removals->timeout_ms);
    return result == SECLOCK_OK || result == SECLOCK_LOST;
}

static void *removal_thread(void *argument)
{
    struct etcd_removals *removals = argument;
    prctl(PR_SET_NAME, "seclock-remove");
    pthread_mutex_lock(&removals->mutex);
    while (!removals->stopping) {
        struct etcd_removal *first = find_first(removals);
        if (!first)
            pthread_cond_wait(&removals->changed, &removals->mutex);
        else if (clock_now_ns() < first->due_ns)
            clock_wait(&removals->changed, &removals->mutex, first->due_ns);
        else {
            LIST_REMOVE(first, in_list);
            pthread_mutex_unlock(&removals->mutex);
            bool removed = remove_key(removals, first);
            if (removed)
                removal_free(removals->leases, first);
            pthread_mutex_lock(&removals->mutex);
            if (!removed) {
                first->due_ns = clock_now_ns() + RETRY_MS * CLOCK_NS_PER_MS;
                LIST_INSERT_HEAD(&removals->list, first, in_list);
            }
        }
    }
    pthread_mutex_unlock(&removals->mutex);
    return NULL;
}

void etcd_removal_begin(struct etcd_removals *removals, struct etcd_removal *removal,
                        int64_t wait_ns)
{
    assert(removal->lease);
    removal->due_ns = clock_now_ns() + (wait_ns > 0 ? wait_ns : 0);
    pthread_mutex_lock(&removals->mutex);
    assert(!removals->stopping);
    LIST_INSERT_HEAD(&removals->list, removal, in_list);
    if (!removals->running) /* without a thread it waits for the next removal to start one */
        removals->running = worker_thread(&removals->thread, removal_thread, removals);
    pthread_cond_signal(&removals->changed);
    pthread_mutex_unlock(&removals->mutex);
}

struct etcd_removals *etcd_removals_open(struct etcd *etcd, struct etcd_leases *leases,
                                         int timeout_ms)
{
    struct etcd_removals *removals = calloc(1, sizeof *removals);
    if (!removals)
        return NULL;
    removals->etcd = etcd;
    removals->leases = leases;
    removals->timeout_ms = timeout_ms;
    pthread_mutex_init(&removals->mutex, NULL);
    clock_condition_init(&removals->changed);
    return removals;
}

void etcd_removals_close(struct etcd_removals **removals)
{
    struct etcd_removals *old = *removals;
    struct etcd_removal *removal, *next;
    *removals = NULL;
    if (!old)
        return;
    pthread_mutex_lock(&old->mutex);
    old->stopping = true;
    pthread_cond_signal(&old->changed);
    pthread_mutex_unlock(&old->mutex);
    if (old->running)
        pthread_join(old->thread, NULL);
    for (removal = LIST_FIRST(&old->list); removal; removal = next) {
        next = LIST_NEXT(removal, in_list);
        removal_free(old->leases, removal);
    }
    pthread_cond_destroy(&old->changed);
    pthread_mutex_destroy(&old->mutex);
    free(old);
}
