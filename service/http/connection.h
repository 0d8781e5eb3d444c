/* A connection and the request on it: how a request begins, waits, and ends. For the HTTP thread
 * alone. */
#ifndef SECKILL_SERVICE_HTTP_CONNECTION_H
#define SECKILL_SERVICE_HTTP_CONNECTION_H

#include "service/http/thread.h"

/* Makes the http_connection of an accepted connection. */
struct http_connection *connection_open(struct http_thread *thread, struct MHD_Connection *mhd);

/* The connection is being closed: abandons its request, and frees the http_connection. */
void connection_close(struct http_thread *thread, struct http_connection *connection);

/* Gives the connection a new request, whose first line was read. */
void connection_begin(struct http_thread *thread, struct http_connection *connection);

/* Takes the request away from its connection, which then waits for no answer any more. A request
 * that a queue or a worker has is carried through all the same, and freed when it comes back. */
void connection_abandon(struct http_thread *thread, struct http_connection *connection);

/* Keeps the connection of a request in flight waiting, polled or suspended. */
void connection_wait(struct http_thread *thread, struct request *request);

/* Ends the polling, if the request's connection is polled. */
void connection_stop_polling(struct http_thread *thread, struct request *request);

/* A request came back from a worker: its answer is sent in the next run, if a client still waits
 * for one. */
void connection_return(struct http_thread *thread, struct request *request);

/* The request's time is over, or that of most calls: answers it, unless it has more. */
void connection_expire(struct http_thread *thread, struct request *request);

/* Frees the memory of all free requests, at the end. */
void connection_free_requests(struct http_thread *thread);

/* ---- orders first ---- */

/* A request was sent on to a worker of its kind. */
void fair_sent(struct http_thread *thread, enum call_kind kind);

/* Whether a request that is complete may be handled now. Otherwise it is held: its connection is
 * suspended, and fair_release lets libmicrohttpd ask again. */
bool fair_admit(struct http_thread *thread, struct request *request);

/* Lets held requests go on, as many as may now. Once per turn. */
void fair_release(struct http_thread *thread);

/* Takes the calls that came so far for those of an earlier turn, when a turn takes long: a few
 * clients that ask again and again in it are no crowd. */
void fair_count_anew(struct http_thread *thread);

/* True while requests are held. */
bool fair_holds(const struct http_thread *thread);

#endif
