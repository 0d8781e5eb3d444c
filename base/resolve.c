/* Looks up the addresses of a server's name, within a time limit.
 *
 * why_a_thread: getaddrinfo blocks for as long as the resolver's own settings say, 30 s and more,
 * and getaddrinfo_a uses a thread as well, whose request cannot be given up. */
#include "base/resolve.h"

#include <assert.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/worker.h"

/* Shared by the caller and its helper thread; the last to leave frees it. */
struct lookup {
    pthread_mutex_t mutex;
    pthread_cond_t done;
    char host[256];
    bool finished, left; /* by the helper; by the caller */
    int failure;         /* of getaddrinfo */
    struct resolved resolved;
};

static _Atomic int running;

static int ask(const char *host, int flags, struct resolved *out)
{
    struct addrinfo *list = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    int failure = getaddrinfo(host, NULL, &hints, &list);
    out->count = 0;
    for (const struct addrinfo *i = failure ? NULL : list; i && out->count < RESOLVE_ADDRESSES_MAX;
         i = i->ai_next)
        if (getnameinfo(i->ai_addr, i->ai_addrlen, out->addresses[out->count], RESOLVE_ADDRESS_SIZE,
                        NULL, 0, NI_NUMERICHOST) == 0)
            out->count++;
    if (!failure)
        freeaddrinfo(list);
    return failure;
}

static void lookup_free(struct lookup *lookup)
{
    pthread_mutex_destroy(&lookup->mutex);
    pthread_cond_destroy(&lookup->done);
    free(lookup);
}

static void *help(void *context)
{
    struct lookup *lookup = context;
    struct resolved resolved;
    int failure = ask(lookup->host, AI_ADDRCONFIG, &resolved);
    atomic_fetch_sub(&running, 1);
    pthread_mutex_lock(&lookup->mutex);
    lookup->failure = failure;
    lookup->resolved = resolved;
    lookup->finished = true;
    bool left = lookup->left;
    pthread_cond_signal(&lookup->done);
    pthread_mutex_unlock(&lookup->mutex);
    if (left)
        lookup_free(lookup);
    return NULL;
}

static struct lookup *lookup_new(const char *host)
{
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup)
        return NULL;
    snprintf(lookup->host, sizeof lookup->host, "%s", host);
    pthread_mutex_init(&lookup->mutex, NULL);
    clock_condition_init(&lookup->done);
    return lookup;
}

static bool start(struct lookup *lookup)
{
    pthread_t thread;
    bool started = worker_thread(&thread, help, lookup);
    if (started)
        pthread_detach(thread);
    return started;
}

/* False when the time is over first; the helper then frees the lookup. */
static bool wait_for(struct lookup *lookup, int timeout_ms)
{
    int64_t until_ns = clock_now_ns() + timeout_ms * CLOCK_NS_PER_MS;
    bool in_time = true;
    pthread_mutex_lock(&lookup->mutex);
    while (!lookup->finished && in_time)
        in_time = clock_wait(&lookup->done, &lookup->mutex, until_ns);
    bool finished = lookup->finished;
    lookup->left = true;
    pthread_mutex_unlock(&lookup->mutex);
    return finished;
}

const char *resolve_host(const char *host, int timeout_ms, struct resolved *out)
{
    assert(timeout_ms > 0);
    if (ask(host, AI_NUMERICHOST, out) == 0 && out->count > 0)
        return NULL;
    out->count = 0;
    if (atomic_fetch_add(&running, 1) >= RESOLVE_HANGING_MAX) {
        atomic_fetch_sub(&running, 1);
        return "too many look-ups of names hang";
    }
    struct lookup *lookup = lookup_new(host);
    if (!lookup || !start(lookup)) {
        atomic_fetch_sub(&running, 1);
        if (lookup)
            lookup_free(lookup);
        return "no thread for the look-up of the name";
    }
    if (!wait_for(lookup, timeout_ms))
        return "the look-up of the name took too long";
    *out = lookup->resolved;
    int failure = lookup->failure;
    lookup_free(lookup);
    if (failure)
        return gai_strerror(failure);
    return out->count > 0 ? NULL : "the name has no address";
}
