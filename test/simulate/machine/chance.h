/* All chance of a schedule, from its seed alone.
 *
 * why_streams: what each actor plans, how long each message takes, and which faults strike are
 * streams of their own. So a schedule with one fault less is nearly the same schedule, which lets a
 * failing one shrink. */
#ifndef SIMULATE_CHANCE_H
#define SIMULATE_CHANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every fault: its name in stories, and how many of 1000 chances strike at the highest rate. */
#define FAULTS(X)                                                                                  \
    X(REDIS_REQUEST_LOST, "a request to Redis is lost", 40)                                        \
    X(REDIS_ANSWER_LOST, "an answer of Redis is lost", 40)                                         \
    X(REDIS_CUT, "a pipeline to Redis is cut after some of its calls", 30)                         \
    X(REDIS_LATE, "a request reaches Redis after the client gave up", 20)                          \
    X(REDIS_SPLIT, "other requests come between the calls of a pipeline", 60)                      \
    X(REDIS_EMPTY, "Redis loses everything", 15)                                                   \
    X(REDIS_REWIND, "Redis loses its last writes", 30)                                             \
    X(REDIS_RESTART, "Redis restarts", 15)                                                         \
    X(REDIS_EVICT, "Redis evicts a key", 20)                                                       \
    X(REDIS_FORGETS_SCRIPTS, "Redis drops its scripts", 10)                                        \
    X(REDIS_REFUSES, "Redis refuses a call", 15)                                                   \
    X(REDIS_CLOCK, "the clock of Redis steps", 15)                                                 \
    X(LEDGER_REQUEST_LOST, "a statement to the ledger is lost", 15)                                \
    X(LEDGER_ANSWER_LOST, "an answer of the ledger is lost", 15)                                   \
    X(LEDGER_SLOW, "the ledger answers too late", 8)                                               \
    X(COMMIT_LOST, "a commit is lost before the ledger", 40)                                       \
    X(COMMIT_ANSWER_LOST, "the answer to a commit is lost", 60)                                    \
    X(COMMIT_LATE, "a commit ends after its client gave up", 40)                                   \
    X(LEDGER_CRASH, "the ledger's server dies", 20)                                                \
    X(LEDGER_CLOCK, "the clock of the ledger steps", 10)                                           \
    X(ROW_HELD, "a session of others holds a row of the ledger", 20)                               \
    X(LEDGER_READ_ONLY, "the ledger refuses writes for a while", 6)                                \
    X(GUESS_WRONG, "a round seems to begin behind its orders", 300)                                \
    X(CRASH, "a process dies", 12)                                                                 \
    X(PAUSE, "a process sleeps beyond its leases", 15)                                             \
    X(PROCESS_CLOCK, "the clock of a process steps", 8)                                            \
    X(MESSAGE_LATE, "a message of a change comes late", 60)                                        \
    X(RENEWAL_LOST, "a lease is not renewed", 100)                                                 \
    X(GUARD_LOST, "a request for a guard lock is lost", 20)                                        \
    X(GUARD_ANSWER_LOST, "an answer about a guard lock is lost", 20)                               \
    X(GUARD_EMPTY, "the server of guard locks forgets them", 30)                                   \
    X(SUBSCRIPTION_CUT, "a subscription ends, and its client learns of it later", 150)

#define FAULT_ENUM(name, text, rate) FAULT_##name,
enum fault_kind { FAULTS(FAULT_ENUM) FAULT_COUNT };
#undef FAULT_ENUM

enum { FAULTS_MAX = 24 /* that strike in one schedule */, MASK_MAX = 256 };

/* The faults and steps, by number, that a shrunk schedule leaves out. */
struct mask {
    bool calm;    /* leaves out all faults */
    bool daemons; /* whole daemons sell in every schedule */
    size_t fault_count, step_count;
    uint32_t faults[MASK_MAX], steps[MASK_MAX];
};

/* One stream of random numbers. */
struct chance {
    uint64_t state;
};

/* Begins a schedule: chooses which kinds of faults it has, and how often they strike. */
void chance_begin(uint64_t seed, const struct mask *mask);

/* The stream that a name has in this schedule. */
struct chance chance_stream(uint64_t name);

/* A uniform number below `bound` > 0. */
uint32_t chance_below(struct chance *chance, uint32_t bound);

/* The same from the stream of delays, and of what faults do. */
uint32_t chance_delay(uint32_t bound);
uint32_t chance_effect(uint32_t bound);

/* True when this fault strikes now. Never after chance_calm. */
bool chance_strikes(enum fault_kind fault);

/* False for a step of an actor that the mask leaves out. Each call is the next step. */
bool chance_step(void);

/* Switches faults on or off for now; chance_calm ends them for the schedule. */
void chance_arm(bool armed);
void chance_calm(void);

/* The numbers of the faults that have struck, the number of steps, and a fault's name. */
size_t chance_struck(const uint32_t **numbers_out);
bool chance_struck_kind(enum fault_kind fault);
uint32_t chance_steps(void);
const char *chance_fault_name(enum fault_kind fault);

/* How many faults have struck in all schedules of all jobs, and of how many kinds; see tally.h. */
uint64_t chance_faults_tallied(size_t *kinds_out);

#endif
