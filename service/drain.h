/* How the daemon leaves: asked to by a signal, or by an operator's call, which can be taken back. */
#ifndef SECKILL_SERVICE_DRAIN_H
#define SECKILL_SERVICE_DRAIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct service;

struct drain {
    pthread_mutex_t mutex; /* guards the rest, and each change of service->phase */
    bool signalled;        /* a signal has told the daemon to end: nothing takes that back */
    bool stops;            /* the daemon ends after its time as a lame duck */
    int64_t since_ns;      /* when it became a lame duck */
    int64_t half_ns;       /* of its time as one, see SERVICE_CLOSES */
};

void drain_open(struct drain *drain_out);

/* An operator's call: /readyz says draining from now on, and if `stops`, the daemon ends after
 * lame_duck_ms. Wakes main. False when it is ending already. Any thread. */
bool drain_ask(struct service *service, bool stops, unsigned lame_duck_ms);

/* Takes that back: the daemon serves on. False when it is too late. Any thread. */
bool drain_undo(struct service *service);

/* A signal tells the daemon to end. Main. */
void drain_signal(struct service *service);

/* What is under way, and how many ms are left until a daemon that stops ends its time as a lame duck.
 * Any thread. */
struct drain_state {
    bool stops;
    int64_t left_ms;
};
struct drain_state drain_state(struct service *service);

/* When main must ask drain_closes next, by the monotonic clock; INT64_MAX: never. */
int64_t drain_due_ns(struct service *service);

/* Whether the first half of the time as a lame duck is over, so that the daemon ends; nothing takes
 * it back from then on. Main. */
bool drain_closes(struct service *service);

/* Serves on as a lame duck for what is left of that time, as lame_duck_ms says. Main. */
void drain_wait(struct service *service);

#endif
