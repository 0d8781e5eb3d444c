/* Addresses: endpoints to listen on, networks by prefix, and the address of a client. */
#ifndef SECKILL_SERVICE_CONFIG_ADDRESS_H
#define SECKILL_SERVICE_CONFIG_ADDRESS_H

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
    unsigned bits; /* length of the prefix */
};

struct networks {
    struct network list[NETWORKS_MAX];
    size_t count;
};

/* Reads "10.0.0.0/8, 192.0.2.7, fd00::/8": IPv4 and IPv6, single addresses without a prefix, or "".
 * False when the text is not such a list, or a network has bits set behind its prefix: 10.1.0.0/8
 * is more likely a mistake than 10.0.0.0/8. */
bool networks_parse(const char *text, struct networks *networks_out);

/* True when one of the networks contains the address. */
bool networks_hold(const struct networks *networks, const struct address *address);

/* Reads an address of `length` characters as proxies write it: a port behind it and brackets around
 * it are allowed. */
bool address_parse(const char *text, size_t length, struct address *address_out);

/* Reads the address in a socket address; false when it is neither IPv4 nor IPv6. */
struct sockaddr;
bool address_of(const struct sockaddr *from, struct address *address_out);

/* True for this machine's loopback addresses: 127.0.0.0/8 or ::1. */
bool address_is_loopback(const struct address *address);

/* Finds the client behind trusted proxies. `address` starts as the connection's; each proxy has
 * appended to `list`, an X-Forwarded-For header, the address that connected to it. From the right
 * end, `address` becomes the next entry while it is a trusted one: an untrusted address may have
 * written anything. True when the list ended without an untrusted address; false when one was
 * found, or an entry is no address. */
bool address_forwarded(const struct networks *trusted, const char *list, struct address *address);

/* The text that identifies an address for rate limits: an IPv4 address, or the /64 of an IPv6
 * address, as one client usually has a whole /64. */
void address_text(const struct address *address, char text_out[NETWORKS_TEXT_SIZE]);

/* ---- addresses to listen on: host:port, or the path of a Unix socket ---- */

enum {
    ENDPOINT_HOST_SIZE = 256,
    ENDPOINT_PORT_SIZE = 8,
    ENDPOINT_PATH_SIZE = 92, /* of a socket: the kernel takes hardly more */
};

struct endpoint {
    char host[ENDPOINT_HOST_SIZE]; /* a name or an address, without its brackets */
    char port[ENDPOINT_PORT_SIZE]; /* a number, 0 to 65535 */
};

/* Reads host:port, or [host]:port for an IPv6 address: visible ASCII characters only. False when
 * the text has another form. */
bool endpoint_parse(const char *text, struct endpoint *endpoint_out);

/* The path in unix:/path or /path, within `text`; NULL when the text has another form, or the path
 * is too long for a socket. */
const char *endpoint_path(const char *text);

/* True when only this machine reaches the endpoint: 127.0.0.0/8, ::1 and localhost. */
bool endpoint_is_loopback(const struct endpoint *endpoint);

#endif
