/* What the service manager is told while the daemon starts, serves and ends: when it is ready, what
 * it is doing, and that its main threads are alive. Main thread, unless said otherwise. */
#ifndef SECKILL_SERVICE_SUPERVISE_H
#define SECKILL_SERVICE_SUPERVISE_H

#include <stdbool.h>
#include <stdint.h>

#include "service/workers/health.h"

/* What is seen of the daemon; times are monotonic. */
struct supervise_view {
    bool prepared, lets_clients_in;
    enum health_state redis, ledger;
    int64_t now_ns;
    int64_t http_turned_ns;   /* the HTTP thread whose last turn is longest ago began it */
    int64_t worker_turned_ns; /* likewise of the order workers */
    int64_t patience_ns;      /* how long a batch may wait for its servers */
};

/* Reads NOTIFY_SOCKET, and WATCHDOG_USEC and WATCHDOG_PID. False when NOTIFY_SOCKET is set and
 * names no socket: neither a path nor, after an @, an abstract name. */
bool notify_setup(void);

/* Sends the lines, such as "READY=1\nSTATUS=serves", in one datagram. False when the manager did
 * not take it within a second; true without a manager. Any thread. */
bool notify_send(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Tells what has changed since the last call, and feeds the watchdog when that is due and the
 * threads are alive. */
void supervise_tell(const struct supervise_view *view);

/* When supervise_tell is due again, in ns from now; INT64_MAX: never, as nobody listens. */
int64_t supervise_pause_ns(void);

/* Say that the configuration is read anew, and, if the daemon is ready, that it is ready again. */
void supervise_reloading(void);
void supervise_reloaded(void);

/* Says what a start is doing that may take long, and asks for more time for it. Any thread. */
void supervise_migrating(const char *file, int64_t seconds);

#endif
