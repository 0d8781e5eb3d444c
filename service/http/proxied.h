/* Clients that come through proxies which speak the PROXY protocol: their header is read before
 * libmicrohttpd gets the connection, with the client's address as that of the connection. So
 * whatever asks for the address of a connection sees the client's. */
#ifndef SECKILL_SERVICE_HTTP_PROXIED_H
#define SECKILL_SERVICE_HTTP_PROXIED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_thread;
struct proxied;

enum {
    PROXIED_MS_MAX = 3000, /* from the connection to the end of its header */
    PROXIED_MAX = 256,     /* connections of one thread whose header is not complete */
};

/* Takes over accepting at the thread's listening socket. NULL with errno. All functions but these
 * two are for the HTTP thread alone. */
struct proxied *proxied_open(struct http_thread *thread);

/* Closes the connections without a header, not the listening socket. NULL is fine. */
void proxied_close(struct proxied **proxied);

/* Readable when there is something to do. */
int proxied_fd(const struct proxied *proxied);

/* Accepts connections of trusted_proxies, and of a Unix socket; others are closed at once. Reads
 * what has come of headers, without waiting, and hands connections whose header is complete over to
 * libmicrohttpd. A connection whose header is malformed, too long or too late is closed. */
void proxied_turn(struct proxied *proxied);

/* When proxied_turn is due though nothing comes; INT64_MAX: never. */
int64_t proxied_until_ns(const struct proxied *proxied);

/* How many connections have sent no complete header yet. */
size_t proxied_waiting(const struct proxied *proxied);

#endif
