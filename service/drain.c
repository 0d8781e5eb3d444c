/* How the daemon leaves: as a lame duck first, whom balancers send no new clients.
 *
 *   SERVES ─► LAME_DUCK ─► CLOSES ─► DRAINS
 *      ▲          │  a call may take back what a call has begun
 *      └──────────┘ */
#include "service/drain.h"

#include <assert.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/service.h"

void drain_open(struct drain *drain)
{
    *drain = (struct drain){.signalled = false};
    pthread_mutex_init(&drain->mutex, NULL);
}

/* With the mutex held. A daemon that was never ready has had no clients from a balancer. */
static void begin(struct service *service, bool stops, unsigned lame_duck_ms)
{
    struct drain *drain = &service->drain;
    bool prepared = atomic_load(&service->prepared);
    if (atomic_load(&service->phase) == SERVICE_SERVES)
        drain->since_ns = clock_now_ns();
    drain->half_ns = prepared ? (int64_t)lame_duck_ms * CLOCK_NS_PER_MS / 2 : 0;
    drain->stops = stops;
    atomic_store(&service->phase, SERVICE_LAME_DUCK);
}

bool drain_ask(struct service *service, bool stops, unsigned lame_duck_ms)
{
    struct drain *drain = &service->drain;
    pthread_mutex_lock(&drain->mutex);
    bool early = atomic_load(&service->phase) <= SERVICE_LAME_DUCK && !drain->signalled;
    if (early)
        begin(service, stops, lame_duck_ms);
    pthread_mutex_unlock(&drain->mutex);
    if (early)
        kill(getpid(), SIGUSR1); /* main waits for it */
    return early;
}

bool drain_undo(struct service *service)
{
    struct drain *drain = &service->drain;
    pthread_mutex_lock(&drain->mutex);
    bool early = atomic_load(&service->phase) <= SERVICE_LAME_DUCK && !drain->signalled;
    if (early) {
        drain->stops = false;
        atomic_store(&service->phase, SERVICE_SERVES);
    }
    pthread_mutex_unlock(&drain->mutex);
    return early;
}

void drain_signal(struct service *service)
{
    struct drain *drain = &service->drain;
    pthread_mutex_lock(&drain->mutex);
    drain->signalled = true;
    if (atomic_load(&service->phase) == SERVICE_SERVES || !drain->stops)
        begin(service, true, service->config.lame_duck_ms);
    pthread_mutex_unlock(&drain->mutex);
}

struct drain_state drain_state(struct service *service)
{
    struct drain *drain = &service->drain;
    pthread_mutex_lock(&drain->mutex);
    int64_t left_ns = drain->since_ns + 2 * drain->half_ns - clock_now_ns();
    struct drain_state state = {
        .stops = drain->stops,
        .left_ms = left_ns > 0 ? left_ns / CLOCK_NS_PER_MS : 0,
    };
    pthread_mutex_unlock(&drain->mutex);
    return state;
}

int64_t drain_due_ns(struct service *service)
{
    struct drain *drain = &service->drain;
    pthread_mutex_lock(&drain->mutex);
    int64_t due_ns = drain->stops ? drain->since_ns + drain->half_ns : INT64_MAX;
    pthread_mutex_unlock(&drain->mutex);
    return due_ns;
}

bool drain_closes(struct service *service)
{
    struct drain *drain = &service->drain;
    pthread_mutex_lock(&drain->mutex);
    bool closes = drain->stops && clock_now_ns() >= drain->since_ns + drain->half_ns;
    if (closes)
        atomic_store(&service->phase, SERVICE_CLOSES);
    pthread_mutex_unlock(&drain->mutex);
    return closes;
}

void drain_wait(struct service *service)
{
    struct drain *drain = &service->drain;
    assert(drain->stops); /* only main changes the struct from now on: it is too late for calls */
    int64_t left_ns;
    while ((left_ns = drain_due_ns(service) - clock_now_ns()) > 0)
        clock_sleep_ns(left_ns);
    bool closes = drain_closes(service);
    assert(closes);
    if (closes && drain->half_ns > 0)
        clock_sleep_ns(drain->half_ns);
}
