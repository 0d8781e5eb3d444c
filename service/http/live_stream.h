/* The live page's streams of events on one HTTP thread. For the HTTP thread alone. */
#ifndef SECKILL_SERVICE_HTTP_LIVE_STREAM_H
#define SECKILL_SERVICE_HTTP_LIVE_STREAM_H

#include <microhttpd.h>

#include "service/http/thread.h"

/* Opens a stream as the answer to the connection's request. NULL when there are as many as may be;
 * else the caller destroys the response, and the stream ends with the request. */
struct MHD_Response *live_stream_open(struct http_thread *thread,
                                      struct http_connection *connection);

/* Ends the connection's stream, if it has one. */
void live_stream_close(struct http_connection *connection);

/* Lets streams go on for which there is a new event, all of them once answers close connections;
 * drops a stream whose client has not taken an event for LIVE_STALL_MS. Once per turn. */
void live_stream_turn(struct http_thread *thread);

enum { LIVE_STALL_MS = 10000 };

#endif
