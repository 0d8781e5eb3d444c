/* Fronts: threads that speak HTTP, each with libmicrohttpd in an epoll loop of its own. */
#ifndef SECKILL_SERVICE_HTTP_H
#define SECKILL_SERVICE_HTTP_H

#include <stddef.h>

#include "service/request.h"
#include "service/service.h"

struct front;

/* Binds and listens on `address` (host:port; port 0: a free one), `shared` with other fronts or
 * alone. `address_out` gets what it is now, for the next front to share. Returns the socket, or -1
 * with the reason. */
int http_listen(const char *address, bool shared, char *address_out, size_t address_size,
                char *error_out, size_t error_size);

/* Starts a front on a listening socket, which it owns from now on. NULL with the reason in
 * `error_out`. */
struct front *http_start(struct service *service, int listen_fd, char *error_out,
                         size_t error_size);

/* Gives requests that were sent on back to their front, as a list linked by queue_next, and wakes
 * it. Any thread; may be called until http_close. */
void http_return(struct front *front, struct request *list);

/* Wakes the front, to look at service->draining. */
void http_wake(struct front *front);

/* Waits for the front's thread to end: once service->draining is set, everything accepted is
 * answered or drain_ms have passed. */
void http_join(struct front *front);

/* Frees it, after all lanes and desks have ended. */
void http_close(struct front **front);

#endif
