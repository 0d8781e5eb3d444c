/* A server's name as addresses, within a time limit: getaddrinfo has none. */
#ifndef BASE_RESOLVE_H
#define BASE_RESOLVE_H

#include <stddef.h>

enum {
    RESOLVE_ADDRESSES_MAX = 8, /* of one name that are given; further ones are left out */
    RESOLVE_ADDRESS_SIZE = 64, /* bytes of an address as text, with its NUL */
    RESOLVE_HANGING_MAX = 16,  /* look-ups of this process that may run beyond their limit */
};

struct resolved {
    size_t count;
    char addresses[RESOLVE_ADDRESSES_MAX][RESOLVE_ADDRESS_SIZE];
};

/* Gives the addresses of `host` in the resolver's order; one that is an address already comes back
 * at once. NULL, or in words why there is none: then `out->count` is 0. A look-up that takes longer
 * than `timeout_ms` goes on in a thread of its own, and nobody waits for it; while as many of them
 * hang as may, no further one is begun. Any thread. */
const char *resolve_host(const char *host, int timeout_ms, struct resolved *out);

#endif
