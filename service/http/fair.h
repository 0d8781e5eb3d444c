/* Orders first: holds other calls back while orders are under way. For the HTTP thread alone. */
#ifndef SECKILL_SERVICE_HTTP_FAIR_H
#define SECKILL_SERVICE_HTTP_FAIR_H

#include "service/http/thread.h"

/* A request was sent on to a worker of its kind. */
void fair_sent(struct http_thread *thread, enum call_kind kind);

/* A request came back from a worker. */
void fair_returned(struct http_thread *thread, enum call_kind kind);

/* Whether a request that is complete may be handled now. Otherwise it is held: its connection is
 * suspended, and fair_release lets libmicrohttpd ask again. */
bool fair_admit(struct http_thread *thread, struct request *request);

/* Lets held requests go on, as many as may now. Once per turn. */
void fair_release(struct http_thread *thread);

/* Takes the calls that came so far for those of an earlier turn, when a turn takes long: a few
 * clients that ask again and again in it are no crowd. */
void fair_count_anew(struct http_thread *thread);

/* A held request goes on, and is refused unless `refusal` is PROBLEM_NONE. */
void fair_let_go(struct request *request, enum problem refusal);

/* True while requests are held. */
bool fair_holds(const struct http_thread *thread);

#endif
