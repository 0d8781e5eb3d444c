/* What the daemon tells the service manager that started it, by the protocol of sd_notify(3).
 *
 * The manager names a datagram socket in NOTIFY_SOCKET; without that variable every call here does
 * nothing. Main's thread alone calls, and notify_setup first. */
#ifndef SECKILL_SERVICE_NOTIFY_H
#define SECKILL_SERVICE_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

/* Reads NOTIFY_SOCKET, and WATCHDOG_USEC and WATCHDOG_PID. False when NOTIFY_SOCKET is set and
 * names no socket: neither a path nor, after an @, an abstract name. */
bool notify_setup(void);

/* Whether a manager listens. */
bool notify_wanted(void);

/* How often WATCHDOG=1 is due in ns, half of what the manager allows; 0 where it does not watch. */
int64_t notify_watchdog_ns(void);

/* Sends the lines, such as "READY=1\nSTATUS=serves", in one datagram. False when the manager did
 * not take it within a second; true without a manager. */
bool notify_send(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says that the configuration is read anew, until the next READY=1. */
void notify_reloading(void);

#endif
