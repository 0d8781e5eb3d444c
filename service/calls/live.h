/* GET /dashboard/live and GET /admin/actions. */
#ifndef SECKILL_SERVICE_CALLS_LIVE_H
#define SECKILL_SERVICE_CALLS_LIVE_H

#include "service/calls/call.h"

/* The handlers, see call_handler. */
enum call_start call_live_get(struct service *service, struct request *request,
                              const struct call *call);
enum call_start call_live_actions(struct service *service, struct request *request,
                                  const struct call *call);

/* Notes that the request, which is answered by now, was an operator's action. */
void call_live_note(struct service *service, const struct request *request, const char *action,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
