/* The ledger's time, as this daemon knows it.
 *
 * why_half: the ledger has read its clock at some moment of the round trip. Taking the middle errs
 * by half of the round trip at most. What was measured errs by more as the two clocks drift apart.
 * So the answer counts that may err least by now, unless a later one contradicts it. */
#include "service/synced_clock.h"

#include <stdlib.h>

#include "base/clock.h"
#include "sql/server/server.h"

enum {
    DRIFT_PART = 1000, /* clocks that NTP slews drift by less than this part of the time */
    CONTRADICTS_MS = 2,
};

static void take(struct synced_clock *clock, int64_t ahead_ns, int64_t error_ns, int64_t now_ns)
{
    atomic_store(&clock->ahead_ns, ahead_ns);
    clock->error_ns = error_ns;
    clock->measured_ns = now_ns;
}

void synced_clock_init(struct synced_clock *clock)
{
    *clock = (struct synced_clock){.mutex = PTHREAD_MUTEX_INITIALIZER};
    take(clock, clock_wall_ms() * CLOCK_NS_PER_MS - clock_boot_ns(), 0, 0);
}

int64_t synced_clock_note(struct synced_clock *clock, int64_t asked_ns, int64_t answered_ns,
                          int64_t ledger_us)
{
    int64_t half_ns = (answered_ns - asked_ns) / 2;
    int64_t ahead_ns = ledger_us * 1000 - (asked_ns + half_ns);
    pthread_mutex_lock(&clock->mutex);
    bool known = atomic_load(&clock->known);
    int64_t error_ns = clock->error_ns + (answered_ns - clock->measured_ns) / DRIFT_PART;
    int64_t change_ns = ahead_ns - atomic_load(&clock->ahead_ns);
    int64_t beyond_ns = llabs(change_ns) - half_ns - error_ns;
    bool stepped = known && beyond_ns > SYNCED_CLOCK_STEP_MS * CLOCK_NS_PER_MS;
    if (!known || beyond_ns > CONTRADICTS_MS * CLOCK_NS_PER_MS || half_ns <= error_ns)
        take(clock, ahead_ns, half_ns, answered_ns);
    if (stepped)
        atomic_store(&clock->steady_ns, answered_ns + SYNCED_CLOCK_STEADY_MS * CLOCK_NS_PER_MS);
    atomic_store(&clock->known, true);
    pthread_mutex_unlock(&clock->mutex);
    return stepped ? change_ns / CLOCK_NS_PER_MS : 0;
}

bool synced_clock_measure(struct synced_clock *clock, struct ledger *ledger, int64_t *step_ms_out)
{
    int64_t us = 0, asked_ns = clock_boot_ns();
    *step_ms_out = 0;
    if (ledger_clock_ask(ledger, &us) != LEDGER_OK)
        return false;
    *step_ms_out = synced_clock_note(clock, asked_ns, clock_boot_ns(), us);
    return true;
}

bool synced_clock_known(const struct synced_clock *clock)
{
    return atomic_load(&clock->known);
}

bool synced_clock_steady(const struct synced_clock *clock)
{
    return synced_clock_known(clock) && clock_boot_ns() >= atomic_load(&clock->steady_ns);
}

int64_t synced_clock_ms(const struct synced_clock *clock)
{
    return (clock_boot_ns() + atomic_load(&clock->ahead_ns)) / CLOCK_NS_PER_MS;
}
