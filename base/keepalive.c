/* Lets the kernel ask whether a connection's other end is still there. */
#include "base/keepalive.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static void set_option(int fd, int level, int option, int value)
{
    setsockopt(fd, level, option, &value, sizeof value);
}

void keepalive_set(int fd)
{
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_PAUSE_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
    /* The kernel asks no questions while something is on its way. */
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
               1000 * (KEEPALIVE_IDLE_S + KEEPALIVE_PAUSE_S * KEEPALIVE_PROBES));
}
