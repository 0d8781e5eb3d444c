/* Answers as libmicrohttpd's responses; the fixed ones are made once and shared. */
#ifndef SECKILL_SERVICE_HTTP_REPLY_H
#define SECKILL_SERVICE_HTTP_REPLY_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

#include "service/http/thread.h"

/* Makes the thread's shared responses, and destroys them once the daemon has stopped. */
void reply_prepare(struct http_thread *thread);
void reply_discard(struct http_thread *thread);

/* Queues the request's answer; the request stays until it is written. */
enum MHD_Result reply_answer(struct http_thread *thread, struct http_connection *connection,
                             struct request *request);

/* Queues a fixed problem as the answer to the request. */
enum MHD_Result reply_problem(struct http_thread *thread, struct http_connection *connection,
                              const struct request *request, enum problem problem);

/* Queues the answer for a request whose deadline came while a queue or a worker has it. */
enum MHD_Result reply_expired(struct http_thread *thread, struct http_connection *connection,
                              struct request *request);

/* For a connection whose request libmicrohttpd will never hand over: writes a problem past it,
 * unless the request was answered before, and shuts the connection down. */
void reply_past_libmicrohttpd(struct http_connection *connection, enum problem problem);

/* ---- the access log ---- */

/* Decides whether the access log will have a line of the request, as access_log says. When the
 * head of the request was read, on the HTTP thread. */
void access_sample(struct http_thread *thread, struct request *request);

/* Writes the address of a connection's client, as far as trusted proxies tell it. */
void access_address(const struct http_thread *thread, const struct http_connection *connection,
                    char text_out[NETWORKS_TEXT_SIZE]);

#endif
