/* Finds out that the host at a connection's other end is gone: it closes nothing. */
#ifndef BASE_KEEPALIVE_H
#define BASE_KEEPALIVE_H

enum { KEEPALIVE_IDLE_S = 5, KEEPALIVE_PAUSE_S = 5, KEEPALIVE_PROBES = 3 };

/* Lets a TCP connection break when its peer's host has answered nothing for 20 s: neither what was
 * sent, nor the kernel's questions on a silent connection. A peer that hangs on a host that runs is
 * not found out. Does nothing to a socket of another kind. */
void keepalive_set(int fd);

#endif
