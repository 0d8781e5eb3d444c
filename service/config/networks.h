/* Networks by prefix, and the address a client is known by. */
#ifndef SECKILL_SERVICE_CONFIG_NETWORKS_H
#define SECKILL_SERVICE_CONFIG_NETWORKS_H

#include <stdbool.h>
#include <stddef.h>

enum {
    NETWORKS_MAX = 64,      /* of a list */
    NETWORKS_TEXT_SIZE = 46 /* an address as text, with its NUL */
};

/* An address as 16 bytes; IPv4 as ::ffff:a.b.c.d. */
struct address {
    unsigned char bytes[16];
};

struct network {
    struct address address;
    unsigned bits; /* of the prefix */
};

struct networks {
    struct network list[NETWORKS_MAX];
    size_t count;
};

/* Reads "10.0.0.0/8, 192.0.2.7, fd00::/8": IPv4 and IPv6, single addresses without a prefix, ""
 * for none. False when it is not such a list, or bits are set behind a prefix. */
bool networks_parse(const char *text, struct networks *networks_out);

bool networks_hold(const struct networks *networks, const struct address *address);

/* Reads an address out of `length` characters; a port behind it and brackets around it are allowed.
 */
bool address_parse(const char *text, size_t length, struct address *address_out);

/* From a socket address; false when it is neither IPv4 nor IPv6. */
struct sockaddr;
bool address_of(const struct sockaddr *from, struct address *address_out);

/* Follows an X-Forwarded-For list from its right end for as long as the address that wrote it,
 * `address`, is trusted; it becomes the first one that is not, or the last that could be read. True
 * when the list ended before that. */
bool address_forwarded(const struct networks *trusted, const char *list, struct address *address);

/* The text that an address' limit goes by: IPv4 whole, IPv6 its /64, which is one client's. */
void address_text(const struct address *address, char text_out[NETWORKS_TEXT_SIZE]);

#endif
