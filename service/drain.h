/* The daemon's way out: a signal starts it for good; an operator's call can be taken back. */
#ifndef SECKILL_SERVICE_DRAIN_H
#define SECKILL_SERVICE_DRAIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* The life of the daemon: each phase follows the previous one; only drain_undo goes back. */
enum service_phase {
    SERVICE_SERVES,
    SERVICE_LAME_DUCK, /* /servingz says draining; everything else continues */
    SERVICE_CLOSES,    /* also, answers close their connections */
    SERVICE_DRAINS,    /* also, no connection is accepted; accepted requests are answered */
};

struct drain {
    _Atomic int *phase;    /* the daemon's enum service_phase */
    pthread_mutex_t mutex; /* guards the rest, and each change of the phase up to SERVICE_CLOSES */
    pthread_cond_t sooner; /* wakes drain_wait when the end has come nearer */
    bool signalled;        /* a signal told the daemon to end, for good */
    bool stops;            /* the daemon ends after its time as a lame duck */
    int64_t since_ns;      /* when it became a lame duck */
    int64_t half_ns;       /* half of its time as one; SERVICE_CLOSES follows */
};

/* `phase` must be SERVICE_SERVES, and live as long. */
void drain_open(struct drain *drain_out, _Atomic int *phase);

/* An operator's call: /servingz says draining from now on, and if `stops`, the daemon ends after
 * lame_duck_ms. Wakes main by SIGUSR1. False when the daemon is ending already. Any thread. */
bool drain_ask(struct drain *drain, bool stops, unsigned lame_duck_ms);

/* Takes drain_ask back: the daemon continues to serve. False when it is too late. Any thread. */
bool drain_undo(struct drain *drain);

/* A signal tells the daemon to end: when a call has said so, but at the latest lame_duck_ms from
 * now. Main, and another thread while main is in drain_wait. */
void drain_signal(struct drain *drain, unsigned lame_duck_ms);

/* The drain's state: whether the daemon stops, and in how many ms. Any thread. */
struct drain_state {
    bool stops;
    int64_t left_ms;
};
struct drain_state drain_state(struct drain *drain);

/* When main must call drain_closes next (monotonic); INT64_MAX: never. */
int64_t drain_due_ns(struct drain *drain);

/* True once half of the time as a lame duck is over: the daemon then ends for good. Main. */
bool drain_closes(struct drain *drain);

/* Waits as a lame duck for the rest of that time. Main, once the daemon ends. */
void drain_wait(struct drain *drain);

#endif
