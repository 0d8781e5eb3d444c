/* The HTTP threads: each drives a libmicrohttpd of its own from an epoll loop. */
#ifndef SECKILL_SERVICE_HTTP_LOOP_H
#define SECKILL_SERVICE_HTTP_LOOP_H

#include <stddef.h>

#include "service/request/request.h"
#include "service/service.h"

struct http_room;
struct http_thread;

/* Which calls an HTTP thread serves. */
enum http_part {
    HTTP_ALL,
    HTTP_PUBLIC,    /* those of buyers and of the shop */
    HTTP_OPERATORS, /* those of admin and ops */
};

/* Starts an HTTP thread on a listening socket, which it owns from now on, with the room that it
 * shares with the listener's other threads; an `inherited` one is
 * listened on by the next daemon, too. NULL with the reason in `error_out`; then the socket is
 * still the caller's. */
struct http_thread *http_start(struct service *service, struct http_room *room, int listen_fd,
                               bool inherited, enum http_part part, char *error_out,
                               size_t error_size);

/* Waits for the thread to end: once it is at SERVICE_DRAINS, every accepted request is answered,
 * or drain_ms have passed. */
void http_join(struct http_thread *thread);

/* When its last turn began (monotonic): a thread that waits for clients turns once a second. Any
 * thread. */
int64_t http_turned_ns(const struct http_thread *thread);

/* Frees it, after all workers have ended. NULL is fine. */
void http_close(struct http_thread **thread);

#endif
