/* Addresses: to listen on, networks of them by prefix, and the one a client is known by. */
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
    unsigned bits; /* of the prefix */
};

struct networks {
    struct network list[NETWORKS_MAX];
    size_t count;
};

/* Reads "10.0.0.0/8, 192.0.2.7, fd00::/8": IPv4 and IPv6, single addresses without a prefix, ""
 * for none. False when the text is no such list, or a network has bits set behind its prefix:
 * 10.1.0.0/8 is more likely a mistake than a way to write 10.0.0.0/8. */
bool networks_parse(const char *text, struct networks *networks_out);

/* Whether the address is in one of the networks. */
bool networks_hold(const struct networks *networks, const struct address *address);

/* Reads an address out of `length` characters, as proxies write it: a port behind the address and
 * brackets around it are allowed. */
bool address_parse(const char *text, size_t length, struct address *address_out);

/* Takes the address out of a socket address; false when that is neither IPv4 nor IPv6. */
struct sockaddr;
bool address_of(const struct sockaddr *from, struct address *address_out);

/* Whether the address is one of this machine's own: 127.0.0.0/8 or ::1. */
bool address_is_loopback(const struct address *address);

/* Finds the client behind trusted proxies. `address` begins as the address of the connection; each
 * proxy has appended to `list`, an X-Forwarded-For header, the address that connected to it. From
 * the right end of the list, `address` becomes the next entry for as long as it is a trusted one
 * itself: an entry that an untrusted address has written may be a lie. True when the list ended
 * before an untrusted address was found; false when that was found, or an entry is no address. */
bool address_forwarded(const struct networks *trusted, const char *list, struct address *address);

/* The text by which an address is rate limited: an IPv4 address as a whole, of an IPv6 address its
 * /64, as one client usually has that many addresses. */
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

/* Whether only this machine reaches the endpoint: 127.0.0.0/8, ::1 and localhost. */
bool endpoint_is_loopback(const struct endpoint *endpoint);

#endif
