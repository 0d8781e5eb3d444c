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

/* A request came back from a worker: its answer is sent in the next run, if a client still waits
 * for one. */
void connection_return(struct http_thread *thread, struct request *request);

/* Answers requests whose clients have not sent them whole in time. */
void connection_expire(struct http_thread *thread);

/* Frees the memory of all free requests, at the end. */
void connection_free_requests(struct http_thread *thread);

#endif
