/* What the service manager is told while the daemon starts and serves: when it is ready, what it is
 * doing, and that its main threads are alive. How it is told: supervise.h. */
#ifndef SECKILL_SERVICE_SUPERVISE_H
#define SECKILL_SERVICE_SUPERVISE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SUPERVISE_STATUS_SIZE = 96,
    SUPERVISE_READY_S = 30,  /* a prepared daemon counts as started then, whatever Redis does */
    SUPERVISE_HTTP_S = 5,    /* a turn of an HTTP thread takes less, or the thread is stuck */
    SUPERVISE_WORKER_S = 30, /* likewise for a batch, beside the time-outs of its servers */
};

/* Zero at first. */
struct supervise {
    bool told_ready;
    int64_t prepared_ns; /* when the daemon was first seen prepared */
    int64_t fed_ns;      /* when the watchdog was last fed */
    char status[SUPERVISE_STATUS_SIZE];
};

/* What is seen of the daemon; times are monotonic. */
struct supervise_view {
    bool prepared, lets_clients_in;
    bool redis_ok, ledger_ok;
    const char *redis, *ledger; /* words of their health */
    int64_t now_ns;
    int64_t http_turned_ns;   /* the HTTP thread whose last turn is longest ago began it */
    int64_t worker_turned_ns; /* likewise of the order workers */
    int64_t patience_ns;      /* how long a batch may wait for its servers */
};

/* Tells what has changed since the last call, and feeds the watchdog when that is due and the
 * threads are alive. Main thread. */
void supervise_tell(struct supervise *supervise, const struct supervise_view *view);

/* When supervise_tell is due again, in ns from now; INT64_MAX: never, as nobody listens. */
int64_t supervise_pause_ns(const struct supervise *supervise);

/* Says again that the daemon is ready, which ends a reload. */
void supervise_reloaded(const struct supervise *supervise);

/* Says what a start is doing that may take long, and asks for more time for it. */
void supervise_migrating(const char *file, int64_t seconds);

/* ---- notes to the manager ---- */

/* Reads NOTIFY_SOCKET, and WATCHDOG_USEC and WATCHDOG_PID. False when NOTIFY_SOCKET is set and
 * names no socket: neither a path nor, after an @, an abstract name. */
bool notify_setup(void);

/* Sends the lines, such as "READY=1\nSTATUS=serves", in one datagram. False when the manager did
 * not take it within a second; true without a manager. */
bool notify_send(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says that the configuration is read anew, until the next READY=1. */
void notify_reloading(void);

#endif
