/* The access log: lines about answers, with the ids that the answers carry. */
#ifndef SECKILL_SERVICE_HTTP_ACCESS_H
#define SECKILL_SERVICE_HTTP_ACCESS_H

#include <stdbool.h>
#include <stddef.h>

#include "service/http/thread.h"

/* Decides whether the access log will have a line of the request, as access_log says. When the
 * head of the request was read, on the HTTP thread. */
void access_sample(struct http_thread *thread, struct request *request);

/* Writes the line of a request that is about to be answered, if it has one: that of a sample, or of
 * an answer with a status of 500 and above, unless only the answer to a probe. `bytes` of the body.
 * HTTP thread. */
void access_answered(struct http_thread *thread, const struct http_connection *connection,
                     const struct request *request, unsigned status, size_t bytes);

/* Writes the address of a connection's client, as far as trusted proxies tell it. */
void access_address(const struct http_thread *thread, const struct http_connection *connection,
                    char text_out[NETWORKS_TEXT_SIZE]);

#endif
