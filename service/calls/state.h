/* POST /order/{order_id}/pay and /cancel. */
#ifndef SECKILL_SERVICE_CALLS_STATE_H
#define SECKILL_SERVICE_CALLS_STATE_H

#include "service/calls/call.h"

/* The handlers, see call_handler. */
enum call_start call_state_pay(struct service *service, struct request *request,
                               const struct call *call);
enum call_start call_state_cancel(struct service *service, struct request *request,
                                  const struct call *call);

#endif
