/* Room for connections at one listener, shared by its HTTP threads: how many there may be, how long
 * each may wait for its client, and which one is closed for the sake of another. */
#ifndef SECKILL_SERVICE_HTTP_ROOM_H
#define SECKILL_SERVICE_HTTP_ROOM_H

#include <stdbool.h>

#include "service/http/thread.h"

/* Connections above the limit, for a moment: accepted ones, while those that make room for them are
 * being closed. Each takes a descriptor. */
enum { ROOM_EXTRA = 32 };

struct http_room;

/* Makes room for `max` connections, which are counted in `use`. */
struct http_room *room_open(unsigned max, struct connection_use *use);

/* Frees it, after all HTTP threads have ended. NULL is fine. */
void room_close(struct http_room **room);

/* The two listeners share the process's descriptors. Main thread, before any thread joins. */
void room_pair(struct http_room *one, struct http_room *other);

/* The thread accepts connections from now on. Main thread, before the thread runs. */
void room_join(struct http_room *room, struct http_thread *thread);

/* How many connections libmicrohttpd may have before it accepts no more. */
unsigned room_accept_max(const struct http_room *room);

/* The functions below are for the HTTP thread alone. */

/* Whether a further client may connect. */
bool room_admits(struct http_thread *thread);

/* The connection was accepted, and waits for its client. Where it is one too many, a connection
 * that has waited long for its client is closed: of this thread, or of the thread that has most
 * connections. A request that is complete is never given up. */
void room_enter(struct http_thread *thread, struct http_connection *connection);

/* Clients wait and are not accepted. If there are places, descriptors are lacking: where most
 * connections are, at this listener or the other one, there are fewer places from now on, and some
 * that wait for their clients are closed. */
void room_shrink(struct http_thread *thread);

/* Clients are accepted: some of the places that room_shrink has taken away come back. */
void room_grow(struct http_thread *thread);

/* The connection is being closed. */
void room_leave(struct http_thread *thread, struct http_connection *connection);

/* Closes connections that have waited for idle_ms, and those that other threads have asked for. */
void room_expire(struct http_thread *thread);

/* When the first connection will have waited for idle_ms; INT64_MAX: none waits. */
int64_t room_until_ns(const struct http_thread *thread);

#endif
