/* Reports to the service manager: when the daemon is ready, what it does, and that its main threads
 * are alive. Main thread, unless noted otherwise. */
#ifndef SECKILL_SERVICE_SUPERVISE_H
#define SECKILL_SERVICE_SUPERVISE_H

#include <stdbool.h>
#include <stdint.h>

#include "service/workers/health.h"

/* The state of the daemon; times are monotonic. */
struct supervise_view {
    bool prepared, lets_clients_in;
    enum health_state redis, ledger;
    int64_t now_ns;
    int64_t http_turned_ns;   /* start of the oldest current turn among HTTP threads */
    int64_t worker_turned_ns; /* likewise among order workers */
    int64_t patience_ns;      /* longest time that a batch may wait for its servers */
};

/* Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. False when NOTIFY_SOCKET is neither a path
 * nor, after an @, an abstract name. */
bool notify_setup(void);

/* Sends the lines, such as "READY=1\nSTATUS=serves", in one datagram. False when the manager did
 * not take it within a second; true without a manager. Any thread. */
bool notify_send(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reports changes since the last call, and feeds the watchdog when that is due and the threads are
 * alive. */
void supervise_tell(const struct supervise_view *view);

/* Ns until supervise_tell is due again; INT64_MAX: never, there is no manager. */
int64_t supervise_pause_ns(void);

/* Reports after a reload, if the daemon is ready, that it is so again. */
void supervise_reloaded(void);

/* Reports a start's slow step, and asks for more time for it. Any thread. */
void supervise_migrating(const char *file, int64_t seconds);

#endif
