/* Listening sockets, which several HTTP threads share by SO_REUSEPORT. */
#ifndef SECKILL_SERVICE_HTTP_LISTEN_H
#define SECKILL_SERVICE_HTTP_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

/* Binds and listens on `address` (host:port; port 0: a free one), `shared` with other HTTP threads
 * or alone. `address_out` gets the address with its real port, for the next thread to share.
 * Returns the socket, or -1 with the reason. */
int http_listen(const char *address, bool shared, char *address_out, size_t address_size,
                char *error_out, size_t error_size);

#endif
