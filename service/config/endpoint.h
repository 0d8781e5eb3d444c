/* An address to listen on, as options and log write it: host:port. */
#ifndef SECKILL_SERVICE_CONFIG_ENDPOINT_H
#define SECKILL_SERVICE_CONFIG_ENDPOINT_H

#include <stdbool.h>

enum { ENDPOINT_HOST_SIZE = 256, ENDPOINT_PORT_SIZE = 8 };

struct endpoint {
    char host[ENDPOINT_HOST_SIZE]; /* a name or an address, without its brackets */
    char port[ENDPOINT_PORT_SIZE]; /* a number, 0 to 65535 */
};

/* Reads host:port, or [host]:port for an IPv6 address: visible ASCII characters only. False when
 * the text has another form. */
bool endpoint_parse(const char *text, struct endpoint *endpoint_out);

#endif
