/* An address to listen on, as options and log write it: host:port, or the path of a Unix socket. */
#ifndef SECKILL_SERVICE_CONFIG_ENDPOINT_H
#define SECKILL_SERVICE_CONFIG_ENDPOINT_H

#include <stdbool.h>

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
