/* The daemon's way out: first as a lame duck, to which balancers send no new clients.
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

void drain_open(struct drain *drain, _Atomic int *phase)
{
    *drain = (struct drain){.phase = phase};
    pthread_mutex_init(&drain->mutex, NULL);
    clock_condition_init(&drain->sooner);
}

/* The caller holds the mutex. */
static void begin(struct drain *drain, bool stops, unsigned lame_duck_ms)
{
    if (atomic_load(drain->phase) == SERVICE_SERVES)
        drain->since_ns = clock_now_ns();
    drain->half_ns = (int64_t)lame_duck_ms * CLOCK_NS_PER_MS / 2;
    drain->stops = stops;
    atomic_store(drain->phase, SERVICE_LAME_DUCK);
}

bool drain_ask(struct drain *drain, bool stops, unsigned lame_duck_ms)
{
    pthread_mutex_lock(&drain->mutex);
    bool early = atomic_load(drain->phase) <= SERVICE_LAME_DUCK && !drain->signalled;
    if (early)
        begin(drain, stops, lame_duck_ms);
    pthread_mutex_unlock(&drain->mutex);
    if (early)
        kill(getpid(), SIGUSR1); /* wakes main */
    return early;
}

bool drain_undo(struct drain *drain)
{
    pthread_mutex_lock(&drain->mutex);
    bool early = atomic_load(drain->phase) <= SERVICE_LAME_DUCK && !drain->signalled;
    if (early) {
        drain->stops = false;
        atomic_store(drain->phase, SERVICE_SERVES);
    }
    pthread_mutex_unlock(&drain->mutex);
    return early;
}

/* A call may have given more time than the signal's sender will wait. */
void drain_signal(struct drain *drain, unsigned lame_duck_ms)
{
    pthread_mutex_lock(&drain->mutex);
    int64_t now_ns = clock_now_ns(), usual_ns = now_ns + lame_duck_ms * CLOCK_NS_PER_MS;
    drain->signalled = true;
    if (atomic_load(drain->phase) == SERVICE_SERVES || !drain->stops) {
        begin(drain, true, lame_duck_ms);
    } else if (drain->since_ns + 2 * drain->half_ns > usual_ns) {
        drain->since_ns = now_ns;
        drain->half_ns = (usual_ns - now_ns) / 2;
        pthread_cond_signal(&drain->sooner);
    }
    pthread_mutex_unlock(&drain->mutex);
}

struct drain_state drain_state(struct drain *drain)
{
    pthread_mutex_lock(&drain->mutex);
    int64_t left_ns = drain->since_ns + 2 * drain->half_ns - clock_now_ns();
    struct drain_state state = {
        .stops = drain->stops,
        .left_ms = left_ns > 0 ? left_ns / CLOCK_NS_PER_MS : 0,
    };
    pthread_mutex_unlock(&drain->mutex);
    return state;
}

int64_t drain_due_ns(struct drain *drain)
{
    pthread_mutex_lock(&drain->mutex);
    int64_t due_ns = drain->stops ? drain->since_ns + drain->half_ns : INT64_MAX;
    pthread_mutex_unlock(&drain->mutex);
    return due_ns;
}

bool drain_closes(struct drain *drain)
{
    pthread_mutex_lock(&drain->mutex);
    bool closes = drain->stops && clock_now_ns() >= drain->since_ns + drain->half_ns;
    if (closes)
        atomic_store(drain->phase, SERVICE_CLOSES);
    pthread_mutex_unlock(&drain->mutex);
    return closes;
}

void drain_wait(struct drain *drain)
{
    pthread_mutex_lock(&drain->mutex);
    assert(drain->stops); /* calls come too late now: the time can only get shorter */
    while (clock_wait(&drain->sooner, &drain->mutex, drain->since_ns + drain->half_ns))
        ;
    atomic_store(drain->phase, SERVICE_CLOSES);
    while (clock_wait(&drain->sooner, &drain->mutex, drain->since_ns + 2 * drain->half_ns))
        ;
    pthread_mutex_unlock(&drain->mutex);
}
