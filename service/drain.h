/* How the daemon leaves: a signal asks for it, or an operator's call, which can be taken back. */
#ifndef SECKILL_SERVICE_DRAIN_H
#define SECKILL_SERVICE_DRAIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* The life of the daemon: each phase follows the one before, but for drain_undo. */
enum service_phase {
    SERVICE_SERVES,
    SERVICE_LAME_DUCK, /* /servingz says draining; all else goes on */
    SERVICE_CLOSES,    /* and answers close their connections */
    SERVICE_DRAINS,    /* and nothing new is accepted; what was accepted is answered */
};

struct drain {
    _Atomic int *phase;    /* the daemon's enum service_phase */
    pthread_mutex_t mutex; /* guards the rest, and each change of the phase up to SERVICE_CLOSES */
    pthread_cond_t sooner; /* the end has come nearer while drain_wait waits for it */
    bool signalled;        /* a signal has told the daemon to end: nothing takes that back */
    bool stops;            /* the daemon ends after its time as a lame duck */
    int64_t since_ns;      /* when it became a lame duck */
    int64_t half_ns;       /* of its time as one, see SERVICE_CLOSES */
};

/* `phase` is SERVICE_SERVES, and lives as long. */
void drain_open(struct drain *drain_out, _Atomic int *phase);

/* An operator's call: /servingz says draining from now on, and if `stops`, the daemon ends after
 * lame_duck_ms. Wakes main by SIGUSR1. False when it is ending already. Any thread. */
bool drain_ask(struct drain *drain, bool stops, unsigned lame_duck_ms);

/* Takes that back: the daemon serves on. False when it is too late. Any thread. */
bool drain_undo(struct drain *drain);

/* A signal tells the daemon to end: at the time that a call has set, but after lame_duck_ms from
 * now at the latest. Main, and another thread while main is in drain_wait. */
void drain_signal(struct drain *drain, unsigned lame_duck_ms);

/* What is under way, and how many ms a daemon that stops is a lame duck for. Any thread. */
struct drain_state {
    bool stops;
    int64_t left_ms;
};
struct drain_state drain_state(struct drain *drain);

/* When main must ask drain_closes next, by the monotonic clock; INT64_MAX: never. */
int64_t drain_due_ns(struct drain *drain);

/* Whether the first half of the time as a lame duck is over, so that the daemon ends; nothing takes
 * it back from then on. Main. */
bool drain_closes(struct drain *drain);

/* Serves on as a lame duck for what is left of that time. Main, once the daemon ends. */
void drain_wait(struct drain *drain);

#endif
