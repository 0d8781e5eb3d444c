/* Looks up the addresses of a server's name, within a time limit: getaddrinfo has none. */
#ifndef BASE_RESOLVE_H
#define BASE_RESOLVE_H

#include <stddef.h>

enum {
    RESOLVE_ADDRESSES_MAX = 8, /* of one name; further ones are left out */
    RESOLVE_ADDRESS_SIZE = 64, /* bytes of an address as text, with its NUL */
    RESOLVE_HANGING_MAX = 16,  /* look-ups of this process that may run beyond their limit */
};

struct resolved {
    size_t count;
    char addresses[RESOLVE_ADDRESSES_MAX][RESOLVE_ADDRESS_SIZE];
};

/* Writes the addresses of `host` in the resolver's order; returns at once when the host is an
 * address. Returns NULL, or in words why it found no address: then `out->count` is 0. A look-up
 * that takes longer than `timeout_ms` goes on in its own thread, without its caller; while
 * RESOLVE_HANGING_MAX of them run, a further one fails at once. Any thread. */
const char *resolve_host(const char *host, int timeout_ms, struct resolved *out);

#endif
