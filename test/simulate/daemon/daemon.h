/* A daemon in a simulated process: the real service with its real workers, and a stand-in for its
 * HTTP thread. */
#ifndef SIMULATE_DAEMON_H
#define SIMULATE_DAEMON_H

#include <stdbool.h>
#include <stdint.h>

#include "service/service.h"

struct asked;
struct process;
struct stock_order;

/* What all daemons of a schedule are configured with. */
struct daemon_plan {
    unsigned deadline_ms, order_workers, max_batch, queue_max, lame_duck_ms, drain_ms;
    unsigned rate_per_min;                  /* of a user; 0: no limit */
    bool stops;                             /* in mid-load, each some time after its start */
    void (*ended)(struct process *process); /* called when a daemon has come to its end */
};

extern struct daemon_plan daemon_plan;

/* Begins a schedule: there is no daemon. */
void daemon_begin(void);

/* Starts the daemon of the present incarnation of a process, as main does, or without its stop in
 * mid-load. */
void daemon_start(struct process *process, bool stops);

/* Tells every daemon to end, as a signal does. */
void daemon_stop_all(void);

/* The requests that are in flight in all daemons, whether their clients wait or not. */
size_t daemon_requests(void);

/* Lifts the limits of rates at every daemon. */
void daemon_end_rates(void);

/* The service of a process whose daemon takes requests; NULL: it has none now. */
struct service *daemon_service(const struct process *process);

/* ---- the HTTP thread ---- */

struct front;

/* Starts the thread that stands for the HTTP threads; it ends when it has drained. */
struct front *front_start(struct service *service);

/* Waits until it has drained, which it does once the service's phase says so. */
void front_drain(struct front *front);

/* Its requests in flight. */
size_t front_requests(const struct front *front);

/* Checks that every request has come back. No worker lives any more. */
void front_close(struct front *front);

/* Who asked for an order that a worker has. */
struct asked *front_asked(const struct stock_order *order);

/* Sends a request to the daemon of a process; false when that takes none. Its fields are those of
 * the request; see promise_ask. */
bool front_ask(struct process *process, struct asked *asked);

/* Waits until it is answered, or the daemon that had it is no more. */
void front_await(const struct asked *asked);

#endif
