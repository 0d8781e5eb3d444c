/* Orders first: holds other calls back while orders are under way. For the HTTP thread alone. */
#ifndef SECKILL_SERVICE_HTTP_FAIR_H
#define SECKILL_SERVICE_HTTP_FAIR_H

#include "service/http/thread.h"

/* Counts what time has added to the credit, and what may go on in this turn. */
void fair_begin_turn(struct http_thread *thread);

/* Takes the calls that came so far for those of an earlier turn, when a turn takes long: a few
 * clients that ask again and again in it are no crowd. */
void fair_count_anew(struct http_thread *thread);

/* Whether a request that is complete may be handled now. Otherwise it is held, and libmicrohttpd
 * asks again in each run. */
bool fair_admit(struct http_thread *thread, struct request *request);

/* The request is handled, or nobody waits for it any more: it is not held. */
void fair_let_go(struct http_thread *thread, struct request *request);

/* A request was sent on to a worker of its kind; it has come back from there. */
void fair_sent(struct http_thread *thread, enum call_kind kind);
void fair_returned(struct http_thread *thread, enum call_kind kind);

#endif
