/* Private to lock/zookeeper/: finds connections on which a server has never said anything. */
#ifndef LOCK_ZOOKEEPER_SILENCE_H
#define LOCK_ZOOKEEPER_SILENCE_H

enum silence {
    SILENCE_NONE,  /* no connection waits for the server's first byte */
    SILENCE_SHORT, /* one does, but not for that long yet */
    SILENCE_LONG,
};

/* Looks for a TCP connection of this process to `server` (address:port, with brackets around an
 * IPv6 address) that has brought no byte yet. With SILENCE_LONG, which takes `silent_ms` without a
 * sign of life, the caller gets and closes a duplicate of its descriptor. */
enum silence silence_find(const char *server, int silent_ms, int *socket_out);

#endif
