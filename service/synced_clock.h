/* The ledger's time, as this daemon knows it.
 *
 * Everything that the ledger stores or compares follows this clock: when an order was made, when it
 * expires, whether its sale is open, the time in its id. The daemon's own wall clock decides
 * nothing. The clock is the time since the machine's start, which nobody can set, plus its
 * difference to the ledger's clock, which the ledger's probe measures four times a second. */
#ifndef SECKILL_SERVICE_SYNCED_CLOCK_H
#define SECKILL_SERVICE_SYNCED_CLOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sql/ledger/ledger.h"

enum {
    SYNCED_CLOCK_STEP_MS = 1000,   /* a larger change between two answers is a step */
    SYNCED_CLOCK_STEADY_MS = 1000, /* after this time without a step the clock is steady */
};

/* The members are private to synced_clock.c. */
struct synced_clock {
    pthread_mutex_t mutex;     /* serialises measurements */
    _Atomic int64_t ahead_ns;  /* the ledger's time minus clock_boot_ns */
    int64_t error_ns;          /* largest error of ahead_ns, either way, when measured */
    int64_t measured_ns;       /* by clock_boot_ns */
    _Atomic int64_t steady_ns; /* by clock_boot_ns: steady from then on */
    _Atomic bool known;
};

/* Until it is measured, the clock is the daemon's own. */
void synced_clock_init(struct synced_clock *clock);

/* Takes the ledger's answer, `ledger_us` since 1970, to a statement sent at `asked_ns` and answered
 * at `answered_ns`, both of clock_boot_ns. Returns the step in ms that the ledger's clock has made
 * since the last answer, or 0. Any thread. */
int64_t synced_clock_note(struct synced_clock *clock, int64_t asked_ns, int64_t answered_ns,
                          int64_t ledger_us);

/* Asks the ledger, and notes its answer. False without an answer. */
bool synced_clock_measure(struct synced_clock *clock, struct ledger *ledger, int64_t *step_ms_out);

/* known: the ledger has answered at least once; steady: also, its clock has not stepped recently.
 * Any thread. */
bool synced_clock_known(const struct synced_clock *clock);
bool synced_clock_steady(const struct synced_clock *clock);

/* The ledger's time, in ms since 1970. Any thread, without waiting. */
int64_t synced_clock_ms(const struct synced_clock *clock);

#endif
