/* The header of the PROXY protocol, versions 1 and 2: what a proxy sends before a client's bytes,
 * to say from where the client has connected. */
#ifndef SECKILL_SERVICE_HTTP_PROXY_HEADER_H
#define SECKILL_SERVICE_HTTP_PROXY_HEADER_H

#include <stddef.h>
#include <sys/socket.h>

enum {
    PROXY_HEADER_V1_MAX = 107, /* bytes of a line of version 1, as the protocol says */
    PROXY_HEADER_MAX = 1024,   /* bytes of a header of version 2, with what it may hold besides */
};

enum proxy_header_result {
    PROXY_HEADER_OK,
    PROXY_HEADER_MORE, /* the bytes are the beginning of a header */
    PROXY_HEADER_BAD,  /* no header begins with these bytes, or it is longer than is allowed */
};

/* Whose connection it is. */
enum proxy_header_source {
    PROXY_SOURCE_ADDRESS, /* that of a client with an address */
    PROXY_SOURCE_PROXY,   /* the proxy's own, such as a health check (LOCAL) */
    PROXY_SOURCE_UNKNOWN, /* that of a client without an address, such as one of a Unix socket */
};

struct proxy_header {
    size_t length; /* of the header in bytes; what follows is the client's */
    enum proxy_header_source source;
    struct sockaddr_storage address; /* with PROXY_SOURCE_ADDRESS: AF_INET or AF_INET6 */
};

/* Reads the header that `bytes` begin with; they may be cut off anywhere. Only with PROXY_HEADER_OK
 * is `header_out` set. Any thread. */
enum proxy_header_result proxy_header_read(const void *bytes, size_t length,
                                           struct proxy_header *header_out);

#endif
